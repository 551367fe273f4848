"""A judge that is shown a whole match and compares those who played it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby
from string import ascii_uppercase
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.judges.base import JudgeContext, last_answers
from equipoise.judges.pairwise import PROBABILITY, Comparing, Comparison
from equipoise.judges.question import (
    PLACEHOLDERS,
    Question,
    QuestionSettings,
    Quotes,
    Reading,
    control_tokens_of,
    read_move,
)
from equipoise.judges.quoting import transcript
from equipoise.judges.read_verdict import Abstained, Unread, read_choice
from equipoise.players.base import Player
from equipoise.system.effects import TemplateText, Text
from equipoise.types import Match, Turn

ABSTAINS = "unclear"


class Transcript(Comparing, QuestionSettings):
    """Scores each seat by `model`'s verdicts on whole matches: who of two seats did better?

    The judge is shown every turn in a block of its own, under the letters A and B for the two seats
    and others for the rest, beside their roles where these differ. In the other order the letters
    change hands, and so do the places of turns that answered the same chat. It may find a match
    `unclear`, which is no verdict. A score is a pay-off of its match, like a game's outcome: it
    depends on who sat there. A match with a failed move is unjudged.
    """

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "transcript")
    compares: ClassVar[bool] = False

    kind: Literal["transcript"] = "transcript"
    model: Player = Field(description="the judging model, a player that no seat holds")
    text: TemplateText = Field(
        default="transcript",
        description="the question's template: a file, or a packaged one (transcript, or "
        "transcript_compact for small models)",
    )
    seats: tuple[Text, ...] = Field(
        default=(), description="the seats that are compared; others are only shown; (): all"
    )
    views: bool = Field(
        default=False, description="show the last message that each move answered, too"
    )

    def prepare(self) -> None:
        """Raises ConfigError for unknown or too few seats, DataError for a faulty template."""
        _ = self.question
        game = self.judge_context.game
        for seat in self.seats:
            if seat not in game.seats:
                hint = nearest(seat, list(game.seats))
                raise ConfigError(f"judge.seats: game '{game.kind}' has no seat '{seat}'; {hint}")
        if len(self.seats or game.seats) < 2:
            raise ConfigError(
                "judge: 'transcript' compares seats and needs two of them; game "
                f"'{game.kind}' has the seats {', '.join(game.seats)}"
            )

    def faults(self, judge_context: JudgeContext) -> Iterator[str]:
        yield from super().faults(judge_context)
        if judge_context.game.kind == "answers":
            yield (
                "'transcript' compares seats that play with each other, and those of game "
                "'answers' answer alone; set judge.kind: pairwise"
            )

    def questions(self, seats: int, pool: int) -> int:
        return self.comparisons(len(self.seats) or seats)

    def judged_seats(self, match: Match) -> Collection[str]:
        return [seat for seat in match.seats if not self.seats or seat in self.seats]

    def groups(self, match: Match) -> list[list[str]]:
        if self._failed(match):
            return []
        moved = last_answers(match)
        return [[seat for seat in self.judged_seats(match) if seat in moved]]

    def alike(self, match: Match, first: str, second: str) -> bool:
        """False: what two seats of a whole match said may weigh differently in it."""
        return False

    def unasked(self, match: Match) -> list[str]:
        if failed := self._failed(match):
            return failed
        moved = len(last_answers(match).keys() & set(self.judged_seats(match)))
        return [] if moved > 1 else ["fewer than two of the compared seats moved"]

    def _failed(self, match: Match) -> list[str]:
        moves = [turn.move for turn in match.turns]
        return [f"the move failed: {move.error}" for move in moves if move.finish == "error"]

    @cached_property
    def question(self) -> Question:
        """The template of the question. Raises DataError."""
        question = self.question_with(("transcript",), needed=("transcript",))
        schema = {"type": "string", "enum": [*PROBABILITY, ABSTAINS]}
        return replace(question, verdict="verdict", verdict_schema=schema)

    def answer(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question 1, 0 or ½, or the reason why there is no verdict."""
        tokens = control_tokens_of(self.judge_context.actor(self.model))
        views = [
            self.question.view(self._quotes(comparison), comparison.seed, tokens)
            for comparison in questions
        ]
        dice = [comparison.seed for comparison in questions]
        moves = self.judge_context.ask(self.model, views, dice)
        return [
            read_move(move, _read, self.question.code(seed))
            for move, seed in zip(moves, dice, strict=True)
        ]

    def _quotes(self, comparison: Comparison) -> Quotes:
        assert comparison.match is not None
        start = self.judge_context.game.first_question(comparison.prompt)
        return {
            "question": ("request", transcript(start.messages)),
            "transcript": self._blocks(comparison.match, comparison.seats),
            "reference": ("reference", self.reference(comparison.prompt)),
        }

    def _blocks(self, match: Match, pair: tuple[str, str]) -> list[tuple[str, str]]:
        """(label, text) of every turn; turns that answered one chat in the order of the letters."""
        letter_of = seat_letters(match, pair)
        order = list(letter_of)
        at_once = groupby(match.turns, key=lambda turn: turn.view.messages)
        turns: list[Turn] = list(
            chain.from_iterable(
                sorted(together, key=lambda turn: order.index(turn.seat)) for _, together in at_once
            )
        )
        game, blocks = self.judge_context.game, []
        for number, turn in enumerate(turns, 1):
            name = letter_of[turn.seat]
            if not game.symmetric:
                name += f" ({game.role(turn.seat)})"
            if self.views and turn.view.messages:
                blocks.append((f"asked of {name}", turn.view.messages[-1].content))
            blocks.append((f"turn {number} by {name}", turn.move.text))
        return blocks


def seat_letters(match: Match, pair: tuple[str, str]) -> Mapping[str, str]:
    """Each seat's letter: A and B for `pair`, in this order, and the next ones for the others."""
    seats = [*pair, *(seat for seat in match.seats if seat not in pair)]
    letters = [*ascii_uppercase, *(f"Z{n}" for n in range(1, len(seats)))]
    return dict(zip(seats, letters, strict=False))


def _read(reply: str, code: str) -> float | Unread:
    label = read_choice(reply, (*PROBABILITY, ABSTAINS), code, alone=not code)
    if label == ABSTAINS:
        return Abstained("the judge found it unclear who did better")
    return label if isinstance(label, Unread) else PROBABILITY[label]
