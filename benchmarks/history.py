"""Whether a longer history brings MNPO nearer to an equilibrium: its last policy, which Algorithm 1
returns, and the average of its policies, in exact games.

`python -m benchmarks.history` (some seconds on one core). Tabular policies, equal weights of the
last one to four past policies, 200 games of each of 3, 9 and 49 actions: cyclic and mixed ones of
`cyclic_preferences`, and antisymmetric ones with pay-offs uniform in [−1, 1]. The minimiser of
MNPO's loss over fresh pairs has a closed form,

    log π_{t+1}(y) = Σ_j λ_j log π_{t−j}(y) + step · P(y beats π_t) + const,   step = 1/η

Shown is the exact duality gap 2·max_y P(y beats π) − 1 after 60 updates at step 1; "own step" is
each arm at the best of the steps swept for every arm alike, by its last policy's gap on reserved
games of that family. The planted arm has 5 % of the start in it, which is known to stop the
circling; "nats" is by how much an update moves an action. Exponents of T are of runs of their own
at steps 8/√T.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.claims import TRIALS
from benchmarks.cyclic_preferences import game
from benchmarks.running import slope_of_logarithms, write_results
from benchmarks.verdicts import Item, Scores, verdict, write_items
from equipoise import seeds

FAMILIES = ("cyclic", "mixed", "antisymmetric")
SIZES = (3, 9, 49)
LENGTHS = {"one": 1, "two": 2, "three": 3, "four": 4}
PLANTED = "one, planted"
UPDATES, STEP = 60, 1.0
STEPS = (0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
FIRST = 300  # game; those before were looked at when the comparisons were chosen
RESERVED = range(1000, 1040)
ROUNDS = (16, 32, 64, 128, 256)
POLICIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "last": lambda policy_TGA: policy_TGA[-1],
    "average": lambda policy_TGA: policy_TGA.mean(axis=0),
}


def games(family: str, size: int, numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """(pay-offs [G, A, A], the logits of the starts [G, A])."""
    drawn = []
    for seed in numbers:
        if family == "antisymmetric":
            upper_AA = np.triu(seeds.generator(seed, family, size).uniform(-1, 1, (size, size)), 1)
            drawn.append(upper_AA - upper_AA.T)
        else:
            drawn.append(game(family, size, seed))
    starts = [seeds.generator(seed, "start", family, size).normal(size=size) for seed in numbers]
    return np.array(drawn), np.array(starts)


def iterates(
    payoff_GAA: np.ndarray,
    start_GA: np.ndarray,
    past: int,
    rounds: int,
    step: float,
    reference: float = 0.0,
) -> np.ndarray:
    """The policies π_0 … π_rounds, [rounds + 1, G, A]; `reference`: the start's share among the
    opponents.
    """
    logits = [start_GA - start_GA.mean(axis=1, keepdims=True)]
    for _ in range(rounds):
        beats_GA = np.einsum("gab,gb->ga", payoff_GAA, probabilities(logits[-1])) / 2
        new_GA = (1 - reference) * np.mean(logits[-past:], axis=0) + reference * logits[0]
        new_GA = new_GA + step * beats_GA
        logits.append(new_GA - new_GA.mean(axis=1, keepdims=True))
    return probabilities(np.array(logits))


def probabilities(logits_A: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    power_A = np.exp(logits_A - logits_A.max(axis=-1, keepdims=True))
    return power_A / power_A.sum(axis=-1, keepdims=True)


def gaps(payoff_GAA: np.ndarray, policy_GA: np.ndarray) -> np.ndarray:
    """The duality gap of each game's policy, [G]."""
    return np.einsum("gab,gb->ga", payoff_GAA, policy_GA).max(axis=1)


def measured(family: str, size: int, numbers: Sequence[int], chosen: dict) -> Iterator[Item]:
    """The items of a cell: every arm's gaps and nats in each of its games."""
    payoff_GAA, start_GA = games(family, size, numbers)

    def items(arm: str, name: str, value_G: np.ndarray) -> Iterator[Item]:
        for number, value in zip(numbers, value_G, strict=True):
            yield Item(arm, number, UPDATES, "", f"{family} {size}, {name}", round(float(value), 7))

    arms = {name: (past, dict.fromkeys(POLICIES, STEP), 0.0) for name, past in LENGTHS.items()}
    for name, past in LENGTHS.items():
        own = {policies: chosen[family, size, name, policies] for policies in POLICIES}
        arms[f"{name}, own step"] = (past, own, 0.0)
    arms[PLANTED] = (1, dict.fromkeys(POLICIES, STEP), 0.05)
    for arm, (past, steps, reference) in arms.items():
        runs = {
            step: iterates(payoff_GAA, start_GA, past, UPDATES, step, reference)
            for step in set(steps.values())
        }
        for policies, step in steps.items():
            policy_TGA = runs[step]
            yield from items(arm, policies, gaps(payoff_GAA, POLICIES[policies](policy_TGA)))
            if policies == "last":
                moved_TGA = np.abs(np.diff(np.log(np.maximum(policy_TGA, 1e-300)), axis=0))
                yield from items(arm, "nats", moved_TGA.mean(axis=(0, 2)))
    for arm, policy_GA in (
        ("start", probabilities(start_GA)),
        ("uniform", np.full_like(start_GA, 1 / size)),
    ):
        for name in ("last", "average"):
            yield from items(arm, name, gaps(payoff_GAA, policy_GA))


