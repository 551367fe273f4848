"""Right answers to held-out questions, field by field."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise.answer import answer_of
from equipoise.environments.fields.field_questions import FieldName
from equipoise.evaluation.base import Arena, Scores
from equipoise.evaluation.measure import AnswersMeasure
from equipoise.judges.rules import Exact
from equipoise.types import PlayerId


class FieldShare(AnswersMeasure):
    """The share of right answers to the held-out questions of one field."""

    kind: Literal["field_share"] = "field_share"
    field: FieldName = Field(description="the field whose questions count")

    @property
    def name(self) -> str:
        return self.title or f"right in {self.field}"

    @property
    def note(self) -> str:
        return "of held-out answers, compared with the right one by rule"

    def scores(self, arena: Arena, player: PlayerId, t: int, samples: int) -> Scores:
        rule = Exact.model_validate({})
        asked = {p.id: p for p in arena.held_out if p.facts.get("field") == self.field}
        answers = arena.answers(player, samples)
        scores: dict[str, list[float | None]] = {}
        for name, prompt in asked.items():
            turns = answers.get(name, ())
            verdicts = [rule.score(prompt, answer_of(turn.move).text) for turn in turns]
            scores[name] = [None if isinstance(v, str) else v["score"] for v in verdicts]
        return scores
