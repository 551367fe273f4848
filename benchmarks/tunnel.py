"""A wind tunnel for learning rules: a board on exact games, in minutes of one core.

    python -m benchmarks.tunnel [--jobs 2] [--json benchmarks/results/tunnel.json]
    python -m benchmarks.tunnel --rule my_rule.py       # its row, beside the recorded board

A rule is one file of a few lines (`benchmarks.tunnel_rules` says which). Every rule begins from the
same policies and may ask `--evaluations` times what each action gains against policies of its
choice; twice as often in the two games of poker.

    transitive, cyclic, mixed   preferences between 9 actions (`benchmarks.cyclic_preferences`)
    random                      P(a beats b) uniform
    changing                    HRC's form, σ(r_a − r_b + w·v_aᵀWv_b), w grows from 0 to 1
    criteria                    three criteria; the gap is to the policy that secures most by all
    contextual                  an adversary writes one of 9 prompts, a defender that sees it answers
    two roles, general sum      9 × 9 pay-offs uniform in [0, 1], zero-sum or not
    kuhn, leduc                 poker, at every information state

A gap is what a best reply gains, the mean over players, as a share of the range of the pay-offs.
Steps, and the pull where a rule has one, are chosen on other games of the family, for the last
policies and for the averages apart. Beside the gaps: the last policies' gaps over the whole budget;
`random` games told by 8 samples, by a judge that errs in a fifth of them, and by a judge that says
only who is likelier; the share of steps that do (end within one and a half times the best); the
entropy of the last policies in those games; the actions of an equilibrium that they lost;
evaluations a move, the policies that a rule reads; and whether a rule that was killed half way and
goes on from its file ends with the same numbers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import tunnel_board
from benchmarks.running import write_results
from benchmarks.tunnel_board import COST_HEAD, Board
from benchmarks.tunnel_flight import CONDITIONS, TOLD, Size, judged, measured, resumed
from benchmarks.tunnel_games import FAMILIES
from benchmarks.tunnel_rules import RULES, load

LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def cell(given: str, name: str, where: str, size: Size) -> dict[str, Any]:
    """The figures of one rule in one family or condition; `given` names a rule of one's own."""
    rule = load(given) if given else {member.name: member for member in RULES}[name]
    if where in CONDITIONS:
        return judged(rule, where, size)
    return measured(rule, where, size)


def figures_of(cells: Iterable[dict[str, Any]], same: dict[str, bool]) -> dict[str, Any]:
    """The raw file's figures: a row for each game, and what there is once for each cell."""
    rows, others = [], []
    for of_cell in cells:
        columns = [of_cell.get(name) for name in tunnel_board.COLUMNS.split(",")[3:]]
        for game in range(len(of_cell["last"])):
            values = [str(column[game]) if column else "" for column in columns]
            label = of_cell["rule"].replace(",", ";")
            rows.append(",".join([of_cell["family"], label, str(game), *values]))
        kept = {k: v for k, v in of_cell.items() if k not in tunnel_board.COLUMNS.split(",")[3:]}
        others.append(kept)
    return {"columns": tunnel_board.COLUMNS, "rows": rows, "cells": others, "resumed": same}


def printed(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table for the terminal."""
    shown = Table(title=title)
    for place, column in enumerate(head):
        shown.add_column(column, justify="right" if place else "left")
    for row in rows:
        shown.add_row(*row)
    return shown


def show(board: Board, say: Callable[[Any], None]) -> None:
    """Print the board."""
    titles = {
        "last": "gap of the last policies, mean over games",
        "average": "gap of the averages",
        "over": "gap of the last policies, mean over the budget",
    }
    head = ["rule", *board.families(), "mean place"]
    for column, title in titles.items():
        say(printed(title, head, board.gap_rows(column)))
    say(printed("how it breaks and what it costs", COST_HEAD, board.cost_rows()))


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    names = [rule.name for rule in RULES]
    add("--rule", nargs="+", default=[], metavar="FILE.py", help="rules of your own, no others")
    add("--rules", nargs="+", default=names, choices=names, metavar="NAME", help="of the board")
    add("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    add("--games", type=int, default=40, help="of each family")
    add("--reserved", type=int, default=20, help="other games, to choose steps on")
    add("--evaluations", type=int, default=60, help="the budget of a rule in a game")
    add("--jobs", type=int, default=1, help="processes side by side")
    add("--json", type=Path, help="write every game's gaps here")
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Fly the rules and print the board."""
    made = parser()
    o = made.parse_args(argv)
    if min(o.games, o.reserved, o.jobs) < 1 or o.evaluations < 8:
        made.error("--games, --reserved and --jobs must be 1 or more, --evaluations 8 or more")
    try:
        own = {load(given).name: given for given in o.rule}
    except ValueError as error:
        made.error(str(error))
    members = [] if own else [rule for rule in RULES if rule.name in o.rules]
    names = [(own[name], name) for name in own] or [("", rule.name) for rule in members]
    conditions = list(CONDITIONS) if TOLD in o.families else []
    size = Size(o.games, o.reserved, o.evaluations)
    jobs = [(*named, where, size) for named in names for where in [*o.families, *conditions]]
    # Small matrices in processes that are started afresh and read this.
    os.environ.update(dict.fromkeys(LIBRARIES, "1"))
    started = time.perf_counter()
    try:
        if o.jobs == 1:
            cells = [cell(*job) for job in jobs]
        else:
            with ProcessPoolExecutor(o.jobs, mp_context=get_context("spawn")) as pool:
                cells = list(pool.map(cell, *zip(*jobs, strict=True)))
        same = dict(resumed(list(own.values()), members, o.evaluations))
    except ValueError as error:
        made.error(str(error))
    figures = figures_of(cells, same)
    console = Console(width=max(190, Console().width))
    arguments = {"games": o.games, "reserved": o.reserved, "evaluations": o.evaluations}
    board = Board.of(figures)
    if own and tunnel_board.RAW.is_file():
        board = beside_recorded(board, arguments, console)
    show(board, console.print)
    console.print(f"{len(jobs)} cells; {time.perf_counter() - started:.0f} s.")
    if o.json:
        write_results(o.json, figures, **arguments)


def beside_recorded(board: Board, arguments: dict[str, int], console: Console) -> Board:
    """The rows of one's own under those of the raw file, where these are of the same size."""
    known, of_known = tunnel_board.recorded()
    if dict(of_known) != arguments:
        console.print(f"The recorded board has other sizes ({of_known}) and is not shown.")
        return board
    wanted = board.families()
    kept = {key: cell for key, cell in known.cells.items() if key[0] in [*wanted, *CONDITIONS]}
    return Board(
        {**known.gaps, **board.gaps}, {**kept, **board.cells}, {**known.resumed, **board.resumed}
    )


if __name__ == "__main__":
    main()
