"""Trains a language model on pairs by any loss of the family: its log-probabilities
against its opponents'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.learners.base import TrainingBatch
from equipoise.learners.gradient import Training, model_to_train, need_examples
from equipoise.losses.base import PairBatch, PreferenceLoss

if TYPE_CHECKING:
    import torch

    from equipoise.learners.answer_trainer import Row
    from equipoise.models.encoding import Encoding


class Preference(Training):
    """Minimises the mean of `loss.rows` over the lesson's pairs.

    Opponents are columns of numbers that were computed beforehand, so each further one
    costs nothing here.
    """

    kind: Literal["preference"] = "preference"
    needs: ClassVar = "pairs"

    share_prompts: bool = Field(
        True,
        description="compute a pair's prompt once for both answers, where the architecture allows",
    )

    def learn_here(self, training_batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `training_batch.output`; returns the last line
        of metrics.

        It has `steps`, `loss`, `margin` and `accuracy` (as the loss defines them),
        `grad_norm`, … Raises ConfigError, NoSignal, ModelError, DataError, DiskFull,
        and EquipoiseError when the loss is no longer a number.
        """
        if training_batch.loss is None:
            raise ConfigError(
                "learner 'preference' needs a loss; name one, as in `loss: mnpo`"
            )
        need_examples(training_batch.pairs, training_batch.learner)
        model, encoding, device = model_to_train(
            self,
            self.precision,
            training_batch.learner.name,
            training_batch.player,
            training_batch.weights,
            training_batch.seed,
        )
        return self.train(
            model,
            encoding,
            pair_rows(training_batch, encoding),
            PairObjective(
                training_batch.loss,
                tuple(weight for _, weight in training_batch.opponents),
            ),
            home=training_batch.output,
            scratch=training_batch.scratch,
            seed=training_batch.seed,
            share=self.share_prompts,
            device=device,
            report_to=training_batch.report_to,
            log=training_batch.log,
        )


@dataclass(frozen=True)
class PairObjective:
    """The mean of a preference loss. A row's columns: both scores, then each opponent's
    two log-probabilities.
    """

    loss: PreferenceLoss
    weights: tuple[float, ...]

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """loss_B and logged numbers of a batch of pairs; logprob_A alternates chosen
        and rejected.
        """
        pairs = self.pair_batch(logprob_A, batch)
        return self.loss.rows(pairs), self.loss.logged(pairs)

    def size(self, row: Row) -> float:
        """A mean over pairs."""
        return 1.0

    def pair_batch(self, logprob_A: torch.Tensor, batch: Sequence[Row]) -> PairBatch:
        """What the loss sees."""
        policy_2B = logprob_A.view(-1, 2).T
        column_BC = logprob_A.new_tensor([row.columns for row in batch])
        tokens_B2 = logprob_A.new_tensor(
            [[len(answer) for answer in row.answers.answers] for row in batch]
        )
        opponent_KB2 = (
            column_BC[:, 2:].reshape(len(batch), len(self.weights), 2).transpose(0, 1)
        )
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


def pair_rows(training_batch: TrainingBatch, encoding: Encoding) -> list[Row]:
    """A row for each pair, tokenised as its answers were when they were sampled and
    scored.

    Raises ConfigError when an opponent's log-probabilities are missing or are not
    numbers.
    """
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.logprobs import Answers

    shape = (len(training_batch.opponents), len(training_batch.pairs))
    for name, values_KB in (
        ("chosen", training_batch.opponent_chosen_KB),
        ("rejected", training_batch.opponent_rejected_KB),
    ):
        if values_KB.shape != shape and shape[0]:
            raise ConfigError(
                f"opponents' log-probabilities of the {name} answers are {values_KB.shape}, not {shape}"
            )
        if not np.isfinite(values_KB).all():
            raise ConfigError(
                f"an opponent's log-probability of a {name} answer is not a number"
            )
    rows = []
    for b, pair in enumerate(training_batch.pairs):
        prompt = encoding.prompt_ids(pair.messages)
        room = encoding.max_length - len(prompt)
        answers = [
            encoding.answer_ids(text)[:room] for text in (pair.chosen, pair.rejected)
        ]
        opponents = [
            float(values_KB[k, b])
            for k in range(shape[0])
            for values_KB in (
                training_batch.opponent_chosen_KB,
                training_batch.opponent_rejected_KB,
            )
        ]
        rows.append(
            Row(
                Answers(prompt, answers),
                (pair.chosen_score, pair.rejected_score, *opponents),
            )
        )
    return rows
