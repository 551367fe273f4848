"""What `run` and `resume` share: play an open run to its end, write its report, say what came of it."""

from __future__ import annotations

import datetime
import time
import traceback
from typing import Any

from equipoise.cli.options import show
from equipoise.errors import EquipoiseError, Stopped
from equipoise.run import Run


def play_out(run: Run, json: bool) -> None:
    """Play every generation that is not recorded yet. Raises Stopped on Ctrl-C or SIGTERM: nothing recorded is lost."""
    from rich.console import Console

    from equipoise.loop import league
    from equipoise.report.collect import facts
    from equipoise.report.html import render
    from equipoise.report.terminal import Live, outcome
    from equipoise.stages import RunStages

    console = Console(stderr=json)
    started = time.perf_counter()
    try:
        with Live(console, silent=json) as live:
            league(RunStages(run, live), run.config.generations)
        collected = facts(run)
        (run.folder / "report.html").write_text(render(collected))
    except KeyboardInterrupt:
        raise Stopped(f"stopped; what was recorded is kept. Go on with: equipoise resume {run.folder}") from None
    except EquipoiseError:
        raise
    except Exception:
        _log_failure(run)
        raise
    if json:
        show(_result(run, time.perf_counter() - started))
    else:
        console.print(outcome(collected, run.folder))


def _log_failure(run: Run) -> None:
    logs = run.folder / "logs"
    logs.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    (logs / f"failure-{now}.txt").write_text(traceback.format_exc())


def _result(run: Run, seconds: float) -> dict[str, Any]:
    measured = [{"generation": g, **found} for _, g, _, found, _ in run.ledger.stages("measure")]
    return {
        "run": str(run.folder),
        "report": str(run.folder / "report.html"),
        "seconds": round(seconds, 1),
        "records": run.ledger.counts(),
        "measured": measured,
    }