def best_steps(family: str, size: int, past: int) -> dict[str, float]:
    """Those of `STEPS` with which the last and the average policy's mean gaps are least on the
    reserved games.
    """
    payoff_GAA, start_GA = games(family, size, RESERVED)
    played = {step: iterates(payoff_GAA, start_GA, past, UPDATES, step) for step in STEPS}
    return {
        name: min(STEPS, key=lambda step: gaps(payoff_GAA, of(played[step])).mean())
        for name, of in POLICIES.items()
    }


def exponents(size: int, numbers: Sequence[int]) -> Iterator[Item]:
    """The exponent of T in each cyclic game's average gap, by the length of the history."""
    payoff_GAA, start_GA = games("cyclic", size, numbers)
    for name, past in LENGTHS.items():
        gap_RG = [
            gaps(payoff_GAA, iterates(payoff_GAA, start_GA, past, t, 8 / t**0.5).mean(axis=0))
            for t in ROUNDS
        ]
        for number, gap_R in zip(numbers, np.transpose(gap_RG), strict=True):
            slope = slope_of_logarithms(ROUNDS, gap_R)
            yield Item(name, number, ROUNDS[-1], "", f"cyclic {size}, exponent", round(slope, 5))


def over_sizes(items: Sequence[Item], sizes: Sequence[int]) -> Iterator[Item]:
    """Each game number's mean over the sizes, by family: "cyclic, last"."""
    for arm, by_seed in Scores(items).figures().items():
        for number, row in by_seed.items():
            for family in FAMILIES:
                for name in ("last", "average", "nats"):
                    own = [row.get(f"{family} {size}, {name}") for size in sizes]
                    if None not in own:
                        value = float(np.mean(np.array(own, float)))
                        yield Item(arm, number, UPDATES, "", f"{family}, {name}", value)


def table(scores: Scores, family: str, sizes: Sequence[int]) -> Table:
    """A row for each arm: mean gaps with their intervals over games."""
    shown = Table(title=f"{family}: duality gap after {UPDATES} exact updates")
    shown.add_column("past policies")
    columns = [f"{family} {size}, {name}" for size in sizes for name in ("last", "average")]
    for column in columns:
        shown.add_column(column.removeprefix(f"{family} "), justify="right")
    for arm in scores.arms:
        shown.add_row(arm, *(scores.mean(arm, column).text() for column in columns))
    return shown


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables and the verdicts, and write every game's gaps with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--games", type=int, default=200, help="of each family and size")
    parser.add_argument("--json", type=Path, help="write every game's gaps here")
    o = parser.parse_args(argv)
    numbers = range(FIRST, FIRST + o.games)
    chosen = {
        (family, size, name, policies): step
        for family in FAMILIES
        for size in o.sizes
        for name, past in LENGTHS.items()
        for policies, step in best_steps(family, size, past).items()
    }
    items: list[Item] = []
    for family in FAMILIES:
        for size in o.sizes:
            items += measured(family, size, numbers, chosen)
    items += over_sizes(items, o.sizes)
    for size in o.sizes:
        items += exponents(size, numbers)
    scores = Scores(items)
    console = Console(width=170)
    for family in FAMILIES:
        console.print(table(scores, family, o.sizes))
    swept = {f"{k[0]} {k[1]}, {', '.join(k[2:])}": step for k, step in chosen.items()}
    told = {"sizes": o.sizes, "games": o.games, "updates": UPDATES, "step": STEP, "swept": swept}
    if o.sizes == list(SIZES):
        for claim in TRIALS["history"].claims:
            console.print(f"{claim.text}: {verdict(claim, scores, told).text(claim)}")
    if o.json:
        means = {
            arm: {
                column: round(fmean(by_seed[seed][column] for seed in by_seed), 6)
                for column in next(iter(by_seed.values()))
            }
            for arm, by_seed in scores.figures().items()
        }
        write_results(o.json, means, **told)
        write_items(o.json, items)


if __name__ == "__main__":
    main()
