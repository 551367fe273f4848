"""The game of the assistant and its user: a question, vague or detailed; an answer, a
clarifying question, or both.

`parse` takes an output apart and `reward` says what it is worth; both live in files of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from equipoise.environments.assistance.blocks import TYPES, Parsed, action, parse
from equipoise.environments.assistance.utilities import reward
from equipoise.games.base import Ask, Game, Referee
from equipoise.template import Template
from equipoise.types import Match, Message, Prompt, Turn, View, user

__all__ = ["Assistance", "Said", "asked_vaguely", "conversation", "parse", "reward"]

ASSISTANT, USER = "assistant", "user"


class Assistance(Game):
    """The assistant answers in four blocks, of which the user sees the response.

    Without `simulated` the prompt's chat is the user's part, and there is one answer.
    With it a second player is the user: it is shown the prompt's wish (its fact
    `detailed`, else its last message) and opens with "DQ" or "VQ" (the wish, or the
    prompt's fact `vague`, as they stand) or with a text of its own; as long as it is
    asked back, and turns are left, it replies. Source: GTAlign (arXiv 2510.08872),
    section 3.
    """

    kind: Literal["assistance"] = "assistance"
    text: str = Field(
        "assistance",
        description="what the assistant is asked: a template's file, a packaged one (assistance, assistance_compact), "
        "or none: the chat as it stands",
    )
    blocks: bool = Field(
        True,
        description="the answer is in four blocks; false: the answer alone, nothing is parsed",
    )
    simulated: bool = Field(
        False, description="a player is the user; false: the prompt's own messages are"
    )
    turns: int = Field(1, ge=1, description="answers of the assistant at most")
    customer: str = Field(
        "customer",
        description="what a simulated user is asked first: a template's file, or customer",
    )
    again: str = Field(
        "customer_again",
        description="what it is asked later: a template's file, or customer_again",
    )

    @model_validator(mode="after")
    def _someone_replies(self) -> Assistance:
        if self.turns > 1 and not self.simulated:
            raise ValueError(
                "turns: nobody replies to a second question; set simulated: true and give a user player"
            )
        return self

    @property
    def symmetric(self) -> bool:
        """User and assistant are different roles."""
        return False

    @property
    def seats(self) -> tuple[str, ...]:
        """The assistant, and the user where one is played."""
        return (ASSISTANT, USER) if self.simulated else (ASSISTANT,)

    def check(self) -> None:
        """Raises DataError for a template that cannot be read or filled."""
        self.asked("a question")
        if self.simulated:
            self._opening.render(wish="a wish", vague="")
            self._reply.render(wish="a wish", told="", answer="an answer")

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """As many as there are turns."""
        return dict.fromkeys(self.seats, self.turns)

    def asked(self, question: str) -> str:
        """What the assistant is shown in place of the user's last message."""
        return question if self._text is None else self._text.render(question=question)

    def read(self, output: str) -> Parsed:
        """An output taken apart; where no blocks are asked for, all of it is the
        response.
        """
        if self.blocks:
            return parse(output)
        return Parsed(output, None, None, None, output.strip(), None, (), 0)

    def referee(self, prompt: Prompt) -> Referee:
        """The user's question, the answer, and what follows while the assistant asks
        back.
        """
        talk = prompt.messages
        (wish, vague), told = _forms(prompt), str(prompt.facts.get("told", ""))
        if self.simulated:
            view = View(
                (user(self._opening.render(wish=wish, vague=vague)),),
                TYPES if vague else (),
            )
            move = yield Ask(USER, view)
            assert not isinstance(move, list)
            if move.finish == "error" or not move.text.strip():
                return
            talk = (*talk[:-1], user(_question(move.text.strip(), wish, vague)))
        for turn in range(self.turns):
            *before, last = talk
            output = yield Ask(
                ASSISTANT, View((*before, user(self.asked(last.content))))
            )
            assert not isinstance(output, list)
            response = self.read(output.text).response
            if (
                turn + 1 == self.turns
                or output.finish == "error"
                or not response
                or action(response) == "DA"
            ):
                return
            view = View(
                (user(self._reply.render(wish=wish, told=told, answer=response)),)
            )
            move = yield Ask(USER, view)
            assert not isinstance(move, list)
            if move.finish == "error" or not move.text.strip():
                return
            talk = (*talk, Message("assistant", response), user(move.text.strip()))

    @cached_property
    def _text(self) -> Template | None:
        return (
            None
            if self.text == "none"
            else Template(
                self.text,
                "environments.assistance",
                "game.text",
                ("question",),
                ("question",),
            )
        )

    @cached_property
    def _opening(self) -> Template:
        return Template(
            self.customer,
            "environments.assistance",
            "game.customer",
            ("wish",),
            ("wish", "vague"),
        )

    @cached_property
    def _reply(self) -> Template:
        return Template(
            self.again,
            "environments.assistance",
            "game.again",
            ("answer",),
            ("wish", "told", "answer"),
        )


def _forms(prompt: Prompt) -> tuple[str, str]:
    """What a simulated user wants, said in detail and vaguely ("": there is no vague
    form).
    """
    last = prompt.messages[-1].content if prompt.messages else ""
    return str(prompt.facts.get("detailed", last)), str(prompt.facts.get("vague", ""))


def _question(text: str, wish: str, vague: str) -> str:
    """What the user's opening move says: one of its two forms by name, or the text
    itself.
    """
    if text in TYPES and vague:
        return wish if text == "DQ" else vague
    return text


def asked_vaguely(prompt: Prompt, match: Match | None = None) -> bool | None:
    """Whether the question is vague: by a simulated user's move, else by the prompt's
    facts; None where nobody knows.

    The facts that say it are `ambiguous`, or `kind` in the built-in world.
    """
    opening = (
        next(
            (turn.move.text.strip() for turn in match.turns if turn.seat == USER), None
        )
        if match
        else None
    )
    if opening is not None:
        forms = {
            "DQ": False,
            "VQ": True,
            prompt.facts.get("detailed"): False,
            prompt.facts.get("vague"): True,
        }
        return forms.get(opening)
    if "ambiguous" in prompt.facts:
        return bool(prompt.facts["ambiguous"])
    return prompt.facts["kind"] == "vague" if "kind" in prompt.facts else None


class Said(NamedTuple):
    """One answer of the assistant: the chat as the user has it, the turn, and the
    output taken apart.
    """

    heard: Sequence[Message]
    turn: Turn
    output: Parsed


def conversation(match: Match, prompt: Prompt, game: Assistance) -> list[Said]:
    """The assistant's answers in a match, in order, each with what it answered, without
    the game's own words.
    """
    said: list[Said] = []
    spoken: str | None = None
    for turn in match.turns:
        if turn.seat == USER:
            spoken = turn.move.text.strip()
            continue
        *before, last = turn.view.messages
        if not said and spoken is not None:
            spoken = _question(spoken, *_forms(prompt))
        asked = (
            spoken
            if spoken is not None
            else prompt.messages[-1].content
            if prompt.messages
            else last.content
        )
        said.append(Said((*before, user(asked)), turn, game.read(turn.move.text)))
        spoken = None
    return said
