"""From what the stages of a run measured to the numbers and curves of its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.payoffs.intervals import Interval
from equipoise.ratings.base import Rating
from equipoise.report.facts import Curve, Curves, Headline, Selection
from equipoise.report.terminal import Change
from equipoise.types import PlayerId

MANY = 3  # learners, above which the headline sums up
Measured = Sequence[
    tuple[int, dict[str, Any]]
]  # generation, what the stage found; oldest first


def interval(found: Mapping[str, Any] | None) -> Interval | None:
    """An interval from its JSON; None where there was none."""
    if not found:
        return None
    return Interval(
        _number(found["mean"]),
        _number(found["low"]),
        _number(found["high"]),
        found["n"],
    )


def rating(found: Mapping[str, Any]) -> Rating:
    """A rating from its JSON."""
    return Rating(
        found["name"],
        _number(found["value"]),
        _number(found["low"]),
        _number(found["high"]),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def at(name: str, t: int, found: Mapping[str, Any]) -> PlayerId:
    """The player as old as it was when `found` was measured at generation t; without
    `ages`, t.
    """
    return PlayerId(name, found.get("ages", {}).get(name, t))


def _of(field: str, name: str, t: int, found: Mapping[str, Any]) -> Interval | None:
    """What `field` says of the player as it was at generation t."""
    return interval(found.get(field, {}).get(str(at(name, t, found))))


def changes(learners: Sequence[str], measured: Measured) -> list[Change]:
    """The held-out score of every learner, at the start and now."""
    if not measured:
        return []
    found = []
    for name in learners:
        before, after = (
            _of("scores", name, t, facts) for t, facts in (measured[0], measured[-1])
        )
        if before and after:
            share = all(
                0 <= bound <= 1
                for bound in (before.low, before.high, after.low, after.high)
            )
            whose = f" of {name}" if len(learners) > 1 else ""
            found.append(
                Change(f"held-out score{whose}", before, after, "%" if share else "")
            )
    return found


def headlines(learners: Sequence[str], measured: Measured) -> Iterator[Headline]:
    """The numbers that matter, newest generation against the start."""
    if not measured:
        return
    (t, last), (began, first) = measured[-1], measured[0]
    if len(learners) > MANY and "averages" not in last:
        yield from _of_many(learners, measured)
        return
    for name in learners:
        now, start = at(name, t, last), at(name, began, first)
        score, before = _of("scores", name, t, last), _of("scores", name, began, first)
        if score and before:
            yield Headline(
                f"held-out score of {now}", _shown(score), f"{start}: {_shown(before)}"
            )
        wins = _of("win_rates", name, t, last)
        if wins:
            yield Headline(
                f"win rate of {now} over {start}",
                wins.percent(),
                "a tie counts half; 95 % interval",
            )
        if str(now) in last.get("gap", {}):
            yield from _gap(now, start, last, first)
    if _two_seats(last):
        note = f"what both best replies gain together; {first['exploitability']:.4f} at the start"
        yield Headline(
            "exploitability of the average policies",
            f"{last['exploitability']:.4f}",
            note,
        )


def _gap(
    now: PlayerId, start: PlayerId, last: Mapping[str, Any], first: Mapping[str, Any]
) -> Iterator[Headline]:
    """How exploitable one learner is: its average and its last policy in a finite game,
    itself in a league.
    """
    gap = last["gap"][str(now)]
    if "averages" in last:
        before = first.get("gap", {}).get(str(start))
        began = "" if before is None else f"{before:.4f} at the start"
        yield Headline(
            f"exploitability of {now.name}'s average policy", f"{gap:.4f}", began
        )
        yield Headline(
            f"exploitability of {now} alone",
            f"{last['last_gap'][str(now)]:.4f}",
            "the last iterate",
        )
        return
    note = "what the league's best member wins against it, of 1"
    if "payoff" in last and str(start) in last["players"]:
        before = max(row[last["players"].index(str(start))] for row in last["payoff"])
        note += f"; against {start}: {before:.3f}"
    yield Headline(f"exploitability of {now}", f"{gap:.3f}", note)


def _two_seats(found: Mapping[str, Any]) -> bool:
    """Whether two players share the gap of a finite game that has a value, instead of
    each having its own.
    """
    return "averages" in found and "value" in found


def _of_many(learners: Sequence[str], measured: Measured) -> Iterator[Headline]:
    """The best, the mean and the most exploitable: one number each, since nobody reads
    three for each of many.
    """
    (t, last), (began, first) = measured[-1], measured[0]
    scores = {name: _of("scores", name, t, last) for name in learners}
    known = {name: score for name, score in scores.items() if score}
    if known:
        best = max(known, key=lambda name: known[name].mean)
        before = _of("scores", best, began, first)
        note = f"{at(best, began, first)}: {_shown(before)}" if before else ""
        yield Headline(
            f"best held-out score, {at(best, t, last)}", _shown(known[best]), note
        )
    for field, title in (
        ("scores", "mean held-out score"),
        ("win_rates", "mean win rate over the start"),
    ):
        means = {
            g: [
                score.mean for name in learners if (score := _of(field, name, g, found))
            ]
            for g, found in ((began, first), (t, last))
        }
        if means[t]:
            share = all(0 <= mean <= 1 for known in means.values() for mean in known)
            before = (
                f"; at the start {_mean(means[began], share)}"
                if field == "scores" and means[began]
                else ""
            )
            yield Headline(
                title, _mean(means[t], share), f"of {len(means[t])} learners{before}"
            )
    if last.get("gap"):
        worst = max(last["gap"], key=lambda name: last["gap"][name])
        note = "what the league's best member wins against it, of 1: the largest of all learners"
        yield Headline(f"exploitability of {worst}", f"{last['gap'][worst]:.3f}", note)


def tested(found: Mapping[str, Any] | None) -> Iterator[Headline]:
    """What the last test says of the player that was chosen for it."""
    score = interval((found or {}).get("test", {}).get((found or {}).get("chosen")))
    if found and score:
        start = interval(found["test"][found["start"]])
        note = (
            f"the best on held-out prompts, tested once; {found['start']}: {_shown(start)}"
            if start
            else ""
        )
        yield Headline(f"test score of {found['chosen']}", _shown(score), note)


def _mean(values: Sequence[float], share: bool) -> str:
    return f"{100 * np.mean(values):.1f} %" if share else f"{np.mean(values):.4g}"


def _shown(found: Interval) -> str:
    """In percent where it can be a share."""
    return found.percent() if found.low >= 0 and found.high <= 1 else str(found)


def curves(learners: Sequence[str], measured: Measured) -> list[Curves]:
    """Every learner's held-out score and its win rate over its start."""
    found = []
    for field, title in (
        ("scores", "held-out score"),
        ("win_rates", "win rate over the start"),
    ):
        drawn = []
        for name in learners:
            points = [(t, _of(field, name, t, facts)) for t, facts in measured]
            known = [
                (float(t), point.mean, point.low, point.high)
                for t, point in points
                if point
            ]
            if known:
                drawn.append((name, *zip(*known, strict=True)))
        unit = "%" if all(0 <= value <= 1 for row in drawn for value in row[2]) else ""
        if drawn:
            found.append(
                Curves(
                    title, unit, tuple(Curve(row[0], unit, *row[1:]) for row in drawn)
                )
            )
    return found


