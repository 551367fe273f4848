"""Reputation: SPARTA's ratings, in which those who are judged are also the judges.

The gap factor |Φ(z) − Φ(−z)| is even in z, so an upset pays no more than a favourite's
win, and it grows with the gap: reputations drift apart instead of settling. The rule is
kept as published; Bradley–Terry, Elo and OpenSkill stand beside it for those who want
strengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erf, fsum, isfinite, sqrt, tanh
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from equipoise.errors import ConfigError, DataError
from equipoise.ratings.base import Duel, Outcome, Rating, Ratings
from equipoise.seeds import generator

Scores = Literal["normal", "static", "dynamic"]
JudgeScores = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class State:
    """Reputations and deviations (points) by name, each one's newest changes, and the
    duels of this iteration.

    `update` makes a new one and never writes into an old one.
    """

    ratings: Mapping[str, float]
    deviations: Mapping[str, float]
    changes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    duels: int = 0


class Reputation(Ratings):
    """A duel moves both reputations by the judges' margin; each judge weighs as much as
    its own reputation.

    s̄_a = w_a · Σ_k R_k s_a^(k) / Σ_k R_k, with w the players' own `weights`; then, for
    each of the two in turn, i ← a against j ← b and then the reverse, where the second
    sees the first's new reputation and both see old deviations: R_i ← max(floor, R_i +
    (K/c)·(s̄_i − s̄_j)·tanh(σ_i)·max(|Φ(z) − Φ(−z)|, ε)), z = (R_i − R_j)/√(σ_i² +
    σ_j²), K = max(min_k, initial_k·decay_rate^(n/decay_steps)), n the iteration's duels
    with this one. Last, each one's σ is the population standard deviation of its newest
    `window` changes, at least `min_deviation`, once there are two.
    `Reputation(kind="static")` is short for `scores="static"`, likewise normal and
    dynamic. Source: SPARTA, arXiv 2506.04721.
    """

    kind: Literal["reputation"] = "reputation"
    scores: Scores = Field(
        "normal",
        description="normal, or scale the lowest-rated's own scores down: see player_weights",
    )
    weights: dict[str, float] = Field(
        {}, description="name -> factor on the player's own scores; 1 where not named"
    )
    until: int = Field(
        7,
        ge=1,
        description="iteration (from 1) whose static or dynamic weights later ones keep",
    )
    initial: Literal["fair"] | dict[str, float] = Field(
        "fair",
        description="fair: all start alike; or name -> task score, in any unit, scaled to the start's mean and sd",
    )
    frozen: bool = Field(False, description="reputations stay as they start")
    judge_weights: Literal["rating", "equal"] = Field(
        "rating",
        description="a judge's grades weigh its own reputation in an update, or all weigh the same",
    )
    initial_rating: float = Field(
        100.0,
        gt=0,
        description="points at the start, or their mean where `initial` differ",
    )
    initial_spread: float = Field(
        20.0, ge=0, description="points, standard deviation of a start from task scores"
    )
    initial_deviation: float = Field(
        0.5, gt=0, description="points, σ before a second change"
    )
    min_deviation: float = Field(0.1, gt=0, description="points, the least σ")
    rating_floor: float = Field(10.0, gt=0, description="points, the least reputation")
    window: int = Field(10, ge=2, description="newest changes that σ is taken of")
    epsilon: float = Field(
        0.01, ge=0, description="the least gap factor, a probability"
    )
    scaling: float | None = Field(
        None, gt=0, description="c, what K is divided by; not given: 20, for dynamic 10"
    )
    initial_k: float = Field(
        10.0, ge=0, description="K before the first duel, points · c per point of score"
    )
    min_k: float = Field(5.0, ge=0, description="the least K")
    decay_rate: float = Field(
        0.9, gt=0, le=1, description="what K is multiplied by in decay_steps duels"
    )
    decay_steps: float = Field(
        10.0, gt=0, description="duels in which K falls by decay_rate"
    )
    resamples: int = Field(
        200, ge=40, description="bootstrap resamples behind an interval"
    )

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

    def init(self, names: Sequence[str]) -> State:
        """The state before the first duel. Raises ConfigError when `initial` lacks a
        task score of one of `names`.
        """
        ratings = dict.fromkeys(names, self.initial_rating)
        if self.initial != "fair":
            if missing := [name for name in names if name not in self.initial]:
                raise ConfigError(
                    f"reputation: initial has no task score of {', '.join(map(repr, missing))}; add it"
                )
            score_N = np.array([self.initial[name] for name in names])
            unit_N = (
                (score_N - score_N.mean()) / (score_N.std() or 1.0)
                if len(score_N)
                else score_N
            )
            start_N = np.maximum(
                self.initial_rating + self.initial_spread * unit_N, self.rating_floor
            )
            ratings = dict(zip(names, start_N.tolist(), strict=True))
        return State(
            ratings,
            dict.fromkeys(names, self.initial_deviation),
            dict.fromkeys(names, ()),
        )

    def update(self, state: State, duel: Duel | tuple[str, str, JudgeScores]) -> State:
        """The state after `duel` = (name_a, name_b, {judge: (score_a, score_b)});
        `state` itself without scores.

        Raises ConfigError for a player or judge that the state does not know, DataError
        for a score that is no number.
        """
        return self._after(state, [duel], self.weights)

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Raises ConfigError: who won is not enough."""
        raise ConfigError(
            "reputation needs the judges' scores of each duel, which outcomes do not hold: use it where players judge "
            "one another (standing), and elo, bradley_terry or openskill to rate outcomes"
        )

    def standing(
        self, names: Sequence[str], generations: Sequence[Sequence[Duel]], seed: int = 0
    ) -> list[Rating]:
        """Reputations of `names` after all `generations` of duels, highest first.

        A generation is an iteration: reputations, deviations and changes are carried
        on, n starts again, and its static or dynamic weights are those of the ends
        before it; `weights` comes before them. The interval is the middle 95 % of the
        ends of `resamples` bootstrap samples of the last generation's duels, kept in
        their order, from that generation's start, widened to hold the value: it is the
        luck of these duels, given the start. Who had no duel in it keeps its value and
        has no interval (NaN). Raises as `update`.
        """
        start = state = self.init(names)
        ends: list[Mapping[str, float]] = []
        duels: list[Duel] = []
        weights: Mapping[str, float] = self.weights
        for iteration, generation in enumerate(generations, 1):
            weights = {
                **player_weights(self.scores, iteration, ends, self.until),
                **self.weights,
            }
            duels = [duel for duel in generation if duel[2]]
            start = replace(state, duels=0)
            state = self._after(start, duels, weights)
            ends.append(state.ratings)
        rng = generator(seed, "reputation")
        drawn_RD = (
            np.sort(rng.integers(len(duels), size=(self.resamples, len(duels))))
            if duels
            else []
        )
        samples = [
            self._after(start, [duels[d] for d in drawn_D], weights).ratings
            for drawn_D in drawn_RD
        ]
        met = {name for duel in duels for name in duel[:2]}
        rated = []
        for name, value in state.ratings.items():
            low = high = float("nan")
            if name in met:
                low, high = np.quantile(
                    [value, *(sample[name] for sample in samples)], [0.025, 0.975]
                ).tolist()
            rated.append(Rating(name, value, min(low, value), max(high, value)))
        return sorted(rated, key=lambda rating: -rating.value)

    def _after(
        self, state: State, duels: Sequence[tuple], weights: Mapping[str, float]
    ) -> State:
        """The state after `duels` in order."""
        ratings, deviations, changes = (
            dict(state.ratings),
            dict(state.deviations),
            dict(state.changes),
        )
        n = state.duels
        scaling = self.scaling or (10.0 if self.scores == "dynamic" else 20.0)
        alike = dict.fromkeys(ratings, 1.0)
        for first, second, scores in duels:
            if not scores:
                continue
            for name in (first, second):
                if name not in ratings:
                    raise ConfigError(
                        f"reputation: '{name}' of the duel '{first}' and '{second}' is none of the players "
                        f"({', '.join(ratings)}); give init all their names"
                    )
            if first == second:
                raise ConfigError(
                    f"reputation: '{first}' met itself; a duel needs two players"
                )
            mean_a, mean_b = weighted_means(
                scores, ratings if self.judge_weights == "rating" else alike
            )
            n += 1
            if self.frozen:
                continue
            step = (
                max(
                    self.min_k,
                    self.initial_k * self.decay_rate ** (n / self.decay_steps),
                )
                / scaling
            )
            margin = (
                weights.get(first, 1.0) * mean_a - weights.get(second, 1.0) * mean_b
            )
            both = sqrt(deviations[first] ** 2 + deviations[second] ** 2)
            for i, j, ahead in ((first, second, margin), (second, first, -margin)):
                gap = max(gap_factor(ratings[i], ratings[j], both), self.epsilon)
                moved = max(
                    self.rating_floor,
                    ratings[i] + step * ahead * tanh(deviations[i]) * gap,
                )
                changes[i] = (*changes[i], moved - ratings[i])[-self.window :]
                ratings[i] = moved
            for i in (first, second):
                if len(changes[i]) > 1:
                    deviations[i] = max(self.min_deviation, _deviation(changes[i]))
        return State(ratings, deviations, changes, n)


