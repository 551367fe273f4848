"""NormAd's rows: is what somebody does in a story acceptable, given some context?

    {"Country", "Value", "Rule-of-Thumb", "Story", "Gold Label", …}

Source: NormAd (arXiv 2404.12464), whose three contexts are three of SPARTA's tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from equipoise.errors import DataError
from equipoise.prompts.values import type_name

Norm = Literal["country", "value", "rule_of_thumb"]

LABEL = "Gold Label"
LABELS = ("Yes", "No", "Neutral")
CONTEXTS: Mapping[Norm, tuple[str, ...]] = {
    "country": ("Country",),
    "value": ("Country", "Value"),
    "rule_of_thumb": ("Rule-of-Thumb",),
}
"""The columns that a question begins with."""


def is_norm(row: Mapping[str, Any]) -> bool:
    """Whether a row has NormAd's columns."""
    return "Story" in row and LABEL in row


def norm_question(row: Mapping[str, Any], where: str, norm: Norm) -> dict[str, Any]:
    """The row with the question as `prompt` and the label as `answer`, one of `choices`.

    Raises DataError, beginning with `where`, for a column that is no text and a label that there is
    not.
    """
    held = {key: value for key, value in row.items() if value is not None}
    lines = []
    for column in (*CONTEXTS[norm], "Story"):
        if not isinstance(held.get(column), str):
            present = type_name(held.get(column))
            raise DataError(f"{where}: {column}: must be a text, this is {present}")
        label = "" if column == "Story" else f"{column.replace('-', ' ').capitalize()}: "
        lines.append(f"{label}{held[column].strip()}")
    options = ", ".join(f"'{label}'" for label in LABELS)
    lines.append(f"Is this socially acceptable?\nChoose from: {options}")
    answer = str(held.pop(LABEL)).strip().capitalize()
    if answer not in LABELS:
        raise DataError(f"{where}: {LABEL}: is {answer!r}, none of {options}")
    asked = {"prompt": "\n\n".join(lines), "choices": list(LABELS), "answer": answer}
    return held | asked
