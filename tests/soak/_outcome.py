"""Outcome of a part of the soak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows of a part's table, its failures in words, and what the table was counted from."""

    table: Sequence[Mapping[str, Any]]
    failures: Sequence[str] = field(default_factory=tuple)
    rows: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
