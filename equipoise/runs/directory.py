"""A run directory is the run: create it, open it, lock it, keep its metrics.

config.yaml     the resolved configuration
ledger.sqlite   every record
players/NAME/GENERATION/   a standard PEFT adapter or save_pretrained model, or policy.json
                           of a tabular player; README.md is its model card
metrics.jsonl   one line a measurement, each with the stage that wrote it; for those who
                watch: the ledger has the lines of finished stages
report.html     written when the run ends, or by `equipoise report`
logs/           what went wrong, with tracebacks; the files of trackers
people/         what people said of answers, and how they played (docs/serving.md)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

import msgspec

from equipoise import __version__
from equipoise.component import FREE, Component, fixed_settings, nearest
from equipoise.errors import ConfigError, RunBusy, RunError, UserError, shorten
from equipoise.ledger.database import BESIDE, FOLDER, check_files, damaged_records, noted, place_of
from equipoise.ledger.ledger import Ledger
from equipoise.ledger.votes_and_matches import adopt
from equipoise.players.base import Player
from equipoise.runs import consent, recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.system.effects import Effects, effects_of, with_whole_paths
from equipoise.system.files import sync_tree
from equipoise.system.folder import DRAFT, Folder, make_folder
from equipoise.system.locks import check_locks, check_writable, hold_lock, lock
from equipoise.system.user_parts import may_name_code, only_reading
from equipoise.system.yaml_text import check_plain, parse_yaml

LEDGER = "ledger.sqlite"
SETTINGS = "settings"  # the ledger's note of config.yaml as it was at the start
PENDING = "pending"  # its note of a changed config.yaml, until that is written
NAMES = (
    r"(config\.yaml|ledger\.sqlite(-wal|-shm|-journal)?|metrics\.jsonl|(report|leaderboard)\.html"
    r"|players|logs|people|best_responses|harness)"
)
MADE = re.compile(rf"{NAMES}|\.({NAMES}|files){DRAFT}|\.lock|\.nfs\w+|\.fuse_hidden\w+")
"""The names of files and folders that runs make, of their drafts, and of disks' own leftovers."""
C = TypeVar("C", bound=Component)
UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What reading raises where single records are in order, and do not fit together."""
Announce = Callable[[Sequence[str]], None]


class RunDirectory:
    """An open run directory; `create`, `open` and `read` are context managers."""

    def __init__(
        self,
        files: Folder,
        settings: Mapping[str, Any],
        ledger: Ledger,
        notes: tuple[str, ...] = (),
    ) -> None:
        """`settings`: the contents of config.yaml; `notes`: warnings for whoever begins the run."""
        self.files = files
        self.folder = files.path
        self.settings = settings
        self.ledger = ledger
        self.notes = notes
        self._plays = False  # whether a user's own parts are imported
        self._writable = False
        self._check_lock: Callable[[], None] = lambda: None
        self._home: Path | None = None  # where relative paths belong instead of the starting folder

    @cached_property
    def config(self) -> RunConfig:
        """The settings as components, made when they are first asked for. Raises ConfigError.

        Where the run is only read, stand-ins take the places of a user's own parts
        (`system.user_parts`).
        """
        source = str(self.folder / "config.yaml")
        if self._plays:
            return recipe_loader.build(self.settings, source)
        with only_reading(consent.read_parts(self.ledger)):
            return recipe_loader.build(self.settings, source)

    def effects(self, home: Path | None = None) -> Effects:
        """The effects of playing the run; nothing is imported to know them.

        `home`: the folder of relative paths, None: where the run was started.
        """
        config: RunConfig | None = vars(self).get("config")
        if config is None or may_name_code(self.settings):
            with only_reading():
                config = recipe_loader.build(self.settings, str(self.folder / "config.yaml"))
        return effects_of(config, home or self._parts_home(), self.folder)

    def _parts_home(self) -> Path:
        return self._home or self._starting_folder() or Path.cwd()

    def agree(self, trust: bool, announce: Announce) -> None:
        """Announce the run's effects, then let its own parts be imported. Raises RunError."""
        effects = self.effects()
        announce(consent.check_consent(self.ledger, effects, trust, self._writable))
        edited = consent.edited_parts(self.ledger, effects, self._parts_home())
        announce([str(each) for each in edited])
        self._plays = True
        vars(self).pop("config", None)

    def goes_on(self) -> None:
        """Record with which files of a user's parts the run is played from here."""
        consent.record_files(self.ledger, self.effects(), self._parts_home())

    def agree_without_parts(self, trust: bool) -> tuple[str, ...]:
        """Allow the run's effects where none of its own parts is imported; notes for the user.

        Raises RunError for somebody else's run with such effects, where `trust` is false.
        """
        effects = self.effects()
        remaining = effects.without_parts()
        if not remaining:
            return ()
        consent.check_consent(self.ledger, effects, trust, remember=False)
        return remaining.notes(quiet=True)

    def recorded_part(self, room: type[C], settings: Mapping[str, Any], name: str) -> C:
        """A part that the ledger names, with stand-ins for a user's own; `name` is for messages.

        Raises RunError where it has effects, and the run is somebody else's and not trusted.
        """
        with only_reading():
            part = recipe_loader.component(room, settings, [], name)
        effects = effects_of(part, Path.cwd(), self.folder)
        if effects and not (self._plays or self.is_own):
            raise RunError(consent.question(self.ledger, effects))
        return part

    def demand_trust(self) -> None:
        """Raise RunError where the run has effects, is somebody else's and is not trusted."""
        if not self._plays:
            consent.check_consent(self.ledger, self.effects(), trust=False)

    @property
    def is_own(self) -> bool:
        """True if this user began the run here, or agreed to it."""
        return consent.is_own(self.ledger, self.effects())

    def players_anywhere(self) -> dict[str, Player]:
        """The players as they play, with whole paths, so that they open from any folder."""
        home = self._starting_folder() or Path.cwd()
        return {
            name: with_whole_paths(player, home) for name, player in self.config.playing.items()
        }

    def from_anywhere(self, part: C) -> C:
        """A part of the run's configuration that opens its files in the current folder, too.

        In the starting folder it stays as it is, and so does its name in the ledger.
        """
        home = self._starting_folder() or Path.cwd()
        return part if home.samefile(Path.cwd()) else with_whole_paths(part, home)

    @classmethod
    @contextmanager
    def create(
        cls,
        config: RunConfig,
        folder: Path,
        overwrite: bool = False,
        command: str = "",
        meta: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        option: str = "--out",
    ) -> Iterator[RunDirectory]:
        """A new run in `folder` of a configuration that `check_run` has checked.

        `command`: what the user gave to make it; `meta`: more that its ledger notes; `notes`:
        warnings for whoever begins it; `option`: as `check_vacant` takes it. Raises RunError as
        that does. A user's mistake before the first match leaves no folder.
        """
        there = cls.check_vacant(folder, overwrite, config.ledger, option)
        if folder.is_dir():
            with cls.hold_lock(folder):
                delete(folder)
        write_new_folder(config, folder, there, command, meta or {})
        try:
            with cls._open(folder, reading=False) as run, cls.hold_lock(folder) as run._check_lock:
                vars(run)["config"] = config  # what config.yaml gives again
                run.notes = tuple(notes)
                run._plays = run._writable = True
                effects = run.effects()
                consent.check_consent(run.ledger, effects, trust=True)
                run.goes_on()
                consent.record_parts(run.ledger, config.every_part())
                run._restore_metrics()
                yield run
        except UserError:
            with Ledger.open(folder / LEDGER) as ledger:
                has_begun = ledger.has_begun()
            if not has_begun:
                delete(folder)
            raise

    @staticmethod
    def check_vacant(
        folder: Path, overwrite: bool, ledger: str | None, option: str = "--out"
    ) -> Path | None:
        """The place of a new run's ledger outside `folder`, None for inside.

        `option`: with which the user named the folder, for messages. Raises RunError where the run
        would replace what it must not, or cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder}: is a file; choose another {option}")
        if folder.is_symlink():
            raise RunError(f"{folder}: is a link; give the folder itself, or another {option}")
        if folder.exists() and any(folder.iterdir()):
            if not overwrite:
                raise RunError(
                    f"{folder}: exists; `equipoise resume {folder}`, or --overwrite, "
                    f"or another {option}"
                )
            parts = (folder / "config.yaml", folder / LEDGER)
            if not all(os.path.lexists(part) for part in parts):
                raise RunError(
                    f"{folder}: is not a run directory, so it is not overwritten; "
                    f"choose another {option}"
                )
            foreign = sorted(path.name for path in folder.iterdir() if not is_made(path))
            if foreign:
                raise RunError(
                    f"{folder}: holds what no run makes: {shorten(', '.join(foreign))}; move it "
                    f"elsewhere, or choose another {option}"
                )
        try:
            check_writable(folder.absolute().parent)
        except RunError as error:
            raise RunError(f"{error}; choose another {option}") from error
        check_locks()
        if ledger is None:
            return None
        there = Path(ledger).expanduser().absolute()
        if os.path.lexists(there) and own_ledger_elsewhere(folder) != there:
            raise RunError(f"ledger: {there} is there already; name another file")
        check_writable(there.parent)
        return there

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        trust: bool = False,
        announce: Announce = lambda notes: None,
        home: Path | None = None,
    ) -> Iterator[RunDirectory]:
        """The run in `folder`, to be played, locked against a second process.

        `announce` gets what the user should know before the run's own parts are imported; `home` is
        the folder of relative paths, None: where the run was started. Raises RunError when it is
        none, busy, damaged or too new, and for what `trust` does not allow.
        """
        with cls._open(folder, reading=False) as run, cls.hold_lock(folder) as run._check_lock:
            run._writable = True
            run._home = home
            run.ledger.check_rows()
            run.take_up_change()
            check_unchanged(folder / "config.yaml", run.settings, run.ledger)
            run.agree(trust, announce)
            consent.record_parts(run.ledger, run.config.every_part())
            run._restore_metrics()
            adopt(folder, run.ledger, run.config.utility)
            yield run

    @classmethod
    @contextmanager
    def in_home_folder(
        cls, folder: Path, directory: Path | None, announce: Announce
    ) -> Iterator[None]:
        """Make the folder that the run's relative paths belong to the current one.

        `directory`: None for where the run was started; where that is gone, the current one, which
        is announced. Raises RunError where `directory` is no folder.
        """
        if directory is not None and not directory.is_dir():
            raise RunError(f"--directory {directory}: is no folder")
        with cls.read(folder) as run:
            home = directory or run._starting_folder()
            started = run.ledger.meta("directory")
        if home is None:
            announce(
                (
                    f"was started in {started}, which is not here; relative paths belong to "
                    "this folder now (--directory names another)",
                )
            )
            home = Path.cwd()
        with chdir(home):
            yield

    def settle_here(self) -> None:
        """Make the current folder the one that relative paths belong to, from now on."""
        agreed = consent.has_consent(self.ledger, self.effects())
        self.ledger.note("directory", str(Path.cwd()))
        if agreed:
            consent.sign(self.ledger, self.effects())

    @staticmethod
    @contextmanager
    def hold_lock(folder: Path) -> Iterator[Callable[[], None]]:
        """Hold the run's lock. Raises RunBusy where another process holds it, and so does what is
        yielded, where one has taken it over.
        """

        def busy(holder: str) -> RunError:
            return RunBusy(f"{folder}: in use by another process ({holder})")

        with Folder.open(folder) as files, hold_lock(files, busy) as check:
            yield check

    @classmethod
    @contextmanager
    def read(cls, folder: Path, trust: bool = False) -> Iterator[RunDirectory]:
        """The run in `folder` for reading, while it runs or on a read-only disk too.

        No code of a user's runs, unless `trust` says that it may.
        """
        with cls._open(folder, reading=True) as run:
            run._plays = trust
            yield run

    @classmethod
    @contextmanager
    def _open(cls, folder: Path, *, reading: bool) -> Iterator[RunDirectory]:
        """The run's settings and records. Raises RunError for damaged ones, whenever that shows."""
        path = folder / "config.yaml"
        if not os.path.lexists(path):
            raise RunError(f"{folder}: no run here (config.yaml is missing){_meant(folder)}")
        with (
            open_files(folder) as files,
            damaged_records(folder),
            Ledger.open(folder / LEDGER, reading=reading) as ledger,
        ):
            run = cls(files, recipe_loader.read_resolved(path), ledger)
            try:
                yield run
            except UNFIT as error:
                if not reading or isinstance(error, UserError | msgspec.DecodeError):
                    raise
                frame = extract_tb(error.__traceback__)[-1]
                raise RunError(
                    f"{folder}: cannot be read; its records do not fit together "
                    f"({type(error).__name__}: {shorten(str(error))}, in "
                    f"{Path(frame.filename).name}, line {frame.lineno})"
                ) from error

    def first_addresses(self) -> dict[tuple[str, str], str]:
        """(address, model) of each endpoint -> the address that the run began with.

        Left out where endpoints of one model came together at an address: theirs is the new one.
        """
        began = recorded_settings(self.ledger)
        now = self.config.model_dump(mode="json")
        first: dict[tuple[str, str], set[str]] = {}
        for address, before in _moves(began, now):
            first.setdefault(address, set()).add(before)
        return {address: before.pop() for address, before in first.items() if len(before) == 1}

    def in_starting_folder(self) -> AbstractContextManager[Any]:
        """Make the folder of the run's relative paths the current one, unless it is gone."""
        home = self._starting_folder()
        return chdir(home) if home else nullcontext()

    def _starting_folder(self) -> Path | None:
        """The folder that the run was started in, None where that is not here."""
        home = Path(self.ledger.meta("directory"))
        return home if home.is_absolute() and home.is_dir() else None

    def take_up_change(self) -> None:
        """Write the configuration that the ledger has noted into config.yaml, if it has any."""
        text = self.ledger.meta(PENDING)
        if not text:
            return
        self.files.write("config.yaml", text)
        self.ledger.note(PENDING, "")
        self.settings = recipe_loader.read_resolved(self.folder / "config.yaml")
        vars(self).pop("config", None)

    def metric(self, stage: str, **numbers: Any) -> None:
        """Keep a line in metrics.jsonl at once, in the ledger once its stage is recorded."""
        self._check_lock()
        self.ledger.log(stage, numbers)
        line = json.dumps({"stage": stage, **numbers}) + "\n"
        with self.files.open_to_append("metrics.jsonl") as file:
            file.write(line.encode())

    def metrics(self) -> list[dict[str, Any]]:
        """All logged lines, each with its stage: finished stages' from the ledger, then the file's.

        A last line cut short by a crash is left out. Raises RunError for a damaged one.
        """
        done = {key for key, *_ in self.ledger.stages()}
        recorded = [{"stage": key, **line} for key, line in self.ledger.metrics()]
        if f"{self.settings.get('generations')}/measure" in done:
            return recorded
        watched = self.read_metrics_file()
        return recorded + [line for line in watched if line["stage"] not in done]

    def read_metrics_file(self) -> list[dict[str, Any]]:
        """Lines of metrics.jsonl but a last one cut short; RunError for a damaged one."""
        path = self.folder / "metrics.jsonl"
        whole = self.files.read(path.name) if self.files.has(path.name) else b""
        texts = whole.split(b"\n")[:-1]
        lines = []
        for number, text in enumerate(texts, 1):
            try:
                lines.append({"stage": "", **json.loads(text)})
            except (ValueError, TypeError, RecursionError) as error:
                raise RunError(
                    f"{path}, line {number}: is damaged ({error}); `equipoise resume "
                    f"{self.folder}` writes the file anew from the ledger"
                ) from error
        return lines

    def _restore_metrics(self) -> None:
        """Write metrics.jsonl anew, without what an interrupted stage will log again."""
        lines = [json.dumps({"stage": key, **line}) + "\n" for key, line in self.ledger.metrics()]
        content = "".join(lines).encode()
        if not self.files.holds("metrics.jsonl", content):
            self.files.write("metrics.jsonl", content)


