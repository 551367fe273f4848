"""From the scores of items to estimates: means, parts of a set, and paired differences between two
players on the same items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.records import ItemScores
from equipoise.payoffs.intervals import mean_interval, weighted_mean


def metrics_of(scores: Sequence[ItemScores]) -> list[str]:
    """The names of all metrics, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in scores for name in row.values))


def estimate(scores: Sequence[ItemScores], metric: str) -> Estimate:
    """The mean of a metric over the answers that have it, items counting as clusters.

    Values that all lie in [0, 1] are taken for shares, and so is the interval.
    """
    known = [
        (value, row.item)
        for row in scores
        if (value := row.values.get(metric)) is not None
        for _ in range(row.counts.get(metric, 1))
    ]
    values = [value for value, _ in known]
    shares = all(0 <= value <= 1 for value in values)
    return Estimate.of(mean_interval(values, [item for _, item in known], share=shares))


def grouped(scores: Sequence[ItemScores], metrics: Sequence[str]) -> dict[str, dict[str, Estimate]]:
    """Group -> metric -> its mean; empty where the items have no groups."""
    rows: dict[str, list[ItemScores]] = defaultdict(list)
    for row in scores:
        if row.group:
            rows[row.group].append(row)
    return {
        group: {metric: estimate(of_group, metric) for metric in metrics}
        for group, of_group in sorted(rows.items())
    }


def paired_differences(
    scores: Sequence[ItemScores], others: Sequence[ItemScores]
) -> dict[str, Estimate]:
    """Metric -> the mean difference, `scores` less `others`, over the items that both have, with
    Student's t interval over these items.

    An item's value is the mean over its scored answers; it counts as often as its answers' values
    do.
    """
    differences = {}
    for metric in metrics_of(scores):
        own = _by_item(scores, metric)
        other = _by_item(others, metric)
        both = [item for item in own if item in other]
        if both:
            values = [own[item] - other[item] for item in both]
            counts = {row.item: row.counts.get(metric, 1) for row in scores}
            weights = [counts[item] for item in both]
            differences[metric] = _mean_difference(values, weights)
    return differences


def _mean_difference(values: Sequence[float], weights: Sequence[int]) -> Estimate:
    """The mean with Student's t interval; none where no two values differ, for then they say
    nothing about the spread.
    """
    interval = weighted_mean(values, weights)
    if interval.low == interval.high:
        return Estimate(interval.mean, None, None, interval.n)
    return Estimate.of(interval)


def _by_item(scores: Sequence[ItemScores], metric: str) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for row in scores:
        value = row.values.get(metric)
        if value is not None:
            values[row.item].append(value)
    return {item: fmean(of_item) for item, of_item in values.items()}
