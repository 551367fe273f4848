"""Prompts whose own tokens are scored: how likely each was, and what was likelier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.models.output_head import AnswerHead
from equipoise.models.prompt_logprobs import ScoredRow, likelihoods, score_rows
from equipoise.serve.cohort import NOT_NUMBERS, next_tokens
from equipoise.serve.engine import Piece
from equipoise.serve.pending_answer import PendingAnswer


class PromptScorer:
    """Reads prompts and shows them with their scores."""

    def __init__(self, model: Any) -> None:
        """`model` is a transformers causal language model, whose adapters may change."""
        self._model = model
        self._head: AnswerHead | None = None

    def pieces(
        self, model: Any, batch: Sequence[PendingAnswer]
    ) -> list[tuple[PendingAnswer, Piece]]:
        """The prompts with their scores, and the first token of answers that are to have one only.

        Raises ModelError for a model whose output head cannot be read.
        """
        self._head = self._head or AnswerHead(self._model)
        rows = score_rows(
            model,
            [answer.ids for answer in batch],
            [answer.logprobs or 0 for answer in batch],
            batch[0].pad_id,
            self._head,
        )
        pieces: list[tuple[PendingAnswer, Piece]] = []
        for answer, row in zip(batch, rows, strict=True):
            if not row.known:
                answer.cancelled = True
                pieces.append((answer, Piece(finish="error", error=NOT_NUMBERS)))
                continue
            pieces.append((answer, answer.show_prompt(row)))
            if answer.left == 1:
                piece = _first_token(answer, row)
                pieces.append((answer, piece))
        return pieces


def _first_token(answer: PendingAnswer, row: ScoredRow) -> Piece:
    """The whole of an answer of one token, without reading its prompt again."""
    logprob_1V = row.next_V[None]
    token_1 = next_tokens(logprob_1V, [answer])
    (likelihood,) = likelihoods(logprob_1V, token_1, [answer.logprobs or 0])
    piece = answer.take(int(token_1), likelihood)
    assert piece is not None and piece.finish, "it has no token left"
    return piece
