"""What an evaluation is: it measures a generation, and says what the league of all generations looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.payoffs.table import Result
from equipoise.players.base import Shelf
from equipoise.ratings.base import Ratings
from equipoise.solvers.base import Solver
from equipoise.types import Judgement, Match, PlayerId

Scores = Mapping[str, Sequence[float | None]]  # prompt id -> the scores of a player's answers, None where unjudged
Met = tuple[Match, Judgement]  # a played match, and the judge's word on it


class Arena(Protocol):
    """What an evaluation may ask of the run."""

    @property
    def game(self) -> Game:
        """The run's game."""
        ...

    @property
    def solver(self) -> Solver:
        """How the run finds equilibria."""
        ...

    @property
    def ratings(self) -> Ratings:
        """How the run rates players."""
        ...

    def judge_of(self, player: PlayerId) -> Judge:
        """The judge that teaches this player."""
        ...

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, at generation t."""
        ...

    def others(self) -> list[PlayerId]:
        """The players that do not learn."""
        ...

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself that were measured, newest first."""
        ...

    def scores(self, player: PlayerId, samples: int, judge: Judge, part: str = "held_out") -> Scores:
        """Play the prompts of a part with `player` in every seat, and judge it; done once, then remembered.

        `part` is "held_out", or "test" for the prompts that are kept for one last test.
        """
        ...

    def meetings(self, first: PlayerId, second: PlayerId, samples: int, judge: Judge) -> list[Result]:
        """What a comparing judge says of two players' held-out answers, the i-th of one beside the i-th of the other.

        Values in [−1, 1] are what `first` gets. Done once, then remembered.
        """
        ...

    def seated(self) -> Mapping[str, PlayerId]:
        """role -> who plays it now. Raises ConfigError where the schedule gives no role to a player."""
        ...

    def played(
        self, roles: Mapping[str, PlayerId], prompts: Literal["harmful", "harmless"], judge: Judge, raw: bool = False
    ) -> list[Met]:
        """Held-out matches with these players in the roles, judged; done once, then remembered.

        `raw`: harmful prompts are asked as they are, nobody rewrites them.
        """
        ...

    def met(self, adversary: PlayerId, defender: PlayerId, prompts: int, judge: Judge) -> list[Met]:
        """One adversary's attacks on one defender, from so many held-out harmful prompts; remembered likewise."""
        ...

    @property
    def shelf(self) -> Shelf:
        """What is open in the run."""
        ...

    def probabilities(self, player: PlayerId, actions: Sequence[str]) -> np.ndarray:
        """A tabular player's probabilities of `actions`. Raises ConfigError for a player that has none."""
        ...


class Evaluation(Component):
    """Measures a newly born generation of each learner."""

    KINDS: ClassVar = {
        "held_out": "equipoise.evaluate.held_out:HeldOut",
        "red_team": "equipoise.evaluate.red_team:RedTeaming",
        "finite": "equipoise.evaluate.finite:Finite",
        "bimatrix": "equipoise.evaluate.two_seats:TwoSeats",
    }

    def matches(self, held_out: int, seats: int) -> int:
        """How many held-out matches a player plays, given so many held-out prompts and seats."""
        return 0

    def meetings(self, held_out: int) -> int:
        """How many times a comparing judge is shown two players' held-out answers beside each other."""
        return 0

    every: int = Field(1, ge=1, description="generations between two measurements; the first and the last are measured")
    judge: Judge | None = Field(None, description="judges what is measured; null: whoever teaches the learner")
    selects: ClassVar[bool] = False
    """Whether `select` chooses a player to test."""

    def select(self, arena: Arena, t: int) -> dict[str, Any]:
        """The best of all players and generations up to t on held-out prompts, and how it does on the test prompts."""
        raise TypeError(f"{type(self).__name__} selects nobody")

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """Numbers about generation `t`, as plain JSON values; `score`, `win_rate` and `exploitability` are watched."""
        raise TypeError(f"{type(self).__name__} must define measure()")
