"""A model that writes its pay-off matrix, steered: the matrix is edited, an outcome chosen, and the
answer goes on.

    <thinking>…</thinking><payoff>EDITED</payoff><analyze>Front: VQ_CQ. Choose VQ_CQ. …

Of all that the model writes a client sees the response alone. Source: GTAlign (arXiv 2510.08872),
steering at inference.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from equipoise.environments.assistance.blocks import BLOCKS, parse
from equipoise.environments.assistance.payoff_matrix import PayoffMatrix
from equipoise.environments.assistance.steering import PAYOFF, PAYOFF_END, Steering, SteeringChoice
from equipoise.serve.detokenizer import StopTexts
from equipoise.serve.engine import Engine, EngineRequest, Piece, Refused
from equipoise.types import Message, user


@dataclass(slots=True)
class AnswerInProgress:
    """An answer in the making.

    `finish`, `error`: of the last part; `lead`: the response's beginning, if the text before opens
    it; `hidden`: written before the model was asked anew; `why_none`: why there is no choice.
    """

    response: VisibleResponse
    tokens_left: int
    choice: SteeringChoice | None = None
    why_none: str = ""
    finish: Literal["stop", "length", "error"] = "stop"
    error: str = ""
    lead: str = ""
    hidden: str = ""

    @property
    def blocks_text(self) -> str:
        """All that the model wrote of its blocks, with the tag that ended the answer."""
        output = self.hidden or self.response.output
        if RESPONSE_END in output or self.finish == "length":
            return output
        return output + RESPONSE_END

    @property
    def is_cut(self) -> bool:
        """True if the tokens were used up within the hidden blocks, so that the answer is empty."""
        return self.finish == "length" and self.response.begins_blocks


class SteeringEngine:
    """An engine in front of another, whose model writes its pay-offs; it gives the response alone.

    The hidden blocks' tokens count: `max_tokens` is for all. With `report` the last piece's field
    `equipoise` holds the hidden blocks, both matrices, the outcome and why.
    """

    def __init__(self, engine: Engine, steering: Steering, *, report: bool = False) -> None:
        """Raises DataError for a template that cannot be used."""
        steering.check()
        self._engine = engine
        self.steering = steering
        self._report = report

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The response in pieces. Raises Refused for a begun answer, ModelError, as the engine."""
        if self.steering.mode == "off":
            async with aclosing(self._engine.generate(request)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if request.prefix:
            raise Refused(
                "an answer that is already begun cannot be steered; leave its "
                "beginning out, or use mode: off"
            )
        if request.tools or request.response_format:
            raise Refused(
                "a steered answer follows its own form; leave this out, or use mode: off",
                "unsupported_value",
                "tools" if request.tools else "response_format",
            )
        if request.logprobs is not None:
            raise Refused(
                "log-probabilities of a steered answer are not given: most of its "
                "tokens are hidden; use mode: off",
                "unsupported_value",
                "logprobs",
            )
        response = VisibleResponse(request.stop)
        answer = AnswerInProgress(response, request.max_tokens)
        async with aclosing(self._pieces(request, answer)) as pieces:
            async for piece in pieces:
                yield piece
        finish = answer.finish
        error = answer.error
        text = ""
        if not answer.response.opened and finish != "error" and not answer.is_cut:
            if self.steering.unopened == "error":
                finish, error = "error", "the model wrote no <response>"
            else:
                text = answer.response.whole_text()
        fields = {}
        if self._report:
            fields["equipoise"] = steering_report(self.steering, answer)
        yield Piece(text, finish, error=error, fields=fields)

    async def count(
        self, messages: Sequence[Message], prefix: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> int | None:
        """Number of tokens of the prompt, the instruction for the blocks included."""
        shown = with_last(messages, self.steering.first_prompt)
        return await self._engine.count(shown, prefix, tools)

    async def close(self) -> None:
        await self._engine.close()

    async def _pieces(
        self, request: EngineRequest, answer: AnswerInProgress
    ) -> AsyncGenerator[Piece, None]:
        messages = with_last(request.messages, self.steering.first_prompt)
        hidden_request = replace(request, messages=messages, stop=(RESPONSE_END,))
        rest: EngineRequest | None = hidden_request
        if self.steering.mode != "strip":
            until_matrix = replace(hidden_request, stop=(PAYOFF_END, RESPONSE_END))
            async with aclosing(self._generate(until_matrix, answer)) as pieces:
                async for piece in pieces:
                    yield piece
            self._choose(answer, request.seed)
            rest = self._rest(request, hidden_request, answer)
            if answer.lead:
                yield Piece(answer.lead)
        if rest is not None:
            async with aclosing(self._generate(rest, answer)) as pieces:
                async for piece in pieces:
                    yield piece
        text = answer.response.end()
        if text:
            yield Piece(text)

    async def _generate(
        self, request: EngineRequest, answer: AnswerInProgress
    ) -> AsyncGenerator[Piece, None]:
        if answer.tokens_left <= 0:
            answer.finish = "length"
            return
        limited = replace(request, max_tokens=answer.tokens_left)
        async with aclosing(self._engine.generate(limited)) as pieces:
            async for piece in pieces:
                answer.tokens_left -= piece.tokens
                text = answer.response.add(piece.text)
                if text or piece.tokens:
                    yield Piece(text, tokens=piece.tokens)
                if piece.finish and piece.finish != "tool_calls":
                    answer.finish = piece.finish
                    answer.error = piece.error
                if answer.response.ended:
                    answer.finish = "stop"
                    return

    def _choose(self, answer: AnswerInProgress, seed: int) -> None:
        parsed = parse(answer.response.output + PAYOFF_END)
        if answer.response.opened:
            answer.why_none = "the response came before a matrix"
        elif answer.finish != "stop":
            answer.why_none = "the answer ended before its matrix"
        elif parsed.payoff is None:
            answer.why_none = f"there is no {PAYOFF}"
        elif parsed.matrix is None:
            faults = [fault for fault in parsed.faults if fault.startswith(PAYOFF)]
            answer.why_none = "; ".join(faults)
        else:
            choice = self.steering.choose(parsed.matrix, parsed.thinking, seed)
            answer.choice = choice
            if choice is None:
                answer.why_none = f"{PAYOFF}: a pay-off is too large to be reckoned with"
        must_steer = self.steering.unreadable == "error"
        if answer.choice is None and must_steer and answer.finish == "stop":
            answer.finish = "error"
            answer.error = f"the answer cannot be steered: {answer.why_none}"

    def _rest(
        self, request: EngineRequest, hidden_request: EngineRequest, answer: AnswerInProgress
    ) -> EngineRequest | None:
        """The next request, with or without the model's matrix; None: nothing is left to ask."""
        response = answer.response
        choice = answer.choice
        steering = self.steering
        begun = response.output + PAYOFF_END
        if response.opened or answer.finish != "stop" or parse(begun).payoff is None:
            return None
        if choice is not None and steering.mode == "reask":
            answer.hidden = begun
            answer.response = VisibleResponse(request.stop, plain=True)
            messages = with_last(
                request.messages,
                lambda question: steering.second_prompt(question, choice.shown, choice.cell),
            )
            return replace(hidden_request, messages=messages)
        if choice is not None:
            begun = steering.continuation(response.output, choice)
        answer.lead = response.begin(begun)
        return replace(hidden_request, prefix=begun)


def with_last(messages: Sequence[Message], shown: Callable[[str], str]) -> tuple[Message, ...]:
    """The chat with its last message, where that is the user's, as `shown` makes it."""
    *before, last = messages
    if last.role == "user":
        last = user(shown(last.content))
    return (*before, last)


def steering_report(steering: Steering, answer: AnswerInProgress) -> dict[str, Any]:
    """An answer's hidden blocks and its steering, as plain JSON values."""
    parsed = parse(answer.blocks_text)
    choice = answer.choice
    # Blocks that were cut off to ask anew are no fault of the model's.
    faults = () if answer.hidden else parsed.faults
    if choice is None:
        why = answer.why_none or "the model's own choice"
    else:
        outcomes = f"the outcomes of {choice.question}" if choice.question else "all outcomes"
        by = steering.by if isinstance(steering.by, str) else steering.by.kind
        why = f"the best of {outcomes} by {by}"
    return {
        "mode": steering.mode,
        "pricing": steering.pricing.kind,
        "steered": choice is not None,
        "why": why,
        "chosen": parsed.chosen if choice is None else choice.cell,
        "written": as_written(parsed.matrix if choice is None else choice.written),
        "edited": None if choice is None else as_written(choice.edited),
        "thinking": parsed.thinking,
        "analyze": parsed.analyze,
        "faults": list(faults),
    }


def as_written(matrix: PayoffMatrix | None) -> dict[str, dict[str, float]] | None:
    if matrix is None:
        return None
    return {name: {"LLM": cell.llm, "user": cell.user} for name, cell in matrix.items()}


RESPONSE_START, RESPONSE_END = "<response>", "</response>"
_HIDDEN = re.compile(r"<(/?)(thinking|payoff|analyze)>")
_TAGS = tuple(f"<{name}>" for name in BLOCKS)


class VisibleResponse:
    """Takes an output in pieces and gives its response block, stripped, as soon as it is sure.

    `output`: all so far; `opened`: the block has begun; `ended`: it, or the answer by a client's
    stop text, is over: the rest is dropped.
    """

    def __init__(self, stop: Sequence[str] = (), *, plain: bool = False) -> None:
        """With `plain`, an output that does not begin with a block's tag is all response."""
        self.output, self.opened, self.ended = "", False, False
        self._plain = plain
        self._stop = stop
        self._stops = StopTexts((RESPONSE_END, *stop))
        self._begun, self._space = False, ""

    def begin(self, output: str) -> str:
        """Take `output` for all that was written so far."""
        self.output = ""
        return self.add(output)

    def add(self, text: str) -> str:
        """Take in `text`; returns the text that a client may see now."""
        if self.ended:
            return ""
        searched = max(0, len(self.output) - len(RESPONSE_START) + 1)
        self.output += text
        if not self.opened:
            place = self.output.find(RESPONSE_START, searched)
            if self._plain and not may_be_blocks(self.output):
                text = self.output
            elif place >= 0:
                text = self.output[place + len(RESPONSE_START) :]
            else:
                return ""
            self.opened = True
        visible, self.ended = self._stops.add(text)
        return self._trim(visible)

    def end(self) -> str:
        """The text held back, once no more comes. A closing tag that was cut short is dropped."""
        if self.ended or not self.opened:
            return ""
        self.ended = True
        held = self._stops.end()
        is_cut_tag = len(held) > 1 and RESPONSE_END.startswith(held)
        return self._trim("" if is_cut_tag else held)

    def whole_text(self) -> str:
        """An output without response block as one: without hidden blocks, if more is there."""
        outside = strip_hidden(self.output).strip()
        visible, _ = StopTexts(self._stop).add(outside or self.output.strip())
        return visible

    @property
    def begins_blocks(self) -> bool:
        """True if the output has a tag of the four blocks."""
        return any(tag in self.output for tag in _TAGS)

    def _trim(self, text: str) -> str:
        """`text` without white space at the response's beginning, that at its end kept back."""
        text = self._space + text if self._begun else text.lstrip()
        self._begun = self._begun or bool(text)
        kept = text.rstrip()
        self._space = text[len(kept) :]
        return kept


def strip_hidden(output: str) -> str:
    """`output` without its hidden blocks; one that is never closed stays."""
    last_closing = {match[2]: match.start() for match in _HIDDEN.finditer(output) if match[1]}
    kept = []
    end = 0
    hidden = ""  # the name of the block that is open
    for match in _HIDDEN.finditer(output):
        closes = match[1]
        name = match[2]
        if hidden and closes and name == hidden:
            hidden = ""
            end = match.end()
        elif not hidden and not closes and last_closing.get(name, -1) > match.start():
            kept.append(output[end : match.start()])
            hidden = name
    return "".join([*kept, output[end:]])


def may_be_blocks(output: str) -> bool:
    text = output.lstrip()
    return any(tag.startswith(text) or text.startswith(tag) for tag in _TAGS)
