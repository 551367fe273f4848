"""Where preferences cycle: optimistic and extragradient updates beside those that go round.

    python -m benchmarks.optimism [--games 200] [--json benchmarks/results/optimism.json]

Exact updates of tabular policies on preference games of 3, 9 and 49 actions: cyclic and mixed ones
as in `benchmarks.cyclic_preferences`, and random ones, P(a beats b) uniform. All methods start from
one normal draw of logits and evaluate P(y beats a policy) `--evaluations` times; an extragradient
update takes two. The gap is the largest P(win) against the policy, less ½, of the last policy and
of the mean of all.

Step sizes, and τ or the share of the start where a method has one, are swept on reserved games of
each cell, for the last policy and for the average apart, and alike for all methods; three rows have
the steps of METHODS.md §5 instead. Intervals are bootstraps over games. Below the table: in how
many cells a member's gap is smaller than that of every other method, by paired t tests corrected
for all comparisons (Holm).

Policies are the members' exact minimisers in closed form, many games at once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit, logsumexp, wrightomega
from scipy.stats import ttest_rel

from benchmarks.comparing import bounded
from benchmarks.cyclic_preferences import game
from benchmarks.running import write_results
from equipoise import seeds
from equipoise.payoffs.told_apart import holm
from equipoise.solvers.dynamics import proximal_step, softmax

FAMILIES, SIZES = ("cyclic", "mixed", "random"), (3, 9, 49)
STEPS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PULLS = (0.01, 0.05, 0.2)
RESERVED = 100_000  # the first seed of the games on which steps are chosen
COLUMNS = ("last", "average")
LEVEL = 0.05


class Games(NamedTuple):
    """P(a beats b) of G games, and the logits that policies start from."""

    win_GAA: np.ndarray
    start_GA: np.ndarray

    def wins(self, logit_GA: np.ndarray) -> np.ndarray:
        """P(each action beats the policy), [G, A]."""
        return (self.win_GAA @ softmax(logit_GA)[..., None])[..., 0]


Past = list[np.ndarray]  # log-probabilities [G, A] of the policies so far, newest last
Move = Callable[[Games, Past, float, float], np.ndarray]
"""(games, past, step, pull) -> the next policy's logits [G, A]."""


