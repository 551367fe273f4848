"""The base of evaluations, which measure a generation, and the arena in which they do."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field, field_validator

from equipoise.component import Component
from equipoise.errors import ConfigError
from equipoise.evaluation.last_test import Criterion, SelectionRecord
from equipoise.evaluation.measures import Measures
from equipoise.evaluation.sets.base import Benchmark
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.models.resources import Resources
from equipoise.payoffs.table import Meeting
from equipoise.ratings.base import Ratings
from equipoise.solvers.base import Solver
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Message, PlayerId, Prompt, Turn

Scores = Mapping[
    str, Sequence[float | None]
]  # prompt id -> the scores of a player's answers, None where unjudged
JudgedMatch = tuple[Match, Judgement]  # a played match, and the judge's word on it


@dataclass(frozen=True)
class EvaluationPlan:
    """A run before it is played: who is measured when, and on what.

    `rosters` are the learners, each as old as it is, at every measurement in order; `roles` says
    which player plays a role, where the schedule says it; `held_out` and `test` are the prompts of
    those parts.
    """

    game: Game
    rosters: Sequence[Sequence[PlayerId]]
    others: Sequence[PlayerId]
    roles: Mapping[str, str]
    held_out: Sequence[Prompt]
    test: Sequence[Prompt]
    judge_of: Callable[[str], Judge]

    @property
    def judges(self) -> list[Judge]:
        """Every judge that teaches somebody, each once."""
        return list(
            {
                judge.name: judge for judge in (self.judge_of(p.name) for p in self.first_measured)
            }.values()
        )

    @property
    def first_measured(self) -> Sequence[PlayerId]:
        """The players measured first: the learners, or everybody where nobody learns."""
        return self.rosters[0] or self.others

    @property
    def league(self) -> list[PlayerId]:
        """Everyone who is measured at some time, and the players that do not learn."""
        return [*{player: None for roster in self.rosters for player in roster}, *self.others]


@dataclass(frozen=True)
class Workload:
    """An upper bound of work: matches, their moves, and (judge, matches that it judges, their
    seats). `moves_of`: player's name -> its moves, where that is known; else each may make all.
    `meetings` are further matches, which set recorded answers side by side and sample none.
    """

    matches: int = 0
    moves: int = 0
    judged: Sequence[tuple[Judge, int, int]] = ()
    moves_of: Mapping[str, int] | None = None
    meetings: int = 0


class Arena(Protocol):
    """The run as an evaluation sees it. Whatever is played or judged is recorded and remembered, so
    that nothing is done twice.
    """

    game: Game
    utility: str
    """The judges' utility that is played for."""
    solver: Solver
    ratings: Ratings
    player_of_role: Mapping[str, str]
    """role -> the name of its player, where the schedule says so."""

    @property
    def held_out(self) -> list[Prompt]:
        """The held-out prompts."""
        ...

    @property
    def test(self) -> list[Prompt]:
        """The prompts kept for one last test."""
        ...

    @property
    def resources(self) -> Resources:
        """Everything that is open in the run."""
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

    def players_by_role(self, t: int) -> Mapping[str, PlayerId]:
        """role -> the player that has it in generation t.

        Raises ConfigError where the schedule gives no role to a player.
        """
        ...

    def opponent_weights(self, player: PlayerId, t: int) -> Mapping[PlayerId, float]:
        """The mixture against which the loss of generation t sets a learner's answers, weights
        adding up to one; empty where nothing says it.
        """
        ...

    def answers(self, player: PlayerId, samples: int) -> Mapping[str, Sequence[Turn]]:
        """Prompt id -> the player's held-out answers, alone in every seat."""
        ...

    def scores(
        self, player: PlayerId, samples: int, judge: Judge, part: str = "held_out"
    ) -> Scores:
        """The scores of a player's answers to the prompts of a part, "held_out" or "test"."""
        ...

    def meetings(
        self, first: PlayerId, second: PlayerId, samples: int, judge: Judge
    ) -> list[Meeting]:
        """A comparing judge's verdicts on two players' held-out answers, the i-th of one beside the
        i-th of the other; values in [−1, 1] are what `first` gets.
        """
        ...

    def play(
        self,
        roles: Mapping[str, PlayerId],
        prompts: Sequence[Prompt],
        judge: Judge,
        t: int,
        label: str,
        temperature: float | None = None,
    ) -> list[JudgedMatch]:
        """Matches on these prompts with these players in the roles, judged as of generation t.

        `prompts` are held-out prompts or made of them by the game (a prompt that occurs twice is
        played twice); `label` names the selection in the ledger, and another selection must have
        another label. `temperature`: of all players' sampling, None for their own.
        """
        ...

    def probabilities(self, player: PlayerId, actions: Sequence[str]) -> np.ndarray:
        """A tabular player's probabilities of `actions`.

        Raises ConfigError for a player that has none.
        """
        ...

    def logprobs(
        self, player: PlayerId, answers: Sequence[tuple[tuple[Message, ...], str]]
    ) -> list[float]:
        """log p(answer | chat) of each, the end of the turn included, in nats; remembered, so that
        old weights need not stay.

        Raises ConfigError for a player that has no log-probabilities.
        """
        ...