def write_new_folder(
    config: RunConfig, folder: Path, there: Path | None, command: str, meta: Mapping[str, str]
) -> None:
    """Write a new run's folder, with its ledger at `there` where that is given.

    The folder appears complete or not at all, so that a kill leaves nothing to repair, only a draft
    that the next creation removes.
    """
    folder_mode, ledger_mode = (0o777, 0o666) if config.readable_by_others else (0o700, 0o600)
    with (
        Folder.open(folder.absolute().parent, make=True) as parent,
        parent.draft_of(folder.name, folder_mode) as draft,
    ):
        place = there or draft / LEDGER
        make_folder(place.parent)
        text = config.yaml()
        (draft / "config.yaml").write_text(text, encoding="utf-8")
        notes = {
            SETTINGS: json.dumps(parse_yaml(text, "config.yaml")),
            FOLDER: str(folder.resolve()) if there else "",
        }
        Ledger.create(
            place,
            mode=ledger_mode,
            directory=str(Path.cwd()),
            command=command,
            version=__version__,
            **notes,
            **meta,
        ).close()
        if there is not None:
            (draft / LEDGER).symlink_to(there)
        sync_tree(draft)
        parent.rename(draft.name, folder.name)


def is_made(path: Path) -> bool:
    """True for what runs make in their folders, for links, and for empty folders."""
    made = MADE.fullmatch(path.name) is not None
    return made or path.is_symlink() or (path.is_dir() and not any(path.iterdir()))


