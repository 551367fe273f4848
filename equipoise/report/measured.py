"""From what the stages of a run measured to the numbers and curves of its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.evaluate.statistics import Interval
from equipoise.ratings.base import Rating
from equipoise.report.facts import Curve, Curves, Headline, Selection
from equipoise.report.terminal import Change
from equipoise.types import PlayerId

MANY = 3  # learners, above which the headline sums up
Measured = Sequence[tuple[int, dict[str, Any]]]  # generation, what the stage found; oldest first


def interval(found: Mapping[str, Any] | None) -> Interval | None:
    """An interval from its JSON; None where there was none."""
    if not found:
        return None
    return Interval(_number(found["mean"]), _number(found["low"]), _number(found["high"]), found["n"])


def rating(found: Mapping[str, Any]) -> Rating:
    """A rating from its JSON."""
    return Rating(found["name"], _number(found["value"]), _number(found["low"]), _number(found["high"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def changes(learners: Sequence[str], measured: Measured) -> list[Change]:
    """The held-out score of every learner, at the start and now."""
    if not measured:
        return []
    (t, last), first = measured[-1], measured[0][1]
    found = []
    for name in learners:
        before = interval(first.get("scores", {}).get(f"{name}@0"))
        after = interval(last.get("scores", {}).get(f"{name}@{t}"))
        if before and after:
            share = all(0 <= bound <= 1 for bound in (before.low, before.high, after.low, after.high))
            whose = f" of {name}" if len(learners) > 1 else ""
            found.append(Change(f"held-out score{whose}", before, after, "%" if share else ""))
    return found


def headlines(learners: Sequence[str], measured: Measured) -> Iterator[Headline]:
    """The numbers that matter, newest generation against the start."""
    if not measured:
        return
    (t, last), first = measured[-1], measured[0][1]
    if len(learners) > MANY and "averages" not in last:
        yield from _of_many(learners, measured)
        return
    for name in learners:
        now, start = PlayerId(name, t), PlayerId(name, 0)
        score = interval(last.get("scores", {}).get(str(now)))
        before = interval(first.get("scores", {}).get(str(start)))
        if score and before:
            yield Headline(f"held-out score of {now}", _shown(score), f"{start}: {_shown(before)}")
        wins = interval(last.get("win_rates", {}).get(str(now)))
        if wins:
            yield Headline(f"win rate of {now} over {start}", wins.percent(), "a tie counts half; 95 % interval")
        if "averages" in last:
            gap = last["gap"][str(now)]
            began = f"{first['gap'][str(start)]:.4f} at the start"
            yield Headline(f"exploitability of {name}'s average policy", f"{gap:.4f}", began)
            yield Headline(f"exploitability of {now} alone", f"{last['last_gap'][str(now)]:.4f}", "the last iterate")
        elif "gap" in last:
            began = max(row[last["players"].index(str(start))] for row in last["payoff"])
            note = f"what the league's best member wins against it, of 1; against {start}: {began:.3f}"
            yield Headline(f"exploitability of {now}", f"{last['gap'][str(now)]:.3f}", note)


def _of_many(learners: Sequence[str], measured: Measured) -> Iterator[Headline]:
    """The best, the mean and the most exploitable: one number each, since nobody reads three for each of many."""
    (t, last), (began, first) = measured[-1], measured[0]
    scores = {name: interval(last.get("scores", {}).get(f"{name}@{t}")) for name in learners}
    known = {name: score for name, score in scores.items() if score}
    if known:
        best = max(known, key=lambda name: known[name].mean)
        before = interval(first.get("scores", {}).get(f"{best}@{began}"))
        note = f"{best}@{began}: {_shown(before)}" if before else ""
        yield Headline(f"best held-out score, {best}@{t}", _shown(known[best]), note)
    for field, title in (("scores", "mean held-out score"), ("win_rates", "mean win rate over the start")):
        means = {
            at: [score.mean for name in learners if (score := interval(found.get(field, {}).get(f"{name}@{at}")))]
            for at, found in ((began, first), (t, last))
        }
        if means[t]:
            share = all(0 <= mean <= 1 for known in means.values() for mean in known)
            before = f"; at the start {_mean(means[began], share)}" if field == "scores" and means[began] else ""
            yield Headline(title, _mean(means[t], share), f"of {len(means[t])} learners{before}")
    if last.get("gap"):
        worst = max(last["gap"], key=lambda name: last["gap"][name])
        note = "what the league's best member wins against it, of 1: the largest of all learners"
        yield Headline(f"exploitability of {worst}", f"{last['gap'][worst]:.3f}", note)


def tested(found: Mapping[str, Any] | None) -> Iterator[Headline]:
    """What the last test says of the player that was chosen for it."""
    score = interval((found or {}).get("test", {}).get((found or {}).get("chosen")))
    if found and score:
        start = interval(found["test"][found["start"]])
        note = f"the best on held-out prompts, tested once; {found['start']}: {_shown(start)}" if start else ""
        yield Headline(f"test score of {found['chosen']}", _shown(score), note)


def _mean(values: Sequence[float], share: bool) -> str:
    return f"{100 * np.mean(values):.1f} %" if share else f"{np.mean(values):.4g}"


def _shown(found: Interval) -> str:
    """In percent where it can be a share."""
    return found.percent() if found.low >= 0 and found.high <= 1 else str(found)


def curves(learners: Sequence[str], measured: Measured) -> list[Curves]:
    """Every learner's held-out score and its win rate over its start."""
    found = []
    for field, title in (("scores", "held-out score"), ("win_rates", "win rate over the start")):
        drawn = []
        for name in learners:
            points = [(t, interval(facts.get(field, {}).get(f"{name}@{t}"))) for t, facts in measured]
            known = [(float(t), point.mean, point.low, point.high) for t, point in points if point]
            if known:
                drawn.append((name, *zip(*known, strict=True)))
        unit = "%" if all(0 <= value <= 1 for row in drawn for value in row[2]) else ""
        if drawn:
            found.append(Curves(title, unit, tuple(Curve(row[0], unit, *row[1:]) for row in drawn)))
    return found


