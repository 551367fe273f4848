"""What a client asks for: the body of /v1/completions, texts to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from equipoise.serve.engine import EngineRequest, TextEngine
from equipoise.serve.extension import offered
from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem
from equipoise.serve.request_body import (
    LIKELY_TOKENS,
    SamplingRequest,
    check_most,
    check_unserved,
    most_answers,
    read_object,
    validated,
)

# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {"suffix": ("",), "best_of": (1,)}
TOKENS = 16  # of an answer where the client does not say: the protocol's own number


class CompletionRequest(SamplingRequest):
    """A request to go on with one text or with several, given as text or as token ids."""

    prompt: Any
    max_tokens: int | None = Field(None, ge=0)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=LIKELY_TOKENS)
    add_special_tokens: bool | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or the ids of its tokens."""
        return read_prompts(self.prompt, len(self.prompt))

    async def engine_requests(
        self, seed: int, defaults: EngineRequest, engine: TextEngine
    ) -> list[EngineRequest]:
        """One request to the engine for each answer: all answers to the first prompt, then those to
        the next, each as if its prompt were asked for alone.

        Raises Refused.
        """
        first = replace(
            self.sampled(seed, defaults),
            max_tokens=TOKENS if self.max_tokens is None else self.max_tokens,
            echo=bool(self.echo),
            logprobs=self.logprobs,
        )
        requests: list[EngineRequest] = []
        for prompt in self.prompts:
            ids = prompt
            if isinstance(ids, str):
                ids = await engine.tokenize(
                    ids, add_special_tokens=self.add_special_tokens is not False
                )
            requests += self.repeated(replace(first, prompt_ids=tuple(ids)))
        return requests


def read_completion_request(body: bytes, limits: Limits) -> CompletionRequest:
    """The request in a body. Raises Problem, status 400, that names the field."""
    values = read_object(body)
    request = validated(CompletionRequest, values)
    # No extension stands before a model that goes on with a text.
    check_unserved(values, UNSERVED | dict.fromkeys(offered(), ()))
    check_most({"max_tokens": request.max_tokens}, limits.max_tokens)
    check_most({"n": request.n}, most_answers(limits))
    answers = len(read_prompts(request.prompt, limits.concurrency)) * (request.n or 1)
    if answers > limits.concurrency:
        raise _too_many(answers, limits.concurrency)
    return request


def read_prompts(value: Any, most: int) -> list[str | list[int]]:
    """The prompts in the field `prompt`: a text, texts, token ids, or lists of ids.

    Raises Problem, status 400, also for more than `most`.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _all(value, int):
            return [value]
        if len(value) > most:
            raise _too_many(len(value), most)
        if _all(value, str):
            return value
        if _all(value, list) and all(_all(ids, int) for ids in value):
            return value
    raise Problem(
        400,
        "'prompt' is a text, a list of texts, a list of token ids, or a list of such lists",
        "invalid_type",
        "prompt",
    )


def _too_many(answers: int, most: int) -> Problem:
    return Problem(
        400,
        f"{answers} answers are asked for (prompts times n); at most {most} are made "
        "at once here: send fewer prompts together",
        "invalid_value",
        "prompt",
    )


def _all(values: Sequence[Any], kind: type) -> bool:
    """Whether all are exactly of this kind, so that true and false are no numbers."""
    return all(type(value) is kind for value in values)
