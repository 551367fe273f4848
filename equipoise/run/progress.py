"""How far a run is and what it has measured, from its ledger alone; it may be running."""

from __future__ import annotations

from typing import Any

from equipoise.run.directory import RunDirectory
from equipoise.run.history import history


def progress(run: RunDirectory) -> dict[str, Any]:
    """How far the run is, its records, what was spent, and the numbers of its last
    measurement; as plain JSON values.
    """
    stages = run.ledger.stages()
    last = history(run).last
    generation = None if last is None else last.generation
    records = run.ledger.counts()
    judged = records["judgements"]
    return {
        "run": str(run.folder),
        "name": run.config.name,
        "generation": generation,
        "generations": run.config.generations,
        "finished": generation == run.config.generations,
        "last_stage": stages[-1][0] if stages else None,
        **_turn(
            [facts["learn"] for _, _, stage, facts, _ in stages if stage == "turn"]
        ),
        "records": records,
        "spent": _spent(run),
        "unjudged_share": run.ledger.unjudged() / judged if judged else None,
        "seconds": round(sum(stage[4] for stage in stages), 1),
        "measured": {} if last is None else last.measures.all_numbers(),
    }


def _turn(turns: list[list[str]]) -> dict[str, str]:
    """Who learned last, where the turn passes on."""
    takes_turns = any(set(names) != set(turns[-1]) for names in turns)
    return {"turn": ", ".join(turns[-1])} if takes_turns else {}


def _spent(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """Account -> its calls, tokens and money."""
    return {
        account: {
            "calls": spent.calls,
            "tokens": spent.tokens,
            "money": round(spent.money, 6),
        }
        for account, spent in run.ledger.accounts().items()
    }
