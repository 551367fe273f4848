"""Supervised fine-tuning: raises the likelihood of answers, within a run (`SFT`) or
outside it (`train_sft`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.learners.base import TrainingBatch
from equipoise.learners.gradient import Training, model_to_train, need_examples
from equipoise.types import Message

if TYPE_CHECKING:
    import torch

    from equipoise.learners.answer_trainer import Row
    from equipoise.models.adapters import Lora
    from equipoise.models.encoding import Encoding


class SFT(Training):
    """Minimises −log p of the winning answers' tokens, in nats a token; prompts are not
    trained on.
    """

    kind: Literal["sft"] = "sft"
    needs: ClassVar = "answers"

    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate of AdamW")

    def learn_here(self, training_batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `training_batch.output`; returns the last line
        of metrics.

        An answer that won several pairs of its prompt is one example. Raises what
        `Preference.learn_here` raises.
        """
        need_examples(training_batch.pairs, training_batch.learner)
        model, encoding, device = model_to_train(
            self,
            self.precision,
            training_batch.learner.name,
            training_batch.player,
            training_batch.weights,
            training_batch.seed,
        )
        examples = dict.fromkeys(
            (pair.messages, pair.chosen) for pair in training_batch.pairs
        )
        return self.train(
            model,
            encoding,
            answer_rows(list(examples), encoding),
            AnswerObjective(),
            home=training_batch.output,
            scratch=training_batch.scratch,
            seed=training_batch.seed,
            device=device,
            report_to=training_batch.report_to,
            log=training_batch.log,
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
    """Fine-tune the model in `model_folder` (or a hub id) on (chat, answer) examples;
    write it into `out`.

    `max_length` (tokens) and `template` as for a local player; `scratch` keeps
    checkpoints through a crash. Returns the last line of metrics. Raises NoSignal,
    ModelError, DataError, DiskFull, EquipoiseError.
    """
    from transformers import set_seed

    from equipoise.models.loading import load_encoding, load_model

    settings = settings or SFT.model_validate({})
    if settings.launch is not None:
        raise ConfigError(
            "train_sft trains in the process that calls it; learner.launch is for a run's learner"
        )
    need_examples(examples, model_folder)
    set_seed(seeds.child(seed, "adapter") % 2**32)
    encoding = load_encoding(str(model_folder), max_length, template)
    dtype = (
        "bfloat16" if lora is not None and settings.precision == "bf16" else "float32"
    )
    model = load_model(
        str(model_folder), None, lora, dtype=dtype, device="cpu", trainable=True
    )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as nowhere:
        return settings.train(
            model,
            encoding,
            answer_rows(examples, encoding),
            AnswerObjective(),
            home=out,
            scratch=scratch or Path(nowhere) / "scratch",
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
        """loss_B in nats an answer; nothing beside it is logged but the answers'
        likelihood.
        """
        return -logprob_A, {"answer_logprob": logprob_A.detach()}

    def size(self, row: Row) -> float:
        """A mean over tokens."""
        return float(len(row.answers.answers[0]))


def answer_rows(
    examples: Sequence[tuple[Sequence[Message], str]], encoding: Encoding
) -> list[Row]:
    """A row for each (chat, answer)."""
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.logprobs import Answers

    rows = []
    for messages, text in examples:
        ids, start = encoding.join(messages, text)
        rows.append(Row(Answers(ids[:start], [ids[start:]])))
    return rows
