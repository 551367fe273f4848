"""The tables of the methods' pages of claims, as data: of which raw result which arms and columns.

A page holds each between `<!-- NAME, made by python -m benchmarks.tables -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.claims import FOLLOWED
from benchmarks.verdicts import GREEDY, RESULTS, Scores, raw
from equipoise.environments.instructions.instruction_prompts import InstructionPrompts
from equipoise.payoffs.intervals import Interval


@dataclass(frozen=True)
class MethodTable:
    """A row for each arm: its label, its columns' means with their intervals, and by how much the
    first arm of `less` exceeds it in a column, under that label.

    Args: points: columns that are no shares; bare: those without an interval; digits: of points.
    """

    file: str
    arms: Mapping[str, str]
    columns: Mapping[str, str]
    less: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    points: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    digits: int = 2

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
        if column.removesuffix(GREEDY) in self.points:
            return shown(own, 1, "", None, self.digits)
        return shown(own, 100, " %", (0, 1))


def difference(scores: Scores, first: str, column: str, arm: str) -> str:
    """In points; empty beside itself."""
    try:
        return "" if arm == first else shown(scores.difference(first, arm, column), 100, "", None)
    except ValueError:
        return ""


def shown(
    own: Interval, scale: int, unit: str, bounds: tuple[float, float] | None, digits: int = 1
) -> str:
    """`66.0 % (63.0 to 68.9)`; without an interval where all units are alike."""
    mean = f"{scale * own.mean:.{digits}f}{unit}"
    if not np.isfinite(own.low):
        return mean.replace("-", "−")
    ends = np.clip([own.low, own.high], *bounds) if bounds else [own.low, own.high]
    low, high = (f"{scale * end:.{digits}f}" for end in ends)
    return f"{mean} ({low} to {high})".replace("-", "−")


AFTER = f"mean after{GREEDY}"
GAPS = {
    f"cyclic {actions}, {policy}": f"{policy}, {actions}{' actions' if actions == 3 else ''}"
    for policy in ("last", "average")
    for actions in (3, 9, 49)
}


@dataclass(frozen=True)
class Answers:
    """What the start and arms of the first seed answer greedily to the same question: the first of
    those that are held out, whichever it is.
    """

    file: str
    arms: Mapping[str, str]

    def _own(self) -> dict[str, dict[str, Any]]:
        told: dict[str, dict[str, Any]] = json.loads((RESULTS / f"{self.file}.json").read_text())
        return told["figures"]

    def head(self) -> list[str]:
        """The question, beside whose answer it is."""
        source = InstructionPrompts.model_validate({"count": 1, "held_out": 100, "test": 1})
        first = self._own()[next(iter(self.arms))]["prompt"]
        [question] = [p for p in source.load().test or () if p.id == first]
        return ["", _cell(question.messages[-1].content)]

    def rows(self) -> list[list[str]]:
        """One an arm."""
        told = self._own()
        return [[name, _cell(told[arm]["text"])] for arm, name in self.arms.items()]


@dataclass(frozen=True)
class RealModel:
    """A system on a real pretrained model: the arm that shows it, its control, and what it takes.

    Args: column: the figure, whose means stand in the table; share: it is shown as a percentage;
    command: from nothing to a report; takes: how long that is.
    """

    system: str
    figure: str
    file: str
    column: str
    arm: str
    control: tuple[str, str]
    command: str
    takes: str
    share: bool = True

    def cells(self) -> list[str]:
        """Its row."""
        ends = [f"`{self.command}`", self.takes]
        scores, _ = raw(self.file)
        arm, label = self.control
        values = [self.mean(scores, each) for each in ("start", self.arm, arm)]
        return [self.system, self.figure, *values[:2], f"{label} {values[2]}", *ends]

    def mean(self, scores: Scores, arm: str) -> str:
        """An arm's mean with its interval; empty where it was not played."""
        try:
            own = scores.mean(arm, self.column)
        except ValueError:
            return ""
        if self.share:
            return shown(own, 100, " %", (0, 1))
        return shown(own, 1, "", (0, 1), 3)


@dataclass(frozen=True)
class RealModels:
    """A row for each system on a real model."""

    systems: tuple[RealModel, ...]

    def head(self) -> list[str]:
        """The columns' labels."""
        return ["system", "figure", "start", "end", "control", "command", "on one core"]

    def rows(self) -> list[list[str]]:
        """One a system that has a raw result."""
        measured = [
            system for system in self.systems if (RESULTS / f"{system.file}.json").is_file()
        ]
        return [system.cells() for system in measured]


def _cell(text: str) -> str:
    """A text in one cell of a table, without its line ends."""
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