def plain(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return past[-1] + step * games.wins(past[-1])


def mnpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return (past[-1] + past[-2:][0]) / 2 + step * games.wins(past[-1])


def inpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return (1 - pull) * past[-1] + pull * past[0] + step * games.wins(past[-1])


def sppo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Each action's log-ratio is regressed on step·(P − ½) with weight π_t, over normalised
    policies: log π = a − ω(a + log(λ/π_t)), with λ such that they add up to one.
    """
    wanted_GA = past[-1] + step * (games.wins(past[-1]) - 0.5)

    def solved(log_GA: np.ndarray) -> np.ndarray:
        return wanted_GA - wrightomega(wanted_GA + log_GA - past[-1])

    low_G1, high_G1 = np.full((2, len(wanted_GA), 1), [[[-60.0]], [[60.0]]])
    for _ in range(60):  # λ ≥ 0, since the wanted policies add up to one or more
        middle_G1 = (low_G1 + high_G1) / 2
        large_G1 = np.exp(solved(middle_G1)).sum(1, keepdims=True) > 1
        low_G1 = np.where(large_G1, middle_G1, low_G1)
        high_G1 = np.where(large_G1, high_G1, middle_G1)
    return solved((low_G1 + high_G1) / 2)


def bradley_terry(games: Games, policy_GA: np.ndarray, reward_GA: np.ndarray) -> np.ndarray:
    """The rewards [G, A] of the Bradley–Terry model of fresh pairs of the policies, by Newton's
    method from these; DPO learns them.
    """
    reward_GA, open_G = reward_GA.copy(), np.arange(len(policy_GA))
    for _ in range(25):
        policy, reward = policy_GA[open_G], reward_GA[open_G]
        pair = policy[:, :, None] * policy[:, None, :]
        beats = expit(reward[:, :, None] - reward[:, None, :])
        slope = (pair * (games.win_GAA[open_G] - beats)).sum(2)
        curve = pair * beats * (1 - beats)
        scale = 1 / np.sqrt(np.maximum(curve.sum(2), 1e-300))
        # The sum of the rewards is free; scaled to a unit diagonal, whatever is hardly sampled.
        curve *= -scale[:, :, None] * scale[:, None, :]
        curve += (1 + 1e-9) * np.eye(curve.shape[1])
        move = scale * np.linalg.solve(curve, (scale * slope)[..., None])[..., 0]
        reward += np.clip(move, -2, 2)
        reward_GA[open_G] = reward - (policy * reward).sum(1, keepdims=True)
        open_G = open_G[np.abs(policy * move).max(1) > 1e-7]
        if not len(open_G):
            break
    return reward_GA


def dpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """β = 4/step, which is the step to first order around P = ½; the reference is the start."""
    guess_GA = 4 / step * (past[-1] - past[0])
    return past[0] + step / 4 * bradley_terry(games, np.exp(past[-1]), guess_GA)


def iterated_dpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    guess_GA = 4 / step * (past[-1] - past[-2:][0])
    return past[-1] + step / 4 * bradley_terry(games, np.exp(past[-1]), guess_GA)


def nash_md(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    mixed_GA = (1 - pull) * past[-1] + pull * past[0]
    return mixed_GA + step * games.wins(mixed_GA)


def magnetic(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """The magnet is uniform, its weight τ."""
    return proximal_step(past[-1], games.wins(past[-1]), eta=step, tau=pull)


def optimistic(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return past[-1] + step * (2 * games.wins(past[-1]) - games.wins(past[-2:][0]))


def optimistic_by_past(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Without g_{t−1}: opponents ½ π_t, ¼ π_{t−1}, …, and a doubled target."""
    window = past[:-10:-1]
    shares = [0.5 ** (k + 1) for k in range(len(window) - 1)] + [0.5 ** (len(window) - 1)]
    opponents_GA = sum(w * log_GA for w, log_GA in zip(shares, window, strict=True))
    return opponents_GA + 2 * step * games.wins(past[-1])


def extragradient(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return past[-1] + step * games.wins(plain(games, past, step, pull))


class Method(NamedTuple):
    """A row: its update, the evaluations that one takes, whether it has a pull, fixed steps."""

    label: str
    move: Move
    evaluations: int = 1
    pulled: bool = False
    steps: Sequence[float] = STEPS

    def settings(self) -> list[tuple[float, float]]:
        return list(product(self.steps, PULLS if self.pulled else (0.0,)))


def stay(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    return past[0]


NEW = ("optimistic", "extragradient")
METHODS = [
    Method("the start", stay, steps=(1.0,)),
    Method("uniform", lambda games, past, step, pull: 0 * past[0], steps=(1.0,)),
    Method("multiplicative weights (IPO iterated)", plain),
    Method("MNPO, two past", mnpo),
    Method("INPO", inpo, pulled=True),
    Method("SPPO", sppo),
    Method("Nash-MD", nash_md, pulled=True),
    Method("DPO online", dpo),
    Method("DPO iterated", iterated_dpo),
    Method("magnetic mirror descent", magnetic, pulled=True),
    Method("optimistic", optimistic),
    Method("optimistic, by its past", optimistic_by_past),
    Method("extragradient", extragradient, 2),
    Method("MNPO, two past, step 1", mnpo, steps=(1.0,)),
    Method("optimistic, step 4", optimistic, steps=(4.0,)),
    Method("extragradient, step 4", extragradient, 2, steps=(4.0,)),
]


def drawn(family: str, size: int, games: range) -> Games:
    """The games of these seeds."""
    win, start = [], []
    for seed in games:
        if family == "random":
            dice = seeds.generator(seed, family, size)
            upper_AA = np.triu(dice.uniform(-1, 1, (size, size)), 1)
            payoff_AA = upper_AA - upper_AA.T
        else:
            payoff_AA = game(family, size, seed)
        win.append((1 + payoff_AA) / 2)
        start.append(seeds.generator(seed, "start", family, size).normal(size=size))
    return Games(np.array(win), np.array(start))


def gap(games: Games, policy_GA: np.ndarray) -> np.ndarray:
    """The largest P(win) against each policy, less ½, [G]."""
    beaten_G = (games.win_GAA @ policy_GA[..., None])[..., 0].max(1)
    return np.maximum(beaten_G - 0.5, 0.0)


def gaps(games: Games, method: Method, step: float, pull: float, evaluations: int) -> np.ndarray:
    """The gap of the last policy and of the average of all, [2, G]."""
    past: Past = [np.log(softmax(games.start_GA))]
    total_GA = softmax(past[0])
    for _ in range(evaluations // method.evaluations):
        past.append(method.move(games, past, step, pull))
        past[-1] = past[-1] - logsumexp(past[-1], axis=1, keepdims=True)
        total_GA = total_GA + np.exp(past[-1])
    last_GA = np.exp(past[-1])
    average_GA = last_GA if method.label == "uniform" else total_GA / len(past)
    return np.array([gap(games, last_GA), gap(games, average_GA)])


def measured(family: str, size: int, o: argparse.Namespace) -> tuple[np.ndarray, list]:
    """([method, column, game] gaps, each method's settings by column) of a cell."""
    games = drawn(family, size, range(o.games))
    reserved = drawn(family, size, range(RESERVED, RESERVED + o.reserved))
    found, chosen = [], []
    for method in METHODS:
        settings = method.settings()
        best = [0, 0]
        if len(settings) > 1:
            tried = [gaps(reserved, method, *each, o.evaluations).mean(1) for each in settings]
            best = np.argmin(tried, axis=0).tolist()
        of_best = {
            place: gaps(games, method, *settings[place], o.evaluations) for place in set(best)
        }
        found.append([of_best[place][column] for column, place in enumerate(best)])
        chosen.append([settings[place] for place in best])
    return np.array(found), chosen


def smaller(gap_CMKG: np.ndarray) -> dict[tuple[str, str], int]:
    """(new member, column) -> the cells in which its gap is shown smaller than every other's.

    The other methods are those that choose a step, and uniform.
    """
    labels = [method.label for method in METHODS]
    others = [
        m
        for m, method in enumerate(METHODS)
        if not method.label.startswith(NEW) and "step" not in method.label and m
    ]
    keys = list(product(NEW, range(len(COLUMNS)), range(len(gap_CMKG)), others))
    tests = []
    for new, k, cell, other in keys:
        pair = gap_CMKG[cell, labels.index(new), k], gap_CMKG[cell, other, k]
        tests.append(ttest_rel(*pair, alternative="less").pvalue)
    shown = dict(
        zip(keys, holm([1.0 if np.isnan(p) else float(p) for p in tests]) < LEVEL, strict=True)
    )
    return {
        (new, column): sum(
            all(shown[new, k, cell, other] for other in others) for cell in range(len(gap_CMKG))
        )
        for new in NEW
        for k, column in enumerate(COLUMNS)
    }


def table(cells: list, gap_CMKG: np.ndarray, chosen: list, family: str) -> Table:
    """A family's rows: the mean gap over games with its interval, and the step."""
    shown = Table(title=f"{family}: P(win) − ½, mean over games, 95 % interval; step (and pull)")
    shown.add_column("")
    for of_family, size in cells:
        for column in COLUMNS if of_family == family else ():
            shown.add_column(f"{size}, {column}", justify="right")
    for m, method in enumerate(METHODS):
        texts = []
        for c, (of_family, _) in enumerate(cells):
            for k in range(len(COLUMNS)) if of_family == family else ():
                mean = bounded(gap_CMKG[c, m, k])
                step, pull = chosen[c][m][k]
                used = f" {step:g}" + (f", {pull:g}" if pull else "")
                if len(method.settings()) == 1:
                    used = ""
                texts.append(f"{mean.mean:.3f} ({mean.low:.3f}–{mean.high:.3f}){used}")
        shown.add_row(method.label, *texts)
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Play every method on every game and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--games", type=int, default=200, help="of each cell")
    add("--reserved", type=int, default=40, help="other games of each cell, to choose steps on")
    add("--evaluations", type=int, default=60, help="of P(y beats a policy), for every method")
    add("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of actions")
    add("--json", type=Path, help="write every game's gaps here")
    o = parser.parse_args(argv)
    started = time.perf_counter()
    cells: list[tuple[str, int]] = [(f, size) for f in FAMILIES for size in o.sizes]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(measured, *zip(*cells, strict=True), [o] * len(cells)))
    gap_CMKG, chosen = np.array([found for found, _ in parts]), [of for _, of in parts]
    console = Console(width=max(60 + 56 * len(o.sizes), Console().width))
    for family in FAMILIES:
        console.print(table(cells, gap_CMKG, chosen, family))
    counted = smaller(gap_CMKG)
    for (new, column), count in counted.items():
        console.print(f"{new}, {column}: smaller than every other in {count} of {len(cells)} cells")
    console.print(f"{o.games} games a cell; {time.perf_counter() - started:.0f} s.")
    if o.json:
        rows = [
            f"{family},{size},{seed},{method.label.replace(',', ';')},{last:.4f},{average:.4f}"
            for (family, size), gap_MKG in zip(cells, gap_CMKG, strict=True)
            for method, (last_G, average_G) in zip(METHODS, gap_MKG, strict=True)
            for seed, (last, average) in enumerate(zip(last_G, average_G, strict=True))
        ]
        steps = {
            f"{family},{size}": {
                method.label: dict(zip(COLUMNS, of, strict=True))
                for method, of in zip(METHODS, of_cell, strict=True)
            }
            for (family, size), of_cell in zip(cells, chosen, strict=True)
        }
        figures = {
            "columns": "family,size,seed,method,last,average",
            "rows": rows,
            "step_and_pull": steps,
            "smaller_than_all": {f"{new}, {column}": n for (new, column), n in counted.items()},
        }
        write_results(
            o.json, figures, games=o.games, reserved=o.reserved, evaluations=o.evaluations
        )


if __name__ == "__main__":
    main()
