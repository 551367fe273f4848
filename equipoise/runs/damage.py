"""Find what is damaged in a run's folder, and mend what can be; imports nothing of the run."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
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
from equipoise.runs.consent import changed_parts
from equipoise.runs.directory import RunDirectory, open_files, recorded_settings
from equipoise.system.files import CHECKSUMS, faults
from equipoise.system.locks import check_writable
from equipoise.system.yaml_text import yaml_text
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt

State = Literal["whole", "damaged", "missing", "unchecked", "changed"]
RECORDS: dict[str, msgspec.json.Decoder[Any]] = {
    "prompts": msgspec.json.Decoder(Prompt),
    "matches": msgspec.json.Decoder(Match),
    "judgements": msgspec.json.Decoder(Judgement),
    "pairs": msgspec.json.Decoder(Pair),
    "episodes": msgspec.json.Decoder(Episode),
    "replies": msgspec.json.Decoder(dict),
    "benchmark_scores": msgspec.json.Decoder(ItemScores),
}
"""Table -> reads its column `record`."""


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
        of_ledger = list(check_ledger(folder))
        configuration = check_configuration(folder)
        findings = [configuration, *of_ledger]
        if any(finding.state != "whole" for finding in of_ledger):
            return findings
        with Ledger.open(folder / "ledger.sqlite", reading=True) as ledger:
            settings = recorded_settings(ledger)
            if configuration.state in ("whole", "unchecked"):
                settings = recipe_loader.read_resolved(folder / "config.yaml")
            run = RunDirectory(files, settings, ledger)
            findings += [Finding(each.part, "changed", str(each)) for each in changed_parts(ledger)]
            findings += check_weights(run)
            try:
                run.read_metrics_file()
                findings.append(Finding("metrics.jsonl", "whole"))
            except RunError as error:
                findings.append(Finding("metrics.jsonl", "damaged", str(error)))
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
        for finding in check_ledger(folder):
            if finding.state != "whole":
                raise RunError(f"{folder / finding.part}: is {finding.state}; {finding.note}")
        if check_configuration(folder).state in ("damaged", "missing"):
            with Ledger.open(folder / "ledger.sqlite", reading=True) as ledger:
                settings = recorded_settings(ledger)
            files.write("config.yaml", yaml_text(settings))
            done.append("config.yaml: written anew from the ledger")
        with RunDirectory.hold_lock(folder):
            for place in generations(folder):
                if faults(place):
                    part = place.relative_to(folder)
                    with files.inner(*part.parent.parts) as of_player:
                        aside = of_player.set_aside(place.name)
                    done.append(f"{part}: set aside as {aside.name}; resume makes it again")
    return done


def check_configuration(folder: Path) -> Finding:
    """The state of config.yaml, beside what the ledger says that it said."""
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


def check_ledger(folder: Path) -> Iterator[Finding]:
    """The file's pages, then the tables whose records are damaged."""
    path = folder / "ledger.sqlite"
    if not path.exists():
        yield Finding(path.name, "missing", "nothing of the run can be read without it")
        return
    try:
        opened = closing(connect_to_read(path))
    except RunError as error:
        yield Finding(path.name, "damaged", str(error))
        return
    with opened as db:
        try:
            rows = db.execute("PRAGMA integrity_check(3)").fetchall()
            messages = [str(row[0]).splitlines()[-1] for row in rows]
        except sqlite3.DatabaseError as error:
            messages = [str(error)]
        if messages == ["ok"]:
            yield Finding(path.name, "whole")
        else:
            note = f"{'; '.join(messages)}; rows that can still be read are counted below"
            yield Finding(path.name, "damaged", note)
        for table in ("meta", *COUNTED, "metrics", "benchmark_scores"):
            yield from check_table(db, table)


def check_table(db: sqlite3.Connection, table: str) -> Iterator[Finding]:
    """Findings on a table that cannot be read to its end, or not as it was written."""
    part = f"ledger.sqlite, table {table}"
    whole = 0
    unreadable = 0
    error = ""
    changed: list[int] = []
    try:
        changed = damaged_rows(db, table)
        for row in db.execute(f"SELECT * FROM {table} ORDER BY rowid"):
            try:
                decode_row(table, row)
                whole += 1
            except (msgspec.DecodeError, RecursionError) as fault:
                unreadable += 1
                error = shorten(str(fault))
    except sqlite3.DatabaseError as fault:
        error = str(fault)
    if error:
        note = f"{whole:,} rows can be read, {unreadable:,} cannot ({error})"
        yield Finding(part, "damaged", note)
    if changed:
        numbers = ", ".join(map(str, changed[:5]))
        more = ", …" if len(changed) > 5 else ""
        note = f"{len(changed):,} rows are not as they were written (rows {numbers}{more})"
        yield Finding(part, "damaged", note)


def decode_row(table: str, row: Sequence[Any]) -> None:
    """Read a row's JSON, the last but its checksum. Raises msgspec.DecodeError."""
    match table:
        case "metrics":
            decode_line(row[-2])
        case "stages":
            decode_facts(row[2], row[3])
        case "players":
            decode_facts("", row[-2])
        case _ if table in RECORDS:
            RECORDS[table].decode(row[-2])


def generations(folder: Path) -> list[Path]:
    """The folders of all players' weights and of their learners' states."""
    players = folder / "players"
    places = [*players.glob("*/[0-9]*"), *players.glob("*/.state/[0-9]*")]
    return sorted(place for place in places if place.name.isdigit())


def check_weights(run: RunDirectory) -> Iterator[Finding]:
    """The state of every generation's files, by their checksums."""
    for place in generations(run.folder):
        part = place.relative_to(run.folder).as_posix()
        messages = [message.removeprefix(f"{place}/") for message in faults(place)]
        if messages:
            again = "check --mend sets it aside, and resume makes it again"
            yield Finding(part, "damaged", f"{'; '.join(messages)}. {again}")
        elif not (place / CHECKSUMS).is_file():
            yield Finding(part, "unchecked", "has no checksums")
        else:
            yield Finding(part, "whole")
    if run.settings.get("keep") == "all":
        for birth in run.ledger.players():
            yield from missing_weights(run.folder, birth.player)


def missing_weights(folder: Path, player: PlayerId) -> Iterator[Finding]:
    """A generation without weights; of learners in memory, only measured ones have them."""
    place = home(folder / "players", player)
    in_memory = (place.parent / ".state").is_dir()
    if place.is_dir() or in_memory:
        return
    note = "its folder is gone"
    if place.with_name(f"damaged-{place.name}").is_dir():
        note = "was set aside; resume makes it again"
    yield Finding(place.relative_to(folder).as_posix(), "missing", note)
