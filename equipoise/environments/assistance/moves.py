"""The section on moves: shares of each move by the kind of question, at the start and now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from equipoise.environments.assistance.record import ActionShares, AssistanceRecord
from equipoise.evaluation.measures import History
from equipoise.report.figures import names_axis
from equipoise.report.section import Figure, Section, Table, finite_or_none, label, number


class ShownMove(NamedTuple):
    """A share of `ActionShares` by its field's name, with its title and colour."""

    field: str
    title: str
    colour: str


MOVES = (
    ShownMove("DA", "answers", "blue"),
    ShownMove("CQ", "asks back", "orange"),
    ShownMove("AQ", "answers and asks", "green"),
    ShownMove("none", "no readable response", "faint"),
)
LEAD = "A vague question is best met by a question back; a detailed one by an answer."


def moves_section(history: History[AssistanceRecord]) -> Section:
    """Shares of each move by the kind of question, at the start and now."""
    shares = question_shares(history)
    if not shares:
        return Section("moves", "Moves", reason="no move has been measured yet")
    return Section("moves", "Moves", (moves_figure(shares),), LEAD)


def question_shares(history: History[AssistanceRecord]) -> dict[str, ActionShares]:
    """Question and generation, to read -> the shares; the first generation and the last."""
    measured = history.ends
    questions = dict.fromkeys(
        question for measurement in measured for question in measurement.measures.actions
    )
    shares = {}
    for question in questions:
        for measurement in measured:
            name = f"{question}, generation {measurement.generation}"
            if question in measurement.measures.actions:
                shares[name] = measurement.measures.actions[question]
    return shares


def moves_figure(shares: Mapping[str, ActionShares]) -> Figure:
    """A stacked bar for each row, with a table of its shares."""
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "showlegend": True,
        "xaxis": {
            "title": {"text": "share of the answers"},
            "tickformat": ".0%",
            "range": [0, 1.01],
        },
        "yaxis": names_axis(list(shares), range=[len(shares) - 0.5, -0.5], showgrid=False),
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
    }
    return Figure(
        "Moves by the question's type",
        [_bars(move, shares) for move in MOVES],
        layout,
        height=120 + 40 * len(shares),
        wide=True,
        table=_table(shares),
    )


def _bars(move: ShownMove, shares: Mapping[str, ActionShares]) -> dict[str, Any]:
    action = "" if move.field == "none" else move.field
    hover = [
        f"{label(name)}<br>{action} {move.title} <b>{number(getattr(row, move.field), '%')}</b>"
        f"<br>of {number(int(row.n))} answers"
        for name, row in shares.items()
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(shares))),
        "name": move.title,
        "x": [finite_or_none(getattr(row, move.field)) for row in shares.values()],
        "marker": {"color": f"@{move.colour}"},
        "hoverinfo": "text",
        "hovertext": hover,
    }


def _table(shares: Mapping[str, ActionShares]) -> Table:
    *actions, none = MOVES
    titles = [f"{move.title} ({move.field})" for move in actions]
    cells = [
        (name, *(number(getattr(row, move.field), "%") for move in MOVES), number(int(row.n)))
        for name, row in shares.items()
    ]
    return Table(("question", *titles, none.title, "answers"), tuple(cells))
