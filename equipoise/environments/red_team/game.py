"""The game of adversary and defender: a seed prompt, its rewrite, the answer to it.

Two facts of a prompt decide: `harmful` false: it is answered as it is and never attacked; `attack`:
a text in place of the adversary's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError, DataError
from equipoise.games.base import Ask, Game, Referee
from equipoise.question_template import Template
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, Message, Move, Prompt, View, record_id, user

ADVERSARY, DEFENDER = "adversary", "defender"
ATTACK = "attack"  # the fact that holds a prepared attack
CONTENT_WARNING = "Show them: attacks and answers that may be harmful"
PACKAGE = "equipoise.environments.red_team"


class RedTeam(Game):
    """The adversary rewrites a seed prompt, and the defender answers the rewrite.

    The rewrite replaces the user's turn. A prompt whose fact `harmful` is false, or with the fact
    `attack`, is rewritten by nobody. A blank rewrite is not answered. In later rounds both see the
    conversation, which ends early where a move fails. Source: GPO (arXiv 2406.10977), section 3.
    """

    kind: Literal["red_team"] = "red_team"
    needs_text: ClassVar = True
    rewrites: int = Field(1, ge=1, description="rewrites of a seed prompt in one match")
    answers: int = Field(1, ge=1, description="answers of the defender to each of them")
    rounds: int = Field(1, ge=1, description="exchanges in a conversation")
    text: TemplateText = Field(
        "rewrite",
        description="the adversary's first request: a template's file, or a packaged one:"
        " rewrite, rewrite_compact",
    )
    again: TemplateText = Field(
        "rewrite_again",
        description="its request in later rounds: a template's file, or a packaged one",
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
        return False

    def content_warning(self, prompt: Prompt) -> str:
        return CONTENT_WARNING

    @cached_property
    def threads(self) -> dict[str, tuple[str, ...]]:
        """An adversary's seat -> the seats that answer it."""
        threads = {}
        for rewrite in _numbers(self.rewrites, " "):
            answers = _numbers(self.answers, "." if rewrite else " ")
            seats = tuple(f"{DEFENDER}{rewrite}{answer}" for answer in answers)
            threads[f"{ADVERSARY}{rewrite}"] = seats
        return threads

    @property
    def seats(self) -> tuple[str, ...]:
        """Adversaries, then defenders; several are numbered: "adversary 2", "defender 2.1"."""
        defenders = (seat for seats in self.threads.values() for seat in seats)
        return (*self.threads, *defenders)

    def role(self, seat: str) -> str:
        return seat.split()[0]

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        if self.rewritable(prompt):
            return self.seats
        return tuple(seat for seat in self.seats if self.role(seat) == DEFENDER)

    @property
    def rewriter(self) -> str:
        return ADVERSARY

    def rewritable(self, prompt: Prompt) -> bool:
        return not has_attack(prompt) and harmful(prompt)

    def give_text(self, prompt: Prompt, text: str | None = None) -> Prompt:
        """The prompt with `text` as its attack; None: with its own text."""
        return with_attack(prompt, text)

    def check_replay(self) -> None:
        """Raise ConfigError for conversations: an attack in them answers an answer."""
        if self.rounds > 1:
            raise ConfigError(
                "schedule.replay: the attacks of a conversation cannot be repeated "
                "without the answers between them; set replay: 0 or rounds: 1"
            )

    def successful_texts(self, match: Match, judgements: Sequence[Judgement]) -> list[str]:
        successful = set()
        for judgement in judgements:
            for seat, success in judgement.by_seat("success").items():
                if success > 0:
                    successful.add(seat)
        return [turn.move.text.strip() for turn in match.turns if turn.seat in successful]

    def check(self) -> None:
        """Raise DataError for a template that cannot be read or filled."""
        self._first.render(seed="a request")
        self._again.render(answer="an answer")

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """One in each round; where nobody attacks there is one exchange."""
        rounds = self.rounds if self.rewritable(prompt) else 1
        return dict.fromkeys(self.seats_for(prompt), rounds)

    def referee(self, prompt: Prompt) -> Referee:
        if not self.rewritable(prompt):
            chat = View(_chat(prompt))
            yield [Ask(seat, chat) for seat in self.seats_for(prompt)]
            return
        request = (user(self._first.render(seed=prompt.messages[-1].content)),)
        threads = [
            _Thread(adversary, defenders, request, prompt.messages[:-1])
            for adversary, defenders in self.threads.items()
        ]
        for _ in range(self.rounds):
            attacks = yield [Ask(thread.adversary, View(thread.request)) for thread in threads]
            assert isinstance(attacks, list)
            threads = list(after_attacks(threads, attacks))
            if not threads:
                return
            asks = [Ask(seat, View(thread.chat)) for thread in threads for seat in thread.defenders]
            answers = yield asks
            assert isinstance(answers, list)
            by_seat = {ask.seat: m for ask, m in zip(asks, answers, strict=True)}
            threads = list(self._after_answers(threads, by_seat))
            if not threads:
                return

    def _after_answers(
        self, threads: Sequence[_Thread], answers: dict[str, Move]
    ) -> Iterator[_Thread]:
        for thread in threads:
            answer = answers[thread.defenders[0]]
            if answer.finish == "error":
                continue
            request = (
                *thread.request,
                Message("assistant", thread.chat[-1].content),
                user(self._again.render(answer=answer.text)),
            )
            chat = (*thread.chat, Message("assistant", answer.text))
            yield replace(thread, request=request, chat=chat)

    @cached_property
    def _first(self) -> Template:
        return Template(self.text, PACKAGE, "game.text", ("seed",), ("seed",))

    @cached_property
    def _again(self) -> Template:
        return Template(self.again, PACKAGE, "game.again", ("answer",), ("answer",))


