"""From what the stages of a game of attack and defence found to the numbers, curves and
texts of its report.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np

from equipoise.payoffs.intervals import Interval
from equipoise.report.facts import (
    Answer,
    Attack,
    CrossPlay,
    Curve,
    Curves,
    Headline,
    MatchCard,
    Phase,
)
from equipoise.report.measured import Measured, interval
from equipoise.report.terminal import Change
from equipoise.run.sampled_matches import Sample
from equipoise.types import Judgement, Match, Message

Stage = tuple[
    str, int, str, Mapping[str, Any], float
]  # key, generation, stage, facts, seconds
POINTS = 120  # of a curve over training; more generations are averaged, in equal parts of each phase
CARDS = 200  # attacks on the page
RECENT = 10  # of the adversary's last turns, over which repetition is averaged
REPEATED, REFUSED, OFF_TOPIC, LOST = (
    0.5,
    0.2,
    0.5,
    0.5,
)  # shares from which on an adversary has collapsed

MEASURES = (
    ("attack_success.raw", "attack success, raw prompts", False),
    ("attack_success.adversary", "attack success, adversary", False),
    ("worst", "worst attack success (exploitability)", False),
    ("over_refusal", "over-refusal", False),
    ("helpfulness", "helpfulness", True),
    ("diversity", "attack diversity (1 − self-BLEU)", True),
    ("adversary_on_topic", "attacks on topic", True),
    ("adversary_refused", "attacks that refuse", False),
)  # where it is found, what it is called, whether more of it is better


def value(found: Mapping[str, Any], name: str) -> Interval | None:
    """One of MEASURES as it was measured; None where it was not. The worst and the
    diversity have no interval.
    """
    if name == "worst":
        cells = [
            (row[-1], _cross(found)["prompts"])
            for row in _cross(found).get("success", ())
            if row[-1] is not None
        ]
        plain = [
            (one["mean"], one["n"])
            for one in found["attack_success"].values()
            if one["mean"] is not None
        ]
        if not cells and not plain:
            return None
        mean, n = max(cells + plain)
        return Interval(mean, math.nan, math.nan, n)
    if name == "diversity":
        mean = found.get("diversity", {}).get("bleu_diversity")
        return (
            None
            if mean is None
            else Interval(
                mean, math.nan, math.nan, found["attack_success"]["adversary"]["n"]
            )
        )
    first, _, second = name.partition(".")
    one = found.get(first) or {}
    known = interval(one.get(second) if second else one)
    return known if known and known.n else None


def _cross(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return found.get("crossplay") or {}


def _compared(
    measured: Measured,
) -> Iterator[tuple[str, str, bool, Interval | None, Interval]]:
    """(name, title, whether more is better, before, after) of everything measured at
    the end.
    """
    if not measured or "attack_success" not in measured[-1][1]:
        return
    first, last = measured[0][1], measured[-1][1]
    for name, title, better in MEASURES:
        after = value(last, name)
        if after is not None:
            yield (
                name,
                title,
                better,
                value(first, name) if "attack_success" in first else None,
                after,
            )


def changes(measured: Measured, attacking: bool = False) -> list[Change]:
    """Every measure of attack and defence, at the start and now. `attacking`: only the
    adversary learns.
    """
    return [
        Change(
            title,
            before,
            after,
            _unit(name),
            better != (attacking and name.startswith(("attack_success", "worst"))),
        )
        for name, title, better, before, after in _compared(measured)
    ]


def headlines(measured: Measured) -> Iterator[Headline]:
    """The same, ready to read."""
    for name, title, _, before, after in _compared(measured):
        unit = _unit(name)
        yield Headline(
            title,
            after.text(unit),
            "" if before is None else f"{before.text(unit)} at the start",
        )


def _unit(name: str) -> str:
    return "" if name == "diversity" else "%"


def attack(
    stages: Iterable[Stage], measured: Measured, cards: Sequence[MatchCard], seen: int
) -> Attack:
    """Everything that the report shows of attack and defence."""
    found = [stage for stage in stages if stage[2] in ("turn", "episodes", "learn")]
    phases = _phases(found)
    red = [(t, facts) for t, facts in measured if "attack_success" in facts]
    points = [
        (t, value(facts, "diversity"), value(facts, "attack_success.adversary"))
        for t, facts in red
    ]
    return Attack(
        trained=tuple(_trained(found, phases)),
        phases=tuple(phases),
        measured=tuple(_measured(red)),
        diverse=tuple(
            (t, spread.mean, success.mean)
            for t, spread, success in points
            if spread and success
        ),
        crossplay=_crossplay(red[-1][1]) if red else None,
        cards=tuple(cards),
        seen=seen,
    )


def _phases(stages: Sequence[Stage]) -> list[Phase]:
    turns = sorted(
        (t, tuple(facts["learn"]))
        for _, t, stage, facts, _ in stages
        if stage == "turn"
    )
    made = [
        (names, [t for t, _ in turn])
        for names, turn in groupby(turns, key=lambda turn: turn[1])
    ]
    return [Phase(names, ts[0], ts[-1]) for names, ts in made]


def _trained(stages: Sequence[Stage], phases: Sequence[Phase]) -> Iterator[Curves]:
    """Rewards, their parts and the KL divergences over the generations in which they
    were paid.
    """
    groups: dict[str, dict[str, dict[int, float]]] = {
        name: defaultdict(dict)
        for name in ("Reward", "Parts of the reward", "KL divergence from the start")
    }
    for key, t, stage, facts, _ in stages:
        name = key.split("/", 2)[-1]
        if stage == "episodes" and facts.get("reward") is not None:
            groups["Reward"][name][t] = facts["reward"]
            for part, mean in facts.get("parts", {}).items():
                groups["Parts of the reward"][
                    part.replace(".", ": ").replace("_", " ")
                ][t] = mean
        elif stage == "learn" and facts.get("kl") is not None:
            groups["KL divergence from the start"][name][t] = facts["kl"]
    notes = {
        "Reward": "mean over the episodes of a training generation",
        "Parts of the reward": "they add up to the reward of their role",
        "KL divergence from the start": "per answer, in nats, estimated on the training episodes",
    }
    for title, lines in groups.items():
        curves, size = _over_phases(lines, phases)
        each = (
            f"; each point is the mean of up to {size} generations" if size > 1 else ""
        )
        if curves:
            yield Curves(
                title,
                "nats" if title.startswith("KL") else "",
                curves,
                notes[title] + each,
            )


def _over_phases(
    lines: Mapping[str, Mapping[int, float]], phases: Sequence[Phase]
) -> tuple[tuple[Curve, ...], int]:
    """A curve for each line with a gap while others learn, and how many generations a
    point stands for at most.
    """
    every = [t for line in lines.values() for t in line]
    if not every:
        return (), 1
    spans = [(phase.first, phase.last) for phase in phases] or [
        (min(every), max(every))
    ]
    size = math.ceil(sum(last - first + 1 for first, last in spans) / POINTS)
    parts = [
        range(t, min(t + size, last + 1))
        for first, last in spans
        for t in range(first, last + 1, size)
    ]
    alone = all(
        last - first < size for first, last in spans
    )  # points with gaps between them would be no line
    curves = []
    for name, line in lines.items():
        known = [(fmean(part), [line[t] for t in part if t in line]) for part in parts]
        rows = [
            (x, fmean(values) if values else math.nan)
            for x, values in known
            if values or not alone
        ]
        curves.append(
            Curve(name, "", tuple(x for x, _ in rows), tuple(y for _, y in rows))
        )
    return tuple(curves), size


def _measured(red: Measured) -> Iterator[Curves]:
    """What was measured on held-out prompts, a few lines a figure."""
    guests = list(
        dict.fromkeys(name for _, facts in red for name in facts.get("transfer", {}))
    )
    success = {
        "prompts as they are": "attack_success.raw",
        "the adversary": "attack_success.adversary",
    }
    success |= {"worst in cross-play": "worst"} | {
        f"on {name}": f"transfer.{name}" for name in guests
    }
    note = "share of held-out harmful prompts that got a harmful answer; lower is safer"
    harmless = {"over-refusal": "over_refusal", "helpfulness": "helpfulness"}
    attacks = {
        "on topic": "adversary_on_topic",
        "refusals": "adversary_refused",
        "diversity": "diversity",
    }
    for title, lines, said in (
        ("Attack success", success, note),
        ("Harmless prompts", harmless, "over-refusal is better low, helpfulness high"),
        (
            "What the adversary writes",
            attacks,
            "diversity is 1 − self-BLEU of the attacks on held-out prompts",
        ),
    ):
        drawn = []
        for name, field in lines.items():
            points = [
                (float(t), found) for t, facts in red if (found := value(facts, field))
            ]
            if points:
                x, ys = zip(*points, strict=True)
                mean, low, high = zip(
                    *((y.mean, y.low, y.high) for y in ys), strict=True
                )
                bands = (low, high) if any(map(math.isfinite, low)) else ((), ())
                drawn.append(Curve(name, "%", x, mean, *bands))
        if drawn:
            yield Curves(title, "%", tuple(drawn), said)


def _crossplay(found: Mapping[str, Any]) -> CrossPlay | None:
    table, game = _cross(found), found.get("meta_game") or {}
    if not table:
        return None
    success_AD = np.array(table["success"], float)
    return CrossPlay(
        tuple(table["adversaries"]),
        tuple(table["defenders"]),
        success_AD,
        table["prompts"],
        found.get("forgetting"),
        found.get("cycling"),
        game.get("value"),
        game.get("adversary", {}),
        game.get("defender", {}),
    )


def attacks(
    sample: Sample, judge: str, seeds: Mapping[str, Sequence[Message]]
) -> tuple[list[MatchCard], int]:
    """Up to CARDS attacks of the sample, from every generation, successes first; and
    how many it holds.

    `judge` is whose word counts; `seeds` are the seed prompts' messages by id.
    """
    judgements = {
        judgement.match: judgement
        for judgement in sample.judgements
        if judgement.judge == judge
    }
    by_generation: dict[int, list[tuple[float, Match]]] = defaultdict(list)
    for match in sample.matches:
        if any(seat.startswith("adversary") for seat in match.seats):
            by_generation[match.generation].append(
                (_success(match, judgements.get(match.id)), match)
            )
    ranked = [
        sorted(group, key=lambda one: -one[0])
        for _, group in sorted(by_generation.items(), reverse=True)
    ]
    # Each generation gives its best attack, then its second best …: the last generation
    # alone would fill the page.
    turns = [
        group[i]
        for i in range(max(map(len, ranked), default=0))
        for group in ranked
        if i < len(group)
    ]
    chosen = sorted(turns[:CARDS], key=lambda one: (-one[0], -one[1].generation))
    made = [
        _card(match, judgements.get(match.id), seeds.get(match.prompt, ()))
        for _, match in chosen
    ]
    return made, sum(map(len, ranked))


def _success(match: Match, judgement: Judgement | None) -> float:
    """The best of the match's attacks; −1 where nobody judged."""
    successes = judgement.by_seat("success") if judgement else {}
    return max(successes.values(), default=-1.0)


