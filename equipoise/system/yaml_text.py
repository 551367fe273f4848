"""YAML as configuration: read within limits, refused with the line at fault, and written.

Recipes, `config.yaml`, values of `-s` and all other YAML is read here. It holds what JSON could:
texts, finite numbers, yes and no, nothing, lists, and mappings whose keys are texts or whole
numbers, each of them once; aliases and `<<` are followed. The limits are far above what a person
writes, and keep a stranger's file from holding up the machine.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from equipoise.errors import ConfigError

LENGTH = 1_000_000  # characters
DEPTH = 64  # lists and mappings inside one another
NODES = 100_000  # values, with those that aliases repeat
DIGITS = 40  # of a whole number
BREAKS = frozenset("\r\x85\u2028\u2029")
TAG = "tag:yaml.org,2002:"


def parse_yaml(text: str, source: str) -> Any:
    """The value in a YAML text; None for an empty one.

    Raises ConfigError naming `source`, the line where there are several, and the key.
    """
    if len(text) > LENGTH:
        raise ConfigError(f"{source}: is longer than the {LENGTH:,} characters that are read")
    reader = _Reader()
    line = 1
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            line = event.start_mark.line + 1
            reader.take(event)
    except (yaml.YAMLError, UnicodeError) as error:
        hint = "; YAML is indented by spaces, not tabs" if "\n\t" in text else ""
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}{hint}") from error
    except _Unfit as error:
        place = f"{source}, line {line}" if "\n" in text.strip() else source
        raise ConfigError(": ".join(filter(None, (place, reader.key(), str(error))))) from None
    return reader.result


def read_yaml(path: Path, source: str = "") -> Any:
    """The value in a YAML file, which messages call `source` where that is given.

    Raises ConfigError for a file that cannot be read, and as `parse_yaml`.
    """
    source = source or str(path)
    try:
        if not path.is_file():
            raise ConfigError(f"{source}: no such file")
        with path.open("rb") as file:
            content = file.read(4 * LENGTH)
        return parse_yaml(content.decode(), source)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read ({error.strerror})") from error


def yaml_text(settings: Any) -> str:
    """Plain settings as they are written."""
    return yaml.dump(settings, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def check_plain(value: Any, source: str) -> None:
    """Raise ConfigError for what YAML may not hold either, in settings from Python or JSON."""
    waiting: list[tuple[str, Any, int]] = [("", value, 1)]
    nodes = 0
    while waiting:
        key, inner, depth = waiting.pop()
        nodes += 1
        try:
            _check_size(depth, nodes)
            _check_number(inner)
        except _Unfit as error:
            raise ConfigError(": ".join(filter(None, (source, key, str(error))))) from None
        if isinstance(inner, Mapping):
            named = [(f"{key}.{name}".lstrip("."), each) for name, each in inner.items()]
        elif isinstance(inner, list | tuple):
            named = [(f"{key}[{place}]", each) for place, each in enumerate(inner)]
        else:
            named = []
        waiting += ((name, each, depth + 1) for name, each in reversed(named))


class _Dumper(yaml.SafeDumper):
    """Puts texts with a line break other than \\n in quotes, which keep it."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """The text as a node."""
        quotes = '"' if set(data) & BREAKS else None
        return self.represent_scalar(f"{TAG}str", data, style=quotes)


_Dumper.add_representer(str, _Dumper.represent_str)


class _Unfit(Exception):  # noqa: N818
    """A value that is refused."""


def _check_size(depth: int, nodes: int) -> None:
    if depth > DEPTH:
        raise _Unfit(f"more than {DEPTH} lists and mappings inside one another")
    if nodes > NODES:
        raise _Unfit(f"more than {NODES:,} values, with those that aliases repeat")


def _check_number(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise _Unfit(f"{value} is no finite number")
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        raise _Unfit(f"a whole number of more than {DIGITS} digits")


class _Scalars(yaml.SafeLoader):
    """Tells what a plain word is; dates stay texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        letter: [pair for pair in pairs if pair[0] not in (f"{TAG}timestamp", f"{TAG}value")]
        for letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def value(self, event: yaml.ScalarEvent) -> Any:
        """The value of a scalar; `<<` as MERGE. Raises _Unfit."""
        tag = event.tag
        if tag in (None, "!"):
            tag = self.resolve(yaml.ScalarNode, event.value, event.implicit)
        node = yaml.ScalarNode(tag, event.value)
        kind = tag.removeprefix(TAG)
        if kind in ("int", "float") and len(event.value) > 2 * DIGITS:
            raise _Unfit(f"a number of {len(event.value):,} characters")
        try:
            match kind:
                case "str":
                    return event.value
                case "int":
                    value = self.construct_yaml_int(node)
                case "float":
                    value = self.construct_yaml_float(node)
                case "bool":
                    return self.construct_yaml_bool(node)
                case "null":
                    return None
                case "merge":
                    return MERGE
                case _:
                    raise _Unfit(f"the tag {tag} has no place here")
        except (ValueError, KeyError):
            raise _Unfit(f"'{event.value[:40]}' is no {kind}") from None
        _check_number(value)
        return value