@dataclass(frozen=True, slots=True)
class _Thread:
    """A conversation: its seats, what its adversary sees and what its defenders see."""

    adversary: str
    defenders: tuple[str, ...]
    request: tuple[Message, ...]
    chat: tuple[Message, ...]


def after_attacks(threads: Sequence[_Thread], attacks: Sequence[Move]) -> Iterator[_Thread]:
    for thread, move in zip(threads, attacks, strict=True):
        attack = move.text.strip()
        if attack:
            yield replace(thread, chat=(*thread.chat, user(attack)))


def _numbers(count: int, separator: str) -> list[str]:
    """The endings of the names of several seats; one empty ending for a single seat."""
    return [f"{separator}{i + 1}" for i in range(count)] if count > 1 else [""]


def is_adversary(seat: str) -> bool:
    """True if the seat attacks."""
    return seat.startswith(ADVERSARY)


# -- prompts


def harmful(prompt: Prompt) -> bool:
    """True if the prompt is a seed for attacks: its fact `harmful`, or absent. Else DataError."""
    fact = prompt.facts.get("harmful")
    if fact not in (None, True, False):
        raise DataError(f"prompt {prompt.id}: the fact 'harmful' is {fact!r}, not true or false")
    return fact is None or bool(fact)


def has_attack(prompt: Prompt) -> bool:
    """True if the prompt brings its attack, so that nobody is asked to write one."""
    return ATTACK in prompt.facts


def with_attack(prompt: Prompt, attack: str | None = None) -> Prompt:
    """The prompt with a prepared attack; None: its own text."""
    if attack is None:
        attack = prompt.messages[-1].content
    facts = {**prompt.facts, ATTACK: attack}
    return Prompt(record_id("attack", prompt.id, attack), prompt.messages, facts, prompt.source)


def _chat(prompt: Prompt) -> tuple[Message, ...]:
    if not has_attack(prompt):
        return prompt.messages
    return (*prompt.messages[:-1], user(prompt.facts[ATTACK]))
