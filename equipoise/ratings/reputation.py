"""Reputation: SPARTA's ratings, in which the judged players are also the judges.

The gap factor |Φ(z) − Φ(−z)| is even in z, so an upset moves the reputations no more than a
favourite's win, and it grows with the gap: reputations drift apart instead of settling. The rule is
kept as published; for strengths use Bradley–Terry, Elo or OpenSkill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erf, fsum, isfinite, sqrt, tanh
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from equipoise.errors import ConfigError, DataError
from equipoise.payoffs.deviation import standard_deviation
from equipoise.ratings.base import Duel, Outcome, Rating, Ratings
from equipoise.seeds import generator
from equipoise.system.effects import Text

Scores = Literal["normal", "static", "dynamic"]
JudgeScores = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class State:
    """Reputations and deviations (points), newest changes, and the duels of this iteration."""

    ratings: Mapping[str, float]
    deviations: Mapping[str, float]
    changes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    duels: int = 0


class Reputation(Ratings):
    """A duel moves both reputations by the judges' margin; a judge's weight is its own reputation.

    s̄_a = w_a · Σ_k R_k s_a^(k) / Σ_k R_k, with w the players' own `weights`; then, for each of the
    two in turn, i ← a against j ← b and then the reverse, where the second sees the first's new
    reputation and both see old deviations: R_i ← max(floor, R_i + (K/c)·(s̄_i −
    s̄_j)·tanh(σ_i)·max(|Φ(z) − Φ(−z)|, ε)), z = (R_i − R_j)/√(σ_i² + σ_j²), K = max(min_k,
    initial_k·decay_rate^(n/decay_steps)), n the iteration's duels with this one. Last, each
    player's σ is the population standard deviation of its newest `window` changes, at least
    `min_deviation`, once there are two. `Reputation(kind="static")` is short for `scores="static"`,
    likewise normal and dynamic. Source: SPARTA, arXiv 2506.04721.
    """

    kind: Literal["reputation"] = "reputation"
    by_outcomes: ClassVar[bool] = False
    scores: Scores = Field(
        "normal",
        description="normal, or scale the lowest-rated players' scores down: see player_weights",
    )
    weights: dict[Text, float] = Field(
        {}, description="name -> factor on the player's own scores; 1 where not named"
    )
    until: int = Field(
        7, ge=1, description="iteration (from 0) whose static or dynamic weights later ones keep"
    )
    initial: Literal["fair"] | dict[Text, float] = Field(
        "fair",
        description="fair: all start equal; or name -> task score, in any unit, scaled to the "
        "start's mean and standard deviation over all names that are listed, players or not",
    )
    frozen: bool = Field(False, description="reputations stay as they start")
    judge_weights: Literal["rating", "equal"] = Field(
        "rating",
        description="a judge's weight in an update: its own reputation, or the same for all",
    )
    initial_rating: float = Field(
        100.0,
        gt=0,
        description="points at the start, or their mean where `initial` gives task scores",
    )
    initial_spread: float = Field(
        20.0, ge=0, description="points, standard deviation of a start from task scores"
    )
    initial_deviation: float = Field(0.5, gt=0, description="points, σ before a second change")
    min_deviation: float = Field(0.1, gt=0, description="points, the least σ")
    rating_floor: float = Field(10.0, gt=0, description="points, the least reputation")
    window: int = Field(10, ge=2, description="newest changes that σ is computed from")
    fresh_changes: bool = Field(
        False,
        description="each iteration computes σ from its own changes alone, as SPARTA's "
        "released code does; σ stays as it was until there are two",
    )
    epsilon: float = Field(0.01, ge=0, description="the least gap factor, a probability")
    scaling: float | None = Field(
        None, gt=0, description="c, the divisor of K; not given: 20, for dynamic 10"
    )
    initial_k: float = Field(
        10.0, ge=0, description="K before the first duel, points · c per point of score"
    )
    min_k: float = Field(5.0, ge=0, description="the least K")
    decay_rate: float = Field(0.9, gt=0, le=1, description="factor of K in decay_steps duels")
    decay_steps: float = Field(10.0, gt=0, description="duels in which K falls by decay_rate")
    resamples: int = Field(200, ge=40, description="bootstrap resamples behind an interval")

    @model_validator(mode="before")
    @classmethod
    def _scores_as_kind(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("kind") in get_args(Scores):
            kind = value["kind"]
            if value.get("scores", kind) != kind:
                raise PydanticCustomError(
                    "scores",
                    "kind '{kind}' and scores '{scores}' disagree",
                    {"kind": kind, "scores": value["scores"]},
                )
            return {**value, "kind": "reputation", "scores": kind}
        return value

    def fault(self, names: Sequence[str]) -> str:
        """A player without a task score, or weights of somebody who does not play."""
        if self.initial != "fair" and (missing := [n for n in names if n not in self.initial]):
            return f"initial: has no task score of {', '.join(missing)}; add it"
        unknown = [name for name in self.weights if name not in names]
        if unknown:
            return f"weights: '{unknown[0]}' is no player; they are {', '.join(names)}"
        return ""

    def init(self, names: Sequence[str]) -> State:
        """The state before the first duel. ConfigError when `initial` lacks one."""
        ratings = dict.fromkeys(names, self.initial_rating)
        if self.initial != "fair" and names:
            ratings = self._scaled(names, self.initial)
        return State(
            ratings, dict.fromkeys(names, self.initial_deviation), dict.fromkeys(names, ())
        )

    def _scaled(self, names: Sequence[str], task_scores: Mapping[str, float]) -> dict[str, float]:
        missing = [repr(name) for name in names if name not in task_scores]
        if missing:
            raise ConfigError(
                f"reputation: initial has no task score of {', '.join(missing)}; add it"
            )
        listed_L = np.array(list(task_scores.values()))
        score_N = np.array([task_scores[name] for name in names])
        spread = float(standard_deviation(listed_L))
        unit_N = np.zeros(len(score_N))
        if spread > 0:
            unit_N = (score_N - listed_L.mean()) / spread
        start_N = self.initial_rating + self.initial_spread * unit_N
        start_N = np.maximum(start_N, self.rating_floor)
        return dict(zip(names, start_N.tolist(), strict=True))

    def update(self, state: State, duel: Duel | tuple[str, str, JudgeScores]) -> State:
        """The state after `duel` = (name_a, name_b, {judge: (score_a, score_b)}); `state` without
        scores.

        Raises ConfigError for an unknown player or judge, DataError for a score that is no number.
        """
        return self._after(state, [duel], self.weights)

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Raises ConfigError: outcomes are not enough."""
        raise ConfigError(
            "reputation needs the judges' scores of each duel, which outcomes do not hold: "
            "use it where players judge one another (training_ratings), and elo, bradley_terry or "
            "openskill to rate outcomes"
        )

    def training_ratings(
        self, names: Sequence[str], generations: Sequence[Sequence[Duel]], seed: int = 0
    ) -> list[Rating]:
        """Reputations of `names` after all `generations` of duels, highest first.

        A generation is an iteration: reputations and deviations are carried over, and the changes
        unless `fresh_changes`; n starts again, and the static or dynamic weights follow from the
        ends before; `weights` takes precedence. The interval is the middle 95 % of the ends of
        `resamples` bootstrap samples of the last generation's duels, in their order, from its
        start, widened to hold the value. A player without a duel in it keeps its value and has no
        interval (NaN). Raises as `update`.
        """
        start = state = self.init(names)
        ends: list[Mapping[str, float]] = []
        duels: list[Duel] = []
        weights: Mapping[str, float] = self.weights
        for iteration, generation in enumerate(generations):
            factors = player_weights(self.scores, iteration, ends, self.until)
            weights = {**factors, **self.weights}
            duels = [duel for duel in generation if duel[2]]
            changes = dict.fromkeys(names, ()) if self.fresh_changes else state.changes
            start = replace(state, duels=0, changes=changes)
            state = self._after(start, duels, weights)
            ends.append(state.ratings)
        samples = self._resampled(start, duels, weights, seed)
        paired = {name for duel in duels for name in duel[:2]}
        rated = []
        for name, value in state.ratings.items():
            low = high = float("nan")
            if name in paired:
                values = [value, *(sample[name] for sample in samples)]
                low, high = np.quantile(values, [0.025, 0.975]).tolist()
            rated.append(Rating(name, value, min(low, value), max(high, value)))
        return sorted(rated, key=lambda rating: -rating.value)

    def initial_ratings(self, names: Sequence[str]) -> dict[str, float]:
        """The reputations before the first duel, for the first matching. Raises as `init`."""
        return dict(self.init(names).ratings)

    def _resampled(
        self, start: State, duels: Sequence[Duel], weights: Mapping[str, float], seed: int
    ) -> list[Mapping[str, float]]:
        if not duels:
            return []
        rng = generator(seed, "reputation")
        drawn_RD = np.sort(rng.integers(len(duels), size=(self.resamples, len(duels))))
        samples = ([duels[d] for d in drawn_D] for drawn_D in drawn_RD)
        return [self._after(start, sample, weights).ratings for sample in samples]

    def _after(self, state: State, duels: Sequence[tuple], weights: Mapping[str, float]) -> State:
        ratings = dict(state.ratings)
        deviations = dict(state.deviations)
        changes = dict(state.changes)
        n = state.duels
        equal = dict.fromkeys(ratings, 1.0)
        for first, second, scores, *_ in duels:
            if not scores:
                continue
            _check_duel(first, second, ratings)
            judges = ratings if self.judge_weights == "rating" else equal
            mean_a, mean_b = weighted_means(scores, judges)
            n += 1
            if self.frozen:
                continue
            step = self._step(n)
            margin = weights.get(first, 1.0) * mean_a
            margin -= weights.get(second, 1.0) * mean_b
            both = sqrt(deviations[first] ** 2 + deviations[second] ** 2)
            for i, j, lead in ((first, second, margin), (second, first, -margin)):
                gap = max(gap_factor(ratings[i], ratings[j], both), self.epsilon)
                change = step * lead * tanh(deviations[i]) * gap
                moved = max(self.rating_floor, ratings[i] + change)
                changes[i] = (*changes[i], moved - ratings[i])[-self.window :]
                ratings[i] = moved
            for i in (first, second):
                if len(changes[i]) > 1:
                    deviations[i] = max(self.min_deviation, _deviation(changes[i]))
        return State(ratings, deviations, changes, n)

    def _step(self, n: int) -> float:
        k = max(self.min_k, self.initial_k * self.decay_rate ** (n / self.decay_steps))
        return k / (self.scaling or (10.0 if self.scores == "dynamic" else 20.0))


