"""What a policy trainer samples with: the model that it trains, or an engine that gets each of its
generations as an adapter.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from equipoise.learners.trainable_model import TrainableModel
from equipoise.models.encoding import Encoding
from equipoise.models.resources import Resources
from equipoise.models.samplers.base import EngineAdapter
from equipoise.models.samplers.remote_engine import ProbedEngine, open_engine
from equipoise.players.local import Local
from equipoise.players.local_actor import EngineActor, LocalActor
from equipoise.types import PlayerId


def sampling_actor(
    player: Local,
    encoding: Encoding,
    policy: TrainableModel,
    resources: Resources,
    sent: SentAdapters,
) -> LocalActor:
    """The actor of the learner, always at its newest weights."""
    engine = open_engine(player.sampler, resources)
    if engine is None:
        return LocalActor(player, encoding, policy.to_sample())
    probed = ProbedEngine(engine, sent.newest, encoding.stop_ids)
    return EngineActor(player, encoding, policy.to_sample(), probed)


class SentAdapters:
    """The learner's generations as an engine gets them: a folder each, never changed.

    The two newest stay, for a server that is restarted reads them again.
    """

    def __init__(
        self, policy: TrainableModel, folder: Path | None, learner: Callable[[], PlayerId]
    ) -> None:
        """`folder` is where they are written, None: a temporary one; `learner` says at which
        generation the policy is.
        """
        self._policy = policy
        self._folder = folder
        self._learner = learner
        self._sent: tuple[PlayerId, EngineAdapter] | None = None

    def newest(self) -> EngineAdapter | None:
        """The adapter of the policy's generation; None: the base, before any update of a policy
        that began with it.
        """
        learner = self._learner()
        if self._sent is not None and self._sent[0] == learner:
            return self._sent[1]
        folder = self._policy.player.start
        if learner.generation:
            folder = self._written(learner.generation)
        if folder is None:
            return None
        adapter = EngineAdapter.of(str(learner), folder)
        self._sent = (learner, adapter)
        return adapter

    def _written(self, generation: int) -> Path:
        home = self._folder or Path(tempfile.mkdtemp(prefix="equipoise-adapters-"))
        self._folder = home
        folder = home / str(generation)
        draft = home / f".{generation}"
        for old in (folder, draft):
            shutil.rmtree(old, ignore_errors=True)
        draft.mkdir(parents=True)
        self._policy.save(draft)
        draft.rename(folder)
        numbers = sorted(int(path.name) for path in home.glob("[0-9]*"))
        for number in numbers[:-2]:
            shutil.rmtree(home / str(number))
        return folder
