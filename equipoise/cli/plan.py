"""`equipoise plan RECIPE`: print the work and the cost of a run, without loading a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.system.command_options import Json, Recipe, Set, say, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equipoise.planning.cost import CostEstimate
    from equipoise.planning.endpoint_plan import EndpointPlan
    from equipoise.planning.phases import PhaseMemory
    from equipoise.planning.run_plan import RunPlan
    from equipoise.system.effects import Effects

STAGES = ("sampling", "scoring", "training", "judging")


On = Annotated[
    str,
    typer.Option(
        metavar="HARDWARE",
        help="plan for other hardware than this machine: 8xH100-80GB, or "
        "GPUS,MEMORY,TFLOPS,BANDWIDTH (GB, dense bfloat16, GB/s), as 8,80,989,3350",
        show_default="this machine",
    ),
]


def plan(
    recipe: Recipe,
    set: Set = [],  # noqa: B006
    on: On = "",
    full: Annotated[
        bool, typer.Option("--full", help="print the resolved configuration, too")
    ] = False,
    json: Json = False,
) -> None:
    """Say what a run would do, and estimate its memory, time and cost.

    The answer comes first: whether it can run, how long, how much memory, at what cost. No weights
    are loaded.
    """
    from equipoise.api import functions as api
    from equipoise.system.effects import effects_of

    planned = api.plan(recipe, set, on)
    effects = effects_of(planned.config, Path.cwd())
    if not json:
        print_table("the answer, by estimates", answer_facts(planned))
        if planned.hardware is not None:
            print_phases(planned.phases)
    for note in planned.notes:
        say(f"note: {note}", err=True)
    if json:
        show(_facts(planned, effects))
        return
    print_plan(planned, effects)
    if full:
        print_configuration(planned)


def answer_facts(planned: RunPlan) -> dict[str, str]:
    """The rows that a reader came for."""
    obstacles = planned.obstacles
    runs = f"no, not on {planned.place}: {'; '.join(obstacles)}"
    seconds, memory = planned.seconds, "not estimated: no language model learns"
    if planned.costs:
        most = max(cost.memory for cost in planned.costs)
        memory = f"{_bytes(planned.peak)} of {_bytes(most)}"
        memory += " on each accelerator at most" if planned.hardware else " at most"
    costs = []
    if planned.hardware and seconds is not None:
        costs.append(f"{seconds / 3600 * planned.hardware.count:.1f} GPU hours")
    if planned.endpoints:
        costs.append(endpoints_cost(planned.endpoints))
    return {
        "can it run": runs if obstacles else f"yes, on {planned.place}",
        "how long": at_most(seconds),
        "memory": memory,
        "cost": "; ".join(costs) or "no endpoint is asked",
    }


def endpoints_cost(endpoints: Sequence[EndpointPlan]) -> str:
    """The money of all endpoints, about and at most."""
    from equipoise.planning.endpoint_plan import amount

    priced = [each for each in endpoints if each.money is not None]
    if not priced:
        return "endpoints: not known, their `prices` are not set"
    about = amount(sum(each.money or 0.0 for each in priced))
    most = amount(sum(each.money_at_most or 0.0 for each in priced))
    text = f"endpoints: about {about} {priced[0].currency}, at most {most} without failures"
    unpriced = len(endpoints) - len(priced)
    if unpriced:
        text += f"; {unpriced} have no `prices`"
    return text


def _facts(planned: RunPlan, effects: Effects) -> dict[str, object]:
    hardware = planned.hardware
    return {
        "answer": answer_facts(planned)
        | {"obstacles": planned.obstacles, "seconds": planned.seconds},
        "hardware": None if hardware is None else asdict(hardware),
        "notes": planned.notes,
        "touches": effects.notes(),
        "configuration": planned.config.model_dump(mode="json"),
        "counts": asdict(planned.counts),
        "sets": [asdict(planned_set) for planned_set in planned.sets],
        "phases": [asdict(phase) for phase in planned.phases],
        "endpoints": [asdict(endpoint) for endpoint in planned.endpoints],
        "estimates": [_estimate(cost) | _numbers(cost) for cost in planned.costs],
    }


def print_configuration(planned: RunPlan) -> None:
    """Print the resolved configuration."""
    from rich.syntax import Syntax

    from equipoise.blocks.terminal import terminal

    terminal().print(Syntax(planned.config.yaml(), "yaml", background_color="default"))


def print_phases(phases: Sequence[PhaseMemory]) -> None:
    """Print the time and the memory of each phase."""
    from rich.table import Table

    from equipoise.blocks.terminal import terminal

    table = Table(title="phase by phase", box=None, title_justify="left", header_style="dim")
    for column in ("", "processes", "memory of each", "time"):
        table.add_column(column)
    for phase in phases:
        name = " ".join(filter(None, (phase.phase, phase.learner)))
        time = "" if phase.seconds is None else at_most(phase.seconds)
        table.add_row(name, str(phase.processes), _bytes(phase.bytes), time)
    terminal().print(table)


def print_plan(planned: RunPlan, effects: Effects) -> None:
    """Print counts, costs, memory and time."""
    counts = {name: f"{number:,}" for name, number in asdict(planned.counts).items()}
    print_table("what the run does", counts)
    if planned.sets:
        print_table(
            "what the named sets take, beside that",
            {planned_set.name: planned_set.text() for planned_set in planned.sets},
        )
    if planned.endpoints:
        print_table(
            "what endpoints are asked", {each.place: each.text() for each in planned.endpoints}
        )
    print_lines("what this run touches", effects.notes() or ("nothing beyond its own folder",))
    if planned.schedules:
        print_table("settings by generation", planned.schedules)
    if planned.phases and planned.hardware is None:
        print_table(
            "most memory, phase by phase",
            {phase.name: _bytes(phase.bytes) for phase in planned.phases},
        )
    for cost in planned.costs:
        print_table("estimate, as if every player were like these", _estimate(cost))


def print_lines(title: str, lines: Sequence[str]) -> None:
    """Print lines below a title."""
    from equipoise.blocks.terminal import terminal

    console = terminal(highlight=False)
    console.print(title, style="italic")
    for line in lines:
        console.print(f" {line}", markup=False, soft_wrap=True)


def print_table(title: str, rows: Mapping[str, object]) -> None:
    """Print rows in columns."""
    from rich.table import Table

    from equipoise.blocks.terminal import terminal

    table = Table(title=title, box=None, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), str(value))
    terminal().print(table)


def _estimate(cost: CostEstimate) -> dict[str, object]:
    parts = {name: getattr(cost, f"{name}_seconds") for name in STAGES}
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
        **{f"{name}_time": at_most(seconds) for name, seconds in parts.items()},
        "time": f"{at_most(cost.seconds)}, on {cost.device}",
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


def at_most(seconds: float | None) -> str:
    """A bound in words."""
    return "not estimated" if seconds is None else f"about {_duration(seconds)} at most"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
