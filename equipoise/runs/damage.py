"""Find what is damaged in a run's folder, and mend what can be; imports nothing of the run."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from equipoise.component import fixed_settings
from equipoise.errors import ConfigError, RunError, shorten
from equipoise.ledger.database import connect_to_read, damaged_rows
from equipoise.ledger.item_scores import ItemScores
from equipoise.ledger.ledger import COUNTED, Ledger, decode_facts, decode_line
from equipoise.players.population import home
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, open_files, recorded_settings
from equipoise.system.files import CHECKSUMS, faults
from equipoise.system.locks import check_writable
from equipoise.system.yaml_text import yaml_text
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt

State = Literal["whole", "damaged", "missing", "unchecked"]
RECORDS: dict[str, Any] = {
    "prompts": Prompt,
    "matches": Match,
    "judgements": Judgement,
    "pairs": Pair,
    "episodes": Episode,
    "replies": dict,
    "benchmark_scores": ItemScores,
}
"""Table -> what its column `record` holds."""


@dataclass(frozen=True)
class Finding:
    """A part of a run's folder, its state, and what can be done where it is not whole."""

    part: str
    state: State
    note: str = ""


def examine(folder: Path) -> list[Finding]:
    """Every part of the run with its state. Raises RunError where there is no run."""
    if not is_run_like(folder):
        raise RunError(f"{folder}: no run here (config.yaml and ledger.sqlite are missing)")
    with open_files(folder) as files:
        ledger = list(_ledger(folder))
        configuration = _configuration(folder)
        findings = [configuration, *ledger]
        if all(finding.state == "whole" for finding in ledger):
            with Ledger.open(folder / "ledger.sqlite", reading=True) as opened:
                settings = recorded_settings(opened)
                if configuration.state in ("whole", "unchecked"):
                    settings = recipe_loader.read_resolved(folder / "config.yaml")
                run = RunDirectory(files, settings, opened)
                findings += _weights(run)
                findings.append(_metrics(run))
        return findings


def is_run_like(folder: Path) -> bool:
    """True if a part of a run lies in the folder, be it a link."""
    return any(os.path.lexists(folder / name) for name in ("ledger.sqlite", "config.yaml"))


def mend(folder: Path) -> list[str]:
    """Set damaged weights aside for `resume` to retrain, restore config.yaml; what was done.

    Raises RunError where the run is in use, and where its ledger is damaged.
    """
    check_writable(folder)
    done = []
    with open_files(folder) as files:
        for finding in _ledger(folder):
            if finding.state != "whole":
                raise RunError(f"{folder / finding.part}: is {finding.state}; {finding.note}")
        if _configuration(folder).state in ("damaged", "missing"):
            with Ledger.open(folder / "ledger.sqlite", reading=True) as ledger:
                settings = recorded_settings(ledger)
            files.write("config.yaml", yaml_text(settings))
            done.append("config.yaml: written anew from the ledger")
        with RunDirectory.hold_lock(folder):
            for place in _generations(folder):
                if faults(place):
                    part = place.relative_to(folder)
                    with files.inner(*part.parent.parts) as of_player:
                        aside = of_player.set_aside(place.name)
                    done.append(f"{part}: set aside as {aside.name}; resume makes it again")
    return done


# -- the configuration


def _configuration(folder: Path) -> Finding:
    """config.yaml, beside what the ledger says that it said."""
    path = folder / "config.yaml"
    try:
        with Ledger.open(folder / "ledger.sqlite", reading=True) as ledger:
            begun_with = recorded_settings(ledger)
    except (RunError, sqlite3.DatabaseError):  # which is a finding of its own
        begun_with = {}
    again = "check --mend writes it anew from the ledger" if begun_with else ""
    if not path.is_file():
        return Finding(path.name, "missing", again)
    try:
        values = recipe_loader.read_resolved(path)
    except ConfigError as error:
        return Finding(path.name, "damaged", f"{error}; {again}".strip("; "))
    if begun_with and fixed_settings(begun_with) != fixed_settings(values):
        note = "differs from what the run began with; resume says where, if it matters"
        return Finding(path.name, "unchecked", note)
    return Finding(path.name, "whole")


# -- the ledger


