"""The section on moves: what was done at which kind of question, at the start and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.environments.assistance.record import ActionShares, AssistanceRecord
from equipoise.environments.assistance.sections.readers import ends
from equipoise.evaluation.measures import History
from equipoise.report.figures import names_axis
from equipoise.report.section import Figure, Section, Table, known, label, number


@dataclass(frozen=True, slots=True)
class ShownMove:
    """A share of `ActionShares` by its field's name, with its title and colour."""

    field: str
    title: str
    colour: str

    def share(self, shares: ActionShares) -> float:
        """How often this move was made."""
        return getattr(shares, self.field)


MOVES = (
    ShownMove("DA", "answers", "blue"),
    ShownMove("CQ", "asks back", "orange"),
    ShownMove("AQ", "answers and asks", "green"),
)
NO_MOVE = ShownMove("none", "no readable response", "faint")
LEAD = "A vague question is best met by a question back; a detailed one by an answer."


@dataclass(frozen=True, slots=True)
class QuestionMoves:
    """What was done at one kind of question in one generation."""

    name: str
    shares: ActionShares


def moves_section(history: History[AssistanceRecord]) -> Section:
    """What was done at which kind of question, at the start and now."""
    rows = question_moves(history)
    if not rows:
        return Section("moves", "Moves", reason="no move has been measured yet")
    return Section("moves", "Moves", (moves_figure(rows),), LEAD)


def question_moves(history: History[AssistanceRecord]) -> list[QuestionMoves]:
    """Question by question, the first generation and the last."""
    measured = ends(history)
    questions = dict.fromkeys(
        question for measurement in measured for question in measurement.measures.actions
    )
    rows = []
    for question in questions:
        for measurement in measured:
            shares = measurement.measures.actions.get(question)
            if shares is not None:
                name = f"{question}, generation {measurement.generation}"
                rows.append(QuestionMoves(name, shares))
    return rows


def moves_figure(rows: Sequence[QuestionMoves]) -> Figure:
    """A stacked bar for each row, with a table of its shares."""
    names = [row.name for row in rows]
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
    return Figure(
        "Moves by the question's type",
        [_bars(move, rows) for move in (*MOVES, NO_MOVE)],
        layout,
        height=120 + 40 * len(rows),
        wide=True,
        table=_table(rows),
    )


def _bars(move: ShownMove, rows: Sequence[QuestionMoves]) -> dict[str, Any]:
    action = "" if move is NO_MOVE else move.field
    hover = [
        f"{label(row.name)}<br>{action} {move.title} "
        f"<b>{number(move.share(row.shares), '%')}</b>"
        f"<br>of {number(int(row.shares.n))} answers"
        for row in rows
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(rows))),
        "name": move.title,
        "x": [known(move.share(row.shares)) for row in rows],
        "marker": {"color": f"@{move.colour}"},
        "hoverinfo": "text",
        "hovertext": hover,
    }


def _table(rows: Sequence[QuestionMoves]) -> Table:
    titles = [f"{move.title} ({move.field})" for move in MOVES]
    columns = ("question", *titles, NO_MOVE.title, "answers")
    cells = [
        (
            row.name,
            *(number(move.share(row.shares), "%") for move in (*MOVES, NO_MOVE)),
            number(int(row.shares.n)),
        )
        for row in rows
    ]
    return Table(columns, tuple(cells))
