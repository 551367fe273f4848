"""Curves over generations with their intervals: one a figure, or several players' in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.report.elements import Curve
from equipoise.report.figures import MOST_TICKS
from equipoise.report.section import Figure, Table, known, label, number

COLOURS = ("blue", "orange", "green", "red", "purple", "teal", "pink", "brown")
DASHES = (
    "solid",
    "dash",
    "dot",
    "dashdot",
)  # of more lines than colours, every eighth has the same colour
_TALL, _PLOT = (400, 290)  # pixels of the figure of several curves, and of the part within its axes
_LINE = 15  # pixels that one label needs
_FAR = 36  # pixels that a label may lie above or below its line's end


def _runs(curve: Curve) -> list[list[int]]:
    """Indices in stretches without a gap in mean or interval."""
    runs: list[list[int]] = [[]]
    for i, values in enumerate(zip(curve.mean, curve.low, curve.high, strict=True)):
        if np.isfinite(values).all():
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _band(
    curve: Curve, run: list[int], colour: str = "blue", depth: float = 0.16, **more: Any
) -> dict[str, Any]:
    """The interval over one stretch: a closed area, or a bar where the stretch is a single
    point.
    """
    x, low, high = ([values[i] for i in run] for values in (curve.x, curve.low, curve.high))
    if len(run) == 1:
        middle = curve.mean[run[0]]
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high[0] - middle],
            "arrayminus": [middle - low[0]],
        }
        return {
            "x": x,
            "y": [middle],
            "mode": "markers",
            "marker": {"color": f"@{colour}", "size": 7},
            "error_y": {**error, "color": f"@{colour}", "thickness": 1.5},
            "hoverinfo": "skip",
            **more,
        }
    return {
        "x": x + x[::-1],
        "y": high + low[::-1],
        "mode": "lines",
        "fill": "toself",
        "fillcolor": f"@{colour}/{depth}",
        "line": {"width": 0},
        "hoverinfo": "skip",
        **more,
    }


def _said(curve: Curve, i: int) -> tuple[str, str]:
    """Mean and interval of the curve's i-th point, to read."""
    unit = "%" if curve.unit == "%" else ""
    mean = number(curve.mean[i], unit)
    if not curve.low or known(curve.low[i]) is None:
        return mean, "–"
    return mean, f"{number(curve.low[i], unit)} to {number(curve.high[i], unit)}"


def curve_figure(curve: Curve, x_title: str = "generation") -> Figure:
    """A measure over generations with its interval as a band."""
    points = [_said(curve, i) for i in range(len(curve.x))]
    unit = "" if curve.unit == "%" else label(curve.unit)
    hover = [
        f"{x_title} {x:g}<br><b>{mean}</b> {unit}<br>{interval}"
        for x, (mean, interval) in zip(curve.x, points, strict=True)
    ]
    mode = "lines+markers" if len(curve.x) <= MOST_TICKS else "lines"
    line = {
        "x": list(curve.x),
        "y": [known(y) for y in curve.mean],
        "mode": mode,
        "hovertext": hover,
        "hoverinfo": "text",
        "line": {"color": "@blue", "width": 2.5},
        "marker": {"color": "@blue", "size": 7},
        "connectgaps": False,
    }
    span = max(curve.x, default=0) - min(curve.x, default=0)
    layout = {
        "xaxis": {"title": {"text": x_title}, **({"dtick": 1} if span <= 14 else {})},
        "yaxis": {"title": {"text": unit}, **({"tickformat": "~%"} if curve.unit == "%" else {})},
        "showlegend": False,
    }
    rows = tuple((f"{x:g}", *said) for x, said in zip(curve.x, points, strict=True))
    table = Table(
        (x_title, "value" if curve.unit in ("", "%") else f"value, {curve.unit}", "95 % interval"),
        rows,
    )
    bands = [_band(curve, run) for run in _runs(curve)] if curve.low else []
    return Figure(curve.name, [*bands, line], layout, note=curve.note, table=table)


