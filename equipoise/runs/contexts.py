"""What judges and schedules are given to know of a generation."""

from __future__ import annotations

from equipoise import seeds
from equipoise.evaluation.measures import Measures
from equipoise.judges.base import JudgeContext
from equipoise.matches.base import MatchContext
from equipoise.players.population import Population
from equipoise.runs.config import RunConfig
from equipoise.runs.executors.sharing import Sharing
from equipoise.runs.ledger import Ledger
from equipoise.runs.memory import Memory
from equipoise.runs.roster import Roster
from equipoise.types import PlayerId


class Contexts:
    """The contexts of every generation of a run."""

    def __init__(
        self,
        config: RunConfig,
        ledger: Ledger,
        roster: Roster,
        population: Population,
        memory: Memory,
        sharing: Sharing | None = None,
    ) -> None:
        """`sharing`: who does the players' model work; None: this process."""
        self._sharing = sharing or Sharing(None, config.unit_rows)
        self._config = config
        self._ledger = ledger
        self._roster = roster
        self._population = population
        self._memory = memory

    def judge(self, t: int) -> JudgeContext:
        """What the judges of generation t may know and ask."""
        return JudgeContext(
            game=self._config.game,
            seed=seeds.child(self._config.seed, "bench", t),
            pool=self._roster.players(t),
            ratings=self.training_ratings(t),
            resources=self._population.resources,
            actor=self._population.actor,
            act=self._sharing.act,
        )

    def match(self, t: int) -> MatchContext:
        """What the schedule may know in generation t."""
        learners = self._roster.learners(t)
        past = [old for learner in learners for old in self._roster.past(learner)[1:]]
        measures = self._measures(self._roster.last_measured(t))
        remembers = self._config.schedule.remembers
        return MatchContext(
            game=self._config.game,
            players=self._roster.players(t),
            history=past,
            seed=seeds.child(self._config.seed, "seats", t),
            ratings=self.training_ratings(t),
            mixture={} if measures is None else _mixture(measures),
            win_rate={} if measures is None else _win_rates(measures),
            learners=learners,
            successful_texts=self._memory.successful_texts(t) if remembers else (),
            turn=[player.name for player in self._roster.turn(t)],
        )

    def _measures(self, t: int) -> Measures | None:
        """What was measured of generation t; None before it is."""
        facts = self._ledger.finished(f"{t}/measure")
        return Measures.read(facts) if facts else None

    def training_ratings(self, t: int) -> dict[str, float]:
        """The players' ratings before the matches of generation t, by name: at first those that
        they start with, empty where they start alike.
        """
        if t == 0:
            names = list(self._config.players)
            return self._config.training_ratings.initial_ratings(names)
        rated = self._ledger.finished(f"{t - 1}/rate")
        if rated is None:
            return {}
        return {rating["name"]: rating["value"] for rating in rated["ratings"]}


def _mixture(measures: Measures) -> dict[PlayerId, float]:
    """Of one league, or of each role's, whose players have different names."""
    weights = dict(measures.mixture)
    for mixture in measures.role_mixtures.values():
        weights |= mixture
    return {PlayerId.parse(name): weight for name, weight in weights.items()}


def _win_rates(measures: Measures) -> dict[tuple[PlayerId, PlayerId], float]:
    """(first, second) -> P(first beats second), from pay-offs in [−1, 1]."""
    players = [PlayerId.parse(name) for name in measures.players]
    rates = {}
    # A game with roles has players without a pay-off table.
    for first, row in zip(players, measures.payoff, strict=False):
        for second, payoff in zip(players, row, strict=True):
            rates[first, second] = (1 + payoff) / 2
    return rates
