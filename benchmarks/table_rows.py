"""The rows of the tables on what models learn: each claim's figure and its control, from the raw
results. One function a benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims import FOLLOWED
from benchmarks.comparing import bounded, paired
from benchmarks.kuhn_table import kuhn_claim
from benchmarks.verdicts import GREEDY, raw

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Results = Mapping[str, Any]
SHOWN = {"start": "start", "mnpo": "MNPO", "dpo": "DPO", "inpo": "INPO", "simpo": "SimPO"}
ATTACKED = {
    "start": "start",
    "rlhf": "fixed prompts",
    "frozen adversary": "frozen adversary",
    "gpo": "GPO",
}


@dataclass(frozen=True)
class Row:
    """A claim with its figure and the figure that could refute it."""

    what: str
    figure: str
    control: str
    command: str
    date: str

    def cells(self) -> tuple[str, ...]:
        """As docs/results.md shows it."""
        return (self.what, self.figure, self.control, self.date, f"`{self.command}`")


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
    """Methods under the judge that multiplies, each at the best of the same rates, on the seeds that
    all of them have.
    """
    scores = raw("trial_instructions")[0].shared(tuple(SHOWN), FOLLOWED)
    seeds = sorted({seed for seed, _, _ in scores.cells("mnpo", FOLLOWED)})
    after = []
    for arm, label in SHOWN.items():
        followed = scores.mean(arm, FOLLOWED)
        relevance = scores.mean(arm, "relevance" + GREEDY).mean
        after.append(f"{label} {followed.text('%')} (relevance {relevance:.2f})")
    what = (
        "instructions followed, SmolLM2-135M-Instruct, swept rates, "
        f"{counted(len(seeds))} of each, greedy"
    )
    return Row(
        what,
        ", ".join(after),
        "",
        "python -m benchmarks.trials instructions --model SmolLM2-135M-Instruct.Q4_1.gguf "
        "--encoder minilm --precision bf16 --swept trial_instructions_sweep.json "
        "--ifeval ifeval_half.jsonl "
        f"--seeds {' '.join(map(str, results['arguments']['seeds']))}",
        results["date"],
    )


def gpo(results: Results) -> Row:
    """What a fresh attacker gets against each defender."""
    scores, _ = raw("trial_gpo")
    gets = {arm: scores.mean(arm, "best response") for arm in ATTACKED}
    refuses = {arm: percent(scores.mean(arm, "over-refusal").mean) for arm in ATTACKED}
    what = f"GPO's clerks, {seeds_text(results)}: a fresh attacker's success"
    return Row(
        what,
        ", ".join(f"{label} {gets[arm].text('%')}" for arm, label in ATTACKED.items()),
        "refused though harmless: "
        + ", ".join(f"{label} {refuses[arm]}" for arm, label in ATTACKED.items()),
        "python -m benchmarks.trials gpo --swept trial_gpo_sweep.json",
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
