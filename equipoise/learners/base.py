"""What a learner is: from a player and a lesson to the player at its next generation,
on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.losses.base import PreferenceLoss
from equipoise.players.base import Player
from equipoise.types import Episode, Pair, PlayerId, Turn


class OtherPlayer(NamedTuple):
    """Another player of the run, with the folder of the generation that it is in; None:
    as given.
    """

    player: Player
    weights: Path | None


@dataclass(frozen=True)
class TrainingBatch:
    """Everything one learner needs to make `learner`'s next generation.

    `weights` is the folder of the current generation (None: as given), `output` an empty
    folder to write the next one into, `scratch` a folder for checkpoints that outlives
    a crash. `opponents` are those that the loss asked for, with weights;
    `opponent_chosen_KB` and `opponent_rejected_KB` their answer log-probability sums on
    `pairs`, in nats. `past_weights` are the folders of the learner's generations,
    newest first (for learners that need the policies themselves). `other_players` are the
    run's other players by name, as they were when this generation began, whoever of
    them has learned since. `episodes` are what the learner's own moves were paid,
    `turns` the moves, and `state` is the folder of a living learner's state, where one
    learns from episodes in other processes. `log` takes one line of metrics.
    """

    learner: PlayerId
    player: Player
    weights: Path | None
    output: Path
    scratch: Path
    seed: int
    game: Game
    loss: PreferenceLoss | None = None
    pairs: list[Pair] = field(default_factory=list)
    opponents: list[tuple[PlayerId, float]] = field(default_factory=list)
    opponent_chosen_KB: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    opponent_rejected_KB: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    past_weights: list[Path | None] = field(default_factory=list)
    other_players: dict[str, OtherPlayer] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    state: Path | None = None
    report_to: tuple[str, ...] = ()
    log: Callable[[dict[str, Any]], None] = lambda line: None


class Learner(Component):
    """Trains a player. `needs` says what it learns from, so that the run prepares that
    and no more.

    "game": the rules alone (exact gradients on a finite game); "answers": the winners'
    texts; "pairs": pairs and the opponents' log-probabilities on them.
    """

    KINDS: ClassVar = {
        "tabular": "equipoise.learners.tabular:TabularLearner",
        "proximal": "equipoise.learners.proximal:Proximal",
        "sft": "equipoise.learners.sft:SFT",
        "preference": "equipoise.learners.preference:Preference",
        "policy_gradient": "equipoise.learners.policy_gradient:PolicyGradient",
    }

    needs: ClassVar[Literal["game", "answers", "pairs", "episodes"]] = "pairs"
    by_loss: ClassVar[bool] = True
    """Whether it minimises the run's `loss`, where it learns from pairs or from the
    game.
    """

    def steps(self, examples: int) -> int:
        """How many optimizer steps learning from `examples` takes."""
        return 1

    def kept(self, parameters: int, adapter: bool) -> int:
        """Bytes that it keeps beside a policy of so many parameters, its gradients and
        its optimizer.
        """
        return 0

    def learn(self, training_batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `training_batch.output`; return the numbers that
        sum the training up.
        """
        raise TypeError(f"{type(self).__name__} must define learn()")
