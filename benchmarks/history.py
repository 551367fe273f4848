"""Whether a longer history brings MNPO's average policy nearer to an equilibrium, and how fast.

`python -m benchmarks.history` (a few minutes on one core). Tabular policies on the cyclic games of
`cyclic_preferences`, exact updates, opponents with equal weights: the last policy, the last two,
three and four. Every number of updates T is its own run, with a step proportional to 1/√T, as
regret bounds ask. Shown is the exact duality gap of the average of the T policies, and the exponent
of T in it, fitted for each game; beside it the uniform policy and the start.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.comparing import paired
from benchmarks.cyclic_preferences import Member, game, iterates
from benchmarks.running import write_results
from equipoise import seeds
from equipoise.learners.tabular_learner import softmax, win_probabilities
from equipoise.payoffs.intervals import fitted_exponent, over_seeds
from equipoise.solvers.exploitability import exploitability

LENGTHS = (1, 2, 3, 4)
ROUNDS = (16, 32, 64, 128, 256)
STEP = 8.0  # over √T: 1 at 64 updates, the step of `cyclic_preferences`


def average_gap(payoff_AA: np.ndarray, start_A: np.ndarray, n: int, rounds: int) -> float:
    """The duality gap of the average policy after so many updates against n past ones."""
    member = Member("", "", "mnpo", "1/eta", {"weights": [1] * n})
    win_AA, step = win_probabilities(payoff_AA), STEP / rounds**0.5
    policy_TA = iterates(member, win_AA, start_A, rounds, step)
    return exploitability(payoff_AA, policy_TA.mean(axis=0))


def measured(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A game: (gap_NR of each history and number of updates, gaps of start and uniform)."""
    payoff_AA = game("cyclic", size, seed)
    start_A = seeds.generator(seed, "start", "cyclic", size).normal(size=size)
    gap_NR = np.array([[average_gap(payoff_AA, start_A, n, t) for t in ROUNDS] for n in LENGTHS])
    peers = (softmax(start_A), np.full(size, 1 / size))
    return gap_NR, np.array([exploitability(payoff_AA, peer_A) for peer_A in peers])


def table(size: int, gap_GNR: np.ndarray, peer_G2: np.ndarray) -> Table:
    """A row for each length of history."""
    start, uniform = peer_G2.mean(axis=0)
    shown = Table(
        title=f"{size} actions, {len(gap_GNR)} games: gap of the average after T updates; "
        f"start {start:.3f}, uniform {uniform:.3f}"
    )
    shown.add_column("past policies")
    for rounds in ROUNDS:
        shown.add_column(f"T = {rounds}", justify="right")
    shown.add_column("exponent", justify="right")
    shown.add_column(f"− last alone, T = {ROUNDS[-1]}", justify="right")
    for place, n in enumerate(LENGTHS):
        gap_GR = gap_GNR[:, place]
        slopes = [fitted_exponent(ROUNDS, gap_R)[0] for gap_R in gap_GR]
        gain = paired(gap_GR[:, -1].tolist(), gap_GNR[:, 0, -1].tolist())
        cells = [f"{mean:.4f}" for mean in gap_GR.mean(axis=0)]
        more = gain.text() if place else "–"
        shown.add_row(str(n), *cells, over_seeds(slopes).text(), more)
    return shown


def main() -> None:
    """Print the tables, and write every game's gaps with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[3, 9])
    parser.add_argument("--games", type=int, default=8, help="of each size")
    parser.add_argument("--json", type=Path, help="write every game's gaps here")
    o = parser.parse_args()
    by_size: dict[str, dict[str, list]] = {}
    for size in o.sizes:
        games = [measured(size, seed) for seed in range(o.games)]
        gap_GNR, peer_G2 = (np.array(part) for part in zip(*games, strict=True))
        Console(width=130).print(table(size, gap_GNR, peer_G2))
        gaps = {"gap_GNR": gap_GNR.tolist(), "start_uniform_G2": peer_G2.tolist()}
        by_size[str(size)] = gaps
    if o.json:
        lists = {"past": list(LENGTHS), "rounds": list(ROUNDS), "step": STEP}
        write_results(o.json, by_size, sizes=o.sizes, games=o.games, **lists)


if __name__ == "__main__":
    main()
