"""Supervised fine-tuning: raises the likelihood of answers, within a run (`SFT`) or outside of one
(`train_sft`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import (
    fine_tune,
    fine_tune_player,
    model_to_train,
    need_examples,
    shared_key,
)
from equipoise.learners.fine_tuning_settings import FineTuningSettings
from equipoise.learners.processes import Launchable
from equipoise.players.base import Player
from equipoise.types import Message

if TYPE_CHECKING:
    import torch

    from equipoise.learners.answer_trainer import Row
    from equipoise.models.adapters import Lora
    from equipoise.models.encoding import Encoding


class SFT(FineTuningSettings, Launchable):
    """Minimises −log p of the winning answers' tokens, in nats a token.

    Prompts are not trained on.
    """

    kind: Literal["sft"] = "sft"
    needs: ClassVar = "answers"

    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate of AdamW")

    def steps(self, examples: int) -> int:
        """Optimizer steps, over all processes."""
        return self.updates(examples, self.processes)

    def shares(self, player: Player) -> Hashable | None:
        """The base of the player's adapter."""
        return None if self.launch is not None else shared_key(self, player)

    def learn_here(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`; returns the last line of metrics.

        An answer that won several pairs of its prompt is one example. Raises what
        `Preference.learn_here` raises.
        """
        need_examples(batch.pairs, batch.learner)
        winners = dict.fromkeys(
            (pair.messages, pair.chosen, pair.chosen_cut) for pair in batch.pairs
        )
        examples = [(messages, text) for messages, text, _ in winners]
        cut = [was_cut for _, _, was_cut in winners]
        return fine_tune_player(
            self,
            self.kind,
            batch,
            lambda encoding: answer_rows(examples, encoding, cut),
            AnswerObjective(),
        )


def train_sft(
    model_folder: str | Path,
    examples: Sequence[tuple[Sequence[Message], str]],
    out: Path,
    settings: SFT | None = None,
    *,
    seed: int = 0,
    max_length: int | None = None,
    template: str | None = None,
    lora: Lora | None = None,
    device: str = "auto",
    scratch: Path | None = None,
    log: Callable[[dict[str, Any]], None] = lambda line: None,
) -> dict[str, float]:
    """Fine-tune a model on (chat, answer) examples and write it into `out`.

    `model_folder` may be a hub id. `max_length` (tokens) and `template` are as for a local player;
    `scratch` keeps checkpoints through a crash. Returns the last line of metrics. Raises NoSignal,
    ModelError, DataError, DiskFull, EquipoiseError.
    """
    from equipoise.players.local import Local

    settings = settings or SFT.model_validate({})
    if settings.launch is not None:
        raise ConfigError(
            "train_sft trains in the process that calls it; learner.launch is for a run's learner"
        )
    need_examples(examples, model_folder)
    model_settings = {
        "model": str(model_folder),
        "lora": lora,
        "max_length": max_length,
        "template": template,
    }
    player = Local.model_validate(model_settings)
    settings = settings.on(player.model_copy(update={"device": device}))
    encoding = player.encoding()
    model = model_to_train(player, None, seed, settings.precision)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        return fine_tune(
            settings,
            model,
            encoding,
            answer_rows(examples, encoding),
            AnswerObjective(),
            output=out,
            scratch=scratch or Path(temporary) / "scratch",
            seed=seed,
            device=device,
            log=log,
        )


@dataclass(frozen=True)
class AnswerObjective:
    """−log p of answers, summed, over the number of their tokens."""

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """loss_B in nats an answer; the answers' log-probabilities are logged."""
        return -logprob_A, {"answer_logprob": logprob_A.detach()}

    def size(self, row: Row) -> float:
        """A mean over tokens."""
        return float(len(row.answers.answers[0]))


def answer_rows(
    examples: Sequence[tuple[Sequence[Message], str]], encoding: Encoding, cut: Sequence[bool] = ()
) -> list[Row]:
    """A row for each (chat, answer); those that were `cut` have no end."""
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    rows = []
    cuts = cut or [False] * len(examples)
    for (messages, text), was_cut in zip(examples, cuts, strict=True):
        ids, start = encoding.join(messages, text, not was_cut)
        rows.append(Row(PromptAnswers(ids[:start], [ids[start:]])))
    return rows