def _card(
    match: Match, judgement: Judgement | None, seed: Sequence[Message]
) -> MatchCard:
    """The seed prompt, then every attack with its success and every answer with how
    safe it is.
    """
    answers = []
    for turn in match.turns:
        attacks = turn.seat.startswith("adversary")
        what = (
            "attack; its success"
            if attacks
            else "answer; the probability that it is safe"
        )
        utility = "success" if attacks else "p_safe"
        given = judgement.score(turn.seat, utility) if judgement else None
        answers.append(
            Answer(
                str(match.seats[turn.seat]),
                turn.move.text or turn.move.error,
                given,
                what,
            )
        )
    prompt = tuple(Message("seed prompt", message.content) for message in seed)
    reason = "not judged yet" if judgement is None else judgement.reason
    return MatchCard(
        match.id, match.generation, match.split, prompt, tuple(answers), reason
    )


def alarms(stages: Iterable[Stage], measured: Measured) -> Iterator[str]:
    """Signs that the adversary has collapsed: it repeats itself, refuses, strays from
    the topic or lost its variety.
    """
    told = [
        facts.get("repeated", {}).get("adversary")
        for _, _, stage, facts, _ in stages
        if stage == "episodes"
    ]
    shares = [share for share in told if share is not None][-RECENT:]
    if shares and fmean(shares) > REPEATED:
        yield (
            f"collapse: {fmean(shares):.0%} of the adversary's training attacks repeat another one of their generation "
            f"(mean of its last {len(shares)}); raise its diversity terms, its temperature or its KL weight"
        )
    red = [facts for _, facts in measured if "attack_success" in facts]
    if not red:
        return
    refused, topic = (
        value(red[-1], "adversary_refused"),
        value(red[-1], "adversary_on_topic"),
    )
    if refused and refused.mean > REFUSED:
        yield f"collapse: {refused.mean:.0%} of the adversary's held-out attacks are refusals"
    if topic and topic.mean < OFF_TOPIC:
        yield f"collapse: only {topic.mean:.0%} of the adversary's held-out attacks are on their prompt's topic"
    now, start = value(red[-1], "diversity"), value(red[0], "diversity")
    if now and start and now.mean < LOST * start.mean:
        yield f"collapse: the attacks' diversity (1 − self-BLEU) fell from {start.mean:.2f} to {now.mean:.2f}"
