"""The answers to one request, put together from their pieces, as a body or as events, in OpenAI's
own shapes.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.serve.decoding import BROKEN
from equipoise.serve.engine import Piece, TokenScore

LEAST = -9999.0
"""Stands for the logarithm of 0, which JSON cannot write, as in OpenAI's own replies."""


@dataclass(slots=True)
class Answer:
    """What has come of an answer so far."""

    texts: list[str] = field(default_factory=list)
    scores: list[TokenScore] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    length: int = 0  # of the tokens' texts

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts)


class Completion(ABC):
    """The answers to one request."""

    kind, event_kind, prefix = "", "", ""

    def __init__(
        self,
        model: str,
        answers: int,
        prompt_tokens: int | None,
        count_in_stream: bool,
        *,
        scored: bool,
    ) -> None:
        """`prompt_tokens` None: not known, so no usage is stated. `scored`: the tokens'
        log-probabilities are shown.
        """
        self._head = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        self._prompt_tokens, self._count_in_stream = prompt_tokens, count_in_stream
        self._answers = [Answer() for _ in range(answers)]
        self._scored, self._tokens = scored, 0

    def add(self, number: int, piece: Piece) -> None:
        """Take in a piece of an answer."""
        answer = self._answers[number]
        answer.texts.append(piece.text)
        answer.scores += piece.scores
        answer.fields.update(piece.fields)
        answer.finish = piece.finish
        self._tokens += piece.tokens

    def body(self) -> dict[str, Any]:
        """All answers at once."""
        choices = [self._choice(number, answer) for number, answer in enumerate(self._answers)]
        return {**self._head, "object": self.kind, "choices": choices, "usage": self._usage()}

    def closing(self) -> dict[str, Any]:
        """The event that states the usage of all answers."""
        return {**self._head, "object": self.event_kind, "choices": [], "usage": self._usage()}

    @abstractmethod
    def _choice(self, number: int, answer: Answer) -> dict[str, Any]:
        """A whole answer."""

    def _event(
        self, number: int, content: dict[str, Any], logprobs: Any, finish: str | None
    ) -> dict[str, Any]:
        choice = {"index": number, **content, "logprobs": logprobs, "finish_reason": finish}
        usage = {"usage": None} if self._count_in_stream else {}
        return {**self._head, "object": self.event_kind, "choices": [choice], **usage}

    def _usage(self) -> dict[str, int] | None:
        if self._prompt_tokens is None:
            return None
        total = self._prompt_tokens + self._tokens
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": total,
        }


class ChatCompletion(Completion):
    """Answers to a chat."""

    kind, event_kind = "chat.completion", "chat.completion.chunk"
    prefix = "chatcmpl"

    def opening(self, number: int) -> dict[str, Any]:
        """The event with which an answer begins."""
        delta = {"role": "assistant", "content": ""}
        return self._event(number, {"delta": delta}, None, None)

    def event(self, number: int, piece: Piece) -> dict[str, Any]:
        """The event of a piece."""
        delta = {**({"content": piece.text} if piece.text else {}), **piece.fields}
        logprobs = self._logprobs(piece.scores) if piece.scores else None
        return self._event(number, {"delta": delta}, logprobs, piece.finish)

    def _choice(self, number: int, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.text, "refusal": None, **answer.fields}
        return {
            "index": number,
            "message": message,
            "logprobs": self._logprobs(answer.scores),
            "finish_reason": answer.finish,
        }

    def _logprobs(self, scores: Sequence[TokenScore]) -> dict[str, Any] | None:
        if not self._scored:
            return None
        return {"content": [_chat_score(score) for score in scores], "refusal": None}


class TextCompletion(Completion):
    """Texts that were gone on with."""

    kind = event_kind = "text_completion"
    prefix = "cmpl"

    def event(self, number: int, piece: Piece) -> dict[str, Any]:
        """The event of a piece, which is not yet added."""
        answer = self._answers[number]
        logprobs = self._logprobs(piece.scores, answer.length) if piece.scores else None
        answer.length += sum(len(score.text) for score in piece.scores)
        return self._event(number, {"text": piece.text}, logprobs, piece.finish)

    def _choice(self, number: int, answer: Answer) -> dict[str, Any]:
        return {
            "index": number,
            "text": answer.text,
            "logprobs": self._logprobs(answer.scores, 0),
            "finish_reason": answer.finish,
        }

    def _logprobs(self, scores: Sequence[TokenScore], offset: int) -> dict[str, Any] | None:
        """The legacy form; offsets are into the tokens' texts, joined."""
        if not self._scored:
            return None
        offsets: list[int] = []
        for score in scores:
            offsets.append(offset)
            offset += len(score.text)
        return {
            "tokens": [score.text for score in scores],
            "token_logprobs": [_written(score.logprob) for score in scores],
            "top_logprobs": [_likeliest(score) for score in scores],
            "text_offset": offsets,
        }


def _likeliest(score: TokenScore) -> dict[str, float] | None:
    """The likeliest tokens and the token itself; of several with one text, the likeliest."""
    if score.logprob is None:
        return None
    likeliest: dict[str, float] = {}
    for text, logprob in (*score.top, (score.text, score.logprob)):
        value = _finite(logprob)
        likeliest[text] = max(likeliest.get(text, value), value)
    return likeliest


def _chat_score(score: TokenScore) -> dict[str, Any]:
    top = [_labelled(text, logprob) for text, logprob in score.top]
    return {**_labelled(score.text, score.logprob), "top_logprobs": top}


def _labelled(text: str, logprob: float | None) -> dict[str, Any]:
    written = None if BROKEN in text else list(text.encode())
    return {"token": text, "logprob": _written(logprob), "bytes": written}


def _written(logprob: float | None) -> float | None:
    return None if logprob is None else _finite(logprob)


def _finite(logprob: float) -> float:
    return max(logprob, LEAST)