def lines_figure(
    title: str, curves: Sequence[Curve], x_title: str = "generation", unit: str = "", note: str = ""
) -> Figure:
    """Several curves of one measure, named where they end if there is room, each with its band if
    they are few.
    """
    few = len(curves) <= len(COLOURS)
    traces: list[dict[str, Any]] = []
    for i, curve in enumerate(curves):
        colour, group = COLOURS[i % len(COLOURS)], {"legendgroup": str(i)}
        if curve.low and few:
            traces += [
                _band(curve, run, colour, 0.1, showlegend=False, **group) for run in _runs(curve)
            ]
        dash = DASHES[i // len(COLOURS) % len(DASHES)]
        traces.append({**_trace(curve, x_title, colour, dash), **group})
    x = sorted({at for curve in curves for at in curve.x})
    ends = _ends(curves)
    span = x[-1] - x[0] if x else 0
    room = 14 + 7 * max((len(end["text"]) for end in ends), default=0)
    layout = {
        "xaxis": {
            "title": {"text": x_title},
            **({"dtick": 1} if span <= 14 else {}),
            **({"range": [x[0] - 0.05 * span, x[-1] + 0.05 * span]} if span else {}),
        },
        "yaxis": {"title": {"text": ""}, "tickformat": "~%"}
        if unit == "%"
        else {"title": {"text": label(unit)}},
        "annotations": ends,
        "showlegend": len(curves) > 1,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 12, "r": room, "t": 22, "b": 12},
    }
    bands = (
        ""
        if few or not any(curve.low for curve in curves)
        else "intervals are in the table and on hover"
    )
    by_x = [{at: _written(curve, j) for j, at in enumerate(curve.x)} for curve in curves]
    rows = tuple((f"{at:g}", *(cells.get(at, "–") for cells in by_x)) for at in x)
    table = Table((x_title, *(curve.name for curve in curves)), rows)
    notes = "; ".join(text for text in (note, bands) if text)
    return Figure(title, traces, layout, note=notes, height=_TALL, wide=True, table=table)


def _trace(curve: Curve, x_title: str, colour: str, dash: str) -> dict[str, Any]:
    """One curve of several, as plotly's data."""
    return {
        "x": list(curve.x),
        "y": [known(y) for y in curve.mean],
        "name": label(curve.name),
        "mode": "lines+markers" if len(curve.x) <= MOST_TICKS else "lines",
        "connectgaps": False,
        "hovertext": [
            f"<b>{label(curve.name)}</b><br>{x_title} {x:g}<br>{_written(curve, i)}"
            for i, x in enumerate(curve.x)
        ],
        "hoverinfo": "text",
        "line": {"color": f"@{colour}", "width": 2, "dash": dash},
        "marker": {"color": f"@{colour}", "size": 6},
    }


def _written(curve: Curve, i: int) -> str:
    """Mean and interval of the curve's i-th point in one cell."""
    mean, between = _said(curve, i)
    return mean if between == "–" else f"{mean} ({between})"


def _ends(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The curves' names beside their last points, moved apart where they would overlap; none if
    there is no room.
    """
    every = [
        y
        for curve in curves
        for side in (curve.mean, curve.low, curve.high)
        for y in side
        if np.isfinite(y)
    ]
    last = max((x for curve in curves for x in curve.x), default=0)
    present = [
        (curve.mean[-1], i) for i, curve in enumerate(curves) if curve.x and curve.x[-1] == last
    ]
    ends = sorted((y, i) for y, i in present if np.isfinite(y))
    if len(curves) < 2 or not ends or len(ends) * _LINE > _PLOT:
        return []
    pixels = _PLOT / (np.ptp(every) or 1.0)
    at = np.array([y * pixels for y, _ in ends])
    place = at.copy()
    for _ in range(200):  # labels that overlap push each other apart, evenly, until none does
        short = _LINE - np.diff(place)
        if short.max(initial=0.0) < 0.5:
            break
        push = np.clip(short, 0, None) / 2
        place[:-1] -= push
        place[1:] += push
    shift = place - at
    if np.abs(shift).max() > _FAR:
        return []
    return [
        {
            "x": last,
            "y": y,
            "xanchor": "left",
            "xshift": 8,
            "yshift": round(float(up)),
            "showarrow": False,
            "text": label(curves[i].name, 24),
            "font": {"size": 12, "color": f"@{COLOURS[i % len(COLOURS)]}"},
        }
        for (y, i), up in zip(ends, shift, strict=True)
    ]
