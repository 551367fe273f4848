"""`equipoise status RUN`: how far a run is, from its ledger alone; it may be running."""

from __future__ import annotations

from typing import Any

from equipoise.options import Json, RunFolder, show


def status(folder: RunFolder, json: Json = False) -> None:
    """Say how far a run is and what it has measured."""
    from rich.console import Console

    from equipoise.report.terminal import status_table
    from equipoise.run.directory import Run

    with Run.read(folder) as opened:
        facts = _facts(opened)
    if json:
        show(facts)
    else:
        records, measured, spent = (
            facts.pop(name) for name in ("records", "measured", "spent")
        )
        paid = [
            (
                f"spent by {account}",
                f"{s['calls']:,} calls, {s['tokens']:,} tokens, {s['money']:g} in money",
            )
            for account, s in spent.items()
        ]
        Console().print(
            status_table([*facts.items(), *records.items(), *paid, *measured.items()])
        )


def _facts(run: Any) -> dict[str, Any]:
    stages = run.ledger.stages()
    measured = [(g, facts) for _, g, stage, facts, _ in stages if stage == "measure"]
    numbers = (
        {k: n for k, v in measured[-1][1].items() if (n := _number(v)) is not None}
        if measured
        else {}
    )
    records = run.ledger.counts()
    done = measured[-1][0] if measured else None
    turns = [facts["learn"] for _, _, stage, facts, _ in stages if stage == "turn"]
    alternate = any(set(names) != set(turns[-1]) for names in turns)
    return {
        "run": str(run.folder),
        "name": run.config.name,
        "generation": done,
        "generations": run.config.generations,
        "finished": done == run.config.generations,
        "last_stage": stages[-1][0] if stages else None,
        **({"turn": ", ".join(turns[-1])} if alternate else {}),
        "records": records,
        "spent": {
            account: {
                "calls": spent.calls,
                "tokens": spent.tokens,
                "money": round(spent.money, 6),
            }
            for account, spent in run.ledger.accounts().items()
        },
        "unjudged_share": run.ledger.unjudged() / records["judgements"]
        if records["judgements"]
        else None,
        "seconds": round(sum(row[4] for row in stages), 1),
        "measured": numbers,
    }


def _number(value: Any) -> int | float | None:
    """A number, or the mean of one that was measured with an interval; None for
    anything else.
    """
    found = value.get("mean") if isinstance(value, dict) and "low" in value else value
    return found if isinstance(found, int | float) else None
