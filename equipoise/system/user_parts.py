"""A user's own parts, which a configuration names by import path, `package.module:name` or
`folder/file.py:name`: imported where a run is played, and nowhere else.

Where a run is only read, `only_reading` puts a stand-in for each. It has the part's settings and
what was recorded of the part when the run was played (the names in the room's `READ`); asked to do
anything, it raises RunError.
"""

import ast
import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pydantic
from pydantic import ConfigDict, PydanticUserError

from equipoise.errors import OwnPartError, RunError, first_line, out_of_memory
from equipoise.system.files import is_full
from equipoise.system.given_functions import absent
from equipoise.system.plugins import installed_kinds

OWN_PACKAGE = "equipoise."
OWN_DISTRIBUTIONS = ("equipoise", "equipoise_neighbours", "inspect_equipoise")
PACKAGE = os.path.realpath(Path(__file__).parents[1]) + os.sep
STANDARD_LIBRARY = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep
IMPORT_PATH = re.compile(r"[^\s:]+:\w+|.*\.py(:.*)?", re.DOTALL)
PYDANTIC = str(Path(pydantic.__file__).parent)
UNTYPED = re.compile(r"non-annotated attribute was detected: `(\w+) = (.*?)`\. All", re.DOTALL)
CODE = "__equipoise_hash__"  # in a user's module: that of its file as it was executed


@dataclass
class Reading:
    """Facts of users' parts by `fingerprint`; whether files that settings name may be read."""

    recorded: Mapping[str, Mapping[str, Any]]
    files: bool = False


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def only_reading(
    recorded: Mapping[str, Mapping[str, Any]] | None = None, *, files: bool = False
) -> Iterator[None]:
    """Within this context no user's part is imported; stand-ins take their places.

    `files`: settings may be read from files that they name, as those of one's own recipe may.
    """
    token = _reading.set(Reading(recorded or {}, files))
    try:
        yield
    finally:
        _reading.reset(token)


def may_read_files() -> bool:
    """False while somebody's resolved configuration is read, which needs no file beside it."""
    reading = _reading.get()
    return reading is None or reading.files


def is_only_read() -> bool:
    """True while configurations are made to be read, not to be played."""
    return _reading.get() is not None


def is_users(path: str) -> bool:
    """True if an import path leads out of this package."""
    return is_in_file(path) or not path.startswith(OWN_PACKAGE)


def may_name_code(values: Any) -> bool:
    """False where plain settings surely name no part of a user's: no import path, no plug-in."""
    if isinstance(values, str):
        is_own = values.startswith(OWN_PACKAGE)
        is_installed = any(values in kinds for kinds in installed_kinds().values())
        return is_installed or (IMPORT_PATH.fullmatch(values) is not None and not is_own)
    if isinstance(values, Mapping):
        return any(may_name_code(key) or may_name_code(inner) for key, inner in values.items())
    return isinstance(values, list | tuple) and any(map(may_name_code, values))


def is_in_file(path: str) -> bool:
    """True for what is named as `file.py:name` or `file.py`."""
    return path.rpartition(":")[0].endswith(".py") or path.endswith(".py")


def stays_unimported(path: str) -> bool:
    """True for a user's part while configurations are only read."""
    return is_only_read() and is_users(path)


def search_current_folder() -> None:
    """Find modules in the current folder too, after everything that is installed."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def import_module(path: str) -> ModuleType:
    """The module of an import path; a file is executed once as it stands. Raises ImportError.

    A user's file or module that was edited since is executed anew. A file's folder is searched for
    modules after everything else, as the current one is.
    """
    if not is_in_file(path):
        if reason := absent(path):
            raise ImportError(reason)
        name = path.partition(":")[0]
        return _users_module(name) if is_users(path) else importlib.import_module(name)
    file = Path(path.rpartition(":")[0] or path).expanduser().resolve()
    name, code = str(file), file_hash(path)
    if name not in sys.modules or sys.modules[name].__dict__.get(CODE, code) != code:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None or not file.is_file():
            raise ImportError(f"there is no file {file}")
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        setattr(module, CODE, code)
        try:
            # Not its compiled copy, which knows edits by the file's size and by whole seconds.
            exec(compile(file.read_bytes(), name, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _users_module(name: str) -> ModuleType:
    """A user's module by its dotted name, as its file stands."""
    search_current_folder()
    code = file_hash(f"{name}:")
    before = sys.modules.get(name)
    if before is not None and code and before.__dict__.setdefault(CODE, code) != code:
        if name == "__main__":
            return before
        del sys.modules[name]
        file = source_file(f"{name}:")
        # Its compiled copy knows edits by the file's size and by whole seconds alone.
        with suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    module = importlib.import_module(name)
    module.__dict__.setdefault(CODE, code)
    return module


