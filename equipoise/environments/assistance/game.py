"""The game of the assistant and its user: a question, then an answer, a question, or both."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from equipoise.environments.assistance.blocks import ParsedOutput, parse, response_only
from equipoise.environments.assistance.payoff_matrix import QUESTION_TYPES
from equipoise.environments.assistance.responses import response_action
from equipoise.games.base import Ask, Game, Referee
from equipoise.question_template import Template
from equipoise.system.effects import DeclaredEffect, TemplateText
from equipoise.types import Match, Message, Move, Prompt, Turn, View, user

ASSISTANT, USER = "assistant", "user"
WARNING = "Show them: some of the prompts ask for harm, and some of the answers may be harmful"
PACKAGE = "equipoise.environments.assistance"  # its texts/ holds the templates


class Assistance(Game):
    """The assistant answers in four blocks, of which the user sees the response.

    Without `simulated` the prompt's chat is the user's part, and there is one answer. Else a second
    player is the user: it is shown the prompt's wish (its fact `detailed`, else its last message)
    and opens with "DQ" or "VQ" (the wish, or the fact `vague`) or with a text of its own; it
    replies while it is asked back and turns are left. Source: GTAlign (arXiv 2510.08872), section
    3.
    """

    kind: Literal["assistance"] = "assistance"
    needs_text: ClassVar = True
    text: Annotated[
        str, DeclaredEffect("reads", "reads {}", packaged="texts", only="^(?!none$)")
    ] = Field(
        "assistance",
        description="the assistant's instruction: a template's file, a packaged one "
        "(assistance, assistance_compact), or none: the chat as it stands",
    )
    blocks: bool = Field(
        True, description="the answer is in four blocks; false: the answer alone, nothing is parsed"
    )
    simulated: bool = Field(
        False, description="a player is the user; false: the prompt's own messages are"
    )
    turns: int = Field(1, ge=1, description="answers of the assistant at most")
    customer: TemplateText = Field(
        "customer",
        description="a simulated user's first instruction: a template's file, or customer",
    )
    again: TemplateText = Field(
        "customer_again", description="its later instruction: a template's file, or customer_again"
    )

    @property
    def raw_moves(self) -> bool:
        """True where a block of the answer is its thinking, which is judged with the rest."""
        return self.blocks

    @model_validator(mode="after")
    def _someone_replies(self) -> Self:
        if self.turns > 1 and not self.simulated:
            raise ValueError(
                "turns: nobody replies to a second question; set simulated: true and "
                "give a user player"
            )
        return self

    @property
    def symmetric(self) -> bool:
        return False

    def content_warning(self, prompt: Prompt) -> str:
        return WARNING if prompt.facts.get("harmful") else ""

    @property
    def seats(self) -> tuple[str, ...]:
        return (ASSISTANT, USER) if self.simulated else (ASSISTANT,)

    def check(self) -> None:
        """Raise DataError for a template that cannot be read or filled."""
        self.instruction("a question")
        if self.simulated:
            self._opening.render(wish="a wish", vague="")
            self._reply.render(wish="a wish", told="", answer="an answer")

    def moves(self, prompt: Prompt) -> dict[str, int]:
        return dict.fromkeys(self.seats, self.turns)

    def instruction(self, question: str) -> str:
        """The text that the assistant is shown in place of the user's last message."""
        return question if self._text is None else self._text.render(question=question)

    def read(self, output: str) -> ParsedOutput:
        """An output taken apart; where no blocks are asked for, all of it is the response."""
        return parse(output) if self.blocks else response_only(output)

    def referee(self, prompt: Prompt) -> Referee:
        """The user's question, the answer, and more turns while the assistant asks back."""
        chat = prompt.messages
        if self.simulated:
            # Where the user's wish has two forms, they are its actions.
            wish, vague = wish_forms(prompt)
            text = self._opening.render(wish=wish, vague=vague)
            actions = QUESTION_TYPES if vague else ()
            opening = yield Ask(USER, View((user(text),), actions))
            assert isinstance(opening, Move)
            if is_silent(opening):
                return
            question = opening_question(opening.text.strip(), prompt)
            chat = (*chat[:-1], user(question))
        for turn in range(1, self.turns + 1):
            *before, last = chat
            answer = yield Ask(ASSISTANT, View((*before, user(self.instruction(last.content)))))
            assert isinstance(answer, Move)
            response = self.read(answer.text).response
            if turn == self.turns or answer.finish == "error" or not response:
                return
            if response_action(response) == "DA":
                return
            reply = yield Ask(USER, self._reply_view(prompt, response))
            assert isinstance(reply, Move)
            if is_silent(reply):
                return
            chat = (*chat, Message("assistant", response), user(reply.text.strip()))

    def _reply_view(self, prompt: Prompt, response: str) -> View:
        wish, _ = wish_forms(prompt)
        text = self._reply.render(
            wish=wish, told=str(prompt.facts.get("told", "")), answer=response
        )
        return View((user(text),))

    @cached_property
    def _text(self) -> Template | None:
        if self.text == "none":
            return None
        return Template(self.text, PACKAGE, "game.text", ("question",), ("question",))

    @cached_property
    def _opening(self) -> Template:
        known = ("wish", "vague")
        return Template(self.customer, PACKAGE, "game.customer", ("wish",), known)

    @cached_property
    def _reply(self) -> Template:
        known = ("wish", "told", "answer")
        return Template(self.again, PACKAGE, "game.again", ("answer",), known)


