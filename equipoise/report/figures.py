"""The report's drawings, as plain plotly data: a long series, a heat map, bars, dots; curves are in
`curves`.

Plain dictionaries and not `plotly.graph_objects`, which takes a second to import; the tests
validate them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.ratings.base import Rating
from equipoise.report.elements import Series
from equipoise.report.section import Figure, Table, known, label, number

MOST_POINTS = 1200  # of a series, as a screen has no more columns; more are averaged
MOST_TICKS = 40  # names, markers or boundaries on an axis; of more names, every second or third …
MOST_WRITTEN = 10  # players up to which a heat map's cells carry their numbers


def names_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis with a name at 0, 1, 2 …: names as ticks, because plotly would merge equal categories
    and read dates.
    """
    places = range(0, len(names), -(-len(names) // MOST_TICKS) or 1)
    return {
        "tickvals": list(places),
        "ticktext": [label(names[i]) for i in places],
        "zeroline": False,
        **more,
    }


def _downwards(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """A vertical axis of names, the first on top."""
    return names_axis(names, range=[len(names) - 0.5, -0.5], **more)


def _tall(names: Sequence[str]) -> int:
    return min(max(110 + 34 * len(names), 200), 1400)


def binned(
    x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS
) -> tuple[np.ndarray, np.ndarray, int]:
    """The series averaged over `size` neighbours at a time so that at most `most` points remain:
    (x, y, size).
    """
    size = -(-len(x) // most) if len(x) > most else 1
    starts = np.arange(0, len(x), size)
    count = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / count, np.add.reduceat(y, starts) / count, size


def _boundaries(
    at_G: Sequence[float], length: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Dotted lines where a generation's training began, and its number where there is room for
    it.
    """
    lines = [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {"color": "@faint", "width": 1, "dash": "dot"},
        }
        for at in at_G
    ]
    words, last = [], -np.inf
    for i, at in enumerate(at_G):
        if at - last >= length / 24:
            last = at
            words.append(
                {
                    "x": at,
                    "y": 1,
                    "yref": "paper",
                    "yanchor": "bottom",
                    "xanchor": "left",
                    "text": str(i + 1),
                    "showarrow": False,
                    "font": {"size": 11, "color": "@muted"},
                }
            )
    return lines, words


def series_figure(series: Series) -> Figure:
    """A measure over optimizer steps, with dotted lines where the training of one of a few
    generations began.
    """
    finite = np.isfinite(np.asarray(series.y, float))
    x, y, size = binned(np.asarray(series.x, float)[finite], np.asarray(series.y, float)[finite])
    marked = series.boundaries if len(series.boundaries) <= MOST_TICKS else ()
    lines, words = _boundaries(marked, float(np.ptp(x)) if len(x) else 0.0)
    trace = {
        "x": x.tolist(),
        "y": y.tolist(),
        "mode": "lines",
        "line": {"color": "@blue", "width": 1.5},
        "hovertemplate": "step %{x:.0f}<br><b>%{y:.4g}</b><extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "optimizer step"}},
        "yaxis": {"title": {"text": ""}},
        "shapes": lines,
        "annotations": words,
        "showlegend": False,
    }
    missing = int((~finite).sum())
    notes = [
        f"each point is the mean of {size} steps" if size > 1 else "",
        f"steps without a finite value, left out: {missing}" if missing else "",
        "dotted lines: a generation's training begins" if marked else "",
    ]
    return Figure(series.name, [trace], layout, note="; ".join(note for note in notes if note))


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    value_RC: np.ndarray,
    written: list[list[str]],
    hover: list[list[str]],
    titles: tuple[str, str],
    around_zero: bool = True,
) -> Figure:
    """A grid of numbers, empty where there is none.

    Around zero: blue above, orange below, as deep as the largest is far from 0. Else from pale to
    blue, from the smallest to the largest. `titles` are those of the rows' and the columns' axes.
    """
    value_V = value_RC[np.isfinite(value_RC)]
    reach = max(float(np.abs(value_V).max()) if value_V.size else 0.0, 1e-6)
    ends = (
        (-reach, reach)
        if around_zero or not value_V.size
        else (float(value_V.min()), float(value_V.max()))
    )
    scale = (
        [[0, "@low"], [0.5, "@neutral"], [1, "@high"]]
        if around_zero
        else [[0, "@neutral"], [1, "@high"]]
    )
    few = max(len(rows), len(columns)) <= MOST_WRITTEN
    trace = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": [[known(v) for v in row] for row in value_RC.tolist()],
        "zmin": ends[0],
        "zmax": max(ends[1], ends[0] + 1e-6),
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "text",
        "hovertext": hover,
        "colorscale": scale,
        "textfont": {"color": "@ink"},
        "colorbar": {"thickness": 10, "outlinewidth": 0, "len": 0.9},
        **({"text": written, "texttemplate": "%{text}"} if few else {}),
    }
    layout = {
        "xaxis": names_axis(columns, side="top", showgrid=False, title={"text": label(titles[1])}),
        "yaxis": _downwards(rows, showgrid=False, title={"text": label(titles[0])}),
    }
    table = Table(
        ("", *columns), tuple((name, *row) for name, row in zip(rows, written, strict=True))
    )
    small = max(len(rows), len(columns)) <= 24
    height = min(150 + 56 * len(rows), 760)
    return Figure(title, [trace], layout, height=height, wide=True, table=table if small else None)


def bars(title: str, weights: Sequence[tuple[str, float]], note: str = "") -> Figure:
    """Shares, one bar a name, the first on top."""
    names = [name for name, _ in weights]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(names))),
        "x": [known(w) for _, w in weights],
        "marker": {"color": "@blue"},
        "hoverinfo": "text",
        "text": [number(w, "%") for _, w in weights],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [f"{label(name)}<br><b>{number(w, '%')}</b>" for name, w in weights],
    }
    layout = {
        "xaxis": {
            "title": {"text": "share"},
            "tickformat": ".0%",
            "range": [0, 1.14],
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
        },
        "yaxis": _downwards(names, showgrid=False),
        "showlegend": False,
        "bargap": 0.35,
    }
    table = Table(("player", "share"), tuple((name, number(w, "%")) for name, w in weights))
    return Figure(title, [trace], layout, note=note, height=_tall(names), table=table)


def dots(
    title: str,
    ratings: Sequence[Rating],
    unit: str = "",
    columns: tuple[str, str] = ("player", "rating"),
    zero: bool = False,
) -> Figure:
    """Ratings, or other numbers, with their intervals, the first on top.

    `columns` name what is rated and the number, in the table; `zero`: the axis shows 0, with a
    line.
    """
    names = [rating.name for rating in ratings]
    said = [
        (
            number(r.value, digits=1),
            "–"
            if known(r.low) is None
            else f"{number(r.low, digits=1)} to {number(r.high, digits=1)}",
        )
        for r in ratings
    ]
    trace = {
        "x": [known(r.value) for r in ratings],
        "y": list(range(len(names))),
        "mode": "markers",
        "marker": {"color": "@blue", "size": 9},
        "hoverinfo": "text",
        "hovertext": [
            f"{label(names[i])}<br><b>{mean}</b><br>{between}"
            for i, (mean, between) in enumerate(said)
        ],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": "@blue",
            "thickness": 2,
            "width": 5,
            "array": [known(r.high - r.value) for r in ratings],
            "arrayminus": [known(r.value - r.low) for r in ratings],
        },
    }
    layout = {
        "xaxis": {
            "title": {"text": label(unit)},
            **({"zeroline": True, "rangemode": "tozero"} if zero else {}),
        },
        "yaxis": _downwards(names),
        "showlegend": False,
    }
    table = Table(
        (*columns, "95 % interval"), tuple((n, *s) for n, s in zip(names, said, strict=True))
    )
    return Figure(title, [trace], layout, height=_tall(names), table=table)
