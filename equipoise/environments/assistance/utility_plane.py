"""The section on the plane of both utilities: every prompt a point, and the fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.evaluation.measures import History
from equipoise.report.figures import COLOURS, MOST_POINTS
from equipoise.report.section import Figure, Section, Table, label, number

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
    def of(cls, name: str, record: AssistanceRecord) -> UtilityPoints:
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
    traces = [
        trace
        for i, points in enumerate(series)
        for trace in _traces(points, colours[i % len(colours)], corner_2, str(i))
    ]
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
    return Figure(
        "Both utilities, prompt by prompt",
        traces,
        layout,
        note=note,
        height=520,
        wide=True,
        table=_table(series),
    )


def _table(series: Sequence[UtilityPoints]) -> Table:
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
    return Table(columns, tuple(rows))


def _traces(
    points: UtilityPoints, colour: str, corner_2: np.ndarray, group: str
) -> list[dict[str, Any]]:
    """Points, front and mean; one entry of the legend hides all three."""
    name, shared = label(points.name), {"legendgroup": group, "hoverinfo": "text"}
    traces = [_dots(points, name, colour) | shared]
    if len(points.front_F):
        steps = _front_steps(points, name, colour, corner_2)
        traces.append(shared | steps)
    traces.append(_mean_cross(points, name, colour) | shared)
    return traces


def _dots(points: UtilityPoints, name: str, colour: str) -> dict[str, Any]:
    stride = -(-len(points.point_N2) // MOST_POINTS)
    drawn_N2 = points.point_N2[::stride]
    hover = [
        f"<b>{name}</b><br>user {number(user)}<br>model {number(model)}"
        for user, model in drawn_N2.tolist()
    ]
    return {
        "x": drawn_N2[:, 0].tolist(),
        "y": drawn_N2[:, 1].tolist(),
        "mode": "markers",
        "name": name,
        "hovertext": hover,
        "marker": {"color": f"@{colour}", "size": 6, "opacity": 0.6},
    }


def _front_steps(
    points: UtilityPoints, name: str, colour: str, corner_2: np.ndarray
) -> dict[str, Any]:
    """The border of all that the front dominates, from the left edge to the lower one."""
    # Sorted rows of a front rise in the user's utility and fall in the model's.
    front_F2 = np.unique(points.point_N2[points.front_F], axis=0)
    user_F, model_F = front_F2.T.tolist()
    left, bottom = corner_2.tolist()
    return {
        "x": [left, *user_F, user_F[-1]],
        "y": [model_F[0], *model_F, bottom],
        "mode": "lines",
        "name": f"{name}, front",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"color": f"@{colour}", "width": 2, "shape": "vh"},
    }


def _mean_cross(points: UtilityPoints, name: str, colour: str) -> dict[str, Any]:
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
