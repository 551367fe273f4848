"""Arena-Hard: hard requests, each answer compared with a baseline's in both orders.

Source: Li et al. 2024, From Crowdsourced Data to High-Quality Benchmarks: Arena-Hard and
BenchBuilder, arXiv:2406.11939; style control as `payoffs.style_control` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from msgspec.structs import replace
from pydantic import Field, field_validator

from equipoise.errors import DataError
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.answer_files import answers_in
from equipoise.evaluation.named_sets.data import (
    HubData,
    PlacedRow,
    Published,
    list_of,
    name_of,
    text_of,
)
from equipoise.evaluation.named_sets.judge_defaults import why_not_comparing, with_defaults
from equipoise.evaluation.named_sets.records import (
    Answer,
    BenchmarkResult,
    Item,
    ItemScores,
    Judged,
)
from equipoise.judges.base import Judge, JudgeContext
from equipoise.payoffs.style_control import style, style_controlled_interval, style_differences
from equipoise.types import Prompt, record_id, user

CRITERIA = (
    "whether the answer is right, does what is asked, and is relevant and concise; "
    "creativity where it is called for; what important information is missing"
)
CONTROLLED = "style_controlled_win_rate"


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

    temperature: float | None = Field(
        0.0, ge=0, description="of the player's sampling; 0: the most likely token"
    )
    max_new_tokens: int | None = Field(
        4096, ge=1, description="most tokens of an answer; null: the player's own"
    )
    baseline: str | None = Field(
        None,
        description="the baseline's answers (officially those of gpt-4-0314), in "
        "Arena-Hard's form; null: the answers of the player's own start",
    )

    @field_validator("judge")
    @classmethod
    def _criteria(cls, judge: Judge | None) -> Judge | None:
        return with_defaults(judge, CRITERIA)

    @property
    def headline(self) -> str:
        """The share of comparisons that are won, as they come."""
        return "win_rate"

    @property
    def against_start(self) -> bool:
        """Where no baseline is given."""
        return self.baseline is None

    def faults(self, items: Sequence[Item], context: JudgeContext) -> Iterator[str]:
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

    def score(
        self,
        items: Sequence[Item],
        answers: Mapping[str, Sequence[Answer]],
        judged: Sequence[Judged],
    ) -> list[ItemScores]:
        """The probability of winning, with both answers' styles beside it."""
        groups = {item.id: item.group for item in items}
        return [compared(verdict, groups, _styles(verdict)) for verdict in judged]

    def summary(self, scores: Sequence[ItemScores], items: Sequence[Item]) -> BenchmarkResult:
        """Also the style-controlled rate, with an interval over the requests."""
        result = super().summary(scores, items)
        known = [row for row in scores if row.values["win_rate"] is not None]
        metrics = {**result.metrics, CONTROLLED: _controlled(known, self.seed)}
        return replace(result, metrics=metrics)


def compared(verdict: Judged, groups: Mapping[str, str], facts: dict[str, Any]) -> ItemScores:
    """The probability of winning of one comparison; None with its reason where there is none."""
    value = (verdict.utilities or {}).get("score")
    question = verdict.question
    return ItemScores(
        item=question.item,
        sample=question.sample,
        values={"win_rate": value},
        group=groups[question.item],
        reason="" if value is not None else verdict.reason or "no score",
        facts=facts,
    )


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
        "style": list(style(question.answer.text)),
        "baseline_style": list(style(question.other or "")),
    }


def _controlled(rows: Sequence[ItemScores], seed: int) -> Estimate:
    if len(rows) < 2:
        return Estimate(None, None, None, len(rows))
    difference = style_differences(
        [row.facts["style"] for row in rows], [row.facts["baseline_style"] for row in rows]
    )
    values = [float(row.values["win_rate"] or 0.0) for row in rows]
    prompts = [row.item for row in rows]
    interval = style_controlled_interval(values, difference, prompts, seed=seed)
    return Estimate.of(interval)
