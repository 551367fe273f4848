"""The main numbers of an assistant, and the report's section on its welfare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from equipoise.environments.assistance.record import AssistanceRecord, SourceMeasures
from equipoise.evaluation.measures import History, Measurement, Quantity, curves
from equipoise.report.figures import bars, group_figure, lines_figure
from equipoise.report.section import Curves, Figure, Section, Table, number

WELFARE = Quantity(title="welfare", read="welfare", short="welfare")
USER = Quantity(title="utility to the user", read="user", short="user")
MODEL = Quantity(title="utility to the model", read="llm", short="model")
RIGHT = Quantity(title="right moves", read="right", unit="%", short="right move")
FORM = Quantity(title="well-formed answers", read="format", unit="%", short="well-formed")
READABLE = Quantity(title="readable answers", read="rates.readable", unit="%", short="readable")
QUALITY_USER = Quantity(
    title="quality to the user", read="quality_user", unit="%", short="to the user"
)
QUALITY_MODEL = Quantity(
    title="quality to the model", read="quality_llm", unit="%", short="to the model"
)
TOKENS = Quantity(title="tokens of an answer", read="tokens", higher_is_better=False)
QUALITY_PER_TOKEN = Quantity(title="answer score per 1000 tokens", read="quality_per_1000_tokens")
QUALITY_PER_CHARACTER = Quantity(
    title="answer score per 1000 characters", read="quality_per_1000_characters"
)
RESPONSE_SHARE = Quantity(title="response's share of the answer", read="response_share", unit="%")
HYPERVOLUME = Quantity(title="hypervolume", read="hypervolume")

QUANTITIES = (WELFARE, USER, MODEL, RIGHT, FORM, TOKENS, QUALITY_PER_TOKEN, RESPONSE_SHARE)
"""The headlines of a run."""

ALONE = (
    (TOKENS, "mean over the answers"),
    (QUALITY_PER_TOKEN, "quality to the model"),
    (QUALITY_PER_CHARACTER, "over outputs with a response"),
    (RESPONSE_SHARE, "of its characters"),
    (HYPERVOLUME, "area above (0, 0) that the prompts' points dominate"),
)
"""(what has a figure of its own, what it is)."""

SOURCE_COLUMNS = {
    "welfare": WELFARE,
    "user": USER,
    "model": MODEL,
    "quality model": QUALITY_MODEL,
    "format": FORM,
    "right": RIGHT,
    "tokens": TOKENS,
    "score per 1000 tokens": QUALITY_PER_TOKEN,
    "score per 1000 characters": QUALITY_PER_CHARACTER,
    "response share": RESPONSE_SHARE,
}
"""Heading -> the quantity of each data set below it; only welfare has room for its interval."""


def welfare_section(history: History[AssistanceRecord]) -> Section:
    """Welfare, utilities, form, actions and length over the measured generations."""
    blocks: list[Figure | Table] = [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        for group in curve_groups(history)
    ]
    blocks += [group_figure(group) for group in single_curves(history)]
    rows = source_rows(history.ends)
    if len({row[0] for row in rows}) > 1:
        columns = ("data set", "generation", *SOURCE_COLUMNS)
        blocks.append(Table(columns, rows, "Each data set"))
    if history.last is not None:
        blocks += _last_tables(history.last.measures)
        if history.last.measures.beaten:
            blocks.append(_beaten(history.last.measures))
    if not blocks:
        return Section("welfare", "Welfare", reason="the assistant has not been measured yet")
    lead = (
        "Measured on held-out prompts; generation 0 is the assistant as it was given. "
        "Bands are 95 % intervals."
    )
    return Section("welfare", "Welfare", tuple(blocks), lead)


def curve_groups(history: History[AssistanceRecord]) -> list[Curves]:
    """The curves that share an axis, where there is a point."""
    groups = (
        curves(
            history,
            *(WELFARE, USER, MODEL),
            title="Welfare and both utilities",
            note="mean over the held-out prompts",
        ),
        curves(
            history,
            *(RIGHT, FORM, READABLE),
            title="Form and moves",
            note="right: asked back where the question is vague, answered where it is clear",
        ),
        curves(
            history,
            *(QUALITY_USER, QUALITY_MODEL),
            title="Quality of the response",
            note="as the task's judge grades it",
        ),
    )
    return [group for group in groups if group.curves]


def single_curves(history: History[AssistanceRecord]) -> list[Curves]:
    """The curves with an axis of their own."""
    groups = [
        curves(history, quantity, title=quantity.title.capitalize(), note=note)
        for quantity, note in ALONE
    ]
    return [group for group in groups if group.curves]


def source_rows(measured: Sequence[Measurement[AssistanceRecord]]) -> tuple[tuple[str, ...], ...]:
    """(data set, generation, SOURCE_COLUMNS …) to read, ordered."""
    numbers = {
        (source, measurement.generation): of_source
        for measurement in measured
        for source, of_source in measurement.measures.sources.items()
    }
    return tuple(
        (source or "unnamed", str(generation), *_cells(numbers[source, generation]))
        for source, generation in sorted(numbers)
    )


def _cells(numbers: SourceMeasures) -> list[str]:
    others = list(SOURCE_COLUMNS.values())[1:]
    return [WELFARE.cell(numbers), *(quantity.cell(numbers, brief=True) for quantity in others)]


def _last_tables(record: AssistanceRecord) -> list[Table]:
    """Of the last generation: its scores beside each other, and its classes of requests."""
    pairs = tuple(
        (pair, *(number(value, digits=2) for value in values))
        for pair, values in record.correlations.items()
    )
    columns = ("scores of an answer", "Pearson", "Spearman", "Kendall")
    tables = [Table(columns, pairs, "Correlations, last generation")] if pairs else []
    rows = []
    for source, numbers in record.sources.items():
        for name, found in numbers.classes.items():
            shares = (number(value, "%") for value in found[:3])
            rows.append((source or "unnamed", name, str(found.total), *shares))
        if numbers.classes:
            macro = fmean(found.f1 for found in numbers.classes.values())
            rows.append(
                (source or "unnamed", "mean of the classes", "", "", "", number(macro, "%"))
            )
    if rows:
        columns = ("data set", "request", "n", "precision", "recall", "F1")
        title = "Requests told apart by meeting them rightly, last generation"
        tables.append(Table(columns, tuple(rows), title))
    return tables


def _beaten(record: AssistanceRecord) -> Figure:
    figure = bars(
        "Earlier generations that dominate the last",
        list(record.beaten.items()),
        "share of the held-out prompts at which it did better by one side and no "
        "worse by the other",
    )
    return replace(figure, wide=True)
