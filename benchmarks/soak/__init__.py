"""Attacks on the running program, large: `python -m benchmarks.soak PART [--size N]`.

A part is a module of this package with SIZE, how much it does by default, and `soak(size)`, which
returns an Outcome. One that can stop early takes `minutes` too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a part came to: the rows of its table, and what failed, in words."""

    table: Sequence[Mapping[str, Any]]
    failures: Sequence[str] = field(default_factory=tuple)
