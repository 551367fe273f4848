"""The use of the Nash members of the preference family: games in which preferences run in circles.

`python -m benchmarks.cyclic_preferences` (a minute or two) or `--full`. Tabular policies on random
preference games of 3 to 50 actions: transitive (Bradley-Terry), cyclic (each action beats half of
the others; a full-support equilibrium away from uniform), mixed (the mean of the two). From one
start, every member takes the same number of exact updates.

Shown is the exact duality gap, max_y P(y beats π) − min_y P(π beats y) = 2·max_y P(y beats π) − 1,
of the last policy and of the average policy: 0 at the equilibrium, 1 where some action beats the
policy surely. Beside the members stands the uniform policy, which plays no game and is near the
equilibrium wherever preferences cycle evenly. Games of different sizes are not taken together, and
what is compared is corrected for the number of comparisons in the whole table.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import ttest_1samp

from benchmarks.comparing import bounded, holm
from benchmarks.running import write_results
from equipoise import seeds
from equipoise.environments.matrix.game import cycle
from equipoise.learners.tabular_learner import (
    Expectation,
    expectation,
    newton,
    softmax,
    win_probabilities,
)
from equipoise.losses.base import PreferenceLoss
from equipoise.solvers.exploitability import exploitability
from equipoise.types import PlayerId

FAMILIES = ("transitive", "cyclic", "mixed")
# Nats by which an update moves an action that wins surely above one that loses surely.
STEP = 1.0
# The same, for members that only ever tilt the start: each game's best is shown.
TILTS = (1.0, 10.0, 100.0)
# The weight of the reference, where a member has it beside its past.
SHARE = 0.05

FIXED, FRESH, PAST = "start's, start", "fresh, start", "fresh, own past"


@dataclass(frozen=True)
class Member:
    """A row of the table. `step` names the setting that holds the step (see `settings`)."""

    label: str
    group: str
    kind: str
    step: str
    more: dict[str, Any] = field(default_factory=dict)
    # Winners from the data (the winners among the start's pairs), losers from the policy.
    spin: bool = False

    def settings(self, step: float) -> dict[str, Any]:
        """The member's settings for a step: the step itself, its inverse, or 4/β, which equals it
        to first order around P = ½.
        """
        size = {"beta": 4 / step, "tau": 1 / step, "eta": step, "1/eta": 1 / step, "": None}[
            self.step
        ]
        inpo = {"tau": SHARE / step} if self.kind == "inpo" else {}
        return {
            "kind": self.kind,
            **self.more,
            **inpo,
            **({self.step.removeprefix("1/"): size} if self.step else {}),
        }


MEMBERS = [
    Member("DPO, offline", FIXED, "dpo", "beta"),
    Member("IPO, offline", FIXED, "ipo", "tau"),
    Member("Distill-DPO, offline", FIXED, "distill_dpo", "beta"),
    Member("SimPO, offline", FIXED, "simpo", "beta", {"gamma": 0.0}),
    Member("CPO, offline", FIXED, "cpo", "beta"),
    Member("DPO, online", FRESH, "dpo", "beta"),
    Member("IPO, online", FRESH, "ipo", "tau"),
    Member("SPIN, data: start's winners", PAST, "spin", "beta", spin=True),
    Member("DNO (= DPO iterated)", PAST, "dno", "beta"),
    Member("IPO iterated (= MNPO, λ = 1)", PAST, "ipo", "tau", {"reference": "previous"}),
    Member("SPPO", PAST, "sppo", "eta"),
    Member("INPO, τ/η = 0.05", PAST, "inpo", "1/eta", {"target": "eta"}),
    Member("MNPO, λ = ½ ½", PAST, "mnpo", "1/eta", {"weights": [1, 1]}),
    Member("MNPO, λ = ¼ ¾", PAST, "mnpo", "1/eta", {"weights": [1, 3]}),
    Member(
        "MNPO, λ = ½ ½, 0.05 reference", PAST, "mnpo", "1/eta", {"weights": [1, 1], "ratio": SHARE}
    ),
    Member(
        "MNPO, λ = ½ ½, P target", PAST, "mnpo", "eta", {"weights": [1, 1], "target": "probability"}
    ),
    Member(
        "MNPO, λ = ½ ½, sigmoid", PAST, "mnpo", "beta", {"weights": [1, 1], "distance": "sigmoid"}
    ),
    Member("MNPO released, η = 0.0075", PAST, "mnpo_released", ""),
]
BASELINES = [
    [
        i
        for i, member in enumerate(MEMBERS)
        if member.group == group and member.kind in ("dpo", "ipo")
    ]
    for group in (FIXED, FRESH)
]
PEERS = ("the start", "the uniform policy")
# What a member is compared with: all of DPO and IPO offline, online, and uniform.
AGAINST = {"offline": BASELINES[0], "online": BASELINES[1], "uniform": [-1]}
LEVEL = 0.05


def game(family: str, size: int, seed: int) -> np.ndarray:
    """payoff[a, b] = 2·P(a beats b) − 1, [A, A]."""
    rng = seeds.generator(seed, family, size)
    reward_A = rng.normal(scale=1.5, size=size)
    transitive_AA = np.tanh(np.subtract.outer(reward_A, reward_A) / 2)
    # A regular cycle C has C·1 = 0, so C / (p pᵀ) has the equilibrium p.
    equilibrium_A = softmax(rng.uniform(-0.7, 0.7, size))
    cyclic_AA = cycle(size, None) / np.outer(equilibrium_A, equilibrium_A)
    cyclic_AA *= 0.9 / np.abs(cyclic_AA).max()
    return {
        "transitive": transitive_AA,
        "cyclic": cyclic_AA,
        "mixed": (transitive_AA + cyclic_AA) / 2,
    }[family]


def iterates(
    member: Member, win_AA: np.ndarray, start_A: np.ndarray, updates: int, step: float
) -> np.ndarray:
    """The policies π_0 … π_updates, [updates + 1, A]."""
    loss = PreferenceLoss.build(member.settings(step))
    past, logits = [PlayerId("policy")], {PlayerId("policy"): start_A}
    data_A = 2 * softmax(start_A) * (win_AA @ softmax(start_A))
    for generation in range(updates):
        now_A = logits[past[0]]
        if member.spin:
            problem = Expectation(
                loss, np.outer(data_A, softmax(now_A)), [(now_A, 1.0)], np.zeros_like(now_A)
            )
        else:
            sampler = "initial" if member.group == FIXED else "current"
            problem = expectation(loss, win_AA, past, logits.__getitem__, sampler)
        past.insert(0, PlayerId("policy", generation + 1))
        logits[past[0]] = newton(problem, now_A, 100)[0]
        if member.group == FIXED:
            # Every update is the same problem and has the same solution.
            return np.array([softmax(start_A), *[softmax(logits[past[0]])] * updates])
    return np.array([softmax(logits[player]) for player in reversed(past)])


def gaps(family: str, size: int, seed: int, updates: int) -> list[tuple[float, ...]]:
    """The duality gaps (last, average) of each of MEMBERS and, at the end, of PEERS."""
    payoff_AA = game(family, size, seed)
    win_AA = win_probabilities(payoff_AA)
    start_A = seeds.generator(seed, "start", family, size).normal(size=size)
    measured = []
    for member in MEMBERS:
        steps = (STEP,) if member.group == PAST else TILTS
        runs = [iterates(member, win_AA, start_A, updates, step) for step in steps]
        last = [exploitability(payoff_AA, policy_TA[-1]) for policy_TA in runs]
        average = [exploitability(payoff_AA, policy_TA.mean(0)) for policy_TA in runs]
        measured.append((min(last), min(average)))
    for policy_A in (softmax(start_A), np.full(size, 1 / size)):
        measured.append((exploitability(payoff_AA, policy_A),) * 2)
    return measured


def comparisons(gap_FSGM2: np.ndarray) -> dict[tuple[int, ...], tuple[float, float]]:
    """(family, size, member, last or average, other) -> (mean difference, p): a paired t test over
    the games for each member that uses its past and each row that it is compared with; p is
    corrected for all of them by Holm's procedure.
    """
    mine = [i for i, member in enumerate(MEMBERS) if member.group == PAST]
    others = [row for rows in AGAINST.values() for row in rows]
    families, sizes = range(len(gap_FSGM2)), range(gap_FSGM2.shape[1])
    keys = list(product(families, sizes, mine, (0, 1), others))
    means, p_values = [], []
    for family, size, member, which, other in keys:
        gap_GM = gap_FSGM2[family, size, :, :, which]
        difference_G = gap_GM[:, member] - gap_GM[:, other]
        means.append(float(difference_G.mean()))
        same = np.ptp(difference_G) < 1e-12
        result: Any = None if same else ttest_1samp(difference_G, 0.0)
        p_values.append(float(result.pvalue) if result else float(not means[-1]))
    corrected = map(float, holm(p_values))
    return dict(zip(keys, zip(means, corrected, strict=True), strict=True))


def mark(results: Sequence[tuple[float, float]]) -> str:
    """Of a member against some rows: < shown smaller than all, > larger than any, or =."""
    if all(mean < 0 and p < LEVEL for mean, p in results):
        return "<"
    return ">" if any(mean > 0 and p < LEVEL for mean, p in results) else "="


def table(
    gap_SGM2: np.ndarray,
    sizes: Sequence[int],
    title: str,
    compared: dict[tuple[int, ...], tuple[float, float]],
) -> Table:
    """A family: by size the mean over its games with its interval, and the comparison of the
    members that use their past (`compared` without the family).
    """
    shown = Table(title=title)
    shown.add_column("pairs, opponents")
    shown.add_column("member")
    for size, which in product(sizes, ("last", "average")):
        shown.add_column(f"{size} actions\n{which}", justify="right")
    rows = [(member.label, member.group) for member in MEMBERS]
    rows += [(peer, "–") for peer in PEERS]
    for i, (label, group) in enumerate(rows):
        cells = []
        for size, which in product(range(len(sizes)), (0, 1)):
            mean = bounded(gap_SGM2[size, :, i, which])
            marks = ""
            if group == PAST:
                marks = " " + "|".join(
                    mark([compared[size, i, which, other] for other in against])
                    for against in AGAINST.values()
                )
            cells.append(f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f}){marks}")
        last = i + 1 == len(rows) or rows[i + 1][1] != group
        shown.add_row(group, label, *cells, end_section=last)
    return shown


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--full", action="store_true", help="more sizes, games and updates (an hour)")
    add("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    add("--sizes", type=int, nargs="+", help="numbers of actions")
    add("--repeats", type=int, help="games of each family and size")
    add("--updates", type=int, help="of every member")
    add("--jobs", type=int, help="processes; by default as many as there are cores")
    add("--json", type=Path, help="write every game's gaps here")
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Play every member on every game and print the tables."""
    o = parser().parse_args(argv)
    sizes, repeats, updates = ((3, 5, 9, 17, 33, 49), 8, 300) if o.full else ((3, 9, 49), 3, 60)
    sizes = o.sizes or sizes
    repeats, updates = o.repeats or repeats, o.updates or updates
    names = [(*name, updates) for name in product(o.families, sizes, range(repeats))]
    for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        # Small matrices in many processes, which are started afresh and read this.
        os.environ[library] = "1"
    started = time.perf_counter()
    with ProcessPoolExecutor(o.jobs, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(gaps, *zip(*names, strict=True)))
    shape = (len(o.families), len(sizes), repeats, len(MEMBERS) + len(PEERS), 2)
    gap_FSGM2 = np.array(rows).reshape(shape)
    compared = comparisons(gap_FSGM2)
    console = Console(width=max(60 + 56 * len(sizes), Console().width))
    for f, family in enumerate(o.families):
        title = f"{family}: duality gap after {updates} exact updates, {repeats} games of each size"
        of_family = {key[1:]: value for key, value in compared.items() if key[0] == f}
        console.print(table(gap_FSGM2[f], sizes, title, of_family))
    console.print(
        f"Mean over the games, 95 % interval; {time.perf_counter() - started:.0f} s. "
        f"Step {STEP:g}; where the reference is the start, each game's best of "
        f"{', '.join(f'{tilt:g}' for tilt in TILTS)}. Marks: against DPO and IPO offline "
        "| online | the uniform policy; < shown smaller than all of these, > shown "
        f"larger than one, = neither, by paired t tests at {LEVEL:g} corrected for "
        f"{len(compared)} comparisons (Holm)."
    )
    if o.json:
        write_results(
            o.json,
            {
                "families": o.families,
                "sizes": sizes,
                "rows": [*(member.label for member in MEMBERS), *PEERS],
                "gap_FSGM2": gap_FSGM2.round(6).tolist(),
            },
            updates=updates,
        )


if __name__ == "__main__":
    main()
