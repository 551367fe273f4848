"""GTAlign's released normalisations (arXiv 2510.08872) of a batch's scores by data source.

zscore, minmax, robustz (tanh of half the robust z-score of winsorised values), cdf, quantile, james
(shrunk by κ = 50), decentralize and selfadapt (τ = 2), each from its formula, one value at a time.
"""

from bisect import bisect_right
from math import floor, sqrt, tanh
from random import Random
from statistics import fmean, median, pstdev


def quantile(values, share):
    place = share * (len(values) - 1)
    low, rest = floor(place), place - floor(place)
    ordered = sorted(values)
    return ordered[low] + rest * (ordered[min(low + 1, len(values) - 1)] - ordered[low])


def of(method, x, own, everything):
    """The worth of x among the values of its source and of all sources."""
    n, mean = len(own), fmean(own)
    if method == "z_score":
        return (x - mean) / pstdev(own)
    if method == "min_max":
        return (x - min(own)) / (max(own) - min(own))
    if method == "tanh":
        low, high = quantile(own, 0.01), quantile(own, 0.99)
        cut = [min(max(value, low), high) for value in own]
        deviation = median(abs(value - median(cut)) for value in cut)
        return tanh((min(max(x, low), high) - median(cut)) / (1.4826 * deviation) / 2)
    if method == "cdf":
        rank = sum(value < x for value in own) + (own.count(x) + 1) / 2
        return 2 * (rank - 0.5) / n - 1
    if method == "quantile":
        share = (bisect_right(sorted(own), x) - 0.5) / n
        return sorted(everything)[int(share * (len(everything) - 1))]
    if method == "james_stein":
        weight = n / (n + 50)
        middle = weight * mean + (1 - weight) * fmean(everything)
        mine, overall = pstdev(own) + 1e-6, pstdev(everything) + 1e-6
        width = sqrt(weight * mine**2 + (1 - weight) * overall**2)
        return (x - middle) / (width + 1e-6)
    if method == "decentralise":
        return (x - mean) / (pstdev(everything) + 1e-6)
    return tanh((x - mean) / 2)


METHODS = (
    *("z_score", "min_max", "tanh", "cdf", "quantile"),
    *("james_stein", "decentralise", "self_adapt"),
)


def vectors():
    dice = Random(29)
    sources = ["math-hard"] * 9 + ["medium"] * 14 + ["wildguard"] * 6
    scores = [round(dice.random(), 2) for _ in sources]
    scores[3] = scores[4] = scores[12] = scores[5]  # ties within a source and between them
    found = {}
    for method in METHODS:
        found[method] = [
            of(
                method,
                x,
                [s for s, name in zip(scores, sources, strict=True) if name == own],
                scores,
            )
            for x, own in zip(scores, sources, strict=True)
        ]
    return {"sources": sources, "scores": scores, "normalised": found}