def weighted_means(
    scores: JudgeScores, ratings: Mapping[str, float]
) -> tuple[float, float]:
    """(s̄_a, s̄_b), s̄ = Σ_k R_k s^(k) / Σ_k R_k over the judges k: the unit is the
    scores'.

    With the reputations after all updates, the higher of the two is the chosen answer
    of SPARTA's pair. Raises ConfigError without scores and for a judge that `ratings`
    lacks, DataError for a score that is no finite number. Source: SPARTA, arXiv
    2506.04721.
    """
    if not scores:
        raise ConfigError(
            "reputation: a duel without scores has no means; leave it out"
        )
    if unknown := [judge for judge in scores if judge not in ratings]:
        raise ConfigError(
            f"reputation: judge '{unknown[0]}' has no reputation; the players are {', '.join(ratings)}. Judges are "
            "players here: judge by peers, or rate by bradley_terry, elo or openskill"
        )
    total = fsum(ratings[judge] for judge in scores)
    means = [
        fsum(ratings[judge] * both[side] for judge, both in scores.items()) / total
        for side in (0, 1)
    ]
    if not all(map(isfinite, means)):
        raise DataError(
            f"reputation: {dict(scores)} holds a score that is no finite number; leave out what is missing"
        )
    return means[0], means[1]


