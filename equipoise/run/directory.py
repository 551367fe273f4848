"""A run directory is the run: create it, open it, lock it, keep its metrics.

config.yaml     the resolved configuration
ledger.sqlite   every record
players/NAME/GENERATION/   a standard PEFT adapter or save_pretrained model, or policy.json
                           of a tabular player; README.md is its model card
metrics.jsonl   one line a measurement, each with the stage that wrote it
report.html     written when the run ends, or by `equipoise report`
logs/           what went wrong, with tracebacks; the files of trackers
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from equipoise import __version__
from equipoise.component import FREE
from equipoise.errors import ConfigError, RunError, UserError
from equipoise.locks import check_locks, check_writable, lock
from equipoise.run import recipes
from equipoise.run.checks import check_run
from equipoise.run.config import RunConfig
from equipoise.run.ledger import Ledger
from equipoise.run.renamed import renamed


class RunDirectory:
    """An open run directory.

    `RunDirectory.create` and `RunDirectory.open` are context managers that hold the run's lock.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        ledger: Ledger,
        notes: tuple[str, ...] = (),
    ) -> None:
        """`settings` are what config.yaml holds, under this version's names; `notes`
        what its user should know before it begins.
        """
        self.folder = folder
        self.settings = settings
        self.ledger = ledger
        self.notes = notes

    @cached_property
    def config(self) -> RunConfig:
        """The settings as components, made when they are first asked for.

        This imports a user's own parts; what a run recorded can be read without them.
        Raises ConfigError.
        """
        return recipes.build(self.settings, str(self.folder / "config.yaml"))

    @classmethod
    @contextmanager
    def create(
        cls,
        config: RunConfig,
        folder: Path,
        overwrite: bool = False,
        command: str = "",
    ) -> Iterator[RunDirectory]:
        """A new run in `folder`, whose counts of prompts are those that the source has;
        `command` is what the user gave to make it.

        Raises RunError when something is there and `overwrite` is false, when it is in
        use or cannot be written, and before anything is written what `check_run`
        raises. A run that a user's mistake ends before its first match leaves no folder.
        """
        cls._check_vacant(folder, overwrite)
        check_locks()
        try:
            check_writable(folder.absolute().parent)
        except RunError as error:
            raise RunError(f"{error}; choose another --out") from error
        checked = check_run(config)
        if folder.is_dir():
            with _locked(folder):
                shutil.rmtree(folder)
        # The directory appears complete or not at all, so that a kill during creation
        # leaves nothing to repair.
        draft = folder.parent / f".{folder.name}.{os.getpid()}"
        draft.mkdir(parents=True)
        try:
            text = checked.config.yaml()
            (draft / "config.yaml").write_text(text, encoding="utf-8")
            Ledger.create(
                draft / "ledger.sqlite",
                directory=str(Path.cwd()),
                command=command,
                version=__version__,
            ).close()
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        try:
            with cls.open(folder) as run:
                run.notes = checked.notes
                yield run
        except UserError:
            if _is_empty(folder):
                shutil.rmtree(folder)
            raise

    @staticmethod
    def _check_vacant(folder: Path, overwrite: bool) -> None:
        """Raises RunError where a new run would replace what it must not."""
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder}: is a file; choose another --out")
        if folder.exists() and any(folder.iterdir()):
            if not overwrite:
                raise RunError(
                    f"{folder}: exists; `equipoise resume {folder}`, or --overwrite, "
                    "or another --out"
                )
            if not (folder / "config.yaml").exists():
                raise RunError(
                    f"{folder}: is not a run directory, so it is not overwritten; "
                    "choose another --out"
                )

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[RunDirectory]:
        """The run in `folder`, locked against a second process.

        Raises RunError when it is none, busy or too new.
        """
        with cls.read(folder) as run, _locked(folder):
            run.config  # noqa: B018  a fault of the configuration is found before all else
            run._drop_unfinished_metrics()
            yield run

    @classmethod
    @contextmanager
    def read(cls, folder: Path) -> Iterator[RunDirectory]:
        """The run in `folder` for reading only; allowed while another process runs it."""
        path = folder / "config.yaml"
        if not path.is_file():
            raise RunError(f"{folder}: no run here (config.yaml is missing)")
        with Ledger.open(folder / "ledger.sqlite") as ledger:
            yield cls(folder, renamed(recipes.read(path)), ledger)

    def allow(self, overrides: recipes.Overrides) -> None:
        """Change settings that decide how far and how a run may go, not what it
        computes, and keep them in config.yaml.

        Raises ConfigError for any other setting: the records made so far would not
        belong to it.
        """
        path = self.folder / "config.yaml"
        values = renamed(recipes.read(path))
        origins = recipes.override(values, overrides)
        for key, origin in origins.items():
            if not set(key.split(".")) & FREE:
                raise ConfigError(
                    f"{origin}: would change what the run computes; once it has "
                    "begun, only these may change: "
                    f"{', '.join(sorted(FREE))}. Start a new run for anything else"
                )
        self.config = recipes.build(values, str(path), origins)
        self.settings = values
        draft = self.folder / ".config.yaml"
        draft.write_text(self.config.yaml(), encoding="utf-8")
        draft.rename(path)

    def metric(self, stage: str, **numbers: Any) -> None:
        """Append one line to metrics.jsonl."""
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"stage": stage, **numbers}) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl; a last line cut short by a crash is left out."""
        path = self.folder / "metrics.jsonl"
        lines = (
            path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        )
        return [json.loads(line) for line in lines]

    def _drop_unfinished_metrics(self) -> None:
        """Forget what an interrupted stage had logged; the stage will log it again."""
        done = {key for key, *_ in self.ledger.stages()}
        kept = [
            json.dumps(line) + "\n" for line in self.metrics() if line["stage"] in done
        ]
        draft = self.folder / ".metrics.jsonl"
        draft.write_text("".join(kept), encoding="utf-8")
        draft.rename(self.folder / "metrics.jsonl")


def is_running(folder: Path) -> bool:
    """Whether a process holds the run's lock."""
    try:
        with (folder / ".lock").open() as file:
            lock(file, shared=True, wait=False)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_empty(folder: Path) -> bool:
    """Whether nothing was played, nor paid for, in the run."""
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        return not ledger.has_begun()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the run's lock; the system frees it when the process ends, however it ends."""
    with (folder / ".lock").open("a+") as file:
        try:
            lock(file, wait=False)
        except BlockingIOError as error:
            file.seek(0)
            raise RunError(
                f"{folder}: in use by another process ({file.read().strip() or 'unknown'})"
            ) from error
        file.truncate(0)
        file.write(f"pid {os.getpid()}")
        file.flush()
        yield
