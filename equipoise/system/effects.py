"""Effects of settings on the world, declared in their types, and collected from a configuration.

    class Mine(Judge):
        words: ReadPath                     # a file that it reads
        label: Text = ""                    # no effect
        options: dict[Text, float] = {}     # likewise

Numbers, truth values and `Literal`s need no declaration. A text, path or mapping of Equipoise's
own settings must have one; of a user's part it counts as given to foreign code. A declaration holds
for everything below it: `Annotated[dict[str, Any], PASSED_ON]`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path, PurePath
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel

from equipoise.system.plugins import plugin_table
from equipoise.system.user_parts import file_hash, is_users

PACKAGE = Path(__file__).resolve().parents[1]
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".txt")  # no hub id ends so
RENDEZVOUS = "main_process_ip"  # accelerate's name for where processes meet
LONGEST = 300  # characters of a value that a note shows

S = TypeVar("S", bound=BaseModel)
Verb = Literal["nothing", "reads", "fetches", "writes", "shows", "sends", "key", "executes"]
VERBS: Mapping[str, str] = {
    "executes": "executes: code, commands, what other programs are given",
    "sends": "sends texts or numbers",
    "key": "sends the key in this variable with them",
    "fetches": "reads a model or data, from a folder or the hub",
    "reads": "reads a file",
    "writes": "writes a file",
    "shows": "lets other users of the machine read the run",
}
"""The effects there are, in the words of docs/trust.md."""


@dataclass(frozen=True)
class DeclaredEffect:
    """A declaration. `says`: the note, with {} for the value; `only`: a pattern of the values that
    have the effect; `packaged`: whose names are Equipoise's own, without effect; `quiet`: without a
    note in one's own run.
    """

    verb: Verb
    says: str = ""
    only: str = ""
    packaged: Literal["", "texts", "models", "adapters"] = ""
    quiet: bool = False


NOTHING = DeclaredEffect("nothing")
READS = DeclaredEffect("reads", "reads {}")
WRITES = DeclaredEffect("writes", "writes {}")
SHOWS = DeclaredEffect("shows", "lets other users of this machine read the run", quiet=True)
MODEL = DeclaredEffect("fetches", "the model {}", packaged="models")
DATA = DeclaredEffect("fetches", "the data {}")
EXECUTES = DeclaredEffect("executes", "runs code that is not Equipoise's: {}")
COMMAND = DeclaredEffect("executes", "runs the command {}")
MODEL_CODE = DeclaredEffect("executes", "runs the code in the model {}")
SENDS = DeclaredEffect("sends")
KEY = DeclaredEffect("key")

Text = Annotated[str, NOTHING]
ReadPath = Annotated[str, READS]
TemplateText = Annotated[str, DeclaredEffect("reads", "reads {}", packaged="texts")]
Model = Annotated[str, MODEL]
Adapter = Annotated[str, DeclaredEffect("fetches", "the adapter {}", packaged="adapters")]
Url = Annotated[str, SENDS]
Code = Annotated[str, EXECUTES]
# transformers fetches and runs a kernel that is named as `owner/name`.
Attention = Annotated[str, DeclaredEffect("executes", "runs the attention kernel {}", only="/")]


def effect_in(to: str, only: str = "") -> DeclaredEffect:
    """The declaration of settings that another program takes as they are."""
    return DeclaredEffect("executes", f"passes on to {to}: {{}}", only, quiet=True)


@dataclass(frozen=True)
class Effect:
    """What one setting does: the verb, the thing as it is shown, and the setting's dotted name.

    `identity` is what is signed of the thing: of a path in the starting folder, that in it.
    """

    verb: str
    what: str
    setting: str
    note: str
    identity: str
    is_part: bool = False
    """Whether it is the import of a user's part or function."""
    quiet: bool = False
    """Whether one's own run does it without a note."""