TABLES = {
    "real_models": RealModels(
        (
            RealModel(
                "why a game",
                "exploitability where preferences go in a circle, 0 to ½, optimistic",
                "form_cycle",
                "last",
                "optimistic",
                ("dpo", "iterated DPO"),
                "make smollm2-cycle",
                "26 minutes at most, planned",
                share=False,
            ),
            RealModel(
                "GTAlign",
                "welfare of held-out answers, trained on it",
                "real_welfare",
                "welfare",
                "product",
                ("user alone", "user alone"),
                "make smollm2-gtalign",
                "20 minutes at most, planned",
                share=False,
            ),
            RealModel(
                "SPARTA",
                "questions of four fields right, greedy, the mean member",
                "field_pool",
                "right",
                "sparta",
                ("self-rewarding", "grading its own"),
                "make smollm2-sparta",
                "18 to 24 minutes",
            ),
            RealModel(
                "GPO",
                "harmful requests of which one of 16 rewrites is answered",
                "real_attack",
                "worst of tries",
                "gpo",
                ("frozen adversary", "an adversary that does not learn"),
                "make smollm2-gpo",
                "16 minutes",
            ),
            RealModel(
                "MNPO",
                "instructions followed, greedy",
                "trial_instructions",
                FOLLOWED,
                "mnpo",
                ("dpo", "DPO"),
                "make smollm2",
                "21 minutes",
            ),
        )
    ),
    "answers": Answers(
        "trial_instructions_answers", {"start": "start", "mnpo": "MNPO", "dpo": "DPO"}
    ),
    "instructions": MethodTable(
        "trial_instructions",
        {
            "start": "start",
            "mnpo": "MNPO",
            "dpo": "DPO",
            "ipo": "IPO",
            "sppo": "SPPO",
            "inpo": "INPO",
            "simpo": "SimPO",
            "grpo": "GRPO",
        },
        {FOLLOWED: "instructions followed", f"relevance{GREEDY}": "relevance"},
        points=("relevance",),
        bare=(f"relevance{GREEDY}",),
    ),
    "history": MethodTable(
        "history",
        {
            **{arm: f"{n}" for n, arm in enumerate(("one", "two", "three", "four"), start=1)},
            **{
                f"{arm}, own step": f"{n}, its own step"
                for n, arm in enumerate(("one", "two", "three", "four"), start=1)
            },
            "start": "start",
            "uniform": "uniform",
        },
        GAPS,
        points=tuple(GAPS),
        bare=tuple(GAPS),
        digits=3,
    ),
    "nash_gap": MethodTable(
        "nash_gap",
        {
            "contextual, played": "the game as stated, KL weighted by μ_t",
            "contextual, uniform": "…, KL weighted alike",
            "simultaneous, plain": "substitute",
        },
        {"average": "averages", "last": "last policies"},
        points=("average", "last"),
        digits=3,
    ),
    "permuted_games": MethodTable(
        "permuted_games",
        {"start": "start", "product": "product", "sum": "sum", "minimum": "minimum"},
        {
            "permuted, choice": "chooses the new best",
            "permuted, response": "responds so",
            "stays": "stays with the old",
        },
        bare=("permuted, response", "stays"),
    ),
    "trial_sparta": MethodTable(
        "trial_sparta",
        {
            "sparta": "pool, weights by reputation",
            "equal weights": "judges weighted alike",
            "random matching": "random opponents",
            "static scores": "static handicaps",
            "alone": "each alone",
            "world judges": "the world judges",
        },
        {AFTER: "end", f"best after{GREEDY}": "best member"},
        {"sparta − this": ("sparta", AFTER)},
        bare=(f"best after{GREEDY}",),
    ),
    "wildguard": MethodTable(
        "wildguard",
        {
            "sft start": "start",
            "mnpo": "MNPO",
            "dpo": "DPO",
            "dpo, last policy": "DPO, against the last policy",
            "sppo": "SPPO",
            "inpo": "INPO",
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
            "over-refusal": "over-refusal",
        },
        bare=("over-refusal",),
    ),
    "trial_gpo": MethodTable(
        "trial_gpo",
        {
            "start": "start",
            "rlhf": "fixed prompts",
            "random augmentation": "random augmentation",
            "frozen adversary": "a frozen adversary",
            "self play": "self-play, two seeds",
            "gpo": "`gpo`",
            "gpo no diversity": "… without pay for diversity",
        },
        {
            "best response": "fresh attacker of 400 updates",
            "adversary": "its own adversary",
            "raw": "no attacker",
            "over-refusal": "over-refusal",
        },
        {"gpo − this, fresh attacker": ("gpo", "best response")},
        bare=("adversary", "raw", "over-refusal"),
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
