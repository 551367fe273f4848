"""Games with a judge at the table, whose move is a verdict, and games to be judged there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal, Self

from msgspec import structs
from pydantic import Field, model_validator

from equipoise import seeds
from equipoise.component import has_stand_ins
from equipoise.games.base import Ask, Game, Referee
from equipoise.judges.multiple_choice import options_of
from equipoise.judges.pairwise import question_between, read_better
from equipoise.judges.question import Question, QuestionSettings, Reading, read_move
from equipoise.judges.quoting import transcript
from equipoise.judges.transcript import turn_blocks
from equipoise.question_template import Template
from equipoise.system.effects import TemplateText, Text
from equipoise.types import Match, Message, Move, Prompt, Turn, View, record_id, user

JUDGE = "judge"
SILENT = "silent"  # the fact of a prompt on which no debater speaks
PACKAGE = "equipoise.environments.verdicts"


class Judged(QuestionSettings, Game):
    """The inner `game`, then a verdict on it from `judges` seats, players like all others.

    They are shown what the judge `transcript` shows, under a code of the user's secret and of all
    that was said; a verdict is read by the code of the recorded question. The first judge sees the
    two seats in an order drawn by what was said, the second in the other, and so on. The role of a
    judge's seat is `judge`.
    """

    part: ClassVar = "game"

    kind: Literal["judged"] = "judged"
    game: Game = Field(description="the game that is judged")
    judges: int = Field(1, ge=1, description="seats that judge")
    pair: tuple[Text, Text] | None = Field(
        None, description="the two seats that are compared; null: the only two"
    )
    text: TemplateText = Field(
        "transcript",
        description="the question's template: a file, or a packaged one (transcript, or "
        "transcript_compact for small models)",
    )
    views: bool = Field(False, description="show judges the last message that each move answered")

    @model_validator(mode="after")
    def _two_are_compared(self) -> Self:
        if has_stand_ins(self.game):
            return self
        seats = self.game.seats
        pair = self.pair or seats
        if len(set(pair)) != 2 or not set(pair) <= set(seats):
            names = ", ".join(seats)
            raise ValueError(f"pair: name two seats of '{self.game.kind}', which has {names}")
        if JUDGE in self.game.roles:
            raise ValueError(f"game: '{self.game.kind}' has a judge already")
        return self

    @property
    def compared(self) -> tuple[str, str]:
        """The two seats that the verdicts are on."""
        return self.pair or (self.game.seats[0], self.game.seats[-1])

    @property
    def judge_seats(self) -> tuple[str, ...]:
        """`judge`; of several `judge 1`, `judge 2`, …"""
        numbers = range(1, self.judges + 1)
        if self.judges == 1:
            return (JUDGE,)
        return tuple(f"{JUDGE} {n}" for n in numbers)

    @property
    def seats(self) -> tuple[str, ...]:
        return (*self.game.seats, *self.judge_seats)

    def role(self, seat: str) -> str:
        return JUDGE if seat in self.judge_seats else self.game.role(seat)

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        return (*self.game.seats_for(prompt), *self.judge_seats)

    @property
    def asks_alike(self) -> bool:
        return self.game.asks_alike

    def content_warning(self, prompt: Prompt) -> str:
        return self.game.content_warning(prompt)

    def control(self, prompt: Prompt) -> Prompt | None:
        """The prompt as the inner game's control has it; None where it has none."""
        return self.game.control(prompt) if isinstance(self.game, Debate) else None

    def check(self) -> None:
        """Raises DataError for a template that cannot be used, of the inner game's, too."""
        self.game.check()
        _ = self.question

    def faults(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        return self.game.faults(prompts)

    def moves(self, prompt: Prompt) -> dict[str, int]:
        return {**self.game.moves(prompt), **dict.fromkeys(self.judge_seats, 1)}

    def referee(self, prompt: Prompt) -> Referee:
        """The inner game, and all judges at once; a failed move ends the match unjudged."""
        turns: list[Turn] = []
        inner = self.game.referee(prompt)
        request = next(inner, None)
        while request is not None:
            moves = yield request
            asks = request if isinstance(request, list) else [request]
            made = moves if isinstance(moves, list) else [moves]
            turns += [Turn(a.seat, a.view, m) for a, m in zip(asks, made, strict=True)]
            try:
                request = inner.send(moves)
            except StopIteration:
                request = None
        if all(turn.move.finish != "error" for turn in turns):
            yield [Ask(seat, self._view(prompt, turns, seat)) for seat in self.judge_seats]

    @cached_property
    def question(self) -> Question:
        """The template of the judges' question. Raises DataError."""
        return question_between(self, ("transcript",), abstains=True)

    def before_judges(self, match: Match) -> Match:
        """The inner game's match."""
        seats = {seat: p for seat, p in match.seats.items() if seat not in self.judge_seats}
        turns = tuple(turn for turn in match.turns if turn.seat in seats)
        return structs.replace(match, game=self.game.kind, seats=seats, turns=turns)

    def verdict(
        self, prompt: Prompt, turns: Sequence[Turn], judged: Turn
    ) -> tuple[tuple[str, str], Reading]:
        """(the seats that this judge knew as A and B; its P(A did better), or why none).

        `turns` are the inner game's, `judged` is the judge's.
        """
        pair, _ = self._order(prompt, turns, judged.seat)
        reading = read_move(judged.move, read_better, self.question.code(judged.view))
        # Tokens and cost are the move's, counted in play.
        return pair, Reading(reading.value, reading.reason)

    def _order(
        self, prompt: Prompt, turns: Sequence[Turn], seat: str
    ) -> tuple[tuple[str, str], int]:
        """(the seats that this judge knows as A and B, the seed of its question)."""
        seed = seeds.child(0, "verdict", prompt.id, *(turn.move.text for turn in turns))
        first, second = self.compared
        swapped = (seed + self.judge_seats.index(seat)) % 2
        return ((second, first) if swapped else (first, second)), seed

    def _view(self, prompt: Prompt, turns: Sequence[Turn], seat: str) -> View:
        pair, seed = self._order(prompt, turns, seat)
        quotes = {
            "question": ("request", transcript(self.game.first_question(prompt).messages)),
            "transcript": turn_blocks(self.game, prompt, turns, pair, self.views),
            "reference": ("reference", self.reference(prompt)),
        }
        return self.question.view(quotes, seed)


class Debate(Game):
    """Two debaters, each for one of the prompt's options, speak `turns` times, both at once.

    One stands for the fact `answer`, the other for another of `choices`; chance, by the prompt's
    id, says who, and for which. They alone see the fact `passage`. With `turns: 0` nobody speaks:
    the control, in which the judge is shown the two options alone.
    """

    kind: Literal["debate"] = "debate"
    turns: int = Field(2, ge=0, description="turns of each debater")
    opening: TemplateText = Field(
        "debate",
        description="the debaters' template: a file, or the packaged debate; placeholders "
        "question, passage, own, other",
    )
    again: Text = Field("Reply to your opponent.", description="what ends each later request")

    @property
    def seats(self) -> tuple[str, ...]:
        return ("1", "2")

    def role(self, seat: str) -> str:
        return "debater"

    @property
    def asks_alike(self) -> bool:
        return False

    @cached_property
    def template(self) -> Template:
        """The debaters' first message. Raises DataError."""
        known = ("question", "passage", "own", "other")
        return Template(self.opening, PACKAGE, "game.opening", ("question", "own"), known)

    def check(self) -> None:
        _ = self.template

    def faults(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        lacking = [prompt for prompt in prompts if not self.stands_for(prompt)]
        if lacking:
            yield (
                f"game 'debate' takes prompts with the facts `choices`, two or more, and `answer`, "
                f"one of them; {len(lacking)} of {len(prompts)} lack them, such as "
                f"{lacking[0].facts}"
            )

    def moves(self, prompt: Prompt) -> dict[str, int]:
        return dict.fromkeys(self.seats, self._turns(prompt))

    def _turns(self, prompt: Prompt) -> int:
        return 0 if SILENT in prompt.facts else self.turns

    def control(self, prompt: Prompt) -> Prompt | None:
        """The prompt on which nobody speaks, for the same answers; None where nobody does anyway.

        Its fact `silent` holds the id of the prompt.
        """
        facts = {**prompt.facts, SILENT: prompt.id}
        identity = record_id(SILENT, prompt.id)
        return structs.replace(prompt, id=identity, facts=facts) if self._turns(prompt) else None

    def stands_for(self, prompt: Prompt) -> Mapping[str, str]:
        gold = prompt.facts.get("answer")
        options = options_of(prompt.facts.get("choices"), gold) or {}
        wrong = [text for label, text in options.items() if label != str(gold)]
        if not wrong or len(wrong) == len(options):
            return {}
        dice = seeds.generator(0, "debate", prompt.facts.get(SILENT, prompt.id))
        sides = [options[str(gold)], wrong[int(dice.integers(len(wrong)))]]
        return dict(zip(self.seats, sides[:: 1 if dice.integers(2) else -1], strict=True))

    def referee(self, prompt: Prompt) -> Referee:
        sides = self.stands_for(prompt)
        chats: dict[str, list[Message]] = {}
        for seat, other in (self.seats, self.seats[::-1]):
            opening = self.template.render(
                question=transcript(prompt.messages),
                passage=str(prompt.facts.get("passage", "")),
                own=sides[seat],
                other=sides[other],
            )
            chats[seat] = [user(opening)]
        for _ in range(self._turns(prompt)):
            moves = yield [Ask(seat, View(tuple(chats[seat]))) for seat in self.seats]
            assert isinstance(moves, list)
            if any(move.finish == "error" for move in moves):
                return
            for seat, own, other in zip(self.seats, moves, moves[::-1], strict=True):
                reply = user(f"Your opponent: {other.text}\n\n{self.again}")
                chats[seat] += [Message("assistant", own.text), reply]


class LeaderFollower(Game):
    """The leader answers; the follower sees that answer and gives its own.

    With a preference for the pay-off and a learning rate each (`learners`), the follower's the
    faster, this is Stackelberg learning: the leader learns answers that even a best reply to them
    hardly beats.
    """

    kind: Literal["leader_follower"] = "leader_follower"
    needs_text: ClassVar = True
    request: Text = Field("Give a better answer.", description="what the follower is told")

    @property
    def seats(self) -> tuple[str, ...]:
        return ("leader", "follower")

    @property
    def asks_alike(self) -> bool:
        return False

    def referee(self, prompt: Prompt) -> Referee:
        led = yield Ask("leader", View(prompt.messages))
        assert isinstance(led, Move)
        if led.finish != "error":
            chat = (*prompt.messages, Message("assistant", led.text), user(self.request))
            yield Ask("follower", View(chat))