def exploitability(learners: Sequence[str], measured: Measured) -> Curve | None:
    """Of a finite game, the average policy's as it was at each generation; of a league,
    each generation's by now.
    """
    last = measured[-1][1] if measured else {}
    if "averages" in last:
        points = [(float(t), found["exploitability"]) for t, found in measured]
        note = "gain of a best reply against the average policy, in pay-off units"
        if _two_seats(last):
            note = "what both best replies gain against the average policies, together, in pay-off units"
    elif "payoff" in last:
        gains = dict(zip(last["players"], np.max(last["payoff"], axis=0), strict=True))
        points = [
            (float(t), max(gains[str(at(name, t, found))] for name in learners))
            for t, found in measured
        ]
        note = "what the best member of the league, as it is now, wins against each generation: P(win) − P(loss)"
    else:
        return None
    x, y = zip(*points, strict=True)
    return Curve("exploitability", "", x, y, note=note)


def gaps(learners: Sequence[str], measured: Measured) -> Curves | None:
    """Where several learn, each one's gap at each generation, as it was measured then."""
    drawn = []
    for name in learners if len(learners) > 1 else ():
        points = [
            (float(t), _number(found.get("gap", {}).get(str(at(name, t, found)))))
            for t, found in measured
        ]
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
    """The rating of each of `names` after the matches of each generation; NaN where it
    met nobody.
    """
    found = [
        (t, {one.name: one for one in map(rating, facts["ratings"])})
        for t, facts in rated
    ]
    for name in names if found else ():
        rows = [
            (float(t), known.get(name, Rating(name, *[math.nan] * 3)))
            for t, known in found
        ]
        x, ratings = zip(*rows, strict=True)
        if not any(math.isfinite(one.value) for one in ratings):
            continue
        values, lows, highs = zip(
            *((one.value, one.low, one.high) for one in ratings), strict=True
        )
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