def gap_factor(rating: float, other: float, deviation: float) -> float:
    """|Φ(z) − Φ(−z)| = erf(|z|/√2), z = (rating − other)/deviation: in [0, 1], the same
    for both sides.
    """
    return erf(abs(rating - other) / deviation / sqrt(2))


def player_weights(
    kind: Scores,
    iteration: int,
    previous_ratings: Sequence[Mapping[str, float]],
    until: int = 7,
) -> dict[str, float]:
    """Factors on the players' own scores in `iteration` (from 1): 0.0, 0.1, 0.2 … for
    the lowest-rated, 1 for the rest.

    `previous_ratings[t − 1]`: name -> reputation at the end of iteration t, for 1 …
    iteration − 1. dynamic: the t − 1 lowest at the end of iteration t − 1, lowest
    first. static: from iteration 2 on, each adds the lowest at the end of the one
    before that has no factor yet, in the order in which they were added. After
    iteration `until` nothing changes. normal: 1 for all. Equal ratings go by name.
    Before the first end no names are known: {}, which is 1 for all. Raises ConfigError
    for an unknown kind or too few previous ratings. Source: SPARTA, arXiv 2506.04721.
    """
    if kind not in get_args(Scores):
        raise ConfigError(
            f"reputation: unknown kind of scores '{kind}'; known: {', '.join(get_args(Scores))}"
        )
    if len(previous_ratings) < iteration - 1:
        raise ConfigError(
            f"reputation: iteration {iteration} needs the ratings at the end of {iteration - 1} iterations; "
            f"there are {len(previous_ratings)}"
        )
    ends = previous_ratings[: max(0, iteration - 1)]
    weights = {name: 1.0 for end in ends[-1:] for name in end}
    ends = ends[: until - 1]
    lowest: list[str] = []
    if kind == "dynamic":
        lowest = _upwards(ends[-1])[: len(ends)] if ends else []
    elif kind == "static":
        for end in ends:
            lowest += [name for name in _upwards(end) if name not in lowest][:1]
    return weights | {name: min(1.0, place / 10) for place, name in enumerate(lowest)}


def _upwards(ratings: Mapping[str, float]) -> list[str]:
    """Names, lowest-rated first."""
    return sorted(ratings, key=lambda name: (ratings[name], name))


def _deviation(changes: Sequence[float]) -> float:
    """The population standard deviation; statistics.pstdev takes fifty times as long
    for the same digits.
    """
    mean = fsum(changes) / len(changes)
    return sqrt(fsum((change - mean) ** 2 for change in changes) / len(changes))