def _ledger(folder: Path) -> Iterator[Finding]:
    """The file's pages, then the records of every table."""
    path = folder / "ledger.sqlite"
    if not path.exists():
        yield Finding(path.name, "missing", "nothing of the run can be read without it")
        return
    try:
        db = connect_to_read(path)
    except RunError as error:
        yield Finding(path.name, "damaged", str(error))
        return
    try:
        try:
            verdict = db.execute("PRAGMA integrity_check(3)").fetchall()
        except sqlite3.DatabaseError as error:
            verdict = [(str(error),)]
        messages = "; ".join(str(row[0]).splitlines()[-1] for row in verdict)
        if messages == "ok":
            yield Finding(path.name, "whole")
        else:
            note = f"{messages}; rows that can still be read are counted below"
            yield Finding(path.name, "damaged", note)
        for table in ("meta", *COUNTED, "metrics", "benchmark_scores"):
            yield from _table(db, table)
    finally:
        db.close()


def _table(db: sqlite3.Connection, table: str) -> Iterator[Finding]:
    """Findings on a table that cannot be read to its end, or not as it was written."""
    part = f"ledger.sqlite, table {table}"
    decode = _decoder(table)
    whole, unreadable, error = 0, 0, ""
    other: list[int] = []
    try:
        other = damaged_rows(db, table)
        for row in db.execute(f"SELECT * FROM {table} ORDER BY rowid"):
            try:
                decode(row)
                whole += 1
            except (msgspec.DecodeError, RecursionError) as fault:
                unreadable, error = unreadable + 1, shorten(str(fault))
    except sqlite3.DatabaseError as fault:
        error = str(fault)
    if error:
        note = f"{whole:,} rows can be read, {unreadable:,} cannot ({error})"
        yield Finding(part, "damaged", note)
    if other:
        numbers = ", ".join(map(str, other[:5])) + (", …" if len(other) > 5 else "")
        note = f"{len(other):,} rows are not as they were written (rows {numbers})"
        yield Finding(part, "damaged", note)


def _decoder(table: str) -> Callable[[Sequence[Any]], Any]:
    """Reads a row's JSON; raises msgspec.DecodeError."""
    if table == "metrics":
        return lambda row: decode_line(row[-2])
    if table == "stages":
        return lambda row: decode_facts(row[2], row[3])
    if table == "players":
        return lambda row: decode_facts("", row[-2])
    if table in RECORDS:
        decode = msgspec.json.Decoder(RECORDS[table]).decode
        return lambda row: decode(row[-2])
    return len


# -- weights and metrics


def _generations(folder: Path) -> list[Path]:
    players = folder / "players"
    places = [*players.glob("*/[0-9]*"), *players.glob("*/.state/[0-9]*")]
    return sorted(place for place in places if place.name.isdigit())


def _weights(run: RunDirectory) -> Iterator[Finding]:
    for place in _generations(run.folder):
        part = place.relative_to(run.folder).as_posix()
        if messages := faults(place):
            names = "; ".join(message.removeprefix(f"{place}/") for message in messages)
            again = "check --mend sets it aside, and resume makes it again"
            yield Finding(part, "damaged", f"{names}. {again}")
        elif not (place / CHECKSUMS).is_file():
            yield Finding(part, "unchecked", "has no checksums")
        else:
            yield Finding(part, "whole")
    if run.settings.get("keep") == "all":
        for birth in run.ledger.players():
            yield from _missing(run.folder, birth.player)


def _missing(folder: Path, player: PlayerId) -> Iterator[Finding]:
    """Generations without weights; of learners in memory, only measured ones have them."""
    place = home(folder / "players", player)
    has_them = (place.parent / ".state").is_dir()
    aside = place.with_name(f"damaged-{place.name}").is_dir()
    if not place.is_dir() and not has_them:
        note = "was set aside; resume makes it again" if aside else "its folder is gone"
        yield Finding(place.relative_to(folder).as_posix(), "missing", note)


def _metrics(run: RunDirectory) -> Finding:
    try:
        run.read_metrics_file()
    except RunError as error:
        return Finding("metrics.jsonl", "damaged", str(error))
    return Finding("metrics.jsonl", "whole")
