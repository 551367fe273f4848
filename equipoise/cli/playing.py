"""What `run` and `resume` share: play an open run to its end, write its report, say
what came of it.
"""

from __future__ import annotations

import datetime
import time
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from equipoise.cli.options import show
from equipoise.errors import BudgetSpent, EquipoiseError, Stopped
from equipoise.run.directory import Run

if TYPE_CHECKING:
    from rich.console import Console


def play_out(run: Run, json: bool) -> None:
    """Play every generation that is not recorded yet. Raises Stopped on Ctrl-C or
    SIGTERM: nothing recorded is lost.
    """
    from rich.console import Console

    from equipoise.report.html import render
    from equipoise.report.terminal import Display
    from equipoise.run.collect import facts
    from equipoise.run.loop import league
    from equipoise.run.stages import RunStages

    console = Console(stderr=json)
    started = time.perf_counter()
    if not json and (line := _device_line(run.config.model_dump())):
        console.print(line, highlight=False, soft_wrap=True)
    try:
        with Display(run.config.generations, console, silent=json) as display:
            league(RunStages(run, display), run.config.generations)
        collected = facts(run)
        (run.folder / "report.html").write_text(render(collected), encoding="utf-8")
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped; what was recorded is kept. Go on with: equipoise resume {run.folder}"
        ) from None
    except BudgetSpent as error:
        paths = [
            f"-s {path}.budget.{error.limit}=…"
            for path in _paid_by(run.config.model_dump(), error.account)
        ]
        raise Stopped(
            f"{error}; go on with a larger budget: equipoise resume {run.folder} {' '.join(paths)}"
        ) from error
    except EquipoiseError:
        raise
    except Exception:
        _log_failure(run)
        raise
    if json:
        show(_result(run, time.perf_counter() - started))
    else:
        _show(console, run, time.perf_counter() - started)


def _device_line(values: Any) -> str:
    """On which device the parts with `device: auto` run and why; nothing where no part
    has a device.
    """
    from equipoise.models.device import explain_device

    if not _mentions_device(values):
        return ""
    return f"device: {explain_device()}"


def _mentions_device(values: Any) -> bool:
    if isinstance(values, dict):
        return "device" in values or any(map(_mentions_device, values.values()))
    return isinstance(values, list | tuple) and any(map(_mentions_device, values))


def _show(console: Console, run: Run, seconds: float) -> None:
    """Before and after, the numbers that matter, and where the report is."""
    from equipoise.report.terminal import before_after, duration, headline
    from equipoise.run.collect import changes, headlines

    rows = changes(run)
    if rows:
        console.print(before_after(rows))
    numbers = [(line.label, line.value) for line in headlines(run)]
    numbers += [
        ("took", duration(seconds)),
        ("go deeper", f"equipoise status {run.folder}"),
    ]
    console.print(headline(run.config.name, numbers, run.folder / "report.html"))


def _paid_by(values: Any, account: str, path: str = "") -> Iterator[str]:
    """Where in a configuration the players are that an account pays for."""
    if isinstance(values, dict):
        if (
            values.get("kind") == "endpoint"
            and (values.get("account") or values.get("model")) == account
        ):
            yield path
        for key, value in values.items():
            yield from _paid_by(value, account, f"{path}.{key}".lstrip("."))


def _log_failure(run: Run) -> None:
    logs = run.folder / "logs"
    logs.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    (logs / f"failure-{now}.txt").write_text(traceback.format_exc(), encoding="utf-8")


def _result(run: Run, seconds: float) -> dict[str, Any]:
    measured = [
        {"generation": g, **found} for _, g, _, found, _ in run.ledger.stages("measure")
    ]
    return {
        "run": str(run.folder),
        "report": str(run.folder / "report.html"),
        "seconds": round(seconds, 1),
        "records": run.ledger.counts(),
        "measured": measured,
    }
