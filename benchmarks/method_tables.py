"""The tables of the methods' pages of claims, as data: of which raw result which arms and columns.

A page holds each between `<!-- NAME, made by python -m benchmarks.tables -->` and `<!-- end -->`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.verdicts import GREEDY, Scores, raw
from equipoise.payoffs.intervals import Interval


@dataclass(frozen=True)
class MethodTable:
    """A row for each arm: its label, its columns' means with their intervals, and by how much the
    first arm of `less` exceeds it in a column, under that label.

    Args: points: columns that are no shares; bare: those without an interval.
    """

    file: str
    arms: Mapping[str, str]
    columns: Mapping[str, str]
    less: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    points: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()

    def head(self) -> list[str]:
        """The columns' labels."""
        return ["", *self.columns.values(), *self.less]

    def rows(self) -> list[list[str]]:
        """A row for each arm; a figure that it does not have is empty."""
        scores, _ = raw(self.file)
        return [
            [
                label,
                *(self._mean(scores, arm, column) for column in self.columns),
                *(difference(scores, *given, arm) for given in self.less.values()),
            ]
            for arm, label in self.arms.items()
        ]

    def _mean(self, scores: Scores, arm: str, column: str) -> str:
        try:
            own = scores.mean(arm, column)
        except ValueError:
            return ""
        if column in self.bare:
            own = replace(own, low=np.nan, high=np.nan)
        share = column.removesuffix(GREEDY) not in self.points
        return shown(own, 100 if share else 1, " %" if share else "", (0, 1) if share else None)


def difference(scores: Scores, first: str, column: str, arm: str) -> str:
    """In points; empty beside itself."""
    try:
        return "" if arm == first else shown(scores.difference(first, arm, column), 100, "", None)
    except ValueError:
        return ""


def shown(own: Interval, scale: int, unit: str, bounds: tuple[float, float] | None) -> str:
    """`66.0 % (63.0 to 68.9)`; without an interval where all units are alike."""
    digits = 1 if scale > 1 else 2
    mean = f"{scale * own.mean:.{digits}f}{unit}"
    if not np.isfinite(own.low):
        return mean.replace("-", "−")
    ends = np.clip([own.low, own.high], *bounds) if bounds else [own.low, own.high]
    low, high = (f"{scale * end:.{digits}f}" for end in ends)
    return f"{mean} ({low} to {high})".replace("-", "−")


AFTER = f"mean after{GREEDY}"
TABLES = {
    "pool": MethodTable(
        "pool",
        {
            "sparta": "pool that judges itself",
            "pools of two": "three pools of two",
            "alone": "each alone",
            "world judges": "the world judges",
        },
        {AFTER: "end", f"best after{GREEDY}": "best member"},
        {"sparta − this": ("sparta", AFTER)},
        bare=(f"best after{GREEDY}", AFTER),
    ),
    "instructions": MethodTable(
        "instructions",
        {"start": "start", "mnpo": "MNPO, half a reference", "grpo": "GRPO", "dpo": "DPO"},
        {
            f"strict{GREEDY}": "instructions followed",
            f"relevance{GREEDY}": "relevance",
            f"repetition{GREEDY}": "repeated 4-grams",
        },
        {"MNPO − this": ("mnpo", f"strict{GREEDY}")},
        points=("relevance",),
        bare=(f"relevance{GREEDY}", f"repetition{GREEDY}"),
    ),
    "wildguard": MethodTable(
        "wildguard",
        {
            "sft start": "start",
            "mnpo": "MNPO",
            "dpo": "DPO",
            "SFT on the labels": "SFT on the labels",
            "bag of words": "bag of words",
            "commoner label": "commoner label",
        },
        {"greedy": "greedy"},
        {"MNPO − this": ("mnpo", "greedy")},
    ),
    "disjoint": MethodTable(
        "disjoint",
        {
            "start": "start",
            "base": "base without an adapter",
            "constant": "one constant answer, the best",
            "world judges": "the world judges",
            "sparta": "pool",
            "equal weights": "… equal weights",
            "honest judges": "… without the two",
            "alone": "each alone",
            "start, abstaining": "abstaining: start",
            "abstaining": "… pool without the two",
            "abstaining, the two too": "… with the two",
            "abstaining, alone": "… each alone",
        },
        {"foreign": "foreign topics", "own": "own topics", "agreement": "agreement"},
        bare=("own", "agreement"),
    ),
    "red_team": MethodTable(
        "red_team",
        {"start": "start", "rlhf": "`rlhf`", "gpo": "`gpo`"},
        {
            "worst": "worst of all adversaries, sampled",
            f"worst{GREEDY}": "… greedy",
            "best response": "fresh adversary, 50 updates",
            "over-refusal": "over-refusal",
        },
        bare=("over-refusal",),
    ),
    "withheld": MethodTable(
        "withheld",
        {
            "start": "nothing (start)",
            "rlhf": "requests as they stand (`rlhf`)",
            "random augmentation": "random augmentation",
            "frozen adversary": "a frozen adversary",
            "self play": "self-play",
            "gpo": "`gpo`",
            "gpo no diversity": "… without pay for diversity",
            "gpo, sentence embeddings": "… diversity by MiniLM's embeddings",
        },
        {"withheld": "sampled", f"withheld{GREEDY}": "greedy"},
        {"gpo − this, sampled": ("gpo", "withheld")},
        bare=(f"withheld{GREEDY}",),
    ),
    "assistance": MethodTable(
        "assistance",
        {
            "start": "start",
            "cobb_douglas": "product",
            "utilitarian": "sum",
            "egalitarian": "worse-off side",
            "user_only": "user alone",
            "llm_only": "model alone",
            "PPO": "product, by PPO",
            "answer only": "no pay for format and matrix",
            "no blocks": "… and no blocks",
            "no blocks, own window": "… and no blocks, 1 to 20 words",
            "start, no blocks": "start without blocks",
        },
        {
            f"welfare{GREEDY}": "welfare, greedy",
            f"right{GREEDY}": "right moves, greedy",
            f"quality{GREEDY}": "right answers, greedy",
        },
        points=("welfare",),
        bare=(f"right{GREEDY}", f"quality{GREEDY}"),
    ),
    "apart": MethodTable(
        "apart",
        {
            "start": "start",
            "cobb_douglas": "product",
            "utilitarian": "sum",
            "egalitarian": "minimum",
        },
        {
            "welfare": "√(user · model)",
            "worse": "worse-off side",
            "quality": "right answers",
            f"right{GREEDY}": "right moves, greedy",
        },
        points=("welfare", "worse"),
        bare=(f"right{GREEDY}",),
    ),
}
