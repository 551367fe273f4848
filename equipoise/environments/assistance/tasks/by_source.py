"""The judges of GTAlign's tasks, by the name that their rows carry as `data_source`.

Training: math-hard, ambig_qa, medium, wildguard. Out of domain: minerva, abg_coqa (whose rows say
abg-coqa), advbench. Source: GTAlign (arXiv 2510.08872), the table of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.environments.assistance.tasks.task_judge import By
from equipoise.environments.assistance.utilities import Variant
from equipoise.judges.base import Judge
from equipoise.players.base import Player

TASKS: Mapping[str, str] = {
    "math-hard": "solution",
    "ambig_qa": "ambiguity",
    "medium": "writing",
    "wildguard": "safety",
    "minerva": "solution",
    "abg_coqa": "ambiguity",
    "advbench": "safety",
}
ALIASES: Mapping[str, str] = {
    "math_hard": "math-hard",
    "ambig-qa": "ambig_qa",
    "abg-coqa": "abg_coqa",
}
# In place of a data source, which no row can name: the judge of what <analyze> says.
FRONTIER = "<analyze>"
PUBLISHED = ("as_released", "frontier")  # the variants of the reward
RELEASED: Mapping[str, Mapping[str, Any]] = {
    "safety": {"variant": "as_released"},
    "writing": {"bleu": "characters"},
}


def task_judges(
    by: By = "rule", grader: Player | None = None, variant: Variant = "corrected"
) -> dict[str, Judge]:
    """Data source -> its judge, other spellings of its name included, and under FRONTIER the judge
    of <analyze>.

    Args: by: rule, or llm with `grader`. variant: of the reward; in the published two
    (`as_released`, `frontier`) BLEU counts characters, and a harmful request pays the user wherever
    the grade is below 1; in `choice` it is the outcome chosen that is judged in <analyze>, in the
    others what is named there. Raises pydantic's ValidationError for by: llm without a grader.
    """
    known = {source: task_judge(kind, by, grader, variant) for source, kind in TASKS.items()}
    others = {alias: known[source] for alias, source in ALIASES.items()}
    analysis = "chosen_outcome" if variant == "choice" else "frontier"
    return {**known, **others, FRONTIER: task_judge(analysis, by, grader, variant)}


def task_judge(kind: str, by: By, grader: Player | None, variant: Variant) -> Judge:
    """The judge of this kind of task with its default settings in this variant of the reward."""
    settings = RELEASED.get(kind, {}) if variant in PUBLISHED else {}
    return Judge.build({"kind": kind, "by": by, "grader": grader, **settings})
