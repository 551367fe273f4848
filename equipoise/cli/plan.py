"""`equipoise plan RECIPE`: print the work and the cost of a run, without loading a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.system.command_options import Json, Recipe, Set, say, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equipoise.runs.planning.cost import CostEstimate
    from equipoise.runs.planning.phases import PhaseMemory
    from equipoise.runs.planning.run_plan import RunPlan
    from equipoise.system.effects import Effects

STAGES = ("sampling", "scoring", "training", "judging")


def plan(recipe: Recipe, set: Set = [], json: Json = False) -> None:  # noqa: B006
    """Print what a run would do, and estimate its memory and time.

    The resolved configuration comes first. No weights are loaded.
    """
    from equipoise.runs import api
    from equipoise.system.effects import effects_of

    planned = api.plan(recipe, set)
    effects = effects_of(planned.config, Path.cwd())
    for note in planned.notes:
        say(f"note: {note}", err=True)
    if json:
        show(
            {
                "touches": effects.notes(),
                "configuration": planned.config.model_dump(mode="json"),
                "counts": asdict(planned.counts),
                "sets": [asdict(planned_set) for planned_set in planned.sets],
                "phases": [asdict(phase) for phase in planned.phases],
                "endpoints": [asdict(endpoint) for endpoint in planned.endpoints],
                "estimates": [_estimate(cost) | _numbers(cost) for cost in planned.costs],
            }
        )
    else:
        _print(planned, effects)


def _print(planned: RunPlan, effects: Effects) -> None:
    from rich.syntax import Syntax

    from equipoise.report.terminal import terminal

    console = terminal()
    console.print(Syntax(planned.config.yaml(), "yaml", background_color="default"))
    counts = {name: f"{number:,}" for name, number in asdict(planned.counts).items()}
    _print_table("what the run does", counts)
    if planned.sets:
        _print_table(
            "what the named sets take, beside that",
            {planned_set.name: planned_set.text() for planned_set in planned.sets},
        )
    if planned.endpoints:
        _print_table(
            "what endpoints are asked", {each.place: each.text() for each in planned.endpoints}
        )
    _print_lines("what this run touches", effects.notes() or ("nothing beyond its own folder",))
    if planned.schedules:
        _print_table("settings by generation", planned.schedules)
    if planned.phases:
        _print_table(
            "most memory, phase by phase",
            {_phase(phase): _bytes(phase.bytes) for phase in planned.phases},
        )
    for cost in planned.costs:
        _print_table("estimate, as if every player were like these", _estimate(cost))


def _print_lines(title: str, lines: Sequence[str]) -> None:
    from equipoise.report.terminal import terminal

    console = terminal(highlight=False)
    console.print(f"[italic]{title}[/]")
    for line in lines:
        console.print(f" {line}", markup=False, soft_wrap=True)


def _phase(phase: PhaseMemory) -> str:
    return " ".join(filter(None, (phase.phase, phase.learner, "on", phase.device)))


def _print_table(title: str, rows: Mapping[str, object]) -> None:
    from rich.table import Table

    from equipoise.report.terminal import terminal

    table = Table(title=title, box=None, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), str(value))
    terminal().print(table)


def _estimate(cost: CostEstimate) -> dict[str, object]:
    total = None
    parts = {name: getattr(cost, f"{name}_seconds") for name in STAGES}
    if None not in (parts["sampling"], parts["scoring"], parts["training"]):
        total = sum(seconds or 0.0 for seconds in parts.values())
    fits = f"fits in {_bytes(cost.memory)}"
    if not cost.fits:
        fits = f"does not fit in {_bytes(cost.memory)}; set {cost.advice}"
    each = f", each of {cost.processes} processes" if cost.processes > 1 else ""
    return {
        "learner": ", ".join(cost.learners),
        "parameters": f"{cost.parameters:,}",
        "trainable": f"{cost.trainable:,}",
        "mean_prompt_tokens": round(cost.mean_prompt_tokens),
        "memory_while_sampling": _bytes(cost.memory_while_sampling),
        "memory_while_training": _bytes(cost.memory_while_training) + each,
        "peak_memory": f"{_bytes(cost.peak_memory)}: {fits}",
        **{f"{name}_time": _at_most(seconds) for name, seconds in parts.items()},
        "time": f"{_at_most(total)}, on {cost.device}",
    }


def _numbers(cost: CostEstimate) -> dict[str, object]:
    seconds = {f"{name}_seconds": getattr(cost, f"{name}_seconds") for name in STAGES}
    return {
        "sampling_memory_bytes": cost.memory_while_sampling,
        "training_memory_bytes": cost.memory_while_training,
        "peak_memory_bytes": cost.peak_memory,
        "memory_bytes": cost.memory,
        "fits": cost.fits,
        **seconds,
    }


def _at_most(seconds: float | None) -> str:
    return "not estimated" if seconds is None else f"about {_duration(seconds)} at most"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