def _check_duel(first: str, second: str, ratings: Mapping[str, float]) -> None:
    for name in (first, second):
        if name not in ratings:
            raise ConfigError(
                f"reputation: '{name}' of the duel '{first}' and '{second}' is none of the "
                f"players ({', '.join(ratings)}); give init all their names"
            )
    if first == second:
        raise ConfigError(f"reputation: '{first}' met itself; a duel needs two players")


def weighted_means(scores: JudgeScores, ratings: Mapping[str, float]) -> tuple[float, float]:
    """(s̄_a, s̄_b), s̄ = Σ_k R_k s^(k) / Σ_k R_k over the judges k: the unit is the scores'.

    With the final reputations, the higher is the chosen answer of SPARTA's pair. Raises ConfigError
    without scores and for a judge that `ratings` lacks, DataError for a score that is not finite.
    Source: SPARTA, arXiv 2506.04721.

    >>> weighted_means({"a": (8, 4), "b": (5, 5)}, {"a": 100.0, "b": 50.0})
    (7.0, 4.333333333333333)
    """
    if not scores:
        raise ConfigError("reputation: a duel without scores has no means; leave it out")
    unknown = [judge for judge in scores if judge not in ratings]
    if unknown:
        raise ConfigError(
            f"reputation: judge '{unknown[0]}' has no reputation; the players are "
            f"{', '.join(ratings)}. Judges are players here: judge by peers, or rate by "
            "bradley_terry, elo or openskill"
        )
    total = fsum(ratings[judge] for judge in scores)
    means = [
        fsum(ratings[judge] * both[side] for judge, both in scores.items()) / total
        for side in (0, 1)
    ]
    if not all(map(isfinite, means)):
        raise DataError(
            f"reputation: {dict(scores)} holds a score that is no finite number; leave out "
            "missing scores"
        )
    return means[0], means[1]