MERGE = object()  # the key `<<`
NOTHING = object()


@dataclass
class _Open:
    """A list or mapping under way."""

    value: Any
    anchor: str | None
    key: Any = NOTHING  # that waits for its value
    below: list[Any] = field(default_factory=list)  # what `<<` names
    nodes: int = 1


class _Reader:
    """Builds a value from a parser's events, without recursion."""

    def __init__(self) -> None:
        self.result: Any = None
        self._scalars = _Scalars("")
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # value, number of values in it
        self._nodes = 0

    def key(self) -> str:
        """The dotted key of what is being read."""
        keys = [str(each.key) for each in self._open if isinstance(each.key, str | int)]
        return ".".join(keys)

    def take(self, event: Any) -> None:
        """The next event. Raises _Unfit."""
        match event:
            case yaml.ScalarEvent():
                self._add(self._scalars.value(event), event.anchor)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._begin(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise _Unfit(f"*{event.anchor} names nothing that is whole before it")
                value, nodes = self._anchors[event.anchor]
                self._add(value, None, nodes, nodes)
            case yaml.DocumentStartEvent():
                if self._nodes:
                    raise _Unfit("a second document")

    def _begin(self, event: Any) -> None:
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!", f"{TAG}seq" if is_list else f"{TAG}map"):
            raise _Unfit(f"the tag {event.tag} has no place here")
        around = self._open[-1] if self._open else None
        if around and isinstance(around.value, dict) and around.key is NOTHING:
            raise _Unfit("a list or mapping cannot be a key")
        self._anchors.pop(event.anchor, None)
        self._open.append(_Open([] if is_list else {}, event.anchor))
        _check_size(len(self._open), self._nodes)

    def _end(self) -> None:
        done = self._open.pop()
        for mapping in done.below:  # what is near goes before
            done.value.update({k: v for k, v in mapping.items() if k not in done.value})
        self._add(done.value, done.anchor, done.nodes)

    def _add(self, value: Any, anchor: str | None, nodes: int = 1, new: int = 1) -> None:
        """Put a value in its place: the number of values in it, of those not counted yet."""
        self._nodes += new
        _check_size(len(self._open), self._nodes)
        if anchor is not None:
            self._anchors[anchor] = (value, nodes)
        around = self._open[-1] if self._open else _Open(None, None, key="")
        is_key = isinstance(around.value, dict) and around.key is NOTHING
        if value is MERGE and not is_key:
            value = "<<"
        if not self._open:
            self.result = value
            return
        around.nodes += nodes
        if is_key:
            self._begin_key(around, value)
        elif isinstance(around.value, list):
            around.value.append(value)
        else:
            key, around.key = around.key, NOTHING
            if key is MERGE:
                around.below += _mappings(value)
            else:
                around.value[key] = value

    def _begin_key(self, around: _Open, key: Any) -> None:
        if key is not MERGE and (not isinstance(key, str | int) or isinstance(key, bool)):
            raise _Unfit(f"the key {str(key)[:40]} is no text; put it in quotes")
        if isinstance(key, str | int) and key in around.value:
            raise _Unfit(f"the key '{str(key)[:40]}' stands here twice")
        around.key = key


def _mappings(value: Any) -> list[Any]:
    several = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in several):
        raise _Unfit("<< names mappings")
    return several
