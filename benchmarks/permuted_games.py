"""Whether an assistant's answer follows the game that it wrote.

The assistant thinks and writes its pay-offs; then the pay-offs of its three actions change places,
so that another action is the best one, and the assistant goes on from there. If the written game is
an ornament, it answers as it would have.

    python -m benchmarks.permuted_games [RUN …] [--temperature 0.7] [--json FILE]

Rows are the start of the first run (without one: the packaged start) and the end of each, on the
first run's held-out questions; answers whose matrix cannot be read, or in which no action is the
best by itself, are left out and counted.

    as written      goes on from its own matrix: chooses its best cell, and answers so
    permuted        goes on from the permuted one: chooses the new best cell, answers so
    by chance       chooses that very cell, or answers so, from its own matrix
    stays           goes on from the permuted matrix and chooses the old best cell
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.comparing import bounded
from benchmarks.controls import newest_weights
from benchmarks.running import write_results
from equipoise import seeds
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import (
    ACTIONS,
    PayoffMatrix,
    action_of,
    question_of,
    write_matrix,
)
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.assistance.steering import PAYOFF, PAYOFF_END
from equipoise.environments.assistance.written_game import outcomes, permuted
from equipoise.models.resources import Resources
from equipoise.players.local_actor import LocalActor
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import View

RECIPE, PLAYER = "gtalign_clerks", "assistant"
COLUMNS = (
    *("as written, choice", "as written, response"),
    *("permuted, choice", "permuted, response"),
    *("by chance, choice", "by chance, response"),
    "stays",
)


def best_cell(matrix: PayoffMatrix, question: str) -> str | None:
    """The cell of the largest sum among those of a type of question; None: several."""
    names = outcomes(question)
    sums = {name: sum(matrix[name]) for name in names}
    best = [name for name in names if sums[name] == max(sums.values())]
    return best[0] if len(best) == 1 else None


def continued(
    actor: LocalActor, views: Sequence[View], texts: Sequence[str], seed: int
) -> list[str]:
    """These answers, which break off, and what the model writes after them."""
    own_seeds = [seeds.child(seed, "continued", row) for row in range(len(texts))]
    return actor.continued(views, texts, own_seeds)


def follows(text: str, cell: str) -> tuple[bool, bool]:
    """Whether an output chooses this cell, and whether its response is of its action."""
    parsed = parse(text)
    answered = response_action(parsed.response or "") if parsed.response else None
    return parsed.chosen == cell, answered == action_of(cell)


def figures(actor: LocalActor, views: Sequence[View], seed: int) -> dict[str, Any]:
    """One player's row."""
    own_seeds = [seeds.child(seed, "answer", row) for row in range(len(views))]
    outputs = [parse(move.text) for move in actor.act(views, own_seeds)]
    dice = seeds.generator(seed, "shifts")
    kept, own_games, moved_games, olds, news = [], [], [], [], []
    for view, output in zip(views, outputs, strict=True):
        shift = int(dice.integers(1, len(ACTIONS)))
        if output.matrix is None or output.chosen is None:
            continue
        question = question_of(output.chosen)
        old = best_cell(output.matrix, question)
        if old is None:
            continue
        changed = permuted(output.matrix, shift)
        new = best_cell(changed, question)
        assert new is not None and new != old
        before = output.text.partition(PAYOFF)[0] + PAYOFF
        kept.append(view)
        olds.append(old)
        news.append(new)
        own_games.append(before + write_matrix(output.matrix) + PAYOFF_END)
        moved_games.append(before + write_matrix(changed) + PAYOFF_END)
    written = continued(actor, kept, own_games, seed)
    moved = continued(actor, kept, moved_games, seed)
    measured = {
        "as written": itertools.starmap(follows, zip(written, olds, strict=True)),
        "permuted": itertools.starmap(follows, zip(moved, news, strict=True)),
        "by chance": itertools.starmap(follows, zip(written, news, strict=True)),
    }
    row: dict[str, Any] = {"questions": len(views), "kept": len(kept)}
    for name, pairs in measured.items():
        choices, responses = zip(*pairs, strict=True) if kept else ((), ())
        row[f"{name}, choice"] = list(map(int, choices))
        row[f"{name}, response"] = list(map(int, responses))
    stays = itertools.starmap(follows, zip(moved, olds, strict=True))
    row["stays"] = [int(choice) for choice, _ in stays]
    return row


def main() -> None:
    """Print the table, and write the answers' figures with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write every row's figures here")
    options = parser.parse_args()
    weights: dict[str, Path | None] = {"start": None}
    weights |= {folder.name: newest_weights(folder, PLAYER) for folder in options.runs}
    config = recipe_loader.load(RECIPE)
    if options.runs:
        with RunDirectory.read(options.runs[0]) as run:
            config = run.config
    prompts = config.prompts.load().held_out or []
    views = [next(config.game.referee(prompt)).view for prompt in prompts]
    heat = {"temperature": options.temperature}
    player = config.players[PLAYER].model_copy(update=heat)
    rows: dict[str, dict[str, Any]] = {}
    for name, place in weights.items():
        actor = player.open(place, Resources())
        rows[name] = figures(actor, views, options.seed)
        actor.close()
    Console(width=150).print(table(rows, options.temperature))
    if options.json:
        write_results(options.json, rows, seed=options.seed, **heat)


def table(rows: dict[str, dict[str, Any]], temperature: float) -> Table:
    """A row for each player: shares of its answers, with their 95 % intervals over questions."""
    shown = Table(title=f"the written game permuted; sampled at {temperature:g}")
    for column in ("", "answers", *COLUMNS):
        shown.add_column(column, justify="right" if column else "left")
    for name, row in rows.items():
        cells = [
            bounded(np.array(row[column], float)).text("%").replace(" (", "\n(")
            for column in COLUMNS
        ]
        shown.add_row(name, f"{row['kept']} of {row['questions']}", *cells)
    return shown


if __name__ == "__main__":
    main()
