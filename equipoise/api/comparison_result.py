"""The result of `compare`: its numbers as frames and plain values, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import RunError
from equipoise.evaluation.compared_arms import Arm, ComparisonNumbers
from equipoise.ledger.frames import Frame, columns, frame
from equipoise.people.calibrated_judges import CalibratedPair, calibration_section
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable

DIFFERENCES = columns(
    "measure first second difference:float low:float high:float items:int p:float adjusted:float "
    "together_low:float together_high:float smallest:float seed_p:float only_first:int "
    "only_second:int differs:bool verdict"
)
STANDINGS = columns(
    "measure target score:float low:float high:float prompts:int missing:int first_place:int "
    "last_place:int"
)
WIN_RATES = columns("measure first second win_rate:float low:float high:float prompts:int")


@dataclass(frozen=True)
class Comparison:
    """A comparison's numbers, its arms by the records' own names, and the folders in which new
    answers are kept.

    `calibrated` are win rates of players of one run, corrected by people's votes. A comparison may
    itself be compared: `compare(comparison, "runs/c")` sets a further target beside its own.
    """

    numbers: ComparisonNumbers
    arms: tuple[Arm, ...] = ()
    kept: tuple[Path, ...] = ()
    calibrated: tuple[CalibratedPair, ...] = ()

    def differences(self) -> Frame:
        """One row a pair and measure, with intervals and corrected p-values."""
        rows = []
        for difference in self.numbers.differences:
            facts = difference.facts()
            facts.pop("seeds")
            rows.append(facts)
        return frame(DIFFERENCES, rows)

    def standings(self) -> Frame:
        """One row a target and measure, with its score and the places that it may have."""
        return frame(STANDINGS, self._standing_rows())

    def _standing_rows(self) -> Iterator[dict[str, Any]]:
        for measure, rows in self.numbers.facts()["standings"].items():
            for row in rows:
                first, last = row.pop("places")
                yield {"measure": measure, **row, "first_place": first, "last_place": last}

    def win_rates(self) -> Frame:
        """One row a measure and ordered pair of targets that met."""
        rows = []
        for table in self.numbers.win_rates:
            for rate in table.facts()["rates"]:
                rows.append({"measure": table.measure, **rate})
        return frame(WIN_RATES, rows)

    def facts(self) -> dict[str, Any]:
        """Plain JSON values: differences, standings, win rates, what was left out."""
        return {
            **self.numbers.facts(),
            "kept": [str(path) for path in self.kept],
            "calibrated": [pair.facts() for pair in self.calibrated],
        }

    def write(self, out: str | Path) -> Path:
        """Write the page, one HTML file that works offline, and return its path."""
        from equipoise.blocks.html import render
        from equipoise.report.comparison_page import comparison_page

        path = Path(out)
        if path.is_dir():
            raise RunError(f"{path}: is a folder; name the file, as {path}/comparison.html")
        check_writable(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        further = list(calibration_section(self.calibrated))
        write_text(path, render(comparison_page(self.numbers, further)))
        return path

    def _repr_html_(self) -> str:
        from equipoise.report.comparison_page import comparison_table

        return comparison_table(self.numbers)

    def __repr__(self) -> str:
        from equipoise.report.comparison_page import comparison_lines

        lines = [*comparison_lines(self.numbers), *(pair.line() for pair in self.calibrated)]
        return "\n".join(lines)
