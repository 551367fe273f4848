"""The use of the Nash members of the preference family: games in which preferences run
in circles.

`python -m benchmarks.cyclic_preferences` (within a minute) or `--full`. Tabular
policies on random preference games of 3 to 50 actions: transitive (Bradley-Terry),
cyclic (each action beats half of the others; a full-support equilibrium away from
uniform), mixed (the mean of the two). From one start, every member takes the same
number of exact updates.

Shown is the exact duality gap, max_y P(y beats π) − min_y P(π beats y) = 2·max_y P(y
beats π) − 1, of the last policy and of the average policy: 0 at the equilibrium, 1
where some action beats the policy surely.
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
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from equipoise import seeds
from equipoise.environments.matrix.game import cycle
from equipoise.learners.tabular import (
    Expectation,
    expectation,
    newton,
    softmax,
    win_probabilities,
)
from equipoise.losses.base import PreferenceLoss
from equipoise.payoffs.intervals import over_seeds
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
    """A row of the table. `step` names the setting that holds the step (see
    `settings`).
    """

    label: str
    group: str
    kind: str
    step: str
    more: dict[str, Any] = field(default_factory=dict)
    # Winners from the data (the winners among the start's pairs), losers from the policy.
    spin: bool = False

    def settings(self, step: float) -> dict[str, Any]:
        """The member's settings for a step: the step itself, its inverse, or 4/β, which
        equals it to first order around P = ½.
        """
        size = {
            "beta": 4 / step,
            "tau": 1 / step,
            "eta": step,
            "1/eta": 1 / step,
            "": None,
        }[self.step]
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
    Member(
        "IPO iterated (= MNPO, λ = 1)", PAST, "ipo", "tau", {"reference": "previous"}
    ),
    Member("SPPO", PAST, "sppo", "eta"),
    Member("INPO, τ/η = 0.05", PAST, "inpo", "1/eta", {"target": "eta"}),
    Member("MNPO, λ = ½ ½", PAST, "mnpo", "1/eta", {"weights": [1, 1]}),
    Member("MNPO, λ = ¼ ¾", PAST, "mnpo", "1/eta", {"weights": [1, 3]}),
    Member(
        "MNPO, λ = ½ ½, 0.05 reference",
        PAST,
        "mnpo",
        "1/eta",
        {"weights": [1, 1], "ratio": SHARE},
    ),
    Member(
        "MNPO, λ = ½ ½, P target",
        PAST,
        "mnpo",
        "eta",
        {"weights": [1, 1], "target": "probability"},
    ),
    Member(
        "MNPO, λ = ½ ½, sigmoid",
        PAST,
        "mnpo",
        "beta",
        {"weights": [1, 1], "distance": "sigmoid"},
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
                loss,
                np.outer(data_A, softmax(now_A)),
                [(now_A, 1.0)],
                np.zeros_like(now_A),
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
    """The duality gaps (last, average) of each of MEMBERS and, at the end, of the
    start.
    """
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
    return [*measured, (exploitability(payoff_AA, softmax(start_A)),) * 2]


def verdict(mine_G: np.ndarray, theirs_RG: np.ndarray) -> str:
    """Over G games against R baselines, by the 95 % interval of each paired difference:
    < all, > any, or =.
    """
    differences = [over_seeds(mine_G - theirs_G) for theirs_G in theirs_RG]
    if all(difference.high < 0 for difference in differences):
        return "<"
    return ">" if any(difference.low > 0 for difference in differences) else "="


def table(gap_FGM2: np.ndarray, title: str) -> Table:
    """Means over a family's games with half their 95 % intervals, and the comparison of
    the members that use their past.
    """
    shown = Table(title=title)
    shown.add_column("pairs, opponents")
    shown.add_column("member")
    for family, which in product(FAMILIES, ("last", "average")):
        shown.add_column(f"{family}\n{which}", justify="right")
    for i, (label, group) in enumerate(
        [*((member.label, member.group) for member in MEMBERS), ("the start", "–")]
    ):
        cells = []
        for gap_GM, which in product(gap_FGM2, (0, 1)):
            mean = over_seeds(gap_GM[:, i, which])
            marks = [
                verdict(gap_GM[:, i, which], gap_GM[:, rows, which].T)
                for rows in BASELINES
            ]
            mark = f"{marks[0]}|{marks[1]}" if group == PAST else "   "
            cells.append(f"{mean.mean:.3f} ± {(mean.high - mean.low) / 2:.3f} {mark}")
        shown.add_row(
            group,
            label,
            *cells,
            end_section=i + 1 < len(MEMBERS) and MEMBERS[i + 1].group != group,
        )
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Play every member on every game and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="more sizes, games and updates (a quarter of an hour)",
    )
    full = parser.parse_args(argv).full
    sizes, repeats, updates = (
        ((3, 5, 9, 17, 33, 49), 5, 300) if full else ((3, 9, 49), 3, 60)
    )
    names = [(*name, updates) for name in product(FAMILIES, sizes, range(repeats))]
    for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        # Small matrices in many processes, which are started afresh and read this.
        os.environ[library] = "1"
    started = time.perf_counter()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(gaps, *zip(*names, strict=True)))
    gap_FGM2 = np.array(rows).reshape(len(FAMILIES), -1, len(MEMBERS) + 1, 2)
    sizes_text = ", ".join(map(str, sizes))
    title = (
        f"Duality gap after {updates} exact updates; games of {sizes_text} "
        f"actions, {repeats} of each and family"
    )
    console = Console(width=max(175, Console().width))
    console.print(table(gap_FGM2, title))
    console.print(
        "Mean over a family's games ± half its 95 % interval; "
        f"{time.perf_counter() - started:.0f} s. Step {STEP:g}; "
        "where the reference is the start, each game's best of "
        f"{', '.join(f'{tilt:g}' for tilt in TILTS)}. "
        "Marks: against DPO and IPO offline | online; < smaller than both, by the 95 "
        "% intervals of the paired "
        "differences, > larger than one of them, = neither."
    )


if __name__ == "__main__":
    main()
