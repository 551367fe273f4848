"""Play an open run out: every generation that is not recorded yet, then the report."""

import datetime
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.blocks.html import render
from equipoise.blocks.section import Change, Headline
from equipoise.blocks.terminal import Display, show_notes, terminal
from equipoise.errors import BudgetSpent, EquipoiseError, OwnPartError, Stopped, clean
from equipoise.ledger.ledger import FAILED
from equipoise.models.progress import ignore_known_warnings
from equipoise.players.endpoint import Endpoint
from equipoise.report.model_card import ModelCards
from equipoise.report.page import cautions, changes, headlines, page, stage_times, which_to_trust
from equipoise.report.summary import DEVICE, OTHER_DEVICES
from equipoise.report.trackers import open_trackers
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory
from equipoise.runs.executors.base import workers
from equipoise.runs.loop import league
from equipoise.runs.monitor import Monitor
from equipoise.runs.open_run import OpenRun


@dataclass(frozen=True)
class Played:
    """A run that has been played out; `seconds` are of this call, `seconds_in_all` of all finished
    stages of the run, `cautions` what a reader of its numbers must know first, `which_to_trust`
    which of them shows what was learned.
    """

    name: str
    run: Path
    report: Path
    seconds: float
    seconds_in_all: float
    records: Mapping[str, int]
    measured: Sequence[Mapping[str, Any]]
    changes: Sequence[Change]
    headlines: Sequence[Headline]
    cautions: Sequence[str] = ()
    which_to_trust: str = ""


def play_out(
    run: RunDirectory, monitor: Monitor | None = None, *, progress: bool = False
) -> Played:
    """Play every generation of an open run that is not recorded yet, and write the report.

    Args: monitor: None: a terminal or nobody; progress: show a bar on a terminal, elsewhere a
    line for each stage, and one a minute of long ones.

    Raises Stopped on Ctrl-C or SIGTERM, and where a budget is spent: nothing recorded is lost. An
    error of the program itself is logged in the run's `logs` and raised again.
    """
    started = time.perf_counter()
    try:
        with nullcontext(monitor) if monitor else display_of(run, progress) as watcher:
            with (
                open_trackers(run) as trackers,
                workers(run.config.executor) as pool,
                OpenRun(run, watcher, pool, observers=[ModelCards(run), *trackers]) as opened,
            ):
                run.ledger.note(FAILED, "")
                if not run.ledger.has_finished(f"{run.config.generations}/measure"):
                    run.goes_on()
                league(opened, run.config.generations)
            watcher.stage("report")
            run.files.write("report.html", render(page(run)))
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped; everything recorded so far is kept{kept(run)}. To go on: "
            f"equipoise resume {run.folder}, or in Python "
            f"equipoise.open_run({str(run.folder)!r}).resume()"
        ) from None
    except BudgetSpent as error:
        raise Stopped(
            f"{error}; to go on with a larger budget: "
            f"equipoise resume {run.folder} {larger_budget(run.config, error)}"
        ) from error
    except OwnPartError as error:
        log = log_failure(run)
        raise OwnPartError(
            f"{error}: equipoise resume {run.folder}. Its traceback: {log}"
        ) from error.__cause__
    except EquipoiseError:
        raise
    except Exception:
        log_failure(run)
        raise
    return Played(
        run.config.name,
        run.folder,
        run.folder / "report.html",
        seconds=time.perf_counter() - started,
        seconds_in_all=sum(stage.seconds for stage in stage_times(run.ledger.stages()).values()),
        records=run.ledger.counts(),
        measured=[
            {"generation": stage.generation, **stage.facts}
            for stage in run.ledger.stages("measure")
        ],
        changes=changes(run),
        headlines=list(headlines(run)),
        cautions=cautions(run),
        which_to_trust=which_to_trust(run),
    )


def kept(run: RunDirectory) -> str:
    """The records of a run that was stopped, and its last finished stage, for a message."""
    records, stages = run.ledger.counts(), run.ledger.stages()
    trained = sum(stage.stage == "learn" for stage in stages)
    numbers = {
        "match": records["matches"],
        "judgement": records["judgements"],
        "trained generation": trained,
    }
    parts = []
    for name, count in numbers.items():
        if count:
            ending = "" if count == 1 else "es" if name == "match" else "s"
            parts.append(f"{count:,} {name}{ending}")
    if not stages:
        return ""
    return f" ({', '.join([*parts, f'the last finished stage is {stages[-1].key}'])})"


def other_device(run: RunDirectory, here: str) -> tuple[str, ...]:
    """A note where the run's models were computed elsewhere, or with other threads, before."""
    before = run.ledger.meta(DEVICE)
    if here and not before:
        run.ledger.note(DEVICE, here)
    if not (here and before) or here == before:
        return ()
    later = run.ledger.meta(OTHER_DEVICES)
    if here not in later.splitlines():
        run.ledger.note(OTHER_DEVICES, f"{later}\n{here}".strip())
    return (
        f"the run began where {before}; here {here}. Sums may differ in their last digits, and so "
        "may tokens that are sampled from now on",
    )


@contextmanager
def display_of(run: RunDirectory, progress: bool) -> Iterator[Monitor]:
    """A terminal's display of the run, after the notes that its user should read."""
    from equipoise.models.device import explain_device

    devices = explain_device() if run.config.has_devices else ""
    show_notes((*run.notes, *other_device(run, devices)))
    if devices and progress:
        console().print(f"device: {devices}", highlight=False, soft_wrap=True)
    with (
        warnings.catch_warnings(),
        Display(run.config.generations, console(), silent=not progress) as display,
    ):
        ignore_known_warnings()
        yield display


def console() -> Any:
    """The terminal, or the plain lines of a file."""
    # A notebook gets the plain lines of a file: each of rich's own outputs there is a block of
    # HTML, and its kernel asks for colours in the environment.
    return terminal(force_jupyter=False, force_terminal=sys.stdout.isatty())


def larger_budget(config: RunConfig, error: BudgetSpent) -> str:
    """The settings of every budget that the account's limit stands in."""
    return " ".join(
        f"-s {place}.budget.{error.limit}=…"
        for place, player in config.every_player()
        if isinstance(player, Endpoint) and (player.account or player.model) == error.account
    )


def log_failure(run: RunDirectory) -> Path:
    """Write an error with its traceback into the run's logs; the file."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    with run.files.inner("logs", make=True) as logs:
        logs.write(f"failure-{now}.txt", clean(traceback.format_exc()))
    return run.folder / "logs" / f"failure-{now}.txt"
