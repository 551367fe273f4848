"""Win rates over a baseline's answers: Arena-Hard and AlpacaEval 2, with style or length taken out.

Sources: Li et al. 2024, From Crowdsourced Data to High-Quality Benchmarks: Arena-Hard and
BenchBuilder, arXiv:2406.11939 (`payoffs.style_control`); Li et al. 2023, AlpacaEval; Dubois et al.
2024, arXiv:2404.04475 (`payoffs.length_control`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import replace
from pydantic import Field, field_validator

from equipoise.answer import answer_of
from equipoise.errors import DataError
from equipoise.evaluation.sets.answer_files import answers_in
from equipoise.evaluation.sets.base import AnswerTokens
from equipoise.evaluation.sets.published_set import (
    HubData,
    PlacedRow,
    Published,
    list_of,
    name_of,
    text_of,
    why_not_comparing,
    with_defaults,
)
from equipoise.judges.base import Judge, JudgeContext
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import Answers, BenchmarkResult, Item, Items, ItemScores, Judged
from equipoise.payoffs.controlled_win_rates import (
    Anchors,
    length_controlled_interval,
    strength_is_identified,
    style,
    style_controlled_interval,
    style_differences,
)
from equipoise.system.effects import ReadPath
from equipoise.types import Prompt, record_id, user

ARENA_HARD_CRITERIA = (
    "whether the answer is right, does what is asked, and is relevant and concise; "
    "creativity where it is called for; what important information is missing"
)
STYLE_CONTROLLED = "style_controlled_win_rate"


class ArenaHard(Published):
    """`win_rate` over the baseline, and the rate with style taken out.

    The probability of winning is the judge's own, in both orders; its verdicts have no degrees,
    unlike the official ones, of which a strong one counts three times.
    """

    kind: Literal["arena_hard"] = "arena_hard"
    data: ClassVar[HubData | None] = HubData("lmarena-ai/arena-hard-auto-v0.1", split="train")
    data_fields: ClassVar[tuple[str, ...]] = ("path", "baseline")
    licence: ClassVar[str] = "Apache 2.0, LMArena"
    needs_judge: ClassVar[bool] = True

    max_new_tokens: AnswerTokens = 4096
    baseline: ReadPath | None = Field(
        None,
        description="the baseline's answers (officially those of gpt-4-0314), in "
        "Arena-Hard's form; null: the answers of the player's own start",
    )

    @field_validator("judge")
    @classmethod
    def _criteria(cls, judge: Judge | None) -> Judge | None:
        return with_defaults(judge, ARENA_HARD_CRITERIA)

    @property
    def headline(self) -> str:
        return "win_rate"

    @property
    def against_start(self) -> bool:
        return self.baseline is None

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
        """Also a judge that does not compare."""
        yield from super().faults(items, context)
        yield from why_not_comparing(str(self.kind), self.judge)

    def load(self) -> list[Item]:
        """The requests, with the baseline's answers where they are given."""
        others = answers_in(self.baseline) if self.baseline else None
        items = [_item(place) for place in self.rows()]
        if others is not None:
            items = [self._beside(item, others) for item in items]
        several = len({item.group for item in items}) > 1
        return items if several else [replace(item, group="") for item in items]

    def _beside(self, item: Item, others: Mapping[str, tuple[str, ...]]) -> Item:
        if item.id not in others:
            raise DataError(f"{self.baseline}: no answer to {item.id}")
        return replace(item, reference=others[item.id])

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """The probability of winning, with both answers' styles beside it."""
        groups = {item.id: item.group for item in items}
        return [
            verdict.row("win_rate", verdict.score, groups, **_styles(verdict)) for verdict in judged
        ]

    def summary(self, scores: Sequence[ItemScores], items: Items) -> BenchmarkResult:
        """Also the style-controlled rate, with an interval over the requests."""
        result = super().summary(scores, items)
        known = [row for row in scores if row.values["win_rate"] is not None]
        metrics = {**result.metrics, STYLE_CONTROLLED: _style_controlled_rate(known, self.seed)}
        return replace(result, metrics=metrics)


def _item(place: PlacedRow) -> Item:
    where, row = place
    if "turns" in row:
        turn = list_of(row, where, "turns")[0]
        text = str(turn["content"] if isinstance(turn, Mapping) else turn)
    else:
        text = text_of(row, where, "prompt")
    prompt = Prompt(record_id("arena_hard", text), (user(text),), {}, "arena_hard")
    name = name_of(row, where, "uid", "question_id")
    return Item(id=name, prompt=prompt, group=str(row.get("category") or ""))


def _styles(verdict: Judged) -> dict[str, Any]:
    question = verdict.question
    return {
        "style": list(style(answer_of(question.answer).text)),
        "baseline_style": list(style(question.other or "")),
    }


def _style_controlled_rate(rows: Sequence[ItemScores], seed: int) -> Estimate:
    if len(rows) < 2:
        return Estimate(None, None, None, len(rows))
    difference = style_differences(
        [row.facts["style"] for row in rows], [row.facts["baseline_style"] for row in rows]
    )
    values = [float(row.values["win_rate"] or 0.0) for row in rows]
    if not strength_is_identified(np.array(values), difference):
        return Estimate(None, None, None, len(rows))
    prompts = [row.item for row in rows]
    interval = style_controlled_interval(values, difference, prompts, seed=seed)
    return Estimate.of(interval)


ALPACA_EVAL_CRITERIA = "which answer a person who gave this instruction would rather have"
LENGTH_CONTROLLED = "length_controlled_win_rate"
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

    max_new_tokens: AnswerTokens = 2048
    against: Literal["reference", "start"] = Field(
        "reference",
        description="whose answers the player's are compared with: those in the data "
        "(gpt4_1106_preview), or those of the player's own start",
    )
    difficulty: ReadPath | None = Field(
        None, description="the published instruction_difficulty.csv; null: no such term"
    )
    gamed: ReadPath | None = Field(
        None, description="the published df_gamed.csv, which needs `difficulty`; null: no anchors"
    )

    @field_validator("judge")
    @classmethod
    def _criteria(cls, judge: Judge | None) -> Judge | None:
        return with_defaults(judge, ALPACA_EVAL_CRITERIA)

    @property
    def headline(self) -> str:
        return LENGTH_CONTROLLED

    @property
    def against_start(self) -> bool:
        return self.against == "start"

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
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

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """The probability of winning, with both answers' lengths beside it."""
        groups = {item.id: item.group for item in items}
        return [
            verdict.row(
                "win_rate",
                verdict.score,
                groups,
                length=len(answer_of(verdict.question.answer).text),
                baseline_length=len(verdict.question.other or ""),
            )
            for verdict in judged
        ]

    def summary(self, scores: Sequence[ItemScores], items: Items) -> BenchmarkResult:
        """Also the length-controlled rate, with an interval over the instructions."""
        result = super().summary(scores, items)
        known = [row for row in scores if row.values["win_rate"] is not None]
        rate = Estimate(None, None, None, len(known))
        if len(known) >= FOLDS:
            rate = self._length_controlled_rate(known)
        terms = ["length"] + ["difficulty"] * bool(self.difficulty)
        terms += ["anchors"] * bool(self.gamed)
        return replace(
            result,
            metrics={LENGTH_CONTROLLED: rate, **result.metrics},
            unscored=len(scores) - len(known),
            note=f"length-controlled by: {', '.join(terms)}",
        )

    def _length_controlled_rate(self, rows: Sequence[ItemScores]) -> Estimate:
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
            prompts=[row.item for row in rows],
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
