"""`equipoise evaluate TARGET … --on …` scores any generation, model or endpoint on named sets;
`equipoise import-scores` records what a harness or an official judge wrote of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from equipoise.errors import ConfigError, RunError
from equipoise.system.command_options import Json, Trust, override, say, show

if TYPE_CHECKING:
    from equipoise.blocks.section import Table as SweepTable
    from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult

PLAYER = "player."  # what settings of a bare model begin with

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="RUN, RUN@PLAYER, RUN@PLAYER@GENERATION (or @all); a model's folder, hub "
        "id or packaged name; an endpoint, http://…/v1#MODEL; a player's settings in YAML",
    ),
]


def benchmark_names(incomplete: str) -> list[str]:
    """The kinds of benchmark that a shell may complete to."""
    from equipoise.evaluation.sets.base import Benchmark

    kinds = sorted(Benchmark.known_kinds())
    return [kind for kind in kinds if kind.startswith(incomplete)]


On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="SET",
        autocompletion=benchmark_names,
        help="a benchmark's name, a file of prompts (or org/name), a YAML file, or YAML: "
        "{kind: gsm8k, limit: 100}; NAME=SET names it; may be given again",
    ),
]


SharedJudge = Annotated[
    str,
    typer.Option(
        help="judges every set that names no judge: a kind, a YAML file, or YAML",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str], override("a setting of every set: limit=100; of a bare model: player.batch_size=8")
]
SweepOption = Annotated[
    list[str],
    typer.Option(
        "--sweep",
        metavar="KEY=VALUE,VALUE",
        help="measure every set with each of these values of a setting: "
        "temperature=0,0.7,1; may be given again",
    ),
]
AsTrained = Annotated[
    bool,
    typer.Option(
        "--as-trained", help="play sets of prompts by the run's own game, and judge by its judge"
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="the run directory that is made for a model", show_default="runs/evaluate/MODEL"
    ),
]
HarnessKind = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="measure with this harness instead of --on: lm_eval",
        show_default=False,
    ),
]
Tasks = Annotated[
    str, typer.Option(metavar="T1,T2", help="the harness's tasks or groups", show_default=False)
]
Limit = Annotated[
    float | None,
    typer.Option(
        help="how many documents of each task; below 1, which share of them", show_default="all"
    ),
]
HarnessArgs = Annotated[
    list[str],
    typer.Option(
        metavar="KEY=VALUE",
        help="a setting of the harness: num_fewshot=5, apply_chat_template=true; may be "
        "given again",
    ),
]
HarnessPython = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="the interpreter of an environment that has the harness",
        show_default="this one",
    ),
]
IncludePath = Annotated[
    Path | None,
    typer.Option(help="a folder of tasks of your own for the harness", show_default=False),
]


def evaluate(
    targets: Targets,
    on: On = [],  # noqa: B006
    judge: SharedJudge = "",
    set: Settings = [],  # noqa: B006
    sweep: SweepOption = [],  # noqa: B006
    as_trained: AsTrained = False,
    out: Out = None,
    harness: HarnessKind = "",
    tasks: Tasks = "",
    limit: Limit = None,
    harness_args: HarnessArgs = [],  # noqa: B006
    harness_python: HarnessPython = "",
    include_path: IncludePath = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Measure players on named sets or by a harness, and record the scores.

    Nothing is trained, and nothing recorded is asked again. Of a run, the start and the newest
    generation of everyone who learns are measured where no player is named.
    """
    from equipoise.api import functions as api
    from equipoise.api.handle import ask_for_trust
    from equipoise.api.model_targets import parsed, settings_for
    from equipoise.api.targets import is_model, kinds_of

    of_player = [text.removeprefix(PLAYER) for text in set if text.startswith(PLAYER)]
    of_sets = [text for text in set if not text.startswith(PLAYER)]
    by = harness_settings(harness, tasks, limit, harness_python, include_path)
    check_one_way(by, on, [judge, as_trained, *of_sets, *sweep])
    rows: list[tuple[Path, AgainstStart]] = []
    by_run = players_by_run(targets)
    kinds = kinds_of([parsed(text) for text in by_run])
    for text, players in by_run.items():
        target = parsed(text)
        trusted = ask_for_trust(text, trust)
        shown, wanted = not json, judge or None
        given = settings_for(target, of_player, kinds) if is_model(target) else of_player
        with api.run_to_measure(target, out, given, trust=trusted) as run:
            if by:
                results = run.evaluate_by_harness(by, players, harness_args)
            else:
                results = run.evaluate(
                    on, players, wanted, of_sets, sweep=sweep, trained=as_trained, progress=shown
                )
        rows += [(run.path, row) for row in run.beside_start(results)]
    if json:
        show([{"run": str(path), **_plain(row)} for path, row in rows])
    else:
        print_results(rows)


def harness_settings(
    kind: str, tasks: str, limit: float | None, python: str, include: Path | None
) -> dict[str, Any]:
    """The named harness's settings, or empty. ConfigError for options without harness or tasks."""
    given = {
        "tasks": tasks,
        "limit": limit,
        "python": python,
        "include_path": None if include is None else str(include),
    }
    settings = {name: value for name, value in given.items() if value not in ("", None)}
    if not kind:
        for name in settings:
            option = {"python": "harness-python"}.get(name, name.replace("_", "-"))
            of_sets = {"tasks": f"sets are named by --on {tasks}", "limit": "of sets: -s limit=…"}
            hint = f"; {of_sets[name]}" if name in of_sets else ""
            raise ConfigError(f"--{option} belongs to a harness: --harness lm_eval{hint}")
        return {}
    if not tasks:
        raise ConfigError(f"--harness {kind} needs --tasks")
    return {"kind": kind, **settings}


