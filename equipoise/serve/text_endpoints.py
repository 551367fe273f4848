"""Endpoints on plain texts: /v1/completions, and vLLM's for the tokenizer."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from pydantic import Field

from equipoise.serve.asgi_endpoint import ModelEndpoint
from equipoise.serve.engine import (
    EngineRequest,
    Piece,
    TextEngine,
    TokenScore,
    extension_offers,
    merge_answers,
)
from equipoise.serve.protocol import (
    LIKELY_TOKENS,
    Answer,
    Body,
    Completion,
    Problem,
    Reply,
    SamplingRequest,
    Whole,
    check_most,
    check_unserved,
    json_logprob,
    read_object,
    validate_body,
)

# Fields that this server knows and cannot serve, with the values that ask for nothing.
UNSERVED: dict[str, tuple[Any, ...]] = {"suffix": ("",), "best_of": (1,)}
TOKENS = 16  # of an answer where the client does not say: the protocol's own number


# -- completions


class CompletionRequest(SamplingRequest):
    """A request to go on with one text or with several, given as text or as token ids."""

    prompt: Any
    max_tokens: Whole | None = Field(None, ge=0)
    echo: bool | None = None
    logprobs: Whole | None = Field(None, ge=0, le=LIKELY_TOKENS)
    add_special_tokens: bool | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or the ids of its tokens."""
        return read_prompts(self.prompt, len(self.prompt))

    async def engine_requests(
        self, seed: int, defaults: EngineRequest, engine: TextEngine
    ) -> list[EngineRequest]:
        """One request for each answer, prompt by prompt, as if each were alone. Raises Refused."""
        first = replace(
            self.over(defaults, seed),
            max_tokens=TOKENS if self.max_tokens is None else self.max_tokens,
            echo=bool(self.echo),
            logprobs=self.logprobs,
        )
        special = self.add_special_tokens is not False
        requests: list[EngineRequest] = []
        for prompt in self.prompts:
            ids = prompt
            if isinstance(ids, str):
                ids = await engine.tokenize(ids, add_special_tokens=special)
            requests += self.repeat(replace(first, prompt_ids=tuple(ids)))
        return requests


def read_prompts(value: Any, most: int) -> list[str | list[int]]:
    """The field `prompt`: a text, texts, token ids, or lists of ids. Raises Problem (400)."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _all(value, int):
            return [value]
        if len(value) > most:
            raise too_many(len(value), most)
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


def too_many(answers: int, most: int) -> Problem:
    message = (
        f"{answers} answers are asked for (prompts times n); at most {most} are made "
        "at once here: send fewer prompts together"
    )
    return Problem(400, message, "invalid_value", "prompt")


def _all(values: Sequence[Any], kind: type) -> bool:
    """True if all are exactly of this kind, so that true and false are no numbers."""
    return all(type(value) is kind for value in values)


class TextCompletion(Completion):
    """Answers that go on with texts."""

    kind = event_kind = "text_completion"
    prefix = "cmpl"

    def take(self, number: int, piece: Piece) -> list[dict[str, Any]]:
        self.add(number, piece)
        if not (piece.text or piece.finish or piece.scores):
            return []
        answer = self._answers[number]
        logprobs = self._logprobs(piece.scores, answer.length) if piece.scores else None
        answer.length += sum(len(score.text) for score in piece.scores)
        return [self._event(number, {"text": piece.text}, logprobs, piece.finish)]

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
            "token_logprobs": [json_logprob(score.logprob) for score in scores],
            "top_logprobs": [_likeliest(score) for score in scores],
            "text_offset": offsets,
        }


def _likeliest(score: TokenScore) -> dict[str, float | None] | None:
    """The likeliest tokens and the token itself; of several with one text, the likeliest."""
    if score.logprob is None:
        return None
    likeliest: dict[str, float] = {}
    for text, logprob in (*score.top, (score.text, score.logprob)):
        likeliest[text] = max(likeliest.get(text, logprob), logprob)
    return {text: json_logprob(logprob) for text, logprob in likeliest.items()}


class CompletionEndpoint(ModelEndpoint):
    """Goes on with texts, or says how likely they are."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        limits = self._limits
        values = read_object(body)
        request = validate_body(CompletionRequest, values)
        # No extension stands before a model that goes on with a text.
        check_unserved(values, UNSERVED | dict.fromkeys(extension_offers(), ()))
        check_most({"max_tokens": request.max_tokens}, limits.max_tokens)
        check_most({"n": request.n}, limits.answers_at_once)
        answers = len(read_prompts(request.prompt, limits.concurrency)) * request.answers
        if answers > limits.concurrency:
            raise too_many(answers, limits.concurrency)
        seed = request.seed_or_fresh()
        async with self._gate.place(len(request.prompts) * request.answers):
            served = await self._catalogue.find_text(request.model, seed)
            requests = await request.engine_requests(seed, served.defaults, served.text_engine)
            prompts = requests[:: request.answers]
            completion = TextCompletion(
                served.name,
                len(requests),
                sum(len(prompt.prompt_ids or ()) for prompt in prompts),
                request.counts_in_stream,
                scored=request.logprobs is not None,
            )
            async with aclosing(merge_answers(served.engine, requests)) as pieces:
                await completion.send(pieces, reply, stream=bool(request.stream))


# -- the tokenizer


class TokenizeRequest(Body):
    """A text, whose tokens are wanted; `model` None: of the newest."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool | None = None


class DetokenizeRequest(Body):
    """Token ids, whose text is wanted; `model` None: of the newest."""

    model: str | None = None
    tokens: list[int] = Field(fail_fast=True)


class TokenizerEndpoint(ModelEndpoint):
    """An endpoint that needs a model's tokenizer alone."""

    async def _engine(self, model: str | None) -> TextEngine:
        served = await self._catalogue.find_text(model or self._catalogue.default, 0)
        return served.text_engine


class TokenizerInfo(TokenizerEndpoint):
    """Control tokens, chat template and context of the newest model."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        engine = await self._engine(None)
        await reply.json(engine.tokenizer_facts)


class Tokenize(TokenizerEndpoint):
    """The tokens of a text, its control tokens as such."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = validate_body(TokenizeRequest, read_object(body))
        engine = await self._engine(request.model)
        special = request.add_special_tokens is not False
        tokens = await engine.tokenize(request.prompt, add_special_tokens=special)
        longest = engine.tokenizer_facts["model_max_length"]
        await reply.json({"tokens": tokens, "count": len(tokens), "max_model_len": longest})


class Detokenize(TokenizerEndpoint):
    """The text of tokens, control tokens shown."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = validate_body(DetokenizeRequest, read_object(body))
        engine = await self._engine(request.model)
        await reply.json({"prompt": await engine.detokenize(request.tokens)})
