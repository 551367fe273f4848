"""From the scores of answers to numbers about players: means, meetings, the best."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from equipoise.evaluation.base import Scores
from equipoise.evaluation.measures import Estimate
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.payoffs.preference import meeting


def mean_score(scores: Scores) -> Interval:
    """The mean score of the judged answers, prompts counting as clusters."""
    judged = [
        (score, prompt)
        for prompt, answers in scores.items()
        for score in answers
        if score is not None
    ]
    return mean_interval([score for score, _ in judged], [prompt for _, prompt in judged])


def meetings(first: Scores, second: Scores) -> tuple[list[float], list[str]]:
    """Every judged answer of `first` against every one of `second` on the same prompt.

    Returns the values in [−1, 1], positive where `first` is better, and the prompts.
    """
    values: list[float] = []
    prompts: list[str] = []
    for prompt, answers in first.items():
        for own in answers:
            for other in second[prompt]:
                value = meeting(own, other)
                if value is not None:
                    values.append(value)
                    prompts.append(prompt)
    return values, prompts


def mean_of(estimates: Mapping[str, Estimate]) -> float | None:
    """The mean over the players; None where there is none, or one is not known."""
    values = [estimate.mean for estimate in estimates.values()]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def best_of(estimates: Mapping[str, Estimate]) -> float | None:
    """The best player's; None where none is known."""
    values = (estimate.mean for estimate in estimates.values())
    return max((value for value in values if value is not None), default=None)
