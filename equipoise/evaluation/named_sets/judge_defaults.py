"""What a published benchmark sets of its judge where the user set nothing."""

from __future__ import annotations

from typing import Any

from equipoise.judges.base import Judge
from equipoise.judges.pairwise import Comparing
from equipoise.judges.question import QuestionSettings


def with_defaults(
    judge: Judge | None, criteria: str = "", reference_fact: str | None = None
) -> Judge | None:
    """The judge with these criteria and this fact as the reference that it is shown; one that
    compares counts both orders of the answers (`flip: mean`). What the user set stays.
    """
    if judge is None:
        return None
    wanted: dict[str, Any] = {}
    if isinstance(judge, QuestionSettings):
        wanted |= {"criteria": criteria, "reference_fact": reference_fact}
    if isinstance(judge, Comparing):
        wanted["flip"] = "mean"
    change = {
        name: value
        for name, value in wanted.items()
        if value and name not in judge.model_fields_set
    }
    return judge.model_copy(update=change) if change else judge


def why_not_comparing(kind: str, judge: Judge | None) -> list[str]:
    """That a benchmark by comparisons has a judge that does not compare."""
    if judge is None or judge.compares:
        return []
    return [
        f"'{kind}' sets each answer beside another one; judge '{judge.kind}' scores "
        "answers alone. Name one that compares, such as pairwise or preference_model"
    ]
