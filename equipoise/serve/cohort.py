"""Answers of a local model that grow together, a token each in a round."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch

from equipoise.models.prompt_logprobs import Likelihood, likelihoods
from equipoise.models.sampling_batch import SamplingBatch
from equipoise.models.token_choice import choose
from equipoise.seeds import uniform
from equipoise.serve.engine import Piece
from equipoise.serve.pending_answer import PendingAnswer

log = logging.getLogger(__name__)
NOT_NUMBERS = "the model's logits for this prompt are not numbers"


class Cohort:
    """Answers that grow together, a row of the batch each."""

    def __init__(self, model: object, answers: list[PendingAnswer]) -> None:
        self.answers = answers
        self.batch = SamplingBatch(model, [answer.ids for answer in answers], answers[0].pad_id)

    def join(self, other: Cohort) -> None:
        """Take in answers whose prompts have been read."""
        self.batch.join(other.batch)
        self.answers += other.answers

    def round(self) -> list[tuple[PendingAnswer, Piece]]:
        """Append a token to every answer, and return the pieces of text that come of it.

        Answers that have finished, or are cancelled, leave.
        """
        token_B = self._next_tokens()
        likelihoods = self._likelihoods(token_B)
        known_B = torch.isfinite(self.batch.logits_BV.amax(-1)).tolist()
        pieces: list[tuple[PendingAnswer, Piece]] = []
        staying: list[int] = []
        for row, (answer, token) in enumerate(zip(self.answers, token_B.tolist(), strict=True)):
            if answer.cancelled:
                continue
            if not known_B[row]:
                pieces.append((answer, Piece(finish="error", error=NOT_NUMBERS)))
                continue
            piece = _taken(answer, token, likelihoods.get(row))
            if piece is not None:
                pieces.append((answer, piece))
            if piece is None or piece.finish is None:
                staying.append(row)
        if staying and len(staying) < len(self.answers):
            token_B = token_B[self._keep(staying)]
        self.answers = [self.answers[row] for row in staying]
        if staying:
            self.batch.step(token_B)
        return pieces

    def _keep(self, rows: list[int]) -> torch.Tensor:
        """Drop all other rows of the batch; the rows as a tensor."""
        row_B = torch.tensor(rows, device=self.batch.device)
        self.batch.select(row_B)
        if self.batch.joinable:
            self.batch.trim()
        return row_B

    def _next_tokens(self) -> torch.Tensor:
        """Every answer's next token by its own settings, [B]."""
        token_B = torch.zeros(len(self.answers), dtype=torch.int64, device=self.batch.device)
        for settings in {answer.settings for answer in self.answers}:
            rows = [row for row, answer in enumerate(self.answers) if answer.settings == settings]
            row_B = torch.tensor(rows, device=self.batch.device)
            answers = [self.answers[row] for row in rows]
            token_B[row_B] = next_tokens(self.batch.logits_BV[row_B], answers)
        return token_B

    def _likelihoods(self, token_B: torch.Tensor) -> dict[int, Likelihood]:
        """By row: how likely its next token is, where that was asked for."""
        rows = [row for row, answer in enumerate(self.answers) if answer.logprobs is not None]
        if not rows:
            return {}
        row_B = torch.tensor(rows, device=self.batch.device)
        logprob_BV = self.batch.logits_BV[row_B].float().log_softmax(-1)
        wanted = [self.answers[row].logprobs or 0 for row in rows]
        scored = likelihoods(logprob_BV, token_B[row_B], wanted)
        return dict(zip(rows, scored, strict=True))


def _taken(answer: PendingAnswer, token: int, likelihood: Likelihood | None) -> Piece | None:
    """The piece that a token completes; where it cannot be decoded, the answer's end."""
    try:
        return answer.take(token, likelihood)
    except Exception as error:
        log.exception("token %d could not be decoded", token)
        message = f"the answer cannot be decoded ({type(error).__name__})"
        return Piece(finish="error", error=message)


def next_tokens(logits_BV: torch.Tensor, answers: Sequence[PendingAnswer]) -> torch.Tensor:
    """The next token of answers that are sampled alike, [B].

    An answer's random numbers are counted by its place in the answer, as the sampler's are, so that
    what is served is what the player would have answered at this seed.
    """
    seed_B = np.array([answer.seed for answer in answers], np.int64)
    position_B = np.array([answer.position for answer in answers])
    number_B = uniform(seed_B, position_B)
    if logits_BV.device.type == "mps":  # has no float64
        number_B = number_B.astype(np.float32)
    dice_B = torch.from_numpy(number_B).to(logits_BV.device)
    return choose(logits_BV, dice_B, answers[0].settings)[0]
