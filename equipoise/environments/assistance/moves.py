"""The sections on the assistant's moves: those it took, and those of the games that it wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from equipoise.blocks.figures import heat_map, lines_figure, names_axis
from equipoise.blocks.section import Curves, Figure, Section, Table, finite_or_none, label, number
from equipoise.environments.assistance.payoff_matrix import ACTIONS, QUESTION_TYPES, Cell, cell_name
from equipoise.environments.assistance.record import (
    ActionShares,
    ActualPay,
    AssistanceRecord,
    WrittenGames,
)
from equipoise.environments.assistance.written_game import GIVEN
from equipoise.evaluation.measures import History, Quantity, curves


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
    *actions, none = MOVES
    titles = [f"{move.title} ({move.field})" for move in actions]
    cells = [
        (name, *(number(getattr(row, move.field), "%") for move in MOVES), number(int(row.n)))
        for name, row in shares.items()
    ]
    table = Table(("question", *titles, none.title, "answers"), tuple(cells))
    return Figure(
        "Moves by the question's type",
        [_bars(move, shares) for move in MOVES],
        layout,
        height=120 + 40 * len(shares),
        wide=True,
        table=table,
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


COLUMNS = ACTIONS[::-1]  # DA, CQ, AQ
ROW_NAMES = ("detailed (DQ)", "vague (VQ)")
TYPE_OF = {"detailed": "DQ", "vague": "VQ"}
PAY_COLUMNS = (
    "question",
    "move",
    "made",
    "written for the user",
    "for the model",
    "paid to the user",
    "to the model",
)


def written_section(history: History[AssistanceRecord]) -> Section:
    """The last generation's matrices, and how often choices follow over all generations."""
    last = history.last
    if last is None or not last.measures.written.matrices:
        return Section("written", "The written game", reason="no readable matrix has been written")
    games = last.measures.written
    blocks: list[Figure | Table] = [*mean_matrices(games), choices_figure(games)]
    if games.paid:
        # Written pay-offs beside an action's true worth: only their order compares.
        rows = []
        for question, pay in games.paid.items():
            best = max(pay, key=lambda action: pay[action].user * pay[action].llm)
            for action, actual in pay.items():
                mark = " (best)" if action == best else ""
                written = _written_cell(games, question, action)
                rows.append((question, f"{action}{mark}", *pay_cells(written, actual)))
        title = "What was written against what it was worth"
        if games.typed is not None:
            share = number(games.typed, "%")
            title += f"; the chosen cell is of the question's true type in {share}"
        blocks.append(Table(PAY_COLUMNS, tuple(rows), title))
    blocks += [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        for group in consistency_curves(history)
    ]
    lead = (
        f"Of {number(games.matrices)} readable matrices of the last generation. Rows "
        "are the user's question, columns the answer: DA answers, CQ asks back, AQ does "
        "both. What was really asked is in each title."
    )
    return Section("written", "The written game", tuple(blocks), lead)


def mean_matrices(games: WrittenGames) -> Iterator[Figure]:
    reach = 1e-6
    for cells in games.means.values():
        for cell in cells.values():
            reach = max(reach, abs(cell.user), abs(cell.llm))
    for question, cells in games.means.items():
        user_23 = grid({name: cell.user for name, cell in cells.items()})
        model_23 = grid({name: cell.llm for name, cell in cells.items()})
        for side, value_23 in (("user", user_23), ("model", model_23)):
            title = f"What the {side} gets: {question} questions"
            text = [[two_decimals(value) for value in row] for row in value_23]
            yield matrix_figure(title, value_23, text, -reach, reach)


def choices_figure(games: WrittenGames) -> Figure:
    """Share of the choices of each cell."""
    total = sum(games.chosen.values())
    shares = {name: count / total for name, count in games.chosen.items()}
    share_23 = grid(shares)
    text = [[number(share, "%") for share in row] for row in share_23.tolist()]
    most = max(float(share_23.max()), 1e-6)
    figure = matrix_figure("How often each cell was chosen", share_23, text, 0.0, most)
    none = number(shares.get("none", 0.0), "%")
    return replace(figure, note=f"of all written matrices; {none} of the choices name no cell")


def grid(values: Mapping[str, float]) -> np.ndarray:
    """[2, 3]: values by cell, in the order of QUESTION_TYPES and COLUMNS; 0 where there is none."""
    rows = [
        [values.get(cell_name(question, action), 0.0) for action in COLUMNS]
        for question in QUESTION_TYPES
    ]
    return np.array(rows, float)


def matrix_figure(
    title: str, value_23: np.ndarray, text: list[list[str]], low: float, high: float
) -> Figure:
    hover = [
        [
            f"{cell_name(question, action)}<br><b>{shown}</b>"
            for action, shown in zip(COLUMNS, row, strict=True)
        ]
        for question, row in zip(QUESTION_TYPES, text, strict=True)
    ]
    figure = heat_map(title, ROW_NAMES, COLUMNS, value_23, text, hover, ("", ""), low < 0)
    [trace] = figure.data
    scaled = {**trace, "zmin": low, "zmax": high}
    return replace(figure, data=[scaled], wide=False, height=220)


def two_decimals(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _written_cell(games: WrittenGames, question: str, action: str) -> Cell | None:
    if question not in games.means or question not in TYPE_OF:
        return None
    return games.means[question][cell_name(TYPE_OF[question], action)]


def pay_cells(written: Cell | None, actual: ActualPay) -> tuple[str, ...]:
    return (
        number(int(actual.count)),
        "–" if written is None else two_decimals(written.user),
        "–" if written is None else two_decimals(written.llm),
        number(actual.user),
        number(actual.llm),
    )


def consistency_curves(history: History[AssistanceRecord]) -> Iterator[Curves]:
    """Share of choices that follow from the written game, whole and given the question."""
    solutions = dict.fromkeys(
        solution
        for measurement in history.measurements
        for solution in measurement.measures.written.consistent
    )
    whole = [_consistency(name) for name in solutions if not name.endswith(GIVEN)]
    given = [_consistency(name) for name in solutions if name.endswith(GIVEN)]
    note = (
        "share of the written matrices whose chosen cell is one that this solution of "
        "that very game names"
    )
    for title, quantities, which in (
        ("Choices that follow from the written game", whole, "of all six cells"),
        ("Choices that follow, the question given", given, "of the three cells of its row"),
    ):
        if quantities:
            yield curves(history, *quantities, title=title, note=f"{note}, {which}")


def _consistency(solution: str) -> Quantity:
    name = solution.removesuffix(GIVEN).replace("_", " ")
    return Quantity(
        title=f"choices that follow from {name}",
        read=lambda record: record.written.consistent.get(solution),
        unit="%",
        short=name,
    )
