"""Who learns now: everyone at once, one alone, turn by turn, or each until it has
answered the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import fmean
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from equipoise.component import Component


@dataclass(frozen=True, slots=True)
class Taken:
    """A generation's turn: who learned, and the mean reward that each of them was paid
    for its moves.
    """

    names: tuple[str, ...]
    rewards: Mapping[str, float] = field(default_factory=dict)


class Turns(Component):
    """Decides who learns in a generation. The others play on as they are, and grow no
    older.
    """

    KINDS: ClassVar = {
        "everyone": "equipoise.run.turns:Everyone",
        "one": "equipoise.run.turns:One",
        "alternate": "equipoise.run.turns:Alternate",
        "best_response": "equipoise.run.turns:BestResponse",
    }

    by_rewards: ClassVar[bool] = False
    """Whether it reads the rewards of those that it names, who must then learn from
    episodes.
    """

    def who(self, learners: Sequence[str], before: Sequence[Taken]) -> tuple[str, ...]:
        """Who of `learners` learns in generation len(before); a pure function of the
        turns that were taken before.
        """
        raise TypeError(f"{type(self).__name__} must define who()")

    def expected(
        self, learners: Sequence[str], generations: int
    ) -> list[tuple[str, ...]]:
        """Who will learn in each of so many generations, as far as the settings alone
        say it.
        """
        before: list[Taken] = []
        for _ in range(generations):
            before.append(Taken(self.who(learners, before)))
        return [taken.names for taken in before]

    def named(self) -> tuple[str, ...]:
        """The players that the settings name."""
        return ()


class Everyone(Turns):
    """All learners learn in every generation."""

    kind: Literal["everyone"] = "everyone"

    def who(self, learners: Sequence[str], before: Sequence[Taken]) -> tuple[str, ...]:
        """All of them."""
        return tuple(learners)


class One(Turns):
    """One learner learns; the others stay as they are, such as an adversary against a
    frozen defender.
    """

    kind: Literal["one"] = "one"
    player: str = Field(description="who learns")

    def who(self, learners: Sequence[str], before: Sequence[Taken]) -> tuple[str, ...]:
        """Always the same one."""
        return (self.player,)

    def named(self) -> tuple[str, ...]:
        """The one."""
        return (self.player,)


class Alternate(Turns):
    """Each in turn learns for so many generations against the others, frozen; then the
    first again (GPO: D, then A).
    """

    kind: Literal["alternate"] = "alternate"
    steps: dict[str, int] = Field(
        min_length=1,
        description="player -> generations of its phase, in order of the turns",
    )

    @field_validator("steps")
    @classmethod
    def _positive(cls, steps: dict[str, int]) -> dict[str, int]:
        for name, count in steps.items():
            if count < 1:
                raise ValueError(
                    f"a phase of {count} generations for {name} would never end; at least 1"
                )
        return steps

    def who(self, learners: Sequence[str], before: Sequence[Taken]) -> tuple[str, ...]:
        """Whose phase it is."""
        place = len(before) % sum(self.steps.values())
        for name, count in self.steps.items():
            if place < count:
                return (name,)
            place -= count
        raise AssertionError("the phases cover the cycle")

    def named(self) -> tuple[str, ...]:
        """Those with a phase."""
        return tuple(self.steps)


class BestResponse(Turns):
    """Each in turn learns until its rewards no longer rise, at most `most` generations:
    a best reply to the others.

    They no longer rise when the mean of the last `window` generations is not above that
    of the `window` before by more than `gain`.
    """

    kind: Literal["best_response"] = "best_response"
    order: tuple[str, ...] = Field(
        min_length=1, description="players in order of the turns, each once"
    )
    window: int = Field(
        10,
        ge=1,
        description="generations whose mean rewards are compared with those before them",
    )
    gain: float = Field(
        0.01, ge=0, description="a rise of the mean reward that is worth going on for"
    )
    most: int = Field(
        200, ge=1, description="generations after which the turn passes on in any case"
    )

    by_rewards: ClassVar = True

    @field_validator("order")
    @classmethod
    def _once(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(order)) < len(order):
            raise ValueError("name each player once")
        return order

    def who(self, learners: Sequence[str], before: Sequence[Taken]) -> tuple[str, ...]:
        """Whoever has not answered yet."""
        if not before:
            return (self.order[0],)
        (now,) = before[-1].names
        phase = list(takewhile(lambda taken: taken.names == (now,), reversed(before)))
        if len(phase) < self.most and not self._settled(
            [taken.rewards[now] for taken in phase]
        ):
            return (now,)
        return (self.order[(self.order.index(now) + 1) % len(self.order)],)

    def expected(
        self, learners: Sequence[str], generations: int
    ) -> list[tuple[str, ...]]:
        """As if rewards rose for ever, so that every phase has `most` generations."""
        return [
            (self.order[(t // self.most) % len(self.order)],)
            for t in range(generations)
        ]

    def _settled(self, rewards: Sequence[float]) -> bool:
        """Whether rewards, newest first, have stopped rising."""
        late, early = rewards[: self.window], rewards[self.window : 2 * self.window]
        return len(early) == self.window and fmean(late) <= fmean(early) + self.gain

    def named(self) -> tuple[str, ...]:
        """Those in the order."""
        return self.order