def is_silent(move: Move) -> bool:
    return move.finish == "error" or not move.text.strip()


def wish_forms(prompt: Prompt) -> tuple[str, str]:
    """A simulated user's wish, (detailed, vague); "" where there is no vague form."""
    last = prompt.messages[-1].content if prompt.messages else ""
    return str(prompt.facts.get("detailed", last)), str(prompt.facts.get("vague", ""))


def opening_question(move: str, prompt: Prompt) -> str:
    """The question that the user's opening move asks: the fact behind "DQ" or "VQ", or its text."""
    wish, vague = wish_forms(prompt)
    if move in QUESTION_TYPES and vague:
        return wish if move == "DQ" else vague
    return move


def is_vague(prompt: Prompt, match: Match | None = None) -> bool | None:
    """True if the question is vague; None where nothing tells.

    By the simulated user's opening move in `match`, else by the prompt's facts: `ambiguous`, or
    `kind` in the built-in world.
    """
    facts = prompt.facts
    for turn in match.turns if match else ():
        if turn.seat == USER:
            forms = {
                "DQ": False,
                "VQ": True,
                facts.get("detailed"): False,
                facts.get("vague"): True,
            }
            return forms.get(turn.move.text.strip())
    if "ambiguous" in facts:
        return bool(facts["ambiguous"])
    return facts["kind"] == "vague" if "kind" in facts else None


@dataclass(frozen=True, slots=True)
class AssistantAnswer:
    """One answer: its turn, the output taken apart, and the chat as the user sees it."""

    chat: tuple[Message, ...]
    turn: Turn
    output: ParsedOutput


def assistant_answers(match: Match, prompt: Prompt, game: Assistance) -> list[AssistantAnswer]:
    """The assistant's answers in a match, in order, without the game's own words in their chats."""
    return list(answers(match, prompt, game))


def answers(match: Match, prompt: Prompt, game: Assistance) -> Iterator[AssistantAnswer]:
    answered = False
    user_text: str | None = None  # since the last answer
    for turn in match.turns:
        if turn.seat == USER:
            user_text = turn.move.text.strip()
            continue
        *before, last = turn.view.messages
        if user_text is None:
            question = (prompt.messages or (last,))[-1].content
        elif answered:
            question = user_text
        else:
            question = opening_question(user_text, prompt)
        chat = (*before, user(question))
        yield AssistantAnswer(chat, turn, game.read(turn.move.text))
        answered, user_text = True, None