def file_hash(path: str, home: Path = Path()) -> str:
    """A hash of the file of a user's part (`source_file`); "" where there is none to read."""
    file = source_file(path, home)
    return "" if file is None else hashlib.blake2b(file.read_bytes(), digest_size=6).hexdigest()


def source_file(path: str, home: Path = Path()) -> Path | None:
    """The file that `file.py:name`, below `home`, or `package.module:name` leads to; None where
    there is none, and for Equipoise's own and Python's own modules. Nothing is imported to find it.
    """
    if is_in_file(path):
        file = home / Path(path.rpartition(":")[0] or path).expanduser()
        return file if file.is_file() else None
    name = path.partition(":")[0]
    top, *inner = name.split(".")
    if top in OWN_DISTRIBUTIONS or top in sys.stdlib_module_names:
        return None
    if name == "__main__":
        file = Path(getattr(sys.modules[name], "__file__", None) or "")
        return file if file.is_file() else None
    spec = PathFinder.find_spec(top, [*sys.path, os.getcwd(), str(home)])
    if spec is None:
        with suppress(ImportError, ValueError, AttributeError):  # installed for development
            spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    found = [Path(spec.origin)] if spec.origin and spec.has_location else []
    if inner:
        stems = [Path(place, *inner) for place in spec.submodule_search_locations or ()]
        found = [stem / "__init__.py" for stem in stems]
        found += [stem.with_name(f"{stem.name}.py") for stem in stems]
    return next((file for file in found if file.is_file()), None)


def import_hint(path: str) -> str:
    """What may be meant instead of an import path that leads nowhere."""
    module, _, name = path.partition(":")
    file = f"{module.replace('.', '/')}.py"
    if is_in_file(path) or not is_users(path) or absent(path):
        return ""
    if Path(file).is_file():
        return f"; the file in this folder is named as {file}:{name}"
    return f"; looked among what is installed and in {os.getcwd()}"


def functions_in(file: str) -> list[str]:
    """The names of the public functions of a Python file, which is read and not executed.

    Raises ImportError where it cannot be read.
    """
    return definitions_in(file, ast.FunctionDef, ast.AsyncFunctionDef)


def definitions_in(file: str, *kinds: type[ast.stmt]) -> list[str]:
    """The public names that statements of these kinds define at the top of a Python file.

    Raises ImportError where it cannot be read.
    """
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
        statements = ast.parse(text, file).body
    except OSError as error:
        raise ImportError(f"{file}: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        raise ImportError(raised(error)) from error
    names = [str(getattr(each, "name", "_")) for each in statements if isinstance(each, kinds)]
    return [name for name in names if not name.startswith("_")]


def raised(error: BaseException, file: str = "") -> str:
    """An exception in a user's code on one line: type, message, file and line.

    The line is the last in `file`, or the last of all.
    """
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, PydanticUserError):
        frames = [frame for frame in frames if not frame.filename.startswith(PYDANTIC)]
    inside = [frame for frame in frames if frame.filename == file] or frames
    where = f" ({inside[-1].filename}, line {inside[-1].lineno})" if inside else ""
    if isinstance(error, PydanticUserError):
        return f"{class_fault(error)}{where}"
    return f"{type(error).__name__}: {error}{where}"


