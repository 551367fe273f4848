"""How far a run is and what it has measured, from its ledger alone; it may be running."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from equipoise.runs.best_response import best_response, best_responses
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.results import STAGE
from equipoise.runs.reading.counts import counts
from equipoise.runs.reading.history import history, stage_records
from equipoise.runs.reading.page import headlines
from equipoise.runs.reading.stage_times import StageTime, stage_times


def progress(run: RunDirectory) -> dict[str, Any]:
    """How far the run is, what was used and spent, where the time went, and its last measurement;
    as plain JSON values, under the report's names.

    `headlines` are the report's; `measured` are all numbers of the last measurement.
    """
    stages = run.ledger.stages()
    last = history(run).last
    generation = None if last is None else last.generation
    times = stage_times(stages)
    return {
        "run": str(run.folder),
        "name": run.config.name,
        "generation": generation,
        "generations": run.config.generations,
        "finished": generation == run.config.generations or _only_measured(run),
        "last_stage": stages[-1][0] if stages else None,
        **_turn([facts["learn"] for _, _, stage, facts, _ in stages if stage == "turn"]),
        "records": _records(run),
        "time": {name: _time(time) for name, time in times.items()},
        "spent": _spent(run),
        **_best_responses(run),
        "headlines": [asdict(line) for line in headlines(run)],
        "measured": {} if last is None else last.measures.all_numbers(),
    }


def _best_responses(run: RunDirectory) -> dict[str, Any]:
    """What this exploiter's run came to, and the exploiters that were trained against players of
    this run, where there are any.
    """
    own, others = best_response(run), list(best_responses(run))
    return {
        **({"best_response": own} if own else {}),
        **({"best_responses": others} if others else {}),
    }


def _only_measured(run: RunDirectory) -> bool:
    """Whether the run is one that was made to measure a model on named sets."""
    return run.config.generations == 0 and bool(run.ledger.stages(STAGE))


def _records(run: RunDirectory) -> dict[str, int | float]:
    """What the report says was used, by its names as keys."""
    named = counts(run, stage_records(run))
    return {name.replace(" ", "_"): value for name, value in named.items()}


def _time(time: StageTime) -> dict[str, Any]:
    """The seconds of a stage, and of each stage inside it."""
    parts = {name: round(seconds, 1) for name, seconds in time.parts.items()}
    return {"seconds": round(time.seconds, 1), **({"parts": parts} if parts else {})}


def _turn(turns: list[list[str]]) -> dict[str, str]:
    """Who learned last, where the turn passes on."""
    takes_turns = any(set(names) != set(turns[-1]) for names in turns)
    return {"turn": ", ".join(turns[-1])} if takes_turns else {}


def _spent(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """Account -> its calls, tokens and money."""
    return {
        account: {"calls": spent.calls, "tokens": spent.tokens, "money": round(spent.money, 6)}
        for account, spent in run.ledger.accounts().items()
    }
