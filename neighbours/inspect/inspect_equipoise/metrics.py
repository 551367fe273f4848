"""Metrics of pairwise scores: the win rate, ratings and the equilibrium, with 95 % intervals."""

# pyright: reportMissingImports=false

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import isfinite
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Value, metric

from equipoise.errors import NoSignal
from equipoise.payoffs.intervals import mean_interval
from equipoise.payoffs.table import Meeting, preference, tally
from equipoise.ratings.base import Outcome, Ratings
from equipoise.ratings.nash_average import max_entropy_nash

Scores = Mapping[str, float | None]  # a model -> the judge's score of its answer


def results(scores: Scores, model: str) -> Iterator[tuple[str, float]]:
    """(rival, 1 where the model did better, 0 where worse, ½ for a tie), where both are scored."""
    for rival, value in scores.items():
        payoff = preference(scores.get(model), value)
        if rival != model and payoff is not None:
            yield rival, (1 + payoff) / 2


def _samples(scores: Sequence[SampleScore]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(cluster, what `preference` noted) of each sample that it scored."""
    for each in scores:
        if each.score.metadata and "scores" in each.score.metadata:
            yield str(each.sample_id), each.score.metadata


def meetings(scores: Sequence[SampleScore]) -> list[Meeting]:
    """Every meeting of two models, the samples as clusters."""
    return [
        Meeting(first, second, preference(noted["scores"][first], noted["scores"][second]), sample)
        for sample, noted in _samples(scores)
        for first, second in combinations(noted["scores"], 2)
    ]


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isfinite(value)}


@metric
def win_rate() -> Metric:
    """The share of meetings that the model wins, ties as half, with its interval: all, and against
    each rival. Samples are the clusters.
    """

    def value(scores: list[SampleScore]) -> Value:
        rows = [
            (rival, won, sample)
            for sample, noted in _samples(scores)
            for rival, won in results(noted["scores"], noted["model"])
        ]
        rivals = list(dict.fromkeys(rival for rival, _, _ in rows))
        numbers: dict[str, float] = {}
        for rival in ["", *(rivals if len(rivals) > 1 else ())]:
            own = [(won, sample) for name, won, sample in rows if rival in ("", name)]
            estimate = mean_interval([won for won, _ in own], [s for _, s in own], share=True)
            title = f"win_rate vs {rival}" if rival else "win_rate"
            numbers |= {title: estimate.mean, f"{title} low": estimate.low}
            numbers[f"{title} high"] = estimate.high
        return _known(numbers)

    return value


@metric
def rating(by: str = "bradley_terry") -> Metric:
    """The rating of every model by all their meetings, with its interval.

    `by`: a kind of rating of Equipoise.
    """

    def value(scores: list[SampleScore]) -> Value:
        outcomes = [
            Outcome(each.first, each.second, (1 + each.value) / 2)
            for each in meetings(scores)
            if each.value is not None
        ]
        numbers: dict[str, float] = {}
        for each in Ratings.build(by).rate(outcomes) if outcomes else ():
            name = f"rating {each.name}"
            numbers |= {name: each.value, f"{name} low": each.low, f"{name} high": each.high}
        return _known(numbers)

    return value


@metric
def league() -> Metric:
    """Of every model its share of the mixture that none beats, and its exploitability: what the one
    that does best against it gets, in [0, 1]. Nothing where two models never met.
    """

    def value(scores: list[SampleScore]) -> Value:
        table = tally(meetings(scores))
        try:
            payoff_NN = table.complete()
        except NoSignal:
            return {}
        if not len(payoff_NN):
            return {}
        mass_N = max_entropy_nash(payoff_NN)
        names = table.players
        shares = {f"nash_mass {name}": mass_N[i] for i, name in enumerate(names)}
        gaps = {f"exploitability {name}": payoff_NN[:, i].max() for i, name in enumerate(names)}
        return _known({**shares, **gaps})

    return value
