"""The learners of each generation: all at once, one, in turn, or each until it gains no more."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import fmean
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from equipoise.component import Component
from equipoise.system.effects import Text


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """A generation's turn: the learners, and the mean reward of each one's moves."""

    names: tuple[str, ...]
    rewards: Mapping[str, float] = field(default_factory=dict)


class Turns(Component):
    """Chooses the learners of a generation. The others play as they are and grow no older."""

    KINDS: ClassVar = {
        "everyone": "equipoise.runs.turns:Everyone",
        "one": "equipoise.runs.turns:One",
        "alternate": "equipoise.runs.turns:Alternate",
        "best_response": "equipoise.runs.turns:BestResponse",
    }

    by_rewards: ClassVar[bool] = False
    """Whether it reads the rewards of those that it names, who must then learn from episodes."""

    @abstractmethod
    def next_learners(self, learners: Sequence[str], taken: Sequence[TurnTaken]) -> tuple[str, ...]:
        """The learners in generation len(taken), a pure function of the turns taken before it."""

    def expected_learners(self, learners: Sequence[str], generations: int) -> list[tuple[str, ...]]:
        """The learners of each of so many generations, as far as the settings alone decide it."""
        taken: list[TurnTaken] = []
        for _ in range(generations):
            taken.append(TurnTaken(self.next_learners(learners, taken)))
        return [turn.names for turn in taken]

    def named_players(self) -> tuple[str, ...]:
        """The players that the settings name."""
        return ()


class Everyone(Turns):
    """All learners learn in every generation."""

    kind: Literal["everyone"] = "everyone"

    def next_learners(self, learners: Sequence[str], taken: Sequence[TurnTaken]) -> tuple[str, ...]:
        return tuple(learners)


class One(Turns):
    """One learner learns in every generation; the others stay as they are."""

    kind: Literal["one"] = "one"
    player: Text = Field(description="who learns")

    def next_learners(self, learners: Sequence[str], taken: Sequence[TurnTaken]) -> tuple[str, ...]:
        return (self.player,)

    def named_players(self) -> tuple[str, ...]:
        return (self.player,)


class Alternate(Turns):
    """Each learns for so many generations against the others, frozen, in turn (GPO: D, then A)."""

    kind: Literal["alternate"] = "alternate"
    steps: dict[Text, int] = Field(
        min_length=1, description="player -> generations of its phase, in order of the turns"
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

    def next_learners(self, learners: Sequence[str], taken: Sequence[TurnTaken]) -> tuple[str, ...]:
        place = len(taken) % sum(self.steps.values())
        for name, count in self.steps.items():
            if place < count:
                return (name,)
            place -= count
        raise AssertionError("the phases cover the cycle")

    def named_players(self) -> tuple[str, ...]:
        return tuple(self.steps)


class BestResponse(Turns):
    """Each in turn learns a best reply, until rewards no longer rise, or `most` generations.

    They no longer rise when the mean of the last `window` generations is not above that of the
    `window` before by more than `gain`.
    """

    kind: Literal["best_response"] = "best_response"
    order: tuple[Text, ...] = Field(
        min_length=1, description="players in order of the turns, each once"
    )
    window: int = Field(
        10, ge=1, description="generations whose mean rewards are compared with those before them"
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

    def next_learners(self, learners: Sequence[str], taken: Sequence[TurnTaken]) -> tuple[str, ...]:
        if not taken:
            return (self.order[0],)
        (last,) = taken[-1].names
        phase = list(takewhile(lambda turn: turn.names == (last,), reversed(taken)))
        rewards = [turn.rewards[last] for turn in phase]
        if len(phase) < self.most and not self._has_settled(rewards):
            return (last,)
        return (self.order[(self.order.index(last) + 1) % len(self.order)],)

    def expected_learners(self, learners: Sequence[str], generations: int) -> list[tuple[str, ...]]:
        """The learners as if rewards never settled, so that every phase has `most` generations."""
        phases = [t // self.most for t in range(generations)]
        return [(self.order[phase % len(self.order)],) for phase in phases]

    def _has_settled(self, rewards: Sequence[float]) -> bool:
        late = rewards[: self.window]
        early = rewards[self.window : 2 * self.window]
        return len(early) == self.window and fmean(late) <= fmean(early) + self.gain

    def named_players(self) -> tuple[str, ...]:
        return self.order
