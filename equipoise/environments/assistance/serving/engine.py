"""A model that writes its pay-off matrix, steered: the matrix is edited, an outcome
chosen, and the answer goes on.

    <thinking>…</thinking><payoff>EDITED</payoff><analyze>Front: DQ_DA, VQ_CQ. Choose VQ_CQ.  … the model goes on here

Of what it writes a client sees the response alone. Source: GTAlign (arXiv 2510.08872),
steering at inference.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from equipoise.environments.assistance.blocks import ParsedOutput, parse
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.payoff_matrix import PayoffMatrix
from equipoise.environments.assistance.serving.settings import (
    PAID,
    PAYOFF,
    Choice,
    Steering,
    chosen,
    wished,
)
from equipoise.environments.assistance.serving.visible_text import CLOSE, Response
from equipoise.games.base import Game
from equipoise.serve.engine import Engine, EngineRequest, Piece, Refused
from equipoise.serve.extension import Extension
from equipoise.types import Message, user


@dataclass(slots=True)
class Answer:
    """One answer under way."""

    response: Response
    left: int  # tokens that may still be written
    choice: Choice | None = None
    why: str = ""  # why there is no choice
    finish: Literal["stop", "length", "error"] = (
        "stop"  # of the part that was written last
    )
    error: str = ""
    lead: str = ""  # of the response, where what was put before it opens that already
    hidden: str = ""  # what was written before the model was asked anew


class SteeredEngine:
    """An engine in front of another, whose model writes its pay-offs. What it gives is
    the response alone.

    The tokens of the hidden blocks count, as reasoning does: `max_tokens` is for all
    that the model writes. With `report` the last piece's field `equipoise` holds the
    hidden blocks, both matrices, the outcome and why.
    """

    def __init__(
        self, engine: Engine, steering: Steering, *, report: bool = False
    ) -> None:
        """Nothing is asked yet. Raises DataError for a template that cannot be used."""
        steering.check()
        self._engine, self.steering, self._report = engine, steering, report

    async def generate(self, asked: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The response in pieces. Raises Refused for a begun answer, and as the engine
        does.
        """
        if self.steering.mode == "off":
            async with aclosing(self._engine.generate(asked)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if asked.prefix:
            raise Refused(
                "an answer that is already begun cannot be steered; leave its beginning out, or use mode: off"
            )
        answer = Answer(Response(asked.stop), asked.max_tokens)
        async with aclosing(self._pieces(asked, answer)) as pieces:
            async for piece in pieces:
                yield piece
        yield self._last(answer)

    def count(self, messages: Sequence[Message], prefix: str = "") -> int | None:
        """How many tokens the prompt has, with what the model is asked for its blocks
        with.
        """
        return self._engine.count(self._messages(messages, self.steering.asked), prefix)

    async def close(self) -> None:
        """Close the engine behind."""
        await self._engine.close()

    async def _pieces(
        self, asked: EngineRequest, answer: Answer
    ) -> AsyncGenerator[Piece, None]:
        """All but the last piece."""
        how, response = self.steering, answer.response
        hidden = replace(
            asked, messages=self._messages(asked.messages, how.asked), stop=(CLOSE,)
        )
        if how.mode == "strip":
            parts = [hidden]
        else:
            async with aclosing(
                self._part(replace(hidden, stop=(PAID, CLOSE)), answer)
            ) as pieces:
                async for piece in pieces:
                    yield piece
            parts = self._rest(asked, hidden, answer)
            if answer.lead:
                yield Piece(answer.lead)
        for part in parts:
            async with aclosing(self._part(part, answer)) as pieces:
                async for piece in pieces:
                    yield piece
        text = response.end()
        if text:
            yield Piece(text)

    def _rest(
        self, asked: EngineRequest, hidden: EngineRequest, answer: Answer
    ) -> list[EngineRequest]:
        """What is still to be asked, once the model has written its matrix, or has not."""
        how, response = self.steering, answer.response
        parsed = parse(response.output + PAID)
        answer.choice, answer.why = choice, why = self._choice(
            parsed, answer, asked.seed
        )
        if choice is None and how.unreadable == "error" and answer.finish == "stop":
            answer.finish, answer.error = (
                "error",
                f"the answer cannot be steered: {why}",
            )
        if response.opened or answer.finish != "stop" or parsed.payoff is None:
            return []
        begun = response.output + PAID
        if choice is not None and how.mode == "reask":
            messages = self._messages(
                asked.messages, lambda q: how.asked_anew(q, choice.shown, choice.cell)
            )
            answer.hidden, answer.response = begun, Response(asked.stop, plain=True)
            return [replace(hidden, messages=messages)]
        if choice is not None:
            begun = how.begun(response.output, choice)
        answer.lead = response.begin(begun)
        return [replace(hidden, prefix=begun)]

    def _choice(
        self, parsed: ParsedOutput, answer: Answer, seed: int
    ) -> tuple[Choice | None, str]:
        """The outcome, or why there is none."""
        if answer.response.opened:
            return None, "the response came before a matrix"
        if answer.finish != "stop":
            return None, "the answer ended before its matrix"
        if parsed.payoff is None:
            return None, "there is no <payoff>"
        if parsed.matrix is None:
            return None, "; ".join(
                fault for fault in parsed.faults if fault.startswith(PAYOFF)
            )
        choice = self.steering.chosen(parsed.matrix, parsed.thinking, seed)
        return (
            choice,
            "" if choice else f"{PAYOFF}: a pay-off is too large to be reckoned with",
        )

    async def _part(
        self, asked: EngineRequest, answer: Answer
    ) -> AsyncGenerator[Piece, None]:
        """Have the model write on; the visible part of it."""
        if answer.left <= 0:
            answer.finish = "length"
            return
        async with aclosing(
            self._engine.generate(replace(asked, max_tokens=answer.left))
        ) as pieces:
            async for piece in pieces:
                answer.left -= piece.tokens
                text = answer.response.add(piece.text)
                if text or piece.tokens:
                    yield Piece(text, tokens=piece.tokens)
                if piece.finish:
                    answer.finish, answer.error = piece.finish, piece.error
                if answer.response.ended:
                    answer.finish = "stop"
                    return

    def _last(self, answer: Answer) -> Piece:
        response, finish, error, text = answer.response, answer.finish, answer.error, ""
        # As with reasoning, an answer that is used up before its response is empty, and
        # its finish says why.
        cut = finish == "length" and response.begins_blocks
        if not response.opened and finish != "error" and not cut:
            if self.steering.unopened == "error":
                finish, error = "error", "the model wrote no <response>"
            else:
                text = response.whole()
        return Piece(
            text,
            finish,
            error=error,
            fields={"equipoise": self._facts(answer)} if self._report else {},
        )

    def _facts(self, answer: Answer) -> dict[str, Any]:
        """What was hidden, and how it was steered."""
        how, choice, output = (
            self.steering,
            answer.choice,
            answer.hidden or answer.response.output,
        )
        # The tag that ended the answer is not part of it.
        parsed = parse(
            output if CLOSE in output or answer.finish == "length" else output + CLOSE
        )
        if choice is not None:
            among = (
                "all outcomes"
                if choice.question is None
                else f"the outcomes of {choice.question}"
            )
            why = f"the best of {among} by {how.by if isinstance(how.by, str) else how.by.kind}"
        else:
            why = answer.why or "the model's own choice"
        return {
            "mode": how.mode,
            "pricing": how.pricing.kind,
            "steered": choice is not None,
            "why": why,
            "chosen": parsed.chosen if choice is None else choice.cell,
            "written": _plain(parsed.matrix if choice is None else choice.written),
            "edited": None if choice is None else _plain(choice.edited),
            "thinking": parsed.thinking,
            "analyze": parsed.analyze,
            "faults": [] if answer.hidden else list(parsed.faults),
        }

    def _messages(
        self, messages: Sequence[Message], asked: Callable[[str], str]
    ) -> tuple[Message, ...]:
        """The chat with its last message, where that is the user's, as the model is
        shown it.
        """
        *before, last = messages
        return (*before, user(asked(last.content)) if last.role == "user" else last)


class SteeringExtension(Extension):
    """Steers a server's models, as a client wishes, and as `base` where it wishes
    nothing.
    """

    def __init__(self, base: Steering) -> None:
        """Raises DataError for a template that cannot be used."""
        base.check()
        self.base = base

    def wrap(self, engine: Engine, wish: Any = None, *, report: bool = False) -> Engine:
        """`engine`, steered; itself where it is not. Raises Refused."""
        steering = self._steering(wish)
        if steering.mode == "off":
            return engine
        return SteeredEngine(engine, steering, report=report)

    def describe(self, wish: Any = None) -> str:
        """The pricing's kind, or the mode where nothing is steered. Raises Refused."""
        return self._steering(wish).name

    def _steering(self, wish: Any) -> Steering:
        return self.base if wish is None else wished(wish, self.base)


def extension(option: str, game: Game | None) -> SteeringExtension:
    """What `equipoise serve` and `equipoise chat` steer with: their option --steering.

    Without it, a run of the assistant's game asks as its game does and hides the
    blocks; else nothing is steered. Raises ConfigError for an option that cannot be
    read, DataError for a template that cannot be used.
    """
    base = Steering.model_validate({"mode": "off"})
    if isinstance(game, Assistance) and game.blocks:
        base = Steering.model_validate({"mode": "strip", "text": game.text})
    return SteeringExtension(chosen(option, base) if option else base)


def _plain(matrix: PayoffMatrix | None) -> dict[str, dict[str, float]] | None:
    """The matrix as the model writes it."""
    return (
        None
        if matrix is None
        else {
            name: {"LLM": cell.llm, "user": cell.user} for name, cell in matrix.items()
        }
    )
