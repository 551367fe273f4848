"""Trains a language model on pairs by any loss of the preference family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.component import Settings
from equipoise.data.joined_pairs import JoinedPairs, joined_pair
from equipoise.errors import ConfigError
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import FineTuning, fine_tune, need_examples
from equipoise.losses.base import PairBatch, PreferenceLoss, check_rows
from equipoise.types import Pair

if TYPE_CHECKING:
    import torch

    from equipoise.learners.answer_trainer import Row
    from equipoise.models.chat_encoding import Encoding


class LowestLoss(Settings):
    """Measures a training's loss on pairs that it does not learn from, and keeps the best step."""

    share: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="of a generation's prompts, at least one; their pairs are measured alone",
    )
    every: int = Field(
        5, ge=1, description="optimizer steps between measurements, each with a checkpoint"
    )


class Preference(FineTuning):
    """Minimises the mean of `loss.rows` over pairs; opponents are columns of numbers."""

    kind: Literal["preference"] = "preference"
    needs: ClassVar = "pairs"

    share_prompts: bool = Field(
        True,
        description="compute a pair's prompt once for both answers, where the architecture allows",
    )
    pair_text: JoinedPairs | None = Field(
        None,
        description="read pairs as plain text, the answer right behind its prompt, as MNPO's "
        "released code does, with an end behind every answer; null: by the chat template, as the "
        "answers were sampled",
    )
    lowest_loss: LowestLoss | None = Field(
        None,
        description="keep the weights of the lowest loss on pairs that are held out of training, "
        "as MNPO's released code can; null: those after the last step",
    )

    def joined_pairs(self) -> JoinedPairs | None:
        return self.pair_text

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`; returns the last line of metrics.

        It has `steps`, `loss`, `margin`, `accuracy`, `grad_norm`, …, with `lowest_loss` also
        `held_out_loss` of the weights that are kept and their `kept_step`. Raises ConfigError,
        NoSignal, ModelError, DataError, and EquipoiseError when the loss is no longer a number.
        """
        if batch.loss is None:
            raise ConfigError("learner 'preference' needs a loss; name one, as in `loss: mnpo`")
        need_examples(batch.pairs, batch.learner)
        weights = tuple(weight for _, weight in batch.opponents)
        objective = PairObjective(batch.loss, weights)
        measured: list[int] = []
        measure_every = 0
        if self.lowest_loss is not None:
            measured = held_out_pairs(batch.pairs, self.lowest_loss.share, batch.seed)
            measure_every = self.lowest_loss.every
        return fine_tune(
            self,
            batch,
            partial(pair_rows, batch, self.pair_text),
            objective,
            share=self.share_prompts,
            measured=measured,
            measure_every=measure_every,
        )


def held_out_pairs(pairs: Sequence[Pair], share: float, seed: int) -> list[int]:
    """The places of the pairs of a share of the prompts, drawn by the seed.

    Raises ConfigError where no prompt would be left to learn from.
    """
    prompts = list(dict.fromkeys(pair.prompt for pair in pairs))
    count = max(1, round(share * len(prompts)))
    if count == len(prompts):
        raise ConfigError(
            f"learner.lowest_loss: holds out {count} of {len(prompts)} prompts with pairs, and "
            "none is left to learn from; give more prompts, or set learner.lowest_loss to null"
        )
    order = seeds.generator(seed, "held-out pairs").permutation(len(prompts))
    drawn = {prompts[place] for place in order[:count]}
    return [place for place, pair in enumerate(pairs) if pair.prompt in drawn]


@dataclass(frozen=True)
class PairObjective:
    """The mean of a preference loss over pairs.

    A row's columns are both scores, then each opponent's two log-probabilities.
    """

    loss: PreferenceLoss
    weights: tuple[float, ...]

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """loss_B and what the loss logs; logprob_A alternates chosen and rejected."""
        pairs = self.pair_batch(logprob_A, batch)
        loss_B = self.loss.rows(pairs)
        check_rows(self.loss, loss_B, pairs)
        return loss_B, self.loss.metrics(pairs)

    def size(self, row: Row) -> float:
        return 1.0  # a mean over pairs

    def pair_batch(self, logprob_A: torch.Tensor, batch: Sequence[Row]) -> PairBatch:
        """The batch as the loss takes it."""
        policy_2B = logprob_A.view(-1, 2).T
        column_BC = logprob_A.new_tensor([row.columns for row in batch])
        lengths = [row.answers.counts() for row in batch]
        tokens_B2 = logprob_A.new_tensor(lengths)
        # columns behind the scores: K times (chosen, rejected) -> [K, B, 2]
        opponent_BK2 = column_BC[:, 2:].reshape(len(batch), len(self.weights), 2)
        opponent_KB2 = opponent_BK2.transpose(0, 1)
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


def pair_rows(batch: TrainingBatch, pair_text: JoinedPairs | None, encoding: Encoding) -> list[Row]:
    """A row for each pair, tokenised as its answers were when they were sampled and scored, or as
    plain text.

    Raises ConfigError when an opponent's log-probabilities are missing or are not numbers.
    """
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    shape = (len(batch.opponents), len(batch.pairs))
    opponents_KB = {"chosen": batch.opponent_chosen_KB, "rejected": batch.opponent_rejected_KB}
    for name, values_KB in opponents_KB.items():
        if values_KB.shape != shape and shape[0]:
            raise ConfigError(
                f"opponents' log-probabilities of the {name} answers are "
                f"{values_KB.shape}, not {shape}"
            )
        if not np.isfinite(values_KB).all():
            raise ConfigError(f"an opponent's log-probability of a {name} answer is not a number")
    rows = []
    for b, pair in enumerate(batch.pairs):
        if pair_text is not None:
            answers = joined_pair(encoding, pair, pair_text.learners_reading()).as_answers()
        else:
            chosen = encoding.answered(pair.messages, pair.chosen, not pair.chosen_cut)
            rejected = encoding.answered(pair.messages, pair.rejected, not pair.rejected_cut)
            chosen_ids = chosen.ids if pair.has("chosen") else []
            rejected_ids = rejected.ids if pair.has("rejected") else []
            answers = PromptAnswers(
                chosen.prompt, [chosen_ids, rejected_ids], [chosen.learned, rejected.learned]
            )
        # P(answer beats …) where it was estimated, else the judge's scores
        if pair.chosen_win is None or pair.rejected_win is None:
            columns = [pair.chosen_score, pair.rejected_score]
        else:
            columns = [pair.chosen_win, pair.rejected_win]
        for k in range(len(batch.opponents)):
            columns.append(float(batch.opponent_chosen_KB[k, b]))
            columns.append(float(batch.opponent_rejected_KB[k, b]))
        rows.append(Row(answers, tuple(columns)))
    return rows
