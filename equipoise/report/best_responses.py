"""The section on what was trained to beat a frozen player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.report.section import Section, Table, number


def best_responses_section(responses: Sequence[Mapping[str, Any]]) -> Section:
    """A row for each exploiter: what it gets, what it began with, what the league had, and the
    budget; `responses` are facts as `run.best_response` gives them.
    """
    columns = (
        "against",
        "exploiter",
        "gets, 95 % interval",
        "at its start",
        "the league's best",
        "updates",
        "samples",
        "tokens",
        "its run",
    )
    table = Table(columns, tuple(map(_row, responses)), prose=True)
    lead = (
        "Exploitability by training: a fresh player learned against a frozen one, for "
        "what it gets alone. It is a lower bound on what can beat it, for this budget "
        "and this start; beside it is the most that anybody of the league got."
    )
    return Section("best_responses", "What can still beat it", (table,), lead)


def _row(facts: Mapping[str, Any]) -> tuple[str, ...]:
    league, budget = facts["league"], facts["budget"]
    by = f" ({league['by']})" if league["by"] else ""
    unit = f" {facts['unit']}" if facts["unit"] else ""
    return (
        facts["against"]["player"],
        facts["exploiter"] + ("" if facts["finished"] else ", unfinished"),
        estimate_text(facts["gets"]) + unit,
        estimate_text(facts["at_start"]),
        estimate_text(league["gets"]) + by,
        f"{budget['updates']:,}",
        f"{budget['samples']:,}",
        f"{budget['tokens']:,}",
        facts["run"],
    )


def estimate_text(estimate: Mapping[str, Any] | None) -> str:
    """A mean with its interval to read."""
    if estimate is None or estimate["mean"] is None:
        return "–"
    low, high = estimate["low"], estimate["high"]
    mean = number(estimate["mean"], digits=3)
    if low is None or high is None or low == high:
        return mean
    return f"{mean} ({number(low, digits=3)} to {number(high, digits=3)})"