def class_fault(error: PydanticUserError) -> str:
    """The fault that pydantic finds in the definition of a class, and the text to write instead."""
    untyped = UNTYPED.search(error.message)
    if untyped is None:
        return error.message.splitlines()[0]
    name, value = untyped.groups()
    return (
        f"its class has `{name} = {value}` without a type; write `{name}: ClassVar = {value}` (of "
        f"typing), or for a setting `{name}: {type_name(value)} = {value}`"
    )


def type_name(value: str) -> str:
    """The type of a value that is given as Python shows it; TYPE where it is no plain one."""
    try:
        return type(ast.literal_eval(value)).__name__
    except (SyntaxError, ValueError):
        return "TYPE"


class NotImported:
    """In place of a user's function."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raises RunError."""
        raise not_run(self._path)


def not_run(path: str) -> RunError:
    """The error where something is asked of a part that was not imported."""
    return RunError(
        f"this needs '{path}', a part of the run's own, and nothing of a run's own is "
        "executed to read it; where you trust it, add --trust (in Python: trust=True)"
    )


def stand_in(room: type[Any], path: str) -> type[Any]:
    """A class of a room in place of the one at the import path."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise not_run(path)

    namespace: dict[str, Any] = {
        name: property(refuse) if isinstance(getattr(room, name), property) else refuse
        for name in room.__abstractmethods__
    }
    # A part may have defaults for what its room requires.
    required = [name for name, f in room.model_fields.items() if f.is_required()]
    namespace |= dict.fromkeys(required)
    values = {"STANDS_FOR": path}
    return _subclass(room, f"{room.__name__}StandIn", namespace, values, required)


def with_records(part: type[Any], settings: Mapping[str, Any]) -> type[Any]:
    """A stand-in with what was recorded of the part that has these settings."""
    reading = _reading.get()
    recorded = reading.recorded.get(fingerprint(settings), {}) if reading else {}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()
    }
    return _subclass(part, part.__name__, {}, values) if values else part


def _subclass(
    part: type[Any],
    name: str,
    namespace: dict[str, Any],
    values: Mapping[str, Any],
    optional: Iterable[str] = (),
) -> type[Any]:
    """A subclass that takes any settings and has these values as they are."""
    constants = dict.fromkeys(values, ClassVar[Any])
    metaclass: Any = type(part)
    return metaclass(
        name,
        (part,),
        {
            "__module__": __name__,
            "__doc__": f"In place of {part.__name__}.",
            "model_config": ConfigDict(extra="allow"),
            **namespace,
            **values,
            "__annotations__": {**dict.fromkeys(optional, Any), **constants},
        },
    )


def fingerprint(settings: Mapping[str, Any]) -> str:
    """One text for the same settings."""
    return json.dumps(settings, sort_keys=True, default=str)


def is_own_code(file: str) -> bool:
    """True for a file of code that is no library's."""
    parts = Path(file).parts
    installed = "site-packages" in parts or "dist-packages" in parts
    return not installed and not file.startswith(STANDARD_LIBRARY) and Path(file).is_file()


def own_part_error(error: Exception) -> OwnPartError | None:
    """The message of an error that a user's own part raised; None where no code of the user's ran,
    and where memory or the disk was full, which is no fault of a part.

    Code of the user's is what Equipoise called that lies neither in its own package nor where
    libraries are installed.
    """
    if out_of_memory(error) or is_full(error):
        return None
    called = False
    own: traceback.FrameSummary | None = None
    method = ""
    assert error.__traceback__ is not None
    for frame in traceback.extract_tb(error.__traceback__.tb_next):  # of what the caller called
        place = os.path.realpath(frame.filename)
        if place.startswith(PACKAGE):
            called = True
        elif called and is_own_code(place):
            own = frame
            if not frame.name.startswith("<"):  # a comprehension stands in a method
                method = frame.name
    if own is None:
        return None
    return OwnPartError(
        f"your own {own.filename}:{own.lineno}, in {method or own.name}(), raised "
        f"{type(error).__name__}: {first_line(error)}. Mend it there and go on; the records so far "
        "are kept"
    )
