"""A start of members who each know one field, and a little of the others."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.api.train_guard import area_under_curve
from equipoise.api.warm_start import (
    ChatTokens,
    Gate,
    StartModel,
    Training,
    WarmStart,
    ended_gate,
    fine_tuning,
)
from equipoise.environments.fields.field_questions import FIELDS, WORDS, Item, items
from equipoise.environments.fields.likely_peers import likely_grade
from equipoise.judges.rules import plain_text
from equipoise.learners.sft_learner import Example
from equipoise.types import Move, user

Pair = tuple[str, str]  # member, field


class FieldStart(WarmStart):
    """Teaches a member for each field its answers, and a few answers of the other fields.

    Its judgement is not taught: as in `likely_peers`, a member grades by how likely it would have
    given an answer. The gates are measured on questions of the school's own part, which are not
    taught either, the area under the curve on right answers and on likely mistakes.
    """

    kind: Literal["fields"] = "fields"
    max_length: ChatTokens = 128
    training: Training = fine_tuning(1e-3, 8, 1)
    count: int = Field(112, ge=4, le=400, description="answers of its own field to a member")
    foreign: int = Field(
        12, ge=0, le=100, description="answers of each other field, for the form and little more"
    )
    tested: int = Field(12, ge=4, le=100, description="questions of each field at the gates")

    def files(self) -> Sequence[Path]:
        here = Path(__file__).parent
        return (WORDS, here / "field_questions.py", here / "likely_peers.py")

    def rows(self, model: StartModel) -> Mapping[str, Sequence[Example]]:
        taught: dict[str, list[Example]] = {}
        for member in FIELDS:
            examples: list[Example] = []
            for field in FIELDS:
                count = self.count if field == member else self.foreign
                lessons = self.school(field)[:count]
                examples += [((user(item.question),), item.answer) for item in lessons]
            random.Random(seeds.child(self.seed, "fields", member)).shuffle(examples)
            taught[member] = examples
        return taught

    def school(self, field: str) -> list[Item]:
        """The questions of a field's school: those that may be taught, then those of the gates."""
        return items(field, "school", max(self.count, self.foreign) + self.tested, self.seed)

    def gates(self, model: StartModel, adapters: Mapping[str, Path]) -> list[Gate]:
        tested = [(field, item) for field in FIELDS for item in self.school(field)[-self.tested :]]
        chats = [(user(item.question),) for _, item in tested]
        right: dict[Pair, float] = {}
        areas: dict[Pair, float] = {}
        answers: list[Move] = []
        for member, adapter in adapters.items():
            moves = model.answers(chats, adapter=adapter, max_new_tokens=12, seed=1)
            answers += moves
            is_right = [
                float(plain_text(move.text) == plain_text(item.answer))
                for (_, item), move in zip(tested, moves, strict=True)
            ]
            with model.opened(adapter, {}) as actor:
                good = actor.logprobs(chats, [item.answer for _, item in tested])
                bad = actor.logprobs(chats, [item.wrong for _, item in tested])
            for field in FIELDS:
                places = [place for place, (its, _) in enumerate(tested) if its == field]
                right[member, field] = fmean(is_right[place] for place in places)
                grades = [
                    np.array([likely_grade(*sums[place], 0, 1) for place in places])
                    for sums in (good, bad)
                ]
                areas[member, field] = area_under_curve(*grades).mean
        return [ended_gate(answers, 0.8), *self.gates_of(right, areas)]

    def gates_of(self, right: Mapping[Pair, float], areas: Mapping[Pair, float]) -> list[Gate]:
        """Each member's figures on its own field, and those on others, which must lie below."""
        gates: list[Gate] = []
        for member in FIELDS:
            others = [field for field in FIELDS if field != member]
            foreign = fmean(right[member, field] for field in others)
            area = areas[member, member]
            foreign_area = fmean(areas[member, field] for field in others)
            own, count = right[member, member], self.tested
            gates += [
                Gate(f"{member}: right in its field", own, 0.4, 1.0, count),
                Gate(f"{member}: right in others", foreign, 0.0, 0.8 * own, 3 * count),
                Gate(f"{member}: area of its grades", area, 0.8, 1.0, 2 * count),
                Gate(f"{member}: area in others", foreign_area, 0.0, min(0.99, area), 6 * count),
            ]
        return gates