def _meant(folder: Path) -> str:
    """A hint at the run that was meant, around or beside the folder or in `runs`, for messages."""
    above = [each for each in folder.parents if (each / LEDGER).is_file()]
    if above:
        return f"; did you mean '{os.path.relpath(above[0])}'?"
    if folder.suffix in (".yaml", ".yml") and folder.is_file():
        return f"; it is a recipe: equipoise run {os.path.relpath(folder)}"
    places = (folder.parent, folder.parent / "runs")
    runs = [path.parent for place in places for path in sorted(place.glob("*/ledger.sqlite"))]
    known = {str(os.path.relpath(run)): run.name for run in runs}
    same = [path for path, name in known.items() if name == folder.name]
    if same:
        return f"; did you mean '{same[0]}'?"
    return f"; {nearest(folder.name, list(known))}" if known else ""


def is_run(target: str | Path) -> bool:
    """Return True if it is the folder of a run."""
    return (Path(target) / LEDGER).is_file()


def named_run(target: str) -> tuple[str, str]:
    """The run's folder, which may have an @ of its own, and the player of `RUN@PLAYER…`, or ""."""
    parts = target.split("@")
    folders = ["@".join(parts[:n]) for n in range(len(parts), 0, -1)]
    folder = next(filter(is_run, folders), parts[0])
    return folder, target[len(folder) + 1 :]


