"""The board of the wind tunnel, from its raw file: for the terminal and docs/tunnel.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.table_rows import RESULTS
from benchmarks.tunnel_flight import CONDITIONS, TOLD
from benchmarks.tunnel_games import FAMILIES
from benchmarks.verdicts import raw

RAW = RESULTS / "tunnel.json"
COLUMNS = "family,rule,game,last,average,over"
REFERENCES = ("the start", "uniform")
CARRIED = {"mnpo, ½ ½": "MNPO, two past", "inpo": "INPO", "dpo": "DPO iterated"}
"""Arm of `benchmarks.cycling` -> the rule of the board that it is."""


@dataclass(frozen=True)
class Board:
    """Gaps by (family, rule) with a column [G] each, and the other figures of each cell."""

    gaps: Mapping[tuple[str, str], Mapping[str, np.ndarray]]
    cells: Mapping[tuple[str, str], Mapping[str, Any]]
    resumed: Mapping[str, bool]

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Board:
        """The board that a raw file holds."""
        columns = COLUMNS.split(",")[3:]
        gathered: dict[tuple[str, str], dict[str, list[float]]] = {}
        for row in figures["rows"]:
            family, rule, _, *values = row.split(",")
            held = gathered.setdefault((family, rule.replace(";", ",")), {})
            for column, value in zip(columns, values, strict=True):
                if value:
                    held.setdefault(column, []).append(float(value))
        gaps = {
            cell: {column: np.array(values) for column, values in held.items()}
            for cell, held in gathered.items()
        }
        cells = {(cell["family"], cell["rule"]): cell for cell in figures["cells"]}
        return cls(gaps, cells, figures["resumed"])

    @property
    def rules(self) -> list[str]:
        """The rows."""
        return list(dict.fromkeys(rule for _, rule in self.cells))

    def families(self) -> list[str]:
        """The columns that every rule was flown in."""
        present = {family for family, _ in self.cells}
        return [family for family in FAMILIES if family in present]

    def mean(self, family: str, rule: str, column: str) -> float | None:
        """The mean gap over a family's games."""
        held = self.gaps.get((family, rule), {})
        return float(held[column].mean()) if column in held else None

    def rank(self, rule: str, column: str) -> float | None:
        """The mean place of a rule among those of the board, over families; 1 is the best. Mean
        gaps that differ by less than a thousandth share a place.
        """
        ranked = [name for name in self.rules if name not in REFERENCES]
        if rule not in ranked:
            return None
        places = []
        for family in self.families():
            gaps = {name: self.mean(family, name, column) for name in ranked}
            own = gaps[rule]
            if own is None:
                continue
            others = [gap for name, gap in gaps.items() if name != rule and gap is not None]
            better = sum(gap < own - 0.001 for gap in others)
            alike = sum(abs(gap - own) <= 0.001 for gap in others)
            places.append(1 + better + alike / 2)
        return float(np.mean(places)) if places else None

    def gap_rows(self, column: str) -> list[list[str]]:
        """A row for each rule: its mean gap in each family, and its mean place."""
        rows = []
        for rule in self.rules:
            cells = [number(self.mean(family, rule, column)) for family in self.families()]
            rows.append([rule, *cells, number(self.rank(rule, column), 1)])
        return rows

    def cost_rows(self) -> list[list[str]]:
        """A row for each rule: how it breaks, and what it costs."""
        rows = []
        for rule in self.rules:
            cells = [
                self.cells[family, rule]
                for family in self.families()
                if (family, rule) in self.cells
            ]
            forgiving = [cell["forgiving"] for cell in cells if cell["forgiving"] is not None]
            lost = [cell["lost"] for cell in cells if cell["lost"] is not None]
            told = [number(self.mean(condition, rule, "last")) for condition in CONDITIONS]
            told_of = self.cells.get((TOLD, rule), {})
            rows.append(
                [
                    rule,
                    *told,
                    percent(forgiving),
                    number(told_of.get("entropy"), 2),
                    percent(lost),
                    number(max((cell["evaluations"] for cell in cells), default=None), 0),
                    number(max((cell["policies"] for cell in cells), default=None), 0),
                    {True: "yes", False: "no"}.get(self.resumed.get(rule), ""),  # type: ignore[arg-type]
                ]
            )
        return rows


GAP_HEAD = ("rule", *FAMILIES, "mean place")
COST_HEAD = (
    "rule",
    *CONDITIONS,
    "steps that do",
    "entropy",
    "actions lost",
    "evaluations a move",
    "policies kept",
    "resumes",
)


def number(value: float | None, digits: int = 3) -> str:
    """A figure as the board shows it; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


def percent(shares: Sequence[float]) -> str:
    """The mean of shares in whole per cent; nothing where there are none."""
    return f"{100 * np.mean(shares):.0f} %" if shares else ""


def recorded() -> tuple[Board, Mapping[str, Any]]:
    """The board of the raw file, and the arguments that it was made with."""
    results = json.loads(RAW.read_text())
    return Board.of(results["figures"]), results["arguments"]


def carried() -> list[list[str]]:
    """Whether the order of three rules on the cyclic games is that of the same rules on a tiny
    language model: a row for each two of them and each column.
    """
    board, _ = recorded()
    scores, _ = raw("cycling")
    rows = []
    for column in ("last", "average"):
        for first, second in combinations(CARRIED, 2):
            gaps = [board.mean("cyclic", CARRIED[arm], column) for arm in (first, second)]
            if None in gaps:
                continue
            on_board = gaps[0] - gaps[1]  # type: ignore[operator]
            on_model = scores.difference(f"{first}:{column}", f"{second}:{column}", "")
            shown = not on_model.low <= 0 <= on_model.high
            same = (on_board > 0) == (on_model.mean > 0)
            verdict = "as predicted" if same else "the other way round"
            if not shown:
                verdict += ", within the noise"
            two = f"{CARRIED[first]} less {CARRIED[second]}"
            rows.append([column, two, f"{on_board:+.3f}", on_model.text(), verdict])
    return rows


@dataclass(frozen=True)
class BoardTable:
    """A table of docs/tunnel.md; `kind` is last, average, over, cost or carried."""

    kind: str

    def head(self) -> list[str]:
        """The columns' labels."""
        if self.kind == "carried":
            return ["policies", "which rules", "on the board", "on the model", "the order"]
        return list(COST_HEAD if self.kind == "cost" else GAP_HEAD)

    def rows(self) -> list[list[str]]:
        """The rows, from the raw files."""
        if self.kind == "carried":
            return carried()
        board, _ = recorded()
        return board.cost_rows() if self.kind == "cost" else board.gap_rows(self.kind)


TABLES = {
    f"tunnel_{kind}": BoardTable(kind) for kind in ("last", "average", "over", "cost", "carried")
}
