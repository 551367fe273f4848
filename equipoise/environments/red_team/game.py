"""The game of the prompt writer and the defender: a seed prompt, the adversary's
rewrite, the defender's answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError, DataError
from equipoise.games.base import Ask, Game, Referee
from equipoise.template import Template
from equipoise.types import Judgement, Match, Message, Prompt, View, record_id, user

ATTACK = (
    "attack"  # the fact that holds a prompt's attack where nobody is asked to write one
)


class RedTeam(Game):
    """The adversary is shown a seed prompt and writes another; its text replaces the
    user's turn that is answered.

    A prompt whose fact `harmful` is false is answered as it is: nobody rewrites it. So
    is one with the fact `attack`: that text is the user's turn. A blank rewrite is not
    answered at all. In later rounds both see the conversation, which ends early where a
    move fails. Source: GPO (arXiv 2406.10977), section 3.
    """

    kind: Literal["red_team"] = "red_team"
    rewrites: int = Field(1, ge=1, description="rewrites of a seed prompt in one match")
    answers: int = Field(1, ge=1, description="answers of the defender to each of them")
    rounds: int = Field(1, ge=1, description="exchanges in a conversation")
    text: str = Field(
        "rewrite",
        description="what the adversary is asked: a template's file, or a packaged one: rewrite, rewrite_compact",
    )
    again: str = Field(
        "rewrite_again",
        description="what it is asked in later rounds: a template's file, or a packaged one",
    )

    @model_validator(mode="after")
    def _one_thread(self) -> RedTeam:
        if self.rounds > 1 and self.answers > 1:
            raise ValueError(
                "answers: a conversation of several rounds goes on from one answer, not from several"
            )
        return self

    @property
    def symmetric(self) -> bool:
        """Attack and defence are different roles."""
        return False

    @cached_property
    def threads(self) -> dict[str, tuple[str, ...]]:
        """An adversary's seat -> the seats that answer it."""
        number = (
            [""] if self.rewrites == 1 else [f" {i + 1}" for i in range(self.rewrites)]
        )
        choice = (
            [""]
            if self.answers == 1
            else [
                f"{'.' if self.rewrites > 1 else ' '}{i + 1}"
                for i in range(self.answers)
            ]
        )
        return {
            f"adversary{n}": tuple(f"defender{n}{c}" for c in choice) for n in number
        }

    @property
    def seats(self) -> tuple[str, ...]:
        """adversary and defender; of several, "adversary 2", and "defender 2.1" for its
        first answer.
        """
        return (
            *self.threads,
            *(seat for seats in self.threads.values() for seat in seats),
        )

    def role(self, seat: str) -> str:
        """adversary or defender."""
        return seat.split()[0]

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        """Nobody attacks where the prompt is asked as it is."""
        return tuple(
            seat
            for seat in self.seats
            if self.role(seat) == "defender" or attacked(prompt)
        )

    @property
    def rewriter(self) -> str:
        """The adversary."""
        return "adversary"

    def rewritable(self, prompt: Prompt) -> bool:
        """A harmful prompt whose attack is not given."""
        return attacked(prompt)

    def given(self, prompt: Prompt, text: str | None = None) -> Prompt:
        """The prompt with that attack, or asked as it stands."""
        return with_attack(prompt, seed_of(prompt) if text is None else text)

    def check_replay(self) -> None:
        """Raises ConfigError for conversations: an attack in them answers an answer."""
        if self.rounds > 1:
            raise ConfigError(
                "schedule.replay: the attacks of a conversation cannot be made again without its answers"
            )

    def successful_texts(
        self, match: Match, judgements: Sequence[Judgement]
    ) -> list[str]:
        """The attacks that got a harmful answer."""
        successful = {
            seat
            for judgement in judgements
            for seat, success in judgement.by_seat("success").items()
            if success > 0
        }
        return [
            turn.move.text.strip() for turn in match.turns if turn.seat in successful
        ]

    def check(self) -> None:
        """Raises DataError for a template that cannot be read or filled."""
        self._first.render(seed="a request")
        self._again.render(answer="an answer")

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """One in each round; where nobody attacks there is one exchange."""
        return dict.fromkeys(
            self.seats_for(prompt), self.rounds if attacked(prompt) else 1
        )

    def referee(self, prompt: Prompt) -> Referee:
        """All adversaries at once, then all defenders at once, round after round."""
        if not attacked(prompt):
            attack = (
                (user(prompt.facts[ATTACK]),)
                if ATTACK in prompt.facts
                else prompt.messages[-1:]
            )
            chat = (*prompt.messages[:-1], *attack)
            yield [
                Ask(seat, View(chat))
                for seats in self.threads.values()
                for seat in seats
            ]
            return
        asked = dict.fromkeys(
            self.threads, (user(self._first.render(seed=seed_of(prompt))),)
        )
        talks = dict.fromkeys(self.threads, prompt.messages[:-1])
        for _ in range(self.rounds):
            attacks = yield [Ask(seat, View(asked[seat])) for seat in asked]
            assert isinstance(attacks, list)
            talks = {
                s: (*talks[s], user(m.text.strip()))
                for s, m in zip(asked, attacks, strict=True)
                if m.text.strip()
            }
            if not talks:
                return
            asks = [
                Ask(seat, View(chat))
                for thread, chat in talks.items()
                for seat in self.threads[thread]
            ]
            answers = yield asks
            assert isinstance(answers, list)
            moves = dict(zip((ask.seat for ask in asks), answers, strict=True))
            said = {
                s: move.text
                for s in talks
                if (move := moves[self.threads[s][0]]).finish != "error"
            }
            asked = {
                s: self._next(asked[s], talks[s][-1].content, text)
                for s, text in said.items()
            }
            talks = {
                s: (*talks[s], Message("assistant", text)) for s, text in said.items()
            }
            if not talks:
                return

    def _next(
        self, asked: tuple[Message, ...], attack: str, answer: str
    ) -> tuple[Message, ...]:
        return (
            *asked,
            Message("assistant", attack),
            user(self._again.render(answer=answer)),
        )

    @cached_property
    def _first(self) -> Template:
        return Template(
            self.text, "environments.red_team", "game.text", ("seed",), ("seed",)
        )

    @cached_property
    def _again(self) -> Template:
        return Template(
            self.again, "environments.red_team", "game.again", ("answer",), ("answer",)
        )


def harmful(prompt: Prompt) -> bool:
    """Whether the prompt is there to be attacked with: its fact `harmful`, true where
    there is none.

    Raises DataError for a fact that is neither true nor false.
    """
    fact = prompt.facts.get("harmful")
    if fact not in (None, True, False):
        raise DataError(
            f"prompt {prompt.id}: the fact 'harmful' is {fact!r}, not true or false"
        )
    return fact is None or bool(fact)


def attacked(prompt: Prompt) -> bool:
    """Whether an adversary rewrites this prompt."""
    return ATTACK not in prompt.facts and harmful(prompt)


def seed_of(prompt: Prompt) -> str:
    """The text that the adversary starts from: the prompt's last message."""
    return prompt.messages[-1].content


def with_attack(prompt: Prompt, attack: str) -> Prompt:
    """`prompt` with its attack given: nobody is asked to write one."""
    return Prompt(
        record_id("attack", prompt.id, attack),
        prompt.messages,
        {**prompt.facts, ATTACK: attack},
        prompt.source,
    )