def exploitability(learners: Sequence[str], measured: Measured) -> Curve | None:
    """Of a finite game, the average policy's as it was at each generation; of a league, each generation's by now."""
    last = measured[-1][1] if measured else {}
    if "averages" in last:
        points = [(float(t), found["exploitability"]) for t, found in measured]
        note = "gain of a best reply against the average policy, in pay-off units"
    elif "payoff" in last:
        gains = dict(zip(last["players"], np.max(last["payoff"], axis=0), strict=True))
        points = [(float(t), max(gains[f"{name}@{t}"] for name in learners)) for t, _ in measured]
        note = "what the best member of the league, as it is now, wins against each generation: P(win) − P(loss)"
    else:
        return None
    x, y = zip(*points, strict=True)
    return Curve("exploitability", "", x, y, note=note)


def gaps(learners: Sequence[str], measured: Measured) -> Curves | None:
    """Where several learn, each one's gap at each generation, as it was measured then."""
    drawn = []
    for name in learners if len(learners) > 1 else ():
        points = [(float(t), _number(found.get("gap", {}).get(f"{name}@{t}"))) for t, found in measured]
        if any(math.isfinite(gap) for _, gap in points):
            x, y = zip(*points, strict=True)
            drawn.append(Curve(name, "", x, y))
    finite = bool(measured) and "averages" in measured[-1][1]
    note = (
        "gain of a best reply against each learner's average policy, in pay-off units"
        if finite
        else "what the league's best member wins against each learner, measured at that generation, by its own judge"
    )
    return Curves("gap of each learner", "", tuple(drawn), note) if drawn else None


def standing(names: Sequence[str], rated: Measured) -> Iterator[Curve]:
    """The rating of each of `names` after the matches of each generation; NaN where it met nobody."""
    found = [(t, {one.name: one for one in map(rating, facts["ratings"])}) for t, facts in rated]
    for name in names if found else ():
        rows = [(float(t), known.get(name, Rating(name, *[math.nan] * 3))) for t, known in found]
        x, ratings = zip(*rows, strict=True)
        if not any(math.isfinite(one.value) for one in ratings):
            continue
        values, lows, highs = zip(*((one.value, one.low, one.high) for one in ratings), strict=True)
        yield Curve(name, "", x, values, lows, highs)


def selection(found: Mapping[str, Any] | None) -> Selection | None:
    """What the last test says; None before it."""
    if not found:
        return None
    return Selection(
        found["chosen"],
        found["start"],
        {name: interval(score) for name, score in found["held_out"].items()},
        {name: interval(score) for name, score in found["test"].items()},
        interval(found.get("win_rate")),
    )
