"""The record of the last test: the player that was chosen, and how it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from equipoise.errors import RunError
from equipoise.evaluate.measures import Estimate
from equipoise.report.elements import Headline
from equipoise.report.selection import Selection, shown


class SelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The player chosen by its held-out score, the best start, and both on the test."""

    chosen: str
    start: str
    held_out: dict[str, Estimate]
    test: dict[str, Estimate]
    win_rate: Estimate

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> SelectionRecord:
        """The record from the JSON of its stage.

        Raises RunError for one that this version cannot read.
        """
        try:
            return msgspec.convert(facts, cls)
        except msgspec.ValidationError as error:
            raise RunError(
                f"the last test cannot be read ({error}); it was recorded by another "
                "version of equipoise: read the run with that one"
            ) from None

    def facts(self) -> dict[str, Any]:
        """Plain JSON values for the stage's record."""
        return msgspec.to_builtins(self)

    @property
    def selection(self) -> Selection:
        """What the page shows of it."""
        return Selection(
            self.chosen,
            self.start,
            {name: score.interval for name, score in self.held_out.items()},
            {name: score.interval for name, score in self.test.items()},
            self.win_rate.interval,
        )

    def headlines(self) -> Iterator[Headline]:
        """The test score of the chosen player."""
        score, start = self.test[self.chosen].interval, self.test[self.start].interval
        note = (
            f"the best on held-out prompts, tested once; {self.start}: {shown(start)}"
        )
        yield Headline(f"test score of {self.chosen}", shown(score), note)
