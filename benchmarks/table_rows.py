"""The rows of the tables on what models learn: each claim's figure and its control, from the raw
results. One function a benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import nash_gap as nash_gaps
from benchmarks.claims import FOLLOWED
from benchmarks.comparing import bounded, paired
from benchmarks.kuhn_table import kuhn_claim
from benchmarks.verdicts import GREEDY, raw

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Results = Mapping[str, Any]
LONGER = "best_response_400"
SHOWN = {"start": "start", "mnpo": "MNPO", "dpo": "DPO", "simpo": "SimPO"}


@dataclass(frozen=True)
class Row:
    """A claim with its figure and the figure that could refute it.

    `short` is the figure for the README, with `short_what`; "" for a row that is not a headline.
    """

    what: str
    figure: str
    control: str
    command: str
    date: str
    short: str = ""
    short_what: str = ""

    def cells(self) -> tuple[str, ...]:
        """As docs/results.md shows it."""
        return (self.what, self.figure, self.control, self.date, f"`{self.command}`")

    def headline(self) -> tuple[str, ...]:
        """As the README shows it."""
        return (self.short_what or self.what, self.short)


def quickstart(results: Results) -> Row:
    """Sampled and greedy, at the start and at the end."""
    figures = raw("quickstart")[0].figures()
    by_seed = [{kind: rows[seed] for kind, rows in figures.items()} for seed in figures["all"]]

    def mean(column: str, kind: str = "all") -> str:
        return shares([seed[kind][column] for seed in by_seed])

    def gain(ending: str, kind: str = "all") -> str:
        columns = [[seed[kind][when + ending] for seed in by_seed] for when in ("end", "start")]
        return points(columns[0], columns[1])

    return Row(
        "the quickstart: a tiny beginner plays its own past, three generations, "
        f"{seeds_text(results)}",
        f"right answers {mean('start')} → {mean('end')}, sampled at temperature 1",
        f"greedily {mean('start, greedy')} → {mean('end, greedy')}, "
        f"{gain(', greedy')}: sums {gain(', greedy', 'sum')}, harmful questions "
        f"{gain(', greedy', 'harmful')}",
        "python -m benchmarks.quickstart",
        results["date"],
    )


def instructions(results: Results) -> Row:
    """Methods under the judge that multiplies, each at the best of the same rates."""
    scores, _ = raw("trial_instructions")
    after = [
        f"{label} {percent(scores.mean(arm, FOLLOWED).mean)} "
        f"({scores.mean(arm, 'relevance' + GREEDY).mean:.2f})"
        for arm, label in SHOWN.items()
    ]
    what = (
        "instructions followed, SmolLM2-135M-Instruct with LoRA, at best rates, "
        f"{seeds_text(results)}, greedy (relevance)"
    )
    return Row(
        what,
        ", ".join(after),
        "",
        results["command"].partition(" --out")[0],
        results["date"],
        ", ".join(after),
    )


def longer() -> str:
    """What a fresh adversary of more updates gets; "" where none was trained."""
    file = RESULTS / f"{LONGER}.json"
    if not file.is_file():
        return ""
    results = json.loads(file.read_text())
    arms = Arms(results["figures"])
    gets = arms.each("best response")
    updates = results["arguments"]["updates"]
    return f"; {updates} updates against it, sampled: {gets}"


@dataclass(frozen=True)
class Arms:
    """The figures of arms, a row of columns for each seed, as text."""

    rows: Mapping[str, Sequence[Mapping[str, float]]]

    def column(self, arm: str, name: str) -> list[float]:
        """A value for each seed."""
        return [row[name] for row in self.rows[arm]]

    def mean(self, arm: str, name: str) -> float:
        """Over the seeds."""
        return float(np.mean(self.column(arm, name)))

    def share(self, arm: str, name: str) -> str:
        """As `shares` says it."""
        return shares(self.column(arm, name))

    def number(self, arm: str, name: str) -> str:
        """`0.742 (0.712 to 0.773)`."""
        return bounded(self.column(arm, name), high=np.inf).text()

    def each(self, name: str, *left_out: str) -> str:
        """The shares of all arms but some, and but those that a seed lacks."""
        seeds = max(map(len, self.rows.values()))
        arms = [
            arm for arm, rows in self.rows.items() if arm not in left_out and len(rows) == seeds
        ]
        return ", ".join(f"`{arm}` {self.share(arm, name)}" for arm in arms)

    def gain(self, first: str, second: str, name: str) -> str:
        """By how many points the first arm ends above the second."""
        return points(self.column(first, name), self.column(second, name))


def pool(results: Results) -> Row:
    """Greedily and sampled, like with like: mean with mean, best with best."""
    arms = Arms(results["figures"])
    mean, best = "mean after, greedy", "best after, greedy"
    start = percent(arms.mean("sparta", "mean before, greedy"))
    best_start = percent(arms.mean("sparta", "best before, greedy"))
    base = percent(arms.mean("sparta", "base, greedy"))
    generations = results["arguments"].get("generations", 3)
    return Row(
        f"SPARTA, six tiny clerks on one base, {generations} generations, "
        f"{seeds_text(results)}: right answers",
        f"pool's mean, greedily, {start} → {arms.each(mean)}",
        f"base without adapters, greedily {base}. sparta − alone, greedily "
        f"{arms.gain('sparta', 'alone', mean)}; their best members {best_start} → "
        f"{arms.share('sparta', best)} and {arms.share('alone', best)}; sampled, mean "
        f"{arms.share('sparta', 'mean after')} and {arms.share('alone', 'mean after')}",
        "python -m benchmarks.pool",
        results["date"],
    )


def red_team(results: Results) -> Row:
    """The worst of all adversaries, greedily and sampled."""
    arms = Arms(results["figures"])
    worst = arms.each("worst, greedy")
    seeds = seeds_text(results)
    return Row(
        f"GPO, a tiny clerk attacked by a tiny adversary, {seeds}",
        f"worst attack success of any adversary, defenders decoded greedily: {worst}",
        f"sampled: {arms.each('worst')}{longer()}; of an adversary trained against the finished "
        f"defender {arms.each('best response')}; over-refusal {arms.each('over-refusal')}",
        "python -m benchmarks.red_team",
        results["date"],
        arms.each("worst, greedy", "start") + longer(),
        f"GPO, built-in world, {seeds}: worst attack success, greedy",
    )


def assistance(results: Results) -> Row:
    """Right moves and welfare, greedily and sampled."""
    arms = Arms(results["figures"])
    ours, start, right = "cobb_douglas", "start", "right, greedy"
    left_out = (ours, start, "start, no blocks")
    welfare = [
        f"{way}{percent(arms.mean(start, f'right{ending}'))} → "
        f"{arms.share(ours, f'right{ending}')} of moves right, welfare "
        f"{arms.mean(start, f'welfare{ending}'):.3f} → "
        f"{arms.number(ours, f'welfare{ending}')}"
        for way, ending in (("greedily ", ", greedy"), ("sampled ", ""))
    ]
    seeds = seeds_text(results)
    what = f"GTAlign (by GRPO), a tiny clerk that writes four blocks, {seeds}"
    return Row(
        what,
        welfare[0],
        f"{welfare[1]}; greedily, other arms: moves right {arms.each(right, *left_out)}",
        "python -m benchmarks.assistance",
        results["date"],
    )


def nash_gap(results: Results) -> Row:
    """The exponents of both games, both players at once."""
    rows = results["figures"]

    def exponents(game: str, variant: str) -> str:
        own = nash_gaps.of_variant(rows, game, variant, nash_gaps.TURNS[0])
        averages, last = (nash_gaps.exponent(own, policies) for policies in nash_gaps.POLICIES)
        return f"averaged policies {averages.text()}, last {last.text()}"

    return Row(
        "Nash gap of GPO's idealised algorithm against T, "
        f"{results['arguments']['games']} random games, exponent of the mean gap",
        f"the defender sees the prompt: {exponents('contextual', 'played')}",
        f"exact games, nothing is sampled; both move at once: {exponents('simultaneous', 'plain')}",
        "python -m benchmarks.nash_gap",
        results["date"],
    )


def kuhn(results: Results) -> Row:
    """NashConv of the last policies and of the averages, by whom they met."""
    seeds = " ".join(map(str, results["arguments"]["seeds"]))
    command = f"python -m benchmarks.kuhn --seeds {seeds}"  # three of them each arm's
    return Row(*kuhn_claim(*raw("kuhn")), command, results["date"])


def optimism(results: Results) -> Row:
    """The members that look ahead in the cyclic games, beside MNPO and uniform play."""
    gaps: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in results["figures"]["rows"]:
        family, size, _, method, last, average = row.split(",")
        if family == "cyclic":
            gaps.setdefault((size, method), []).append((float(last), float(average)))

    sizes = list(dict.fromkeys(size for size, _ in gaps))

    def text(method: str) -> str:
        """The last policies with their interval, and the averages, size by size."""
        last, average = [], []
        for size in sizes:
            of_last, of_average = zip(*gaps[size, method], strict=True)
            mean = bounded(of_last)
            last.append(f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f})")
            average.append(f"{np.mean(of_average):.3f}")
        return f"{method.replace(';', ',')} {', '.join(last)}, averages {', '.join(average)}"

    arguments = results["arguments"]
    return Row(
        f"P(win) − ½ against the last policy in cyclic games of {', '.join(sizes)} actions, "
        f"{arguments['games']} a size, {arguments['evaluations']} exact evaluations",
        f"{text('optimistic')}; {text('extragradient')}",
        f"{text('MNPO; two past')}; {text('uniform')}",
        "python -m benchmarks.optimism --json benchmarks/results/optimism.json",
        results["date"],
    )


def seeds_text(results: Results) -> str:
    """How many seeds were played."""
    return counted(len(results["arguments"]["seeds"]))


def counted(seeds: int) -> str:
    """`3 seeds`."""
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def shares(values: Sequence[float]) -> str:
    """`65.1 % (60.0 to 70.2)`; without an interval where the seeds are all alike."""
    interval = bounded(values)
    alike = interval.low == interval.high  # as a start's are
    return percent(interval.mean) if alike else interval.percent()


def percent(share: float) -> str:
    """`41.8 %`."""
    return f"{100 * share:.1f} %"


def points(after: Sequence[float], before: Sequence[float]) -> str:
    """`+4.1 points (1.0 to 7.2)`, paired over the seeds."""
    gain = paired([100 * value for value in after], [100 * value for value in before])
    if np.isnan(gain.low) or gain.low == gain.high:
        return f"{gain.mean:+.1f} points"
    return f"{gain.mean:+.1f} points ({gain.low:+.1f} to {gain.high:+.1f})"
