"""AlpacaEval 2: instructions, each answer compared with a reference's; win rate and
length-controlled win rate.

Source: Li et al. 2023, AlpacaEval; Dubois et al. 2024, arXiv:2404.04475 (`payoffs.length_control`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import ClassVar, Literal

import numpy as np
from msgspec.structs import replace
from pydantic import Field, field_validator

from equipoise.errors import DataError
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.arena_hard import compared
from equipoise.evaluation.named_sets.data import HubData, Published, text_of
from equipoise.evaluation.named_sets.judge_defaults import why_not_comparing, with_defaults
from equipoise.evaluation.named_sets.records import (
    Answer,
    BenchmarkResult,
    Item,
    ItemScores,
    Judged,
)
from equipoise.judges.base import Judge, JudgeContext
from equipoise.payoffs.length_control import Anchors, length_controlled_interval
from equipoise.types import Prompt, record_id, user

CRITERIA = "which answer a person who gave this instruction would rather have"
CONTROLLED = "length_controlled_win_rate"
FOLDS = 5


class AlpacaEval(Published):
    """`length_controlled_win_rate` (the headline) and `win_rate` over reference answers.

    The published regression knows how hard each instruction is, and how the judge took to baselines
    that were told to be short or long, for the judge and the reference of the leaderboard. Give
    both files to compare with it; without them the regression has neither term.
    """

    kind: Literal["alpaca_eval"] = "alpaca_eval"
    data: ClassVar[HubData | None] = HubData(
        "tatsu-lab/alpaca_eval", "alpaca_eval_gpt4_baseline", "eval"
    )
    data_fields: ClassVar[tuple[str, ...]] = ("path",)
    licence: ClassVar[str] = "CC BY-NC 4.0, Stanford"
    needs_judge: ClassVar[bool] = True

    temperature: float | None = Field(
        0.0, ge=0, description="of the player's sampling; 0: the most likely token"
    )
    max_new_tokens: int | None = Field(
        2048, ge=1, description="most tokens of an answer; null: the player's own"
    )
    against: Literal["reference", "start"] = Field(
        "reference",
        description="whose answers the player's are compared with: those in the data "
        "(gpt4_1106_preview), or those of the player's own start",
    )
    difficulty: str | None = Field(
        None, description="the published instruction_difficulty.csv; null: no such term"
    )
    gamed: str | None = Field(
        None, description="the published df_gamed.csv, which needs `difficulty`; null: no anchors"
    )

    @field_validator("judge")
    @classmethod
    def _criteria(cls, judge: Judge | None) -> Judge | None:
        return with_defaults(judge, CRITERIA)

    @property
    def headline(self) -> str:
        """The length-controlled win rate."""
        return CONTROLLED

    @property
    def against_start(self) -> bool:
        """Where the player's own start is the reference."""
        return self.against == "start"

    def faults(self, items: Sequence[Item], context: JudgeContext) -> Iterator[str]:
        """Also a judge that does not compare, too few instructions, and a missing package."""
        yield from super().faults(items, context)
        yield from why_not_comparing(str(self.kind), self.judge)
        if len(items) < FOLDS:
            yield f"a length-controlled win rate needs {FOLDS} instructions or more"
        if find_spec("sklearn") is None:
            yield (
                "a length-controlled win rate needs the package scikit-learn: "
                "pip install 'equipoise[benchmarks]'"
            )

    def load(self) -> list[Item]:
        """The instructions, with the reference's answers and their place in the data."""
        items = []
        for place, (where, row) in enumerate(self.rows()):
            text = text_of(row, where, "instruction")
            reference = ()
            if not self.against_start:
                reference = (text_of(row, where, "output"),)
            prompt = Prompt(
                record_id("alpaca_eval", text), (user(text),), {"index": place}, "alpaca_eval"
            )
            items.append(
                Item(
                    id=str(place),
                    prompt=prompt,
                    reference=reference,
                    group=str(row.get("dataset") or ""),
                )
            )
        return items

    def score(
        self,
        items: Sequence[Item],
        answers: Mapping[str, Sequence[Answer]],
        judged: Sequence[Judged],
    ) -> list[ItemScores]:
        """The probability of winning, with both answers' lengths beside it."""
        groups = {item.id: item.group for item in items}
        rows = []
        for verdict in judged:
            question = verdict.question
            lengths = {
                "length": len(question.answer.text),
                "baseline_length": len(question.other or ""),
            }
            rows.append(compared(verdict, groups, lengths))
        return rows

    def summary(self, scores: Sequence[ItemScores], items: Sequence[Item]) -> BenchmarkResult:
        """Also the length-controlled rate, with an interval over the instructions."""
        result = super().summary(scores, items)
        known = [row for row in scores if row.values["win_rate"] is not None]
        rate = Estimate(None, None, None, len(known))
        if len(known) >= FOLDS:
            rate = self._controlled(known)
        terms = ["length"] + ["difficulty"] * bool(self.difficulty)
        terms += ["anchors"] * bool(self.gamed)
        return replace(
            result,
            metrics={CONTROLLED: rate, **result.metrics},
            unscored=len(scores) - len(known),
            note=f"length-controlled by: {', '.join(terms)}",
        )

    def _controlled(self, rows: Sequence[ItemScores]) -> Estimate:
        def column(name: str) -> np.ndarray:
            return np.array([row.facts[name] for row in rows], float)

        wins = np.array([row.values["win_rate"] for row in rows], float)
        difficulty = None
        if self.difficulty is not None:
            by_place = self._difficulties
            difficulty = np.array([by_place[row.item] for row in rows])
        interval = length_controlled_interval(
            wins,
            column("length"),
            column("baseline_length"),
            difficulty_B=difficulty,
            anchors=self._anchors,
            folds=FOLDS,
            seed=self.seed,
        )
        return Estimate.of(interval)

    @cached_property
    def _difficulties(self) -> dict[str, float]:
        """Place of an instruction in the data -> its difficulty. Raises DataError."""
        assert self.difficulty is not None
        rows = self.rows_of(self.difficulty, None, "difficulty")
        return {
            str(place): _number(row, where, "instruction_difficulty")
            for place, (where, row) in enumerate(rows)
        }

    @cached_property
    def _anchors(self) -> Anchors | None:
        if self.gamed is None:
            return None
        rows = list(self.rows_of(self.gamed, None, "gamed"))

        def column(name: str) -> np.ndarray:
            return np.array([_number(row, where, name) for where, row in rows])

        # The file has the baseline's length less the answer's.
        return Anchors(
            column("preference"), -column("std_delta_len"), column("instruction_difficulty")
        )


def _number(row: Mapping[str, object], where: str, name: str) -> float:
    try:
        return float(str(row[name]))
    except (KeyError, ValueError) as error:
        raise DataError(f"{where}: needs a number in the column '{name}'") from error
