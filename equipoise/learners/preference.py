"""Trains a language model on pairs by any loss of the family: its log-probabilities against its opponents'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.learners.base import Lesson
from equipoise.learners.training import Training, model_to_train, need_examples
from equipoise.losses.base import PairBatch, PreferenceLoss

if TYPE_CHECKING:
    import torch

    from equipoise.learners.trainer import Row
    from equipoise.players.encoding import Encoding


class Preference(Training):
    """Minimises the mean of `loss.rows` over the lesson's pairs.

    Opponents are columns of numbers that were computed beforehand, so each further one costs nothing here.
    """

    kind: Literal["preference"] = "preference"
    needs: ClassVar = "pairs"

    share_prompts: bool = Field(
        True, description="compute a pair's prompt once for both answers, where the architecture allows"
    )

    def learn_here(self, lesson: Lesson) -> dict[str, float]:
        """Write the next generation into `lesson.home`; returns the last line of metrics.

        It has `steps`, `loss`, `margin` and `accuracy` (as the loss defines them), `grad_norm`, … Raises ConfigError,
        NoSignal, ModelError, DataError, DiskFull, and EquipoiseError when the loss is no longer a number.
        """
        if lesson.loss is None:
            raise ConfigError("learner 'preference' needs a loss; name one, as in `loss: mnpo`")
        need_examples(lesson.pairs, lesson.who)
        model, encoding, device = model_to_train(
            self, self.precision, lesson.who.name, lesson.player, lesson.weights, lesson.seed
        )
        return self.train(
            model,
            encoding,
            pair_rows(lesson, encoding),
            PairObjective(lesson.loss, tuple(weight for _, weight in lesson.opponents)),
            home=lesson.home,
            scratch=lesson.scratch,
            seed=lesson.seed,
            share=self.share_prompts,
            device=device,
            report_to=lesson.report_to,
            log=lesson.log,
        )


@dataclass(frozen=True)
class PairObjective:
    """The mean of a preference loss. A row's columns: both scores, then each opponent's two log-probabilities."""

    loss: PreferenceLoss
    weights: tuple[float, ...]

    def __call__(self, logprob_A: torch.Tensor, batch: Sequence[Row]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """loss_B and logged numbers of a batch of pairs; logprob_A alternates chosen and rejected."""
        pairs = self.pair_batch(logprob_A, batch)
        return self.loss.rows(pairs), self.loss.logged(pairs)

    def size(self, row: Row) -> float:
        """A mean over pairs."""
        return 1.0

    def pair_batch(self, logprob_A: torch.Tensor, batch: Sequence[Row]) -> PairBatch:
        """What the loss sees."""
        policy_2B = logprob_A.view(-1, 2).T
        column_BC = logprob_A.new_tensor([row.columns for row in batch])
        tokens_B2 = logprob_A.new_tensor([[len(answer) for answer in row.answers.answers] for row in batch])
        opponent_KB2 = column_BC[:, 2:].reshape(len(batch), len(self.weights), 2).transpose(0, 1)
        return PairBatch(
            policy_chosen_B=policy_2B[0],
            policy_rejected_B=policy_2B[1],
            opponent_chosen_KB=opponent_KB2[..., 0],
            opponent_rejected_KB=opponent_KB2[..., 1],
            tokens_chosen_B=tokens_B2[:, 0],
            tokens_rejected_B=tokens_B2[:, 1],
            score_chosen_B=column_BC[:, 0],
            score_rejected_B=column_BC[:, 1],
            weight_K=logprob_A.new_tensor(self.weights),
        )


def pair_rows(lesson: Lesson, encoding: Encoding) -> list[Row]:
    """A row for each pair, tokenised as its answers were when they were sampled and scored.

    Raises ConfigError when an opponent's log-probabilities are missing or are not numbers.
    """
    from equipoise.learners.trainer import Row
    from equipoise.players.logprobs import Answers

    shape = (len(lesson.opponents), len(lesson.pairs))
    for name, values_KB in (("chosen", lesson.opponent_chosen_KB), ("rejected", lesson.opponent_rejected_KB)):
        if values_KB.shape != shape and shape[0]:
            raise ConfigError(f"opponents' log-probabilities of the {name} answers are {values_KB.shape}, not {shape}")
        if not np.isfinite(values_KB).all():
            raise ConfigError(f"an opponent's log-probability of a {name} answer is not a number")
    rows = []
    for b, pair in enumerate(lesson.pairs):
        prompt = encoding.prompt_ids(pair.messages)
        room = encoding.max_length - len(prompt)
        answers = [encoding.answer_ids(text)[:room] for text in (pair.chosen, pair.rejected)]
        opponents = [
            float(values_KB[k, b])
            for k in range(shape[0])
            for values_KB in (lesson.opponent_chosen_KB, lesson.opponent_rejected_KB)
        ]
        rows.append(Row(Answers(prompt, answers), (pair.chosen_score, pair.rejected_score, *opponents)))
    return rows
