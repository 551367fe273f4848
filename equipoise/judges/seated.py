"""Judges that need the run: whom they may ask, and the seed of what they leave to
chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pydantic import PrivateAttr

from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, JudgeContext

UNREADABLE = "the judge's verdict could not be read"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one question to a judge gave: a number, or None and why; `tokens` (asked and
    answered) and `cost` of it.
    """

    value: float | None
    reason: str = ""
    tokens: int = 0
    cost: float = 0.0


class Seated(Judge):
    """A judge that works at a bench only."""

    _bench: JudgeContext | None = PrivateAttr(None)

    def at(self, judge_context: JudgeContext) -> Self:
        """This judge, knowing the bench."""
        seated = self.model_copy()
        seated._bench = judge_context
        return seated

    @property
    def judge_context(self) -> JudgeContext:
        """Where the judge sits. Raises ConfigError when it was never seated."""
        if self._bench is None:
            raise ConfigError(
                f"judge: '{self.kind}' must be seated before it judges: use judge.at(bench)"
            )
        return self._bench


def fault(reason: str) -> str:
    """The reason; of a verdict that could not be read only that, because its words are
    of no two replies the same.
    """
    return UNREADABLE if reason.startswith(UNREADABLE) else reason