@contextmanager
def open_files(folder: Path) -> Iterator[Folder]:
    """The run's folder, once all that is in it may be opened.

    Raises RunError, which names what is no plain file or folder, and a journal that names a file.
    """
    with Folder.open(folder) as files:
        files.check(but=(LEDGER,))
        if files.has(LEDGER):
            check_files(place_of(folder / LEDGER))
        yield files


def is_running(folder: Path) -> bool:
    """True if a process holds the run's lock."""
    try:
        with Folder.open(folder) as files, files.open_to_read(".lock") as file:
            lock(file, shared=True, wait=False)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def delete(folder: Path) -> None:
    """Delete a run, and its ledger elsewhere; of any other link, nothing but the link."""
    there = own_ledger_elsewhere(folder)
    if there is not None:
        for ending in BESIDE:
            there.with_name(there.name + ending).unlink(missing_ok=True)
    with Folder.open(folder.absolute().parent) as parent:
        parent.remove(folder.name)


def own_ledger_elsewhere(folder: Path) -> Path | None:
    """The file that the link `ledger.sqlite` names, if it is a ledger that was made for this run.

    It says so itself: anybody can make a link to a file of the user's.
    """
    link = folder / LEDGER
    if not link.is_symlink():
        return None
    there = folder.absolute() / link.readlink()
    if there.is_symlink() or not there.is_file():
        return None
    return there if noted(there, FOLDER) == str(folder.resolve()) else None