def check_one_way(
    harness: Mapping[str, Any], on: Sequence[str], of_sets: Sequence[str | bool]
) -> None:
    """Raises ConfigError unless either sets are named or a harness is, with its options."""
    if harness and (on or any(of_sets)):
        raise ConfigError(
            "--harness has its own tasks and settings (--harness-args); --on, --judge, "
            "-s, --sweep and --as-trained are for sets"
        )
    if not harness and not on:
        raise ConfigError("name what to measure on: --on SET, or --harness and --tasks")


def players_by_run(targets: list[str]) -> dict[str, list[str]]:
    """The players that are named, by the run or model that they are of."""
    from equipoise.api.model_targets import is_address, parsed
    from equipoise.api.targets import expanded
    from equipoise.runs.directory import is_run, named_run

    texts: list[str] = []
    for target in targets:
        is_settings = parsed(target) is not target
        texts += [target] if is_settings else map(str, expanded(target))
    runs: dict[str, list[str]] = {}
    for target in texts:
        if parsed(target) is not target:
            runs.setdefault(target, [])
            continue
        folder, player = named_run(target)
        if is_run(folder):
            runs.setdefault(folder, []).append(player)
        elif player and not is_address(target) and not Path(target).exists():
            raise RunError(f"{target}: there is no run in {folder}")
        else:
            runs.setdefault(target, [])
    return runs


def _plain(row: AgainstStart) -> dict[str, object]:
    return {**row.result.facts(), "differences": to_builtins(row.differences)}


def _title(result: BenchmarkResult, judged: bool) -> str:
    """The set's name; with the judge's where `judged`, and with another measuring program's."""
    if result.source and not result.source.startswith("equipoise "):
        return f"{result.name} ({result.source})"
    return f"{result.name} ({result.judge})" if judged else result.name


def print_results(rows: list[tuple[Path, AgainstStart]]) -> None:
    """Print the results as tables, one a sweep."""
    from equipoise.blocks.terminal import terminal
    from equipoise.evaluation.sets.results_section import sweep_settings, sweeps

    console = terminal()
    single = [(path, row) for path, row in rows if not sweep_settings(row.result)]
    if single:
        console.print(results_table(single))
    for path in _paths(rows):
        for sweep in sweeps([row for home, row in rows if home == path]):
            console.print(sweep_table(sweep.table(), path if len(_paths(rows)) > 1 else None))
    for path in _paths(rows):
        console.print(f"go deeper: equipoise report {path}", style="dim", soft_wrap=True)


def results_table(rows: list[tuple[Path, AgainstStart]]) -> Any:
    """A row for each player and set."""
    from rich.table import Table
    from rich.text import Text

    from equipoise.evaluation.sets.results_section import difference_text, estimate_text, words

    several = len(_paths(rows)) > 1
    names = {row.result.name for _, row in rows}
    judges = len({(row.result.name, row.result.judge) for _, row in rows}) > len(names)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in (*(["run"] if several else []), "set", "player", "metric"):
        table.add_column(column)
    for column in ("95 % interval", "over the start", "items"):
        table.add_column(column, justify="right")
    for path, (result, _, differences) in rows:
        metric, unit = result.headline, result.unit(result.headline)
        difference = differences.get(metric)
        unscored = f", {result.unscored:,} unscored" if result.unscored else ""
        cells = [path.name] if several else []
        cells += [_title(result, judges), result.player, words(metric)]
        cells.append(estimate_text(result.score, unit))
        cells.append(difference_text(difference, unit) if difference else "–")
        table.add_row(*map(Text, [*cells, f"{result.n:,}{unscored}"]))
    return table


def sweep_table(grid: SweepTable, run: Path | None) -> Any:
    """A sweep's values as a table."""
    from rich.table import Table
    from rich.text import Text

    title = grid.title if run is None else f"{run.name}: {grid.title}"
    table = Table(box=None, pad_edge=False, header_style="dim", title=title, title_justify="left")
    for column in grid.columns:
        table.add_column(Text(column))
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table


def _paths(rows: list[tuple[Path, AgainstStart]]) -> list[Path]:
    return list(dict.fromkeys(path for path, _ in rows))


def import_scores(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN@PLAYER[@GENERATION]",
            help="the player that was measured; without a generation the newest",
        ),
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="the files that the other program wrote")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="the program that wrote the files: lm_eval, evalscope, inspect, alpaca_eval, "
            "arena_hard, mt_bench or verifiers",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="the model that is meant, by its name in the files", show_default="the only one"
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="what the run calls the set", show_default="its own name")
    ] = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Add scores that another program measured to a run.

    `status`, `report` and `export` show them with their source.
    """
    from equipoise.api.handle import Run, ask_for_trust
    from equipoise.runs.directory import named_run

    folder, player = named_run(target)
    if not player:
        raise ConfigError(f"{target}: name whose scores they are: {folder}@PLAYER@GENERATION")
    run = Run(folder, trust=ask_for_trust(Path(folder), trust))
    results = run.import_scores(player, files, source, model=model, name=name)
    if json:
        show([result.facts() for result in results])
        return
    for result in results:
        say(f"{result.name} of {result.player}, by {result.source}")
        for metric, value in result.rows():
            say(f"  {metric}  {value}")
        for reason, count in result.reasons.items():
            say(f"  unscored  {count:,} of {result.answers:,}: {reason}")
        if result.note:
            say(f"  note: {result.note}")
