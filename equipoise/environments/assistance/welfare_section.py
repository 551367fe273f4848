"""The main numbers of an assistant, and the sections on its welfare and its prompts' plane."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Self

import numpy as np

from equipoise.blocks.figures import COLOURS, MOST_POINTS, bars, group_figure, lines_figure
from equipoise.blocks.section import Curves, Figure, Section, Table, label, number
from equipoise.environments.assistance.record import AssistanceRecord, SourceMeasures
from equipoise.evaluation.measures import History, Measurement, Quantity, curves

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
        blocks += last_tables(history.last.measures)
        if history.last.measures.beaten:
            beaten = bars(
                "Earlier generations that dominate the last",
                list(history.last.measures.beaten.items()),
                "share of the held-out prompts at which it did better by one side and no "
                "worse by the other",
            )
            blocks.append(replace(beaten, wide=True))
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
    numbers: dict[tuple[str, int], SourceMeasures] = {}
    for measurement in measured:
        for source, of_source in measurement.measures.sources.items():
            numbers[source, measurement.generation] = of_source
    return tuple(
        (source or "unnamed", str(generation), *_cells(numbers[source, generation]))
        for source, generation in sorted(numbers)
    )


def _cells(numbers: SourceMeasures) -> list[str]:
    others = list(SOURCE_COLUMNS.values())[1:]
    return [WELFARE.cell(numbers), *(quantity.cell(numbers, brief=True) for quantity in others)]


def last_tables(record: AssistanceRecord) -> list[Table]:
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


LEAD = (
    "Each point is a held-out prompt. The steps join the front: the prompts that no "
    "other one outdoes by one side without losing by the other. A cross is the mean."
)


@dataclass(frozen=True)
class UtilityPoints:
    """Prompts as points (user, llm) of one measurement; `front_F` are the rows on the front."""

    name: str
    point_N2: np.ndarray
    front_F: np.ndarray
    hypervolume: float | None = None

    @classmethod
    def of(cls, name: str, record: AssistanceRecord) -> Self:
        row_of = {prompt: row for row, prompt in enumerate(record.points)}
        point_N2 = np.array(list(record.points.values()), float).reshape(-1, 2)
        front_F = np.array([row_of[prompt] for prompt in record.front], int)
        return cls(name, point_N2, front_F, record.hypervolume)

    @property
    def mean_2(self) -> np.ndarray:
        return self.point_N2.mean(axis=0)


def plane_section(history: History[AssistanceRecord]) -> Section:
    """Each prompt as a point of both utilities, at the start and now; other runs beside it."""
    series = [
        UtilityPoints.of(f"generation {measurement.generation}", measurement.measures)
        for measurement in history.ends
    ]
    series += [
        UtilityPoints.of(name, measurement.measures) for name, measurement in history.beside.items()
    ]
    shown = [points for points in series if len(points.point_N2)]
    if not shown:
        reason = "no prompt has been measured yet"
        return Section("plane", "User and model", reason=reason)
    return Section("plane", "User and model", (plane_figure(shown),), LEAD)


def plane_figure(series: Sequence[UtilityPoints]) -> Figure:
    """The figure, with a table of each series' numbers."""
    lowest_2 = np.concatenate([points.point_N2 for points in series]).min(axis=0)
    corner_2 = np.minimum(lowest_2, 0.0)
    # The start is pale beside what came of it.
    colours = ["faint", *COLOURS] if len(series) > 1 else list(COLOURS)
    traces: list[dict[str, Any]] = []
    for i, points in enumerate(series):
        traces += _traces(points, colours[i % len(colours)], corner_2, str(i))
    layout = {
        "xaxis": {"zeroline": False, "title": {"text": "utility to the user"}},
        "yaxis": {"zeroline": False, "title": {"text": "utility to the model"}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "showlegend": len(series) > 1,
    }
    note = ""
    if any(len(points.point_N2) > MOST_POINTS for points in series):
        note = (
            f"at most about {number(MOST_POINTS)} points of each are drawn, evenly "
            "taken; the fronts are whole"
        )
    means = ("user, mean", "model, mean")
    columns = ("", "prompts", *means, "on the front", "hypervolume above (0, 0)")
    rows = [
        (
            points.name,
            number(len(points.point_N2)),
            *map(number, points.mean_2),
            number(len(points.front_F)),
            number(points.hypervolume),
        )
        for points in series
    ]
    table = Table(columns, tuple(rows))
    return Figure(
        "Both utilities, prompt by prompt",
        traces,
        layout,
        note=note,
        height=520,
        wide=True,
        table=table,
    )


def _traces(
    points: UtilityPoints, colour: str, corner_2: np.ndarray, group: str
) -> list[dict[str, Any]]:
    """Points, front and mean; one entry of the legend hides all three."""
    name = label(points.name)
    shared = {"legendgroup": group, "hoverinfo": "text"}
    stride = -(-len(points.point_N2) // MOST_POINTS)
    drawn_N2 = points.point_N2[::stride]
    hover = [
        f"<b>{name}</b><br>user {number(user)}<br>model {number(model)}"
        for user, model in drawn_N2.tolist()
    ]
    dots = {
        "x": drawn_N2[:, 0].tolist(),
        "y": drawn_N2[:, 1].tolist(),
        "mode": "markers",
        "name": name,
        "hovertext": hover,
        "marker": {"color": f"@{colour}", "size": 6, "opacity": 0.6},
    }
    traces = [dots | shared]
    if len(points.front_F):
        # The border of all that the front dominates, from the left edge to the lower one.
        # Sorted rows of a front rise in the user's utility and fall in the model's.
        front_F2 = np.unique(points.point_N2[points.front_F], axis=0)
        user_F, model_F = front_F2.T.tolist()
        left, bottom = corner_2.tolist()
        steps = {
            "x": [left, *user_F, user_F[-1]],
            "y": [model_F[0], *model_F, bottom],
            "mode": "lines",
            "name": f"{name}, front",
            "showlegend": False,
            "hoverinfo": "skip",
            "line": {"color": f"@{colour}", "width": 2, "shape": "vh"},
        }
        traces.append(shared | steps)
    traces.append(mean_cross(points, name, colour) | shared)
    return traces


def mean_cross(points: UtilityPoints, name: str, colour: str) -> dict[str, Any]:
    user, model = points.mean_2.tolist()
    return {
        "x": [user],
        "y": [model],
        "mode": "markers",
        "name": f"{name}, mean",
        "showlegend": False,
        "marker": {
            "color": f"@{colour}",
            "size": 15,
            "symbol": "cross",
            "line": {"color": "@paper", "width": 1.5},
        },
        "hovertext": [f"<b>{name}, mean</b><br>user {number(user)}<br>model {number(model)}"],
    }