def recorded_settings(ledger: Ledger) -> dict[str, Any]:
    """The contents of config.yaml when the run began, {} where unknown. Raises RunError."""
    source = f"{ledger.path}, note '{SETTINGS}'"
    try:
        settings = json.loads(ledger.meta(SETTINGS, "{}"))
        check_plain(settings, source)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{source}: is damaged ({error})") from error
    if not isinstance(settings, dict):
        raise RunError(f"{source}: is damaged (it is no mapping)")
    return settings


def check_unchanged(path: Path, settings: Mapping[str, Any], ledger: Ledger) -> None:
    """Raise ConfigError if the file was edited: its records would be of two configurations."""
    recorded = recorded_settings(ledger)
    if fixed_settings(recorded) == fixed_settings(settings):
        return
    with only_reading():
        before = recipe_loader.build(recorded, "the ledger").model_dump(mode="json")
        now = recipe_loader.build(settings, str(path)).model_dump(mode="json")
    changes = list(_changes(fixed_settings(before), fixed_settings(now)))
    if changes:
        raise ConfigError(
            f"{path}: was edited since the run began, so its records would be of two "
            f"configurations: {'; '.join(changes)}. Put these back, or start a new run; "
            f"only {', '.join(sorted(FREE))} may change here. `equipoise resume {path.parent} "
            "-s generations=…` makes the run longer"
        )


def _changes(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Differences between two plain values, by key: `judge.model: 'a', was 'b'`."""
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{key}.{name}".lstrip(".")
            yield from _changes(before.get(name), now.get(name), inner)
    else:
        yield f"{key}: {_short(now)}, was {_short(before)}"


def _moves(before: Any, now: Any) -> Iterator[tuple[tuple[str, str], str]]:
    """((address, model), earlier address) of the endpoints in plain settings."""
    if isinstance(before, list) and isinstance(now, list):
        before = dict(enumerate(before))
        now = dict(enumerate(now))
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return
    if before.get("kind") == now.get("kind") == "endpoint":
        yield (now["base_url"], now["model"]), before["base_url"]
    for name in now:
        yield from _moves(before.get(name), now[name])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:79]}…"
