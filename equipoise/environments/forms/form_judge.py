"""A judge that prefers forms of answers in an order of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from equipoise.environments.forms.answer_forms import FORMS, NONE, form_of
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt


class FormOrder(Pointwise):
    """Scores an answer by the place of its form in `order`: 1, ⅔, ⅓; 0 for no form or several.

    Three such judges, each beginning one form later, make a majority that goes in a circle.
    """

    kind: Literal["form_order"] = "form_order"
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score", *FORMS)
    order: tuple[Literal["bullets", "title", "sentence"], ...] = Field(
        FORMS, description="the three forms, the best first"
    )

    @field_validator("order")
    @classmethod
    def _names_all(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        if sorted(order) != sorted(FORMS):
            raise ValueError(f"name each of {', '.join(FORMS)} once")
        return order

    def score(self, prompt: Prompt, text: str) -> Verdict:
        form = form_of(text)
        score = 0.0
        if form != NONE:
            score = 1 - self.order.index(form) / len(FORMS)  # type: ignore[arg-type]
        return {"score": score, **{name: float(name == form) for name in FORMS}}