def gap_factor(rating: float, other: float, deviation: float) -> float:
    """|Φ(z) − Φ(−z)| = erf(|z|/√2), z = (rating − other)/deviation: in [0, 1], for both sides.

    >>> round(gap_factor(110, 100, 10), 3)
    0.683
    """
    return erf(abs(rating - other) / deviation / sqrt(2))


def player_weights(
    kind: Scores, iteration: int, previous_ratings: Sequence[Mapping[str, float]], until: int = 7
) -> dict[str, float]:
    """Factors on scores in `iteration` (from 0): 0.0, 0.1 … for max(0, iteration − 1) of the
    lowest, else 1.

    `previous_ratings[t]`: name -> reputation at the end of iteration t, for 0 … iteration − 1 (that
    of 0 is not read). dynamic: the iteration − 1 lowest at the end of the iteration before, lowest
    first. static: from iteration 2 on, each adds the lowest then that has no factor yet, in that
    order. After iteration `until` nothing changes. normal: 1 for all. Equal ratings go by name.
    Where no names are known: {}, which is 1 for all. Raises ConfigError for an unknown kind or too
    few previous ratings. Source: SPARTA, arXiv 2506.04721, and its released code.

    >>> player_weights("dynamic", 2, [{"a": 100, "b": 90}, {"a": 95, "b": 99}])
    {'a': 0.0, 'b': 1.0}
    """
    if kind not in get_args(Scores):
        raise ConfigError(
            f"reputation: unknown kind of scores '{kind}'; known: {', '.join(get_args(Scores))}"
        )
    if len(previous_ratings) < iteration - 1:
        raise ConfigError(
            f"reputation: iteration {iteration} needs the ratings at the end of "
            f"iterations 1 to {iteration - 1}; there are {len(previous_ratings)}"
        )
    weights = dict.fromkeys(previous_ratings[-1], 1.0) if previous_ratings else {}
    without_first = len(previous_ratings) == iteration - 1
    ends = previous_ratings if without_first else previous_ratings[1:iteration]
    ends = ends[: until - 1]
    lowest: list[str] = []
    if kind == "dynamic":
        lowest = _upwards(ends[-1])[: len(ends)] if ends else []
    elif kind == "static":
        for end in ends:
            lowest += [name for name in _upwards(end) if name not in lowest][:1]
    return weights | {name: min(1.0, place / 10) for place, name in enumerate(lowest)}


def _upwards(ratings: Mapping[str, float]) -> list[str]:
    return sorted(ratings, key=lambda name: (ratings[name], name))


def _deviation(changes: Sequence[float]) -> float:
    """The population standard deviation, in a fiftieth of the time of statistics.pstdev."""
    mean = fsum(changes) / len(changes)
    return sqrt(fsum((change - mean) ** 2 for change in changes) / len(changes))
