"""The rate at which GPO's idealised algorithm approaches equilibrium: the Nash gap of averaged
policies against rounds.

`python -m benchmarks.nash_gap` (two minutes on two cores); `--rounds` and `--games` make it
shorter. Random zero-sum games of 10 × 10 with pay-offs uniform in [−1, 1]. Every number of rounds T
is its own run, since β and η are chosen for it: β = c·√T with c = span/√(8·ln A), and η likewise,
which minimises the regret bound; nothing is tuned. The entropy-regularised variant adds an entropy
bonus of weight τ = span/√(2·T·ln A), whose bias is at most as large as that bound. Both are run
with both players stepping at once and with the column player meeting the row player's new policy,
from uniform policies.

The gap is NashConv in the game itself, without the bonus. The exponent is the slope of log gap on
log T, fitted for each game; the interval is Student's t over games.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.running import write_results
from equipoise import seeds
from equipoise.payoffs.intervals import fitted_exponent, over_seeds
from equipoise.solvers.gpo import gaps, step_sizes

SIZE = 10
EXPECTED = (-0.6, -0.4)  # around the −½ that the theory gives as an upper bound
VARIANTS = [
    (f"{name}, {turns}", entropy, alternate)
    for (name, entropy), (turns, alternate) in product(
        (("plain", False), ("entropy", True)), (("both at once", False), ("in turn", True))
    )
]


def game(seed: int) -> np.ndarray:
    """Pay-offs uniform in [−1, 1], [SIZE, SIZE]."""
    return seeds.generator(seed, "nash_gap").uniform(-1, 1, (SIZE, SIZE))


def measured(seed: int, rounds: int) -> list[tuple[float, float]]:
    """(gap of the averages, gap of the last profile) of each variant on one game."""
    payoff_AM, measurements = game(seed), []
    for _, entropy, alternate in VARIANTS:
        step = step_sizes(payoff_AM, rounds, entropy=entropy)
        [gap] = gaps(payoff_AM, [rounds], rounds=rounds, step=step, alternate=alternate)
        measurements.append((gap.average, gap.last))
    return measurements


def gap_table(gap_GRV2: np.ndarray, rounds_R: Sequence[int]) -> Table:
    """The mean gap over games, of the averages and of the last profile."""
    shown = Table(
        title=f"Nash gap after T rounds, mean of {len(gap_GRV2)} games: averaged "
        "policies | last policies"
    )
    shown.add_column("T", justify="right")
    for label, _, _ in VARIANTS:
        shown.add_column(label, justify="right")
    for rounds, gap_V2 in zip(rounds_R, gap_GRV2.mean(0), strict=True):
        shown.add_row(str(rounds), *(f"{average:.4f} | {last:.4f}" for average, last in gap_V2))
    return shown


def exponent_table(gap_GRV2: np.ndarray, rounds_R: Sequence[int]) -> Table:
    """The fitted exponents, and whether their mean is the one that the theory predicts."""
    low, high = EXPECTED
    shown = Table(title="Exponent of the gap in T, fitted for each game")
    for column in (
        "variant",
        "policies",
        "mean over games, 95 % interval",
        "games' range",
        "median half-width",
    ):
        shown.add_column(column)
    shown.add_column(f"interval in [{low}, {high}]")
    for v, (label, _, _) in enumerate(VARIANTS):
        for which, name in enumerate(("averaged", "last")):
            fits = np.array(
                [fitted_exponent(rounds_R, gap_R) for gap_R in gap_GRV2[:, :, v, which]]
            )
            mean = over_seeds(fits[:, 0])
            verdict = "yes" if low <= mean.low and mean.high <= high else "NO"
            shown.add_row(
                label if which == 0 else "",
                name,
                mean.text(),
                f"{fits[:, 0].min():.3f} to {fits[:, 0].max():.3f}",
                f"{np.median(fits[:, 2] - fits[:, 1]) / 2:.3f}",
                verdict if which == 0 else "",
                end_section=which == 1,
            )
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Run every variant on every game and print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=20, help="random games")
    parser.add_argument(
        "--rounds", type=int, default=14, metavar="K", help="T goes from 2^6 to 2^K"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    if options.games < 2 or options.rounds < 8:
        parser.error(
            "an interval needs two games, an exponent three numbers of rounds: "
            "--games 2 and --rounds 8 or more"
        )
    rounds_R = [2**k for k in range(6, options.rounds + 1)]
    for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        # Small matrices in many processes, which are started afresh and read this.
        os.environ[library] = "1"
    started = time.perf_counter()
    runs = list(product(range(options.games), rounds_R))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        gap_GRV2 = np.array(
            list(pool.map(measured, *zip(*runs, strict=True), chunksize=len(rounds_R)))
        )
    gap_GRV2 = gap_GRV2.reshape(options.games, len(rounds_R), len(VARIANTS), 2)
    if options.json:
        figures = {
            "variants": [label for label, _, _ in VARIANTS],
            "rounds": rounds_R,
            "gap_GRV2": gap_GRV2.tolist(),
        }
        write_results(options.json, figures, games=options.games)
    console = Console(width=max(140, Console().width))
    console.print(gap_table(gap_GRV2, rounds_R))
    console.print(exponent_table(gap_GRV2, rounds_R))
    console.print(
        f"{SIZE} × {SIZE} games, entries uniform in [−1, 1]; "
        f"{time.perf_counter() - started:.0f} s. β = η = c·√T with "
        f"c = span/√(8·ln {SIZE}), from the bound. Half-width: of one game's own 95 % interval."
    )


if __name__ == "__main__":
    main()