class Evaluation(Component):
    """Measures a newly born generation of each learner."""

    KINDS: ClassVar = {
        "held_out": "equipoise.evaluation.held_out_measures:HeldOut",
        "finite": "equipoise.evaluation.exact:Finite",
        "bimatrix": "equipoise.evaluation.exact:TwoSeats",
        "meta_game": "equipoise.evaluation.meta_game:MetaGame",
        "sets": "equipoise.evaluation.base:SetsOnly",
    }

    READ: ClassVar = ("selects", "plays")

    every: int = Field(
        1,
        ge=1,
        description="generations between two measurements; the first and the last are measured",
    )
    judge: Judge | None = Field(
        None, description="judges what is measured; null: whoever teaches the learner"
    )
    sets: dict[Text, Benchmark] = Field(
        default_factory=dict,
        description="name -> a set of other data that every measured generation is asked as "
        "well, such as {kind: gsm8k, limit: 200}; a null takes away what the recipe "
        "below has",
    )
    select_by: Text | None = Field(
        None,
        description="the one of `sets` (of part: dev) whose headline chooses the best "
        "player of the run; null: the held-out score, where prompts.test is set",
    )
    selects: ClassVar[bool] = False
    """True if `select` plays test prompts."""
    measures: ClassVar[type[Measures]] = Measures
    """The record that `measure` returns, in whatever game."""
    plays: ClassVar[bool] = False
    """True if it plays held-out prompts, so that there must be some."""
    measured_role: ClassVar[str] = ""
    """The role that it measures, whose player the schedule has to name; "": none of its own."""

    @field_validator("sets", mode="before")
    @classmethod
    def _without_nulls(cls, sets: Any) -> Any:
        if not isinstance(sets, Mapping):
            return {} if sets is None else sets
        return {name: given for name, given in sets.items() if given is not None}

    def meets_the_past(self, game: Game) -> bool:
        """True if past generations play anew, so that their weights have to stay."""
        return False

    def solves(self, game: Game) -> bool:
        """True if it finds the league's mixture at equilibrium in this game, or each role's."""
        return False

    def reads(self, game: Game) -> tuple[str, ...]:
        """The settings of the run that it reads, of `solver` and `league_ratings`."""
        return "solver", "league_ratings"

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raises ConfigError where it cannot measure such a run; called before it begins.

        Args: player_of_role: role -> the player that has it, where the schedule says so; judges:
        those that teach; tests: whether a player is to be chosen and tested once at the end.
        """
        role = self.measured_role
        if role and role not in player_of_role:
            of_role = f"schedule.roles gives {role} no player"
            why = of_role if role in game.roles else f"game '{game.kind}' has none"
            raise ConfigError(
                f"evaluate: '{self.kind}' measures the {role}, and {why}; "
                "use evaluate: held_out, or another game"
            )

    def faults(self, game: Game) -> Iterator[str]:
        """Reasons why it cannot measure this game here, one message each; asked before a run
        begins, when the game has been checked.
        """
        return iter(())

    def due(self, t: int, generations: int) -> bool:
        """True if generation t of so many is measured."""
        return t % self.every == 0 or t == generations

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """The work of all its measurements of a run, in matches of their own."""
        return Workload()

    def select(self, arena: Arena, t: int, criterion: Criterion | None = None) -> SelectionRecord:
        """The best of all players and generations up to t by the criterion, None: on held-out
        prompts, and how it does on the test prompts where there are some.
        """
        if criterion is None:
            raise TypeError(f"{type(self).__name__} selects nobody by itself")
        return SelectionRecord.of(criterion)

    @property
    def chooses(self) -> bool:
        """True if what it has measured says which player is the best, by `criterion`."""
        return False

    def criterion(self, recorded: Sequence[Any]) -> Criterion:
        """The scores by which the best is chosen, from all its records of a run so far."""
        raise TypeError(f"{type(self).__name__} chooses nobody")

    def measures_in(self, game: Game) -> type[Measures]:
        """The record that `measure` returns in this game."""
        return self.measures

    @abstractmethod
    def measure(self, arena: Arena, t: int) -> Measures:
        """Measure generation `t`; the record is of type `measures`."""


class SetsOnly(Evaluation):
    """No held-out prompts are played; what is measured are the named `sets`."""

    kind: Literal["sets"] = "sets"

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

    def measure(self, arena: Arena, t: int) -> Measures:
        return Measures()
