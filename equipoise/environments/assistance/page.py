"""Sections on the assistant's game: welfare, the plane of both utilities, the moves,
the games that were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.report.curves import COLOURS, curve_figure, lines_figure
from equipoise.report.facts import Facts, Plane, Written
from equipoise.report.figures import MOST_POINTS, bars, heat_map, names_axis
from equipoise.report.section import Figure, Section, Table, known, label, number

MOVES = {
    "DA": ("answers", "blue"),
    "CQ": ("asks back", "orange"),
    "AQ": ("answers and asks", "green"),
    "none": ("no readable response", "faint"),
}  # the moves' words and colours
COLUMNS, ROWS = ("DA", "CQ", "AQ"), ("DQ", "VQ")
ROW_NAMES = ("detailed (DQ)", "vague (VQ)")


def welfare(facts: Facts) -> Section | None:
    """Welfare, utilities, form, moves and length over the measured generations; each
    data set by itself.
    """
    found = facts.assistance
    if found is None:
        return None
    blocks: list[Figure | Table] = [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        for group in found.measured
    ]
    blocks += map(curve_figure, found.alone)
    if len({source for source, _ in found.sources}) > 1:
        blocks.append(_sources(found.sources))
    if found.beaten:
        note = "share of the held-out prompts at which it did better by one side and no worse by the other"
        figure = bars(
            "Earlier generations that dominate the last",
            list(found.beaten.items()),
            note,
        )
        blocks.append(replace(figure, wide=True))
    if not blocks:
        return Section(
            "welfare", "Welfare", reason="the assistant has not been measured yet"
        )
    lead = "Measured on held-out prompts; generation 0 is the assistant as it was given. Bands are 95 % intervals."
    return Section("welfare", "Welfare", tuple(blocks), lead)


def _sources(rows: Mapping[tuple[str, int], Mapping[str, str]]) -> Table:
    ordered = sorted(rows)
    columns = list(dict.fromkeys(name for row in ordered for name in rows[row]))
    cells = tuple(
        (
            source or "unnamed",
            str(t),
            *(rows[source, t].get(name, "–") for name in columns),
        )
        for source, t in ordered
    )
    return Table(("data set", "generation", *columns), cells, "Each data set")


def plane(facts: Facts) -> Section | None:
    """Every prompt as a point of both utilities, with the fronts; other runs beside it."""
    found = facts.assistance
    if found is None:
        return None
    title = "User and model"
    if not any(len(one.point_N2) for one in found.planes):
        return Section("plane", title, reason="no prompt has been measured yet")
    lead = (
        "Each point is a held-out prompt. The steps join the front: the prompts that no other one outdoes by one side "
        "without losing by the other. A cross is the mean."
    )
    return Section("plane", title, (_plane(found.planes),), lead)


def _plane(planes: Sequence[Plane]) -> Figure:
    shown = [one for one in planes if len(one.point_N2)]
    low_2 = np.minimum(np.concatenate([one.point_N2 for one in shown]).min(axis=0), 0.0)
    colours = ["faint", *COLOURS] if len(shown) > 1 else COLOURS
    traces = [
        trace
        for i, one in enumerate(shown)
        for trace in _traces(
            one, colours[i % len(colours)] if i else colours[0], low_2, str(i)
        )
    ]
    axis: dict[str, Any] = {"zeroline": False}
    layout = {
        "xaxis": {**axis, "title": {"text": "utility to the user"}},
        "yaxis": {**axis, "title": {"text": "utility to the model"}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "showlegend": len(shown) > 1,
    }
    rows = tuple(
        (
            one.name,
            number(len(one.point_N2)),
            *(number(mean) for mean in one.point_N2.mean(axis=0)),
            number(len(one.front_F)),
            number(one.area),
        )
        for one in shown
    )
    table = Table(
        (
            "",
            "prompts",
            "user, mean",
            "model, mean",
            "on the front",
            "hypervolume above (0, 0)",
        ),
        rows,
    )
    thin = any(len(one.point_N2) > MOST_POINTS for one in shown)
    note = (
        f"at most about {number(MOST_POINTS)} points of each are drawn, evenly taken; the fronts are whole"
        if thin
        else ""
    )
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
    one: Plane, colour: str, low_2: np.ndarray, group: str
) -> list[dict[str, Any]]:
    """Points, front and mean; one entry of the legend hides all three."""
    name, more = label(one.name), {"legendgroup": group, "hoverinfo": "text"}
    drawn_N2 = one.point_N2[:: -(-len(one.point_N2) // MOST_POINTS)]
    front_F2 = one.point_N2[one.front_F]
    front_F2 = np.unique(
        front_F2, axis=0
    )  # rising in the user's utility, and falling in the model's
    mean_2 = one.point_N2.mean(axis=0)
    # From the left edge to the first of the front, and from the last one down: all that
    # the front dominates.
    x = [float(low_2[0]), *front_F2[:, 0].tolist(), *front_F2[-1:, 0].tolist()]
    y = [*front_F2[:1, 1].tolist(), *front_F2[:, 1].tolist(), float(low_2[1])]
    points = {
        "x": drawn_N2[:, 0].tolist(),
        "y": drawn_N2[:, 1].tolist(),
        "mode": "markers",
        "name": name,
        **more,
        "hovertext": [
            f"<b>{name}</b><br>user {number(u)}<br>model {number(m)}"
            for u, m in drawn_N2.tolist()
        ],
        "marker": {"color": f"@{colour}", "size": 6, "opacity": 0.6},
    }
    steps = {
        "x": x,
        "y": y,
        "mode": "lines",
        "name": f"{name}, front",
        **more,
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"color": f"@{colour}", "width": 2, "shape": "vh"},
    }
    mean = {
        "x": [float(mean_2[0])],
        "y": [float(mean_2[1])],
        "mode": "markers",
        "name": f"{name}, mean",
        **more,
        "showlegend": False,
        "marker": {
            "color": f"@{colour}",
            "size": 15,
            "symbol": "cross",
            "line": {"color": "@paper", "width": 1.5},
        },
        "hovertext": [
            f"<b>{name}, mean</b><br>user {number(mean_2[0])}<br>model {number(mean_2[1])}"
        ],
    }
    return [points, *([steps] if len(front_F2) else []), mean]


def moves(facts: Facts) -> Section | None:
    """What was done at which kind of question, at the start and now."""
    found = facts.assistance
    if found is None:
        return None
    if not found.moves:
        return Section("moves", "Moves", reason="no move has been measured yet")
    lead = (
        "A vague question is best met by a question back; a detailed one by an answer."
    )
    return Section("moves", "Moves", (_moves(found.moves),), lead)


def _moves(rows: Mapping[tuple[str, int], Mapping[str, float]]) -> Figure:
    names = [f"{question}, generation {t}" for question, t in rows]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(range(len(names))),
            "name": words,
            "x": [known(shares.get(move)) for shares in rows.values()],
            "marker": {"color": f"@{colour}"},
            "hoverinfo": "text",
            "hovertext": [
                f"{label(name)}<br>{move if move != 'none' else ''} {words} <b>{number(shares.get(move), '%')}</b>"
                f"<br>of {number(int(shares.get('n', 0)))} answers"
                for name, shares in zip(names, rows.values(), strict=True)
            ],
        }
        for move, (words, colour) in MOVES.items()
    ]
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "showlegend": True,
        "xaxis": {
            "title": {"text": "share of the answers"},
            "tickformat": ".0%",
            "range": [0, 1.01],
        },
        "yaxis": names_axis(names, range=[len(names) - 0.5, -0.5], showgrid=False),
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
    }
    table = Table(
        (
            "question",
            *(
                f"{words} ({move})" if move != "none" else words
                for move, (words, _) in MOVES.items()
            ),
            "answers",
        ),
        tuple(
            (
                name,
                *(number(shares.get(move), "%") for move in MOVES),
                number(int(shares.get("n", 0))),
            )
            for name, shares in zip(names, rows.values(), strict=True)
        ),
    )
    height = 120 + 40 * len(names)
    return Figure(
        "Moves by the question's type",
        traces,
        layout,
        height=height,
        wide=True,
        table=table,
    )


def written(facts: Facts) -> Section | None:
    """The matrices that the assistant wrote, what it chose in them, and whether the
    choice follows.
    """
    found = facts.assistance
    if found is None:
        return None
    title = "The written game"
    if found.written is None:
        return Section("written", title, reason="no readable matrix has been written")
    blocks: list[Figure | Table] = [*_matrices(found.written), _chosen(found.written)]
    if found.written.paid:
        blocks.append(_against(found.written))
    blocks += [
        lines_figure(told.name, told.curves, unit=told.unit, note=told.note)
        for told in found.choices
    ]
    lead = (
        f"Of {number(found.written.matrices)} readable matrices of the last generation. Rows are the user's question, "
        "columns the answer: DA answers, CQ asks back, AQ does both. What was really asked is in each title."
    )
    return Section("written", title, tuple(blocks), lead)


def _matrices(told: Written) -> list[Figure]:
    """The mean pay-offs of user and model by the question's type, all in one scale of
    colours.
    """
    every = [
        abs(value)
        for cells in told.means.values()
        for pair in cells.values()
        for value in pair
    ]
    reach = max([*every, 1e-6])
    made = []
    for question, cells in told.means.items():
        for side, who in enumerate(("user", "model")):
            value_23 = np.array(
                [[cells[f"{row}_{column}"][side] for column in COLUMNS] for row in ROWS]
            )
            text = [
                [f"{value:.2f}".replace("-", "−") for value in line]
                for line in value_23
            ]
            made.append(
                _grid(
                    f"What the {who} gets: {question} questions", value_23, text, reach
                )
            )
    return made


def _grid(
    title: str, value_23: np.ndarray, text: list[list[str]], reach: float | None = None
) -> Figure:
    hover = [
        [f"{row}_{column}<br><b>{text[r][c]}</b>" for c, column in enumerate(COLUMNS)]
        for r, row in enumerate(ROWS)
    ]
    figure = heat_map(
        title,
        ROW_NAMES,
        COLUMNS,
        value_23,
        text,
        hover,
        ("", ""),
        around_zero=reach is not None,
    )
    [trace] = figure.data
    ends = (0.0, max(float(value_23.max()), 1e-6)) if reach is None else (-reach, reach)
    return replace(
        figure,
        data=[{**trace, "zmin": ends[0], "zmax": ends[1]}],
        wide=False,
        height=220,
    )


def _against(told: Written) -> Table:
    """What a move was said to be worth, and what it was worth; only the order of the
    moves can be compared.
    """
    rows = []
    for question, moves in told.paid.items():
        row = {"detailed": "DQ", "vague": "VQ"}.get(question)
        best = max(moves, key=lambda name: moves[name][0] * moves[name][1])
        for name, (user, llm, count) in moves.items():
            said = told.means.get(question, {}).get(f"{row}_{name}") if row else None
            written = (
                ("–", "–")
                if said is None
                else tuple(f"{value:.2f}".replace("-", "−") for value in said)
            )
            mark = " (best)" if name == best else ""
            rows.append(
                (
                    question,
                    f"{name}{mark}",
                    number(int(count)),
                    *written,
                    number(user),
                    number(llm),
                )
            )
    columns = (
        "question",
        "move",
        "made",
        "written for the user",
        "for the model",
        "paid to the user",
        "to the model",
    )
    typed = (
        ""
        if told.typed is None
        else f"; the chosen cell is of the question's true type in {number(told.typed, '%')}"
    )
    return Table(
        columns, tuple(rows), f"What was written against what it was worth{typed}"
    )


def _chosen(told: Written) -> Figure:
    """How often each cell was chosen."""
    total = sum(told.chosen.values())
    share_23 = np.array(
        [
            [told.chosen.get(f"{row}_{column}", 0) / total for column in COLUMNS]
            for row in ROWS
        ]
    )
    figure = _grid(
        "How often each cell was chosen",
        share_23,
        [[number(s, "%") for s in line] for line in share_23],
    )
    none = told.chosen.get("none", 0) / total
    return replace(
        figure,
        note=f"of all written matrices; {number(none, '%')} of the choices name no cell",
    )