@dataclass(frozen=True)
class Effects:
    """All effects of a configuration; those of `Equipoise` alone are none."""

    all: tuple[Effect, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def notes(self, quiet: bool = False) -> tuple[str, ...]:
        """One line for each; `quiet`: of what one's own run should say, code and addresses."""
        shown = (effect for effect in self.all if not (quiet and effect.quiet))
        return tuple(dict.fromkeys(effect.note for effect in shown))

    def without_parts(self) -> Effects:
        """The effects where no part of a user's is imported."""
        return Effects(tuple(effect for effect in self.all if not effect.is_part))

    def signed(self) -> list[tuple[str, ...]]:
        """What a signature covers: every effect, in an order of its own."""
        return sorted((each.verb, each.identity, each.setting) for each in self.all)


# -- declarations of a type


def undeclared(kind: Any) -> bool:
    """True if a type has a text, path or mapping that declares nothing, settings apart."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        return not any(isinstance(note, DeclaredEffect) for note in notes) and undeclared(inner)
    if get_origin(kind) is Literal:
        return False
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return False
    if arguments := [each for each in get_args(kind) if each is not Ellipsis]:
        return any(undeclared(each) for each in arguments)
    return kind not in (int, float, bool, date, type(None))


def declared(kind: Any) -> Iterator[DeclaredEffect]:
    """The declarations in a type, outermost first, settings' own left out."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        yield from (note for note in notes if isinstance(note, DeclaredEffect))
        yield from declared(inner)
    else:
        for each in get_args(kind):
            yield from declared(each)


def type_of(part: type[BaseModel], name: str) -> Any:
    """The type of a setting with the declarations in it."""
    info = part.model_fields[name]
    kind: Any = info.annotation
    for note in info.metadata:
        if isinstance(note, DeclaredEffect):
            kind = Annotated[kind, note]
    return kind


# -- effects of a configuration


def effects_of(settings: BaseModel, home: Path, own: Path | None = None) -> Effects:
    """The effects of validated settings and of all below them.

    `home`: the folder of relative paths; `own`: the run's folder, in which reading has no effect.
    """
    return Effects(tuple(dict.fromkeys(_Walk(home.resolve(), own).settings(settings, ""))))


def code_hash(settings: BaseModel) -> str:
    """A hash of the files of all users' parts and functions in settings; "" where there are none.

    Files are found as they are imported: in the current folder, too.
    """
    parts = {each.what for each in effects_of(settings, Path.cwd()).all if each.is_part}
    files = [[path, code] for path in sorted(parts) if (code := file_hash(path))]
    return hashlib.blake2b(json.dumps(files).encode(), digest_size=6).hexdigest() if files else ""


def with_whole_paths(part: S, home: Path) -> S:
    """The settings with whole paths for those that are relative to `home` and are there."""
    walk = _Walk(home.resolve(), None)
    kind = type(part)
    values = {name: getattr(part, name) for name in kind.model_fields}
    changes = {
        name: walk.with_whole_paths(type_of(kind, name), value) for name, value in values.items()
    }
    return part.model_copy(update=changes)


@dataclass
class _Group:
    """Values with their declarations in one group of settings."""

    values: list[tuple[DeclaredEffect, Any, str]] = field(default_factory=list)

    def texts(self, *effect: DeclaredEffect) -> list[str]:
        return [text for each, value, _ in self.values if each in effect for text in _texts(value)]


@dataclass
class _Walk:
    home: Path
    own: Path | None

    def settings(self, part: BaseModel, where: str) -> Iterator[Effect]:
        """The effects of a group of settings, and of the groups in it."""
        group = _Group()
        kind = type(part)
        path = getattr(kind, "STANDS_FOR", "") or f"{kind.__module__}:{kind.__qualname__}"
        if is_users(path):
            yield from self._code(path, where)
        unknown = DeclaredEffect("executes", f"passes on to {path}: {{}}")
        inner: list[tuple[BaseModel, str]] = []
        for name in kind.model_fields:
            if name == "kind":
                continue
            at = f"{where}.{name}".lstrip(".")
            for effect, value, place in _values(type_of(kind, name), getattr(part, name), at):
                if effect is None and isinstance(value, BaseModel):
                    inner.append((value, place))
                else:
                    group.values.append((effect or unknown, value, place))
        for name, value in (part.model_extra or {}).items():
            group.values.append((unknown, value, f"{where}.{name}".lstrip(".")))
        for effect, value, place in group.values:
            yield from self._of_value(effect, value, place, group)
        for below, place in inner:
            yield from self.settings(below, place)

    def _of_value(
        self, effect: DeclaredEffect, value: Any, at: str, group: _Group
    ) -> Iterator[Effect]:
        if effect.verb in ("nothing", "key") or value is None or value is False:
            return
        if effect == MODEL_CODE:
            for model in group.texts(MODEL):
                note = effect.says.format(printable(model))
                yield Effect("executes", model, at, note, f"code of {model}")
        elif effect == EXECUTES:
            for path in _texts(value):
                yield from self._code(path, at)
        elif effect.verb == "executes":
            yield from _plain(effect, value, at)
            yield from _cluster(value, at)
        elif effect.verb == "shows":
            yield from _plain(effect, value, at)
        else:
            for text in _texts(value):
                yield from self._of_text(effect, text, at, group)

    def _of_text(
        self, effect: DeclaredEffect, text: str, at: str, group: _Group
    ) -> Iterator[Effect]:
        if text in packaged(effect.packaged) or not re.search(effect.only, text):
            return
        if effect.verb == "sends":
            yield _send(effect, text, at, group)
        elif effect.verb == "fetches" and self._is_hub_id(text):
            note = f"fetches {effect.says.format(printable(text))} from the hub ({at})"
            yield Effect("fetches", text, at, note, text, quiet=True)
        else:
            path = (self.home / Path(text).expanduser()).resolve()
            if effect.verb != "writes" and self._is_ours(path):
                return
            says = effect.says if effect.verb != "fetches" else f"reads {effect.says}"
            within = path.relative_to(self.home) if path.is_relative_to(self.home) else path
            note = f"{says.format(printable(str(path)))} ({at})"
            yield Effect(effect.verb, str(path), at, note, str(within), quiet=True)

    def with_whole_paths(self, kind: Any, value: Any) -> Any:
        """A value of a setting of this type, with whole paths."""
        if isinstance(value, BaseModel):
            return with_whole_paths(value, self.home)
        if isinstance(value, Mapping):
            return {key: self.with_whole_paths(kind, inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.with_whole_paths(kind, inner) for inner in value)
        if isinstance(value, str | PurePath):
            for effect in declared(kind):
                if effect.verb in ("reads", "fetches"):
                    return type(value)(self.whole(effect, str(value)))
        return value

    def whole(self, effect: DeclaredEffect, text: str) -> str:
        """The whole path of what a text names, the text itself where it is no path that is here."""
        path = (self.home / Path(text).expanduser()).resolve()
        return text if text in packaged(effect.packaged) or not path.exists() else str(path)

    def _is_hub_id(self, text: str) -> bool:
        if (
            text.startswith((".", "~"))
            or text.endswith(FILES)
            or (self.home / Path(text).expanduser()).exists()
        ):
            return False
        return bool(HUB_ID.fullmatch(text)) or (text.endswith(".gguf") and text.count("/") == 2)

    def _is_ours(self, path: Path) -> bool:
        """True for what is packaged or in the run's own folder, with no link out of it."""
        if path.is_relative_to(PACKAGE):
            return True
        if self.own is None or not path.is_relative_to(self.own.resolve()) or not path.exists():
            return False
        links = (each for each in path.rglob("*") if each.is_symlink())
        return all(link.resolve().is_relative_to(self.own.resolve()) for link in links)

    def _code(self, path: str, at: str) -> Iterator[Effect]:
        says = EXECUTES.says if is_users(path) else "runs the function {}"
        note = says.format(printable(path))
        yield Effect("executes", path, at, note, path, is_part=True, quiet=not is_users(path))


def _plain(effect: DeclaredEffect, value: Any, at: str) -> Iterator[Effect]:
    """The effect of a value that is shown as it is: a command, options."""
    texts = list(_texts(value))
    is_mapping = isinstance(value, Mapping)
    if not (texts or (is_mapping and value) or value is True):
        return
    shown = value if isinstance(value, str) else json.dumps(value, default=str)
    if effect == COMMAND:
        shown = " ".join(texts)
    if re.search(effect.only, shown):
        note = f"{effect.says.format(printable(shown))} ({at})"
        yield Effect(effect.verb, shown, at, note, shown, quiet=effect.quiet)


def _cluster(value: Any, at: str) -> Iterator[Effect]:
    """The machines that processes join where another program's options name them."""
    if isinstance(value, Mapping) and value.get(RENDEZVOUS):
        to = f"{value[RENDEZVOUS]}:{value.get('main_process_port') or 'any port'}"
        note = f"joins the processes at {printable(to)} ({at}.{RENDEZVOUS})"
        yield Effect("sends", to, f"{at}.{RENDEZVOUS}", note, to)


def _send(effect: DeclaredEffect, text: str, at: str, group: _Group) -> Effect:
    """What goes to an address, how, and who receives it."""
    if effect.says:
        note = f"{effect.says.format(printable(text))} ({at})"
        return Effect("sends", text, at, note, text, quiet=effect.quiet)
    keys = group.texts(KEY)
    content = f"texts and the key in {' and '.join(keys)}" if keys else "texts"
    to = address(text)
    plain = ", unencrypted" if text.lower().startswith("http:") else ""
    note = f"sends {content} to {to}{plain}"
    here = not keys and urlsplit(text).hostname in ("127.0.0.1", "::1", "localhost")
    return Effect("sends", to, at, note, json.dumps([text, keys]), quiet=here)


def address(url: str) -> str:
    """Scheme, host and port of an address, the host as it is asked for (no look-alike letters)."""
    parts = urlsplit(url)
    if not parts.netloc:
        return printable(url)
    host = parts.netloc.rpartition("@")[2]
    if not host.isascii():
        host = host.encode("idna", "replace").decode()
    return printable(f"{parts.scheme}://{host}")


def printable(text: str) -> str:
    """The text without control characters, cut where it is long."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"


def _values(kind: Any, value: Any, at: str) -> Iterator[tuple[DeclaredEffect | None, Any, str]]:
    """Each value that a type declares with its declaration; None for settings and undeclared."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        effect = next((note for note in arguments[1:] if isinstance(note, DeclaredEffect)), None)
        if effect is not None:
            yield effect, value, at
        else:
            yield from _values(arguments[0], value, at)
    elif isinstance(value, BaseModel):
        yield None, value, at
    elif origin is Literal:
        return
    elif isinstance(value, Mapping | list | tuple) and undeclared(kind) and not _settings(value):
        if any(_texts(value)):
            yield None, value, at
    elif origin in (Union, UnionType):
        arm = next((each for each in arguments if _fits(each, value)), Any)
        yield from _values(arm, value, at)
    elif isinstance(value, Mapping) and len(arguments) == 2:
        for key, inner in value.items():
            yield from _values(arguments[0], key, at)
            yield from _values(arguments[1], inner, f"{at}.{key}")
    elif isinstance(value, list | tuple) and arguments:
        several = origin is tuple and arguments[-1] is not Ellipsis
        for i, inner in enumerate(value):
            each = arguments[i] if several and i < len(arguments) else arguments[0]
            yield from _values(each, inner, at)
    elif isinstance(value, Mapping) or any(_texts(value)):
        yield None, value, at


def _settings(values: Any) -> bool:
    """True if there are settings among values."""
    inner = values.values() if isinstance(values, Mapping) else values
    return any(isinstance(each, BaseModel) for each in inner)


def _fits(kind: Any, value: Any) -> bool:
    """True if a value can be of one type of several."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _fits(get_args(kind)[0], value)
    if origin is Literal:
        return any(value is each or value == each for each in get_args(kind))
    plain = origin or kind
    return plain is Any or (isinstance(plain, type) and isinstance(value, plain))


def _texts(value: Any) -> Iterator[str]:
    """Every text and path in a value, keys of mappings included."""
    if isinstance(value, str | PurePath):
        yield str(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, Iterable) and not isinstance(value, bytes | BaseModel):
        for inner in value:
            yield from _texts(inner)


@cache
def packaged(what: Literal["", "texts", "models", "adapters"]) -> frozenset[str]:
    """The names of Equipoise's own templates, models or adapters; "": none."""
    if not what:
        return frozenset()
    if what == "texts":
        return frozenset(file.stem for file in PACKAGE.rglob("texts/*.txt"))
    return frozenset(plugin_table(what.upper()))
