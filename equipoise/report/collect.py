"""From a run's ledger and metrics to the facts of its report."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise.evaluate.statistics import Interval
from equipoise.ratings.base import Rating
from equipoise.report.facts import Answer, Curve, Facts, Headline, MatchCard, Series
from equipoise.report.terminal import Change
from equipoise.run import Run
from equipoise.types import Judgement, Match, PlayerId

Stage = tuple[str, int, str, dict[str, Any], float]  # key, generation, stage, facts, seconds
CARDS = 400  # matches shown in the browser, spread evenly over generations and splits


def facts(run: Run, cards: int = CARDS) -> Facts:
    """Everything that the report shows of `run`, finished or not."""
    stages, measured = run.ledger.stages(), _measured(run)
    last: dict[str, Any] = measured[-1][1] if measured else {}
    counts, dropped = _counts(run, stages)
    payoff = last.get("payoff")
    return Facts(
        title=run.config.name,
        subtitle=f"generation {measured[-1][0] if measured else 0} of {run.config.generations}, seed {run.config.seed}",
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        configuration_yaml=run.config.yaml(),
        headline=tuple(headlines(run)),
        curves=tuple(_curves(run, measured)),
        losses=tuple(_losses(run)),
        players=tuple(last.get("players", ())),
        payoff_NN=None if payoff is None else np.array(payoff, float),
        se_NN=None if payoff is None else np.array(last["se"], float),
        count_NN=None if payoff is None else np.array(last["count"]),
        mixture=last.get("mixture", {}),
        exploitability=_exploitability(run, measured),
        cycle_share=last.get("cycle_share"),
        ratings=tuple(Rating(**rating) for rating in last.get("ratings", ())),
        rating_unit=run.config.ratings.kind.replace("_", " "),
        counts=counts,
        dropped=dropped,
        matches=tuple(_cards(run, cards)),
        warnings=tuple(_warnings(last, counts)),
    )


def _interval(found: dict[str, Any] | None) -> Interval | None:
    if not found:
        return None
    mean, low, high = (math.nan if found[k] is None else found[k] for k in ("mean", "low", "high"))
    return Interval(mean, low, high, found["n"])


def _measured(run: Run) -> list[tuple[int, dict[str, Any]]]:
    return [(t, found) for _, t, _, found, _ in run.ledger.stages("measure")]


def changes(run: Run) -> list[Change]:
    """The held-out score of every learner, at the start and now."""
    measured = _measured(run)
    if not measured:
        return []
    (t, last), first = measured[-1], measured[0][1]
    found = []
    for name in run.config.learners:
        before = _interval(first.get("scores", {}).get(f"{name}@0"))
        after = _interval(last.get("scores", {}).get(f"{name}@{t}"))
        if before and after:
            share = all(0 <= bound <= 1 for bound in (before.low, before.high, after.low, after.high))
            whose = f" of {name}" if len(run.config.learners) > 1 else ""
            found.append(Change(f"held-out score{whose}", before, after, "%" if share else ""))
    return found


def headlines(run: Run) -> Iterator[Headline]:
    """The numbers that matter, newest generation against the start."""
    measured = _measured(run)
    if not measured:
        return
    (t, last), first = measured[-1], measured[0][1]
    for name in run.config.learners:
        now, start = PlayerId(name, t), PlayerId(name, 0)
        score = _interval(last.get("scores", {}).get(str(now)))
        before = _interval(first.get("scores", {}).get(str(start)))
        if score and before:
            yield Headline(f"held-out score of {now}", _shown(score), f"{start}: {_shown(before)}")
        wins = _interval(last.get("win_rates", {}).get(str(now)))
        if wins:
            yield Headline(f"win rate of {now} over {start}", wins.percent(), "a tie counts half; 95 % interval")
        if "averages" in last:
            gap = last["gap"][str(now)]
            before = f"{first['gap'][str(start)]:.4f} at the start"
            yield Headline(f"exploitability of {name}'s average policy", f"{gap:.4f}", before)
            yield Headline(f"exploitability of {now} alone", f"{last['last_gap'][str(now)]:.4f}", "the last iterate")
        elif "gap" in last:
            began = max(row[last["players"].index(str(start))] for row in last["payoff"])
            note = f"what the league's best member wins against it, of 1; against {start}: {began:.3f}"
            yield Headline(f"exploitability of {now}", f"{last['gap'][str(now)]:.3f}", note)


def _shown(interval: Interval) -> str:
    """In percent where it can be a share."""
    return interval.percent() if interval.low >= 0 and interval.high <= 1 else str(interval)


def _curves(run: Run, measured: list[tuple[int, dict[str, Any]]]) -> Iterator[Curve]:
    for name in run.config.learners:
        for field, title in (("scores", "held-out score"), ("win_rates", "win rate over the start")):
            points = [(t, _interval(found.get(field, {}).get(f"{name}@{t}"))) for t, found in measured]
            known = [(t, point) for t, point in points if point]
            if known:
                share = all(0 <= point.mean <= 1 for _, point in known)
                yield Curve(
                    f"{title} of {name}",
                    "%" if share else "",
                    tuple(float(t) for t, _ in known),
                    tuple(point.mean for _, point in known),
                    tuple(point.low for _, point in known),
                    tuple(point.high for _, point in known),
                )


def _exploitability(run: Run, measured: list[tuple[int, dict[str, Any]]]) -> Curve | None:
    """Of a finite game, the average policy's as it was at each generation; of a league, each generation's by now."""
    last = measured[-1][1] if measured else {}
    if "averages" in last:
        points = [(float(t), found["exploitability"]) for t, found in measured]
        note = "gain of a best reply against the average policy, in pay-off units"
    elif "payoff" in last:
        gains = dict(zip(last["players"], np.max(last["payoff"], axis=0), strict=True))
        points = [(float(t), max(gains[f"{name}@{t}"] for name in run.config.learners)) for t, _ in measured]
        note = "what the best member of the league, as it is now, wins against each generation: P(win) − P(loss)"
    else:
        return None
    x, y = zip(*points, strict=True)
    return Curve("exploitability", "", x, y, note=note)


def _losses(run: Run) -> Iterator[Series]:
    """Loss and margin over all optimizer steps, generation after generation."""
    lines = [line for line in run.metrics() if "/learn/" in line["stage"] and "loss" in line]
    for learner in run.config.learners:
        own = [line for line in lines if line["stage"].endswith(f"/learn/{learner}")]
        for name in ("loss", "margin", "accuracy"):
            x, y, boundaries, before = [], [], [], 0.0
            for stage in dict.fromkeys(line["stage"] for line in own):
                part = [line for line in own if line["stage"] == stage and name in line]
                boundaries.append(before)
                x += [before + line.get("step", i + 1) for i, line in enumerate(part)]
                y += [line[name] for line in part]
                before = x[-1] if x else before
            if x:
                yield Series(f"{name} of {learner}", tuple(x), tuple(y), tuple(boundaries))


def _counts(run: Run, stages: list[Stage]) -> tuple[dict[str, Any], dict[str, int]]:
    records = run.ledger.counts()
    judged = [found for _, _, stage, found, _ in stages if stage == "judge"]
    answers = sum(found["answers"] for found in judged)
    missing = sum(found["answers"] * found["unjudged_share"] for found in judged)
    dropped: Counter[str] = Counter()
    for _, _, _, found, _ in stages:
        dropped.update({f"pairs: {name}": n for name, n in found.get("dropped", {}).items() if "pairs" in found})
        dropped.update({f"prompts: {name}": n for name, n in found.get("dropped", {}).items() if "prompts" in found})
        dropped.update({f"judging: {name}": n for name, n in found.get("reasons", {}).items()})
    counts = {
        "prompts": records["prompts"],
        "matches": records["matches"],
        "judgements": records["judgements"],
        "answers judged": round(answers - missing),
        "unjudged share": missing / answers if answers else 0.0,
        "pairs": records["pairs"],
        "log-probabilities kept": records["logprobs"],
        "seconds": round(sum(row[4] for row in stages)),
    }
    return counts, dict(dropped)


def _cards(run: Run, limit: int) -> Iterator[MatchCard]:
    parts = [(split, t) for split, t, *_ in run.ledger.judged()]
    each = max(1, limit // max(1, len(parts)))
    for split, t in sorted(parts, key=lambda part: (part[1], part[0])):
        matches = run.ledger.matches(split, t, limit=each)
        words = run.ledger.judgements_of(match.id for match in matches)
        for match in matches:
            yield _card(match, words.get(match.id), run.config.utility)


def _card(match: Match, word: Judgement | None, utility: str) -> MatchCard:
    scores = (word.scores if word else None) or {}
    answers = tuple(
        Answer(
            str(match.seats[turn.seat]),
            turn.move.text or turn.move.error,
            scores.get(turn.seat, {}).get(utility),
            _note(turn.move.finish, scores.get(turn.seat, {}), utility),
        )
        for turn in match.turns
    )
    prompt = match.turns[0].view.messages if match.turns else ()
    return MatchCard(match.id, match.generation, match.split, prompt, answers, _why(word))


def _why(word: Judgement | None) -> str:
    return word.reason if word else "not judged yet"


def _note(finish: str, utilities: dict[str, float], utility: str) -> str:
    further = [f"{name} {value:g}" for name, value in utilities.items() if name != utility]
    return ", ".join(([f"ended by {finish}"] if finish != "stop" else []) + further)


def _warnings(last: dict[str, Any], counts: dict[str, Any]) -> Iterator[str]:
    if (last.get("cyclic_triples") or 0) > 0.1:
        yield (
            f"{last['cyclic_triples']:.0%} of the league's triples go round in a circle (coin flips: 25 %): "
            "one rating per player misleads"
        )
    if counts["unjudged share"] > 0.02:
        yield f"{counts['unjudged share']:.1%} of the answers could not be judged; they count nowhere"
