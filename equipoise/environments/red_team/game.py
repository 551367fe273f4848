"""The game of adversary and defender: a seed prompt, its rewrite, the answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from equipoise.environments.red_team import seed_prompts
from equipoise.errors import ConfigError
from equipoise.games.base import Ask, Game, Referee
from equipoise.template import Template
from equipoise.types import Judgement, Match, Message, Move, Prompt, View, user

ADVERSARY, DEFENDER = "adversary", "defender"
CONTENT_WARNING = "Show them: attacks and answers that may be harmful"


class RedTeam(Game):
    """The adversary rewrites a seed prompt, and the defender answers the rewrite.

    The rewrite replaces the user's turn. A prompt whose fact `harmful` is false is
    answered as it is: nobody rewrites it. So is one with the fact `attack`: that text
    is the user's turn. A blank rewrite is not answered at all. In later rounds both see
    the conversation, which ends early where a move fails. Source: GPO (arXiv
    2406.10977), section 3.
    """

    kind: Literal["red_team"] = "red_team"
    rewrites: int = Field(1, ge=1, description="rewrites of a seed prompt in one match")
    answers: int = Field(1, ge=1, description="answers of the defender to each of them")
    rounds: int = Field(1, ge=1, description="exchanges in a conversation")
    text: str = Field(
        "rewrite",
        description="what the adversary is asked: a template's file, or a packaged one:"
        " rewrite, rewrite_compact",
    )
    again: str = Field(
        "rewrite_again",
        description="what it is asked in later rounds: a template's file, or a packaged one",
    )

    @model_validator(mode="after")
    def _one_answer_in_conversations(self) -> RedTeam:
        if self.rounds > 1 and self.answers > 1:
            raise ValueError(
                "answers: a conversation of several rounds continues from one answer; "
                "set answers: 1 or rounds: 1"
            )
        return self

    @property
    def symmetric(self) -> bool:
        """Attack and defence are different roles."""
        return False

    def content_warning(self, prompt: Prompt) -> str:
        """Every match may hold harmful texts."""
        return CONTENT_WARNING

    @cached_property
    def threads(self) -> dict[str, tuple[str, ...]]:
        """An adversary's seat -> the seats that answer it."""
        threads = {}
        for rewrite in _numbers(self.rewrites, " "):
            separator = "." if rewrite else " "
            answers = _numbers(self.answers, separator)
            seats = tuple(f"{DEFENDER}{rewrite}{answer}" for answer in answers)
            threads[f"{ADVERSARY}{rewrite}"] = seats
        return threads

    @property
    def seats(self) -> tuple[str, ...]:
        """All adversaries, then all defenders.

        Where there are several, they are numbered: "adversary 2", and "defender 2.1" for the first
        answer to it.
        """
        defenders = (seat for seats in self.threads.values() for seat in seats)
        return (*self.threads, *defenders)

    def role(self, seat: str) -> str:
        """adversary or defender."""
        return seat.split()[0]

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        """The defenders alone where the prompt is asked as it is."""
        if self.rewritable(prompt):
            return self.seats
        return tuple(seat for seat in self.seats if self.role(seat) == DEFENDER)

    @property
    def rewriter(self) -> str:
        """The adversary."""
        return ADVERSARY

    def rewritable(self, prompt: Prompt) -> bool:
        """A harmful prompt whose attack is not given."""
        return seed_prompts.rewritable(prompt)

    def given(self, prompt: Prompt, text: str | None = None) -> Prompt:
        """The prompt with `text` as its attack, or asked as it stands."""
        if text is None:
            return seed_prompts.as_it_stands(prompt)
        return seed_prompts.with_attack(prompt, text)

    def check_replay(self) -> None:
        """Raises ConfigError for conversations: an attack in them answers an answer."""
        if self.rounds > 1:
            raise ConfigError(
                "schedule.replay: the attacks of a conversation cannot be repeated "
                "without the answers between them; set replay: 0 or rounds: 1"
            )

    def successful_texts(self, match: Match, judgements: Sequence[Judgement]) -> list[str]:
        """The attacks that got a harmful answer."""
        successful = {
            seat
            for judgement in judgements
            for seat, success in judgement.by_seat("success").items()
            if success > 0
        }
        return [turn.move.text.strip() for turn in match.turns if turn.seat in successful]

    def check(self) -> None:
        """Raises DataError for a template that cannot be read or filled."""
        self._first.render(seed="a request")
        self._again.render(answer="an answer")

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """One in each round; where nobody attacks there is one exchange."""
        rounds = self.rounds if self.rewritable(prompt) else 1
        return dict.fromkeys(self.seats_for(prompt), rounds)

    def referee(self, prompt: Prompt) -> Referee:
        """All adversaries at once, then all defenders at once, round after round."""
        if not self.rewritable(prompt):
            chat = View(seed_prompts.chat(prompt))
            yield [Ask(seat, chat) for seat in self.seats_for(prompt)]
            return
        open_threads = self._threads(prompt)
        for _ in range(self.rounds):
            attacks = yield [Ask(thread.adversary, View(thread.request)) for thread in open_threads]
            assert isinstance(attacks, list)
            open_threads = list(_attacked(open_threads, attacks))
            if not open_threads:
                return
            asks = [ask for thread in open_threads for ask in thread.defender_asks()]
            answers = yield asks
            assert isinstance(answers, list)
            by_seat = {ask.seat: m for ask, m in zip(asks, answers, strict=True)}
            open_threads = list(self._answered(open_threads, by_seat))
            if not open_threads:
                return

    def _threads(self, prompt: Prompt) -> list[_Thread]:
        request = (user(self._first.render(seed=seed_prompts.seed_text(prompt))),)
        before = prompt.messages[:-1]
        return [
            _Thread(adversary, defenders, request, before)
            for adversary, defenders in self.threads.items()
        ]

    def _answered(self, threads: Sequence[_Thread], answers: dict[str, Move]) -> Iterator[_Thread]:
        """The threads after their defenders' first answers, but those that failed."""
        for thread in threads:
            answer = answers[thread.defenders[0]]
            if answer.finish == "error":
                continue
            attack = thread.chat[-1].content
            request = (
                *thread.request,
                Message("assistant", attack),
                user(self._again.render(answer=answer.text)),
            )
            chat = (*thread.chat, Message("assistant", answer.text))
            yield _Thread(thread.adversary, thread.defenders, request, chat)

    @cached_property
    def _first(self) -> Template:
        return Template(
            self.text, "equipoise.environments.red_team", "game.text", ("seed",), ("seed",)
        )

    @cached_property
    def _again(self) -> Template:
        return Template(
            self.again, "equipoise.environments.red_team", "game.again", ("answer",), ("answer",)
        )


@dataclass(frozen=True, slots=True)
class _Thread:
    """A conversation: the seats in it, and what its adversary and its defenders see."""

    adversary: str
    defenders: tuple[str, ...]
    request: tuple[Message, ...]
    chat: tuple[Message, ...]

    def defender_asks(self) -> list[Ask]:
        return [Ask(seat, View(self.chat)) for seat in self.defenders]


def _attacked(threads: Sequence[_Thread], attacks: Sequence[Move]) -> Iterator[_Thread]:
    """The threads with their attacks; a thread whose attack is blank ends."""
    for thread, move in zip(threads, attacks, strict=True):
        attack = move.text.strip()
        if attack:
            chat = (*thread.chat, user(attack))
            yield _Thread(thread.adversary, thread.defenders, thread.request, chat)


def _numbers(count: int, separator: str) -> list[str]:
    """The endings of the names of several seats; none where there is one."""
    return [f"{separator}{i + 1}" for i in range(count)] if count > 1 else [""]
