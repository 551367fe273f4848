"""The section on welfare: utilities, form, quality and length over the generations, and each data
set by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from equipoise.environments.assistance.headline_measures import (
    quality_per_token,
    response_share,
    tokens,
)
from equipoise.environments.assistance.measure_readers import (
    Measured,
    Reader,
    curve,
    drawn,
    ends,
    exact,
    known,
)
from equipoise.environments.assistance.record import AssistanceRecord, SourceMeasures
from equipoise.evaluation.measures import Estimate, History
from equipoise.report.figures import bars, curve_figure, lines_figure
from equipoise.report.section import Curve, Curves, Figure, Section, Table, number


@dataclass(frozen=True, slots=True)
class CurveGroup:
    """Measures that share an axis: name -> how each is read."""

    title: str
    unit: str
    note: str
    readers: dict[str, Reader]


GROUPS = (
    CurveGroup(
        "Welfare and both utilities",
        "",
        "mean over the held-out prompts",
        {
            "welfare": lambda record: known(record.welfare),
            "user": lambda record: known(record.utilities.user),
            "model": lambda record: known(record.utilities.llm),
        },
    ),
    CurveGroup(
        "Form and moves",
        "%",
        "right: asked back where the question is vague, answered where it is clear",
        {
            "right move": lambda record: known(record.right),
            "well-formed": lambda record: known(record.rates.format),
            "readable": lambda record: known(record.rates.readable),
        },
    ),
    CurveGroup(
        "Quality of the response",
        "%",
        "as the task's judge grades it",
        {
            "to the user": lambda record: known(record.rates.quality_user),
            "to the model": lambda record: known(record.rates.quality_llm),
        },
    ),
)
SINGLE = (
    ("Tokens of an answer", "", tokens, "mean over the answers"),
    ("Answer score per 1000 tokens", "", quality_per_token, "quality to the model"),
    ("Response's share of the answer", "%", response_share, "of its characters"),
    (
        "Hypervolume",
        "",
        lambda record: exact(record.hypervolume),
        "area above (0, 0) that the prompts' points dominate",
    ),
)


def welfare_section(history: History[AssistanceRecord]) -> Section:
    """Welfare, utilities, form, actions and length over the measured generations."""
    measured = history.measurements
    blocks: list[Figure | Table] = [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        for group in curve_groups(measured)
    ]
    blocks += map(curve_figure, single_curves(measured))
    rows = source_rows(ends(history))
    if len({row[0] for row in rows}) > 1:
        columns = ("data set", "generation", *SOURCE_COLUMNS)
        blocks.append(Table(columns, rows, "Each data set"))
    if measured and measured[-1].measures.beaten:
        blocks.append(_beaten(measured[-1].measures))
    if not blocks:
        return Section("welfare", "Welfare", reason="the assistant has not been measured yet")
    lead = (
        "Measured on held-out prompts; generation 0 is the assistant as it was given. "
        "Bands are 95 % intervals."
    )
    return Section("welfare", "Welfare", tuple(blocks), lead)


def curve_groups(measured: Measured) -> Iterator[Curves]:
    """The curves of GROUPS that have a point."""
    for group in GROUPS:
        curves = drawn(
            curve(name, group.unit, measured, read) for name, read in group.readers.items()
        )
        if curves:
            yield Curves(group.title, group.unit, curves, group.note)


def single_curves(measured: Measured) -> tuple[Curve, ...]:
    """The curves of measures with an axis of their own."""
    return drawn(curve(title, unit, measured, read, note) for title, unit, read, note in SINGLE)


SOURCE_COLUMNS = (
    "welfare",
    "user",
    "model",
    "quality model",
    "format",
    "right",
    "tokens",
    "score per 1000 tokens",
    "response share",
)


def source_rows(measured: Measured) -> tuple[tuple[str, ...], ...]:
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


def _cells(numbers: SourceMeasures) -> Sequence[str]:
    return (
        _with_interval(numbers.welfare),
        _mean(numbers.user),
        _mean(numbers.llm),
        _mean(numbers.quality_llm, "%"),
        _mean(numbers.format, "%"),
        _mean(numbers.right, "%"),
        number(numbers.tokens),
        number(numbers.quality_per_1000_tokens),
        number(numbers.response_share, "%"),
    )


def _with_interval(estimate: Estimate) -> str:
    interval = known(estimate)
    return "–" if interval is None else interval.text()


def _mean(estimate: Estimate, unit: str = "") -> str:
    """Without its interval, for want of room."""
    interval = known(estimate)
    return "–" if interval is None else number(interval.mean, unit)


def _beaten(record: AssistanceRecord) -> Figure:
    figure = bars(
        "Earlier generations that dominate the last",
        list(record.beaten.items()),
        "share of the held-out prompts at which it did better by one side and no "
        "worse by the other",
    )
    return replace(figure, wide=True)
