"""A judge that is shown a whole match and compares those who played it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain
from string import ascii_uppercase
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.judges.base import JudgeContext, last_answers
from equipoise.judges.pairwise import ComparingByModel, Comparison, question_between
from equipoise.judges.question import PLACEHOLDERS, Block, Question, Quotes
from equipoise.judges.quoting import transcript
from equipoise.system.effects import TemplateText, Text
from equipoise.types import Match, Prompt, Turn


class Transcript(ComparingByModel):
    """Scores each seat by `model`'s verdicts on whole matches: who of two seats did better?

    The judge is shown every turn in a block of its own, under the letters A and B for the two seats
    and others for the rest, beside their roles where these differ. In the other order the letters
    change hands, and so do the places of turns whose seats had not seen each other's. The verdict
    may be `unclear`, which is none. A score is a pay-off of its match, like a game's outcome: it
    depends on who sat there. A match with a failed move is unjudged.
    """

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "transcript")
    compares: ClassVar[bool] = False

    kind: Literal["transcript"] = "transcript"
    whole_matches: ClassVar[bool] = True
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

    def quoted_answers(self, seats: int) -> int:
        return seats

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
        return question_between(self, ("transcript",), abstains=True)

    def quotes(self, comparison: Comparison) -> Quotes:
        match, game = comparison.match, self.judge_context.game
        assert match is not None
        start, pair = game.first_question(comparison.prompt), comparison.seats
        return {
            "question": ("request", transcript(start.messages)),
            "transcript": turn_blocks(game, comparison.prompt, match.turns, pair, self.views),
            "reference": ("reference", self.reference(comparison.prompt)),
        }


def turn_blocks(
    game: Game, prompt: Prompt, turns: Sequence[Turn], pair: tuple[str, str], views: bool
) -> list[Block]:
    """The blocks that show what seats stand for, and every turn.

    `pair` are A and B, in this order; other seats have the next letters. Turns whose seats had not
    seen each other's stand in the order of the letters. views: what a move replied to, too.
    """
    order = [*pair, *(seat for seat in game.seats if seat not in pair)]
    letters = [*ascii_uppercase, *(f"Z{n}" for n in range(1, len(order)))]
    name_of = dict(zip(order, letters, strict=False))
    if not game.symmetric:
        name_of = {seat: f"{letter} ({game.role(seat)})" for seat, letter in name_of.items()}
    held = game.stands_for(prompt)
    blocks = [(f"{name_of[seat]} stands for", held[seat]) for seat in order if seat in held]
    rounds: list[list[Turn]] = [[]]
    for turn in turns:
        if any(_follows(turn, other) for other in rounds[-1]):
            rounds.append([])
        rounds[-1] = sorted([*rounds[-1], turn], key=lambda turn: order.index(turn.seat))
    for number, turn in enumerate(chain.from_iterable(rounds), 1):
        name = name_of[turn.seat]
        if views and turn.view.messages:
            blocks.append((f"asked of {name}", turn.view.messages[-1].content))
        blocks.append((f"turn {number} by {name}", turn.move.text))
    return blocks


def _follows(turn: Turn, other: Turn) -> bool:
    """True if a turn is the same seat's as an earlier one, or was made in sight of it."""
    seen = any(other.move.text in message.content for message in turn.view.messages)
    return turn.seat == other.seat or seen
