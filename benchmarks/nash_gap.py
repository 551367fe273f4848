"""The rate at which GPO's idealised algorithm approaches equilibrium: the Nash gap of averaged and
of last policies against rounds, in two games.

`python -m benchmarks.nash_gap` (two minutes on two cores); `--rounds` and `--games` make it
shorter. Random pay-offs of 10 answers × 10 prompts, uniform in [−1, 1], played in two ways:

    contextual     the game as stated: the defender sees the prompt and has a policy for
                   each; its KL weighs prompts by the adversary's policy, or all alike
    simultaneous   a substitute: both move at once; also with an entropy bonus of weight
                   τ = span/√(2·T·ln A), whose bias is at most as large as the bound

Every number of rounds T is its own run, since β and η are chosen for it (`contextual_steps`,
`step_sizes`: they minimise the regret bound; nothing is tuned), with both players stepping at once
and with the adversary meeting the defender's new policy, from uniform policies.

The gap is NashConv in the game itself, without the bonus. The exponent is the slope on log T of the
logarithm of the mean gap over games; its interval draws games with replacement. The raw file has
one row a game, variant and T.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.running import slope_of_logarithms, write_results
from equipoise import seeds
from equipoise.payoffs.intervals import Interval, resampled_bounds
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.gpo import contextual, contextual_nash_conv, gpo, step_sizes

SIZE = 10
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TURNS = ("both at once", "in turn")
POLICIES = ("average", "last")
VARIANTS = [
    (game, variant, turns)
    for game, variant, turns in [
        *product(["contextual"], ["played", "uniform"], TURNS),
        *product(["simultaneous"], ["plain", "entropy"], TURNS),
    ]
]
RowOfRaw = dict[str, Any]


def payoffs(seed: int) -> np.ndarray:
    """Pay-offs uniform in [−1, 1], [SIZE, SIZE]: the defender's, answers × prompts."""
    return seeds.generator(seed, "nash_gap").uniform(-1, 1, (SIZE, SIZE))


def measured(seed: int, rounds: int) -> list[RowOfRaw]:
    """The gaps after `rounds` of each variant on one game's pay-offs."""
    payoff_AM, rows = payoffs(seed), []
    for game, variant, turns in VARIANTS:
        in_turn = turns == "in turn"
        if game == "contextual":
            assert variant in ("played", "uniform")
            played = contextual(payoff_AM, rounds=rounds, weights=variant, alternate=in_turn)
            gap_of = contextual_nash_conv
        else:
            step = step_sizes(payoff_AM, rounds, entropy=variant == "entropy")
            played = gpo(payoff_AM, rounds=rounds, step=step, alternate=in_turn)
            gap_of = nash_conv
        names = {"game": game, "variant": variant, "turns": turns}
        gaps = {policies: gap_of(payoff_AM, *getattr(played, policies)) for policies in POLICIES}
        shown = {policies: float(f"{gap:.6g}") for policies, gap in gaps.items()}
        rows.append({**names, "seed": seed, "rounds": rounds, **shown})
    return rows


def exponent(rows: Sequence[RowOfRaw], policies: str) -> Interval:
    """The slope of log mean gap on log rounds, with an interval over games."""
    games = sorted({row["seed"] for row in rows})
    rounds_R = sorted({float(row["rounds"]) for row in rows})
    gap_of = {(row["seed"], row["rounds"]): row[policies] for row in rows}
    gap_GR = np.array([[gap_of[game, rounds] for rounds in rounds_R] for game in games])

    def slope(games_drawn: np.ndarray) -> float:
        return slope_of_logarithms(rounds_R, gap_GR[games_drawn].mean(0))

    low, high = resampled_bounds(games, slope, resamples=1000)
    return Interval(slope(np.arange(len(games))), low, high, len(games))


def of_variant(rows: Iterable[RowOfRaw], game: str, variant: str, turns: str) -> list[RowOfRaw]:
    """The rows of one variant."""
    names = {"game": game, "variant": variant, "turns": turns}
    return [row for row in rows if names.items() <= row.items()]


def exponent_table(rows: Sequence[RowOfRaw]) -> Table:
    """The fitted exponents and the mean gaps at the last T."""
    last = max(int(row["rounds"]) for row in rows)
    shown = Table(title="Exponent in T of the mean Nash gap over games, 95 % interval")
    for column in ("game", "variant", "", "averaged policies", "last policies"):
        shown.add_column(column)
    for policies in POLICIES:
        shown.add_column(f"{policies} gap at T = {last}", justify="right")
    for game, variant, turns in VARIANTS:
        own = of_variant(rows, game, variant, turns)
        exponents = [exponent(own, policies).text() for policies in POLICIES]
        at_last = [row for row in own if row["rounds"] == last]
        means = [np.mean([row[policies] for row in at_last]) for policies in POLICIES]
        shown.add_row(game, variant, turns, *exponents, *(f"{mean:.2g}" for mean in means))
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Run every variant on every game and print the exponents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=50, help="random pay-offs")
    parser.add_argument(
        "--rounds", type=int, default=12, metavar="K", help="T goes from 2^6 to 2^K"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    if options.games < 2 or options.rounds < 8:
        parser.error(
            "an interval needs two games, an exponent three numbers of rounds: "
            "--games 2 and --rounds 8 or more"
        )
    rounds_R = [2**k for k in range(6, options.rounds + 1)]
    # Small matrices in many processes, which are started afresh and read this.
    os.environ.update(dict.fromkeys(LIBRARIES, "1"))
    started = time.perf_counter()
    runs = list(product(range(options.games), rounds_R))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        parts = pool.map(measured, *zip(*runs, strict=True), chunksize=len(rounds_R))
        rows = list(chain.from_iterable(parts))
    if options.json:
        write_results(options.json, rows, games=options.games, rounds=options.rounds)
    console = Console(width=max(140, Console().width))
    console.print(exponent_table(rows))
    console.print(
        f"{options.games} games of {SIZE} × {SIZE}; {time.perf_counter() - started:.0f} s."
    )


if __name__ == "__main__":
    main()
