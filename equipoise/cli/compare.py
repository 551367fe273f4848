"""`equipoise compare TARGET TARGET …`: which of several is better, by how much, and how sure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.evaluate import PLAYER, SharedJudge, benchmark_names
from equipoise.system.command_options import Json, Trust, override, say, show

if TYPE_CHECKING:
    from equipoise.evaluation.compared_arms import ComparisonNumbers

PAGE = "comparison.html"

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="RUN, RUN@PLAYER, RUN@PLAYER@GENERATION, or a folder of runs; a model's folder or hub "
        "id; an endpoint, http://…/v1#MODEL; a player's settings in YAML; a log of Inspect, "
        "lm-eval or AlpacaEval, or a folder of logs, LOG@MODEL for one model of it. NAME=TARGET "
        "names it; NAME='runs/a*' are runs of one recipe",
    ),
]
On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="SET",
        autocompletion=benchmark_names,
        help="a set as `evaluate` takes it, played by whoever has not answered it yet; without it "
        "what is recorded is compared; may be given again",
    ),
]
Settings = Annotated[
    list[str], override("a setting of every set: limit=100; of a bare model: player.batch_size=8")
]
Out = Annotated[Path, typer.Option(metavar="PAGE", help="where to write the page")]
Keep = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="where the answers of models and endpoints are kept",
        show_default="runs/evaluate",
    ),
]


def compare(
    targets: Targets,
    on: On = [],  # noqa: B006
    judge: SharedJudge = "",
    set: Settings = [],  # noqa: B006
    out: Out = Path(PAGE),
    keep: Keep = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Compare runs and models prompt by prompt: differences, ranking, a page.

    Answers that are missing are played once and recorded: a run's in the run, a model's below
    --keep. Every difference has an interval, and all of them are corrected for how many they are.
    """
    from equipoise.api.comparing import compare as compare_targets

    of_player = [text.removeprefix(PLAYER) for text in set if text.startswith(PLAYER)]
    of_sets = [text for text in set if not text.startswith(PLAYER)]
    comparison = compare_targets(
        *targets,
        on=on or None,
        judge=judge or None,
        settings=of_sets,
        player_settings=of_player,
        keep=keep,
        trust=trust,
        progress=not json,
    )
    page = comparison.write(out)
    if json:
        show({**comparison.facts(), "page": str(page)})
        return
    print_comparison(comparison.numbers)
    for pair in comparison.calibrated:
        say(pair.line())
    for folder in comparison.kept:
        say(f"answers are kept in {folder}")
    say(f"page: {page}")


def print_comparison(numbers: ComparisonNumbers) -> None:
    """Print places, differences and win rates as tables."""
    from rich.table import Table
    from rich.text import Text

    from equipoise.blocks.section import number
    from equipoise.blocks.terminal import terminal
    from equipoise.report.comparison_page import difference_line, standing_row

    console = terminal()
    for measure, rows in numbers.standings.items():
        table = Table(box=None, pad_edge=False, header_style="dim", title=Text(measure))
        table.title_justify = "left"
        for column in ("target", "place", "score", "prompts", "without a score"):
            table.add_column(column, justify="left" if column == "target" else "right")
        for row in rows:
            table.add_row(*map(Text, standing_row(row, len(rows))))
        console.print(table)
        for each in numbers.differences:
            if each.measure == measure:
                console.print(Text(difference_line(each)))
        console.print()
    for rates in numbers.win_rates:
        if len(rates.mixture) < 3:
            continue
        shares = [f"{name} {number(share, '%')}" for name, share in rates.mixture.items()]
        console.print(Text(f"Nash mass by {rates.measure}: {', '.join(shares)}"))
        for circle, gain in rates.circles[:1]:
            text = " beats ".join((*circle, circle[0]))
            console.print(Text(f"a circle: {text} (by {gain:.2f} or more)"))
    for note in numbers.notes:
        console.print(Text(f"note: {note}"), style="dim", soft_wrap=True)
