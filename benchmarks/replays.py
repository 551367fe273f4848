"""Results of two commits, one row: they are joined only where a seed was played at both, and the two
playings agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.verdicts import ALIKE, Item, read_items
from equipoise.payoffs.intervals import Interval, over_seeds

Cell = tuple[str, int]  # an arm and a seed
MARGIN = 0.02  # a difference that is smaller is none, whatever its interval


@dataclass(frozen=True)
class Playing:
    """What one commit played: under which name messages know it, its commit, its items, and the raw
    result that it was read from.
    """

    name: str
    commit: str
    items: Sequence[Item]
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def replayed(self) -> Sequence[dict[str, Any]]:
        """The seeds that it had played again already."""
        return self.result.get("arguments", {}).get("replayed", ())

    @property
    def cells(self) -> set[Cell]:
        """The arms and seeds that were played."""
        return {(item.arm, item.seed) for item in self.items}


def read_playing(file: Path) -> Playing:
    """A raw result as the commit that wrote it played it."""
    told = json.loads(file.read_text())
    return Playing(str(file), str(told.get("commit", "")), read_items(file), told)


def check_bridges(playings: Sequence[Playing], commit: str, planned: set[Cell]) -> None:
    """End the benchmark where results of several commits have no arm and seed in common.

    Args: commit: the one that plays now; planned: the arms and seeds that it will play.
    """
    reached = [(commit, planned)] if planned else [(playings[0].commit, playings[0].cells)]
    waiting = [each for each in playings if planned or each is not playings[0]]
    while waiting:
        near = [
            each
            for each in waiting
            if any(each.commit == other or each.cells & cells for other, cells in reached)
        ]
        if not near:
            arm, seed = min(waiting[0].cells, default=("an arm", 0))
            raise SystemExit(
                f"{waiting[0].name}: was played at commit {waiting[0].commit}, and nothing of it is "
                f"played again at {reached[0][0]}; play one of its seeds, such as --arms {arm} "
                f"--seeds {seed} …, so that both can be compared"
            )
        reached += [(each.commit, each.cells) for each in near]
        waiting = [each for each in waiting if each not in near]


def replayed(first: Playing, second: Playing) -> list[dict[str, Any]]:
    """What was played at both of two commits, arm by arm, with its largest difference.

    Ends the benchmark where a figure differs by more than `MARGIN` and its interval over prompts
    does not reach 0: the program plays something else than it did.
    """
    shared = first.cells & second.cells
    rows: list[dict[str, Any]] = []
    if first.commit == second.commit:
        return rows
    for arm, seed in sorted(shared):
        then, now = (_scores(each.items, arm, seed) for each in (first, second))
        columns = sorted(_columns(then) & _columns(now))
        largest, alike = 0.0, 0
        for column in columns:
            differences = _paired(then, now, column)
            gap = over_seeds(differences)
            alike += abs(gap.mean) <= ALIKE
            largest = max(largest, abs(gap.mean))
            if abs(gap.mean) > MARGIN and _is_clear(gap, differences):
                raise SystemExit(
                    f"{arm}, seed {seed}: {column} is {gap.text()} from what {first.name} says of "
                    f"commit {first.commit}; the program plays something else now, so play every "
                    "seed anew"
                )
        rows.append(
            {
                "arm": arm,
                "seed": seed,
                "commits": [first.commit, second.commit],
                "columns": len(columns),
                "alike": alike,
                "largest_difference": round(largest, 6),
            }
        )
    return rows


def _scores(items: Iterable[Item], arm: str, seed: int) -> list[Item]:
    return [item for item in items if (item.arm, item.seed) == (arm, seed)]


def _columns(items: Iterable[Item]) -> set[str]:
    return {item.column for item in items}


def _paired(then: Iterable[Item], now: Iterable[Item], column: str) -> list[float]:
    """What each prompt's value is now, less what it was."""
    values: list[dict[str, list[float]]] = []
    for side in (then, now):
        of_prompt: dict[str, list[float]] = {}
        for item in side:
            if item.column == column:
                of_prompt.setdefault(item.prompt, []).append(item.value)
        values.append(of_prompt)
    before, after = values
    return [fmean(after[prompt]) - fmean(before[prompt]) for prompt in before.keys() & after.keys()]


def _is_clear(gap: Interval, differences: Sequence[float]) -> bool:
    """Whether the interval over prompts leaves 0 out; of a single figure nobody knows its noise."""
    if len(differences) < 2:
        return False
    is_same_everywhere = len({round(value, 9) for value in differences}) == 1
    return is_same_everywhere or gap.low > 0 or gap.high < 0
