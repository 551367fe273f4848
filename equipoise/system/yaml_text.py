"""YAML as configuration: read within limits, refused with the line at fault, and written.

Recipes, `config.yaml`, values of `-s` and all other YAML is read here, by PyYAML's safe loader. It
holds what JSON could: texts, finite numbers, yes and no, nothing, lists, and mappings whose keys
are texts or whole numbers, each of them once; aliases and `<<` are followed. The limits are far
above what a person writes, and keep a stranger's file from holding up the machine.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from equipoise.errors import ConfigError

LENGTH = 1_000_000  # characters
DEPTH = 64  # values inside one another
NODES = 100_000  # values, with those that aliases repeat
DIGITS = 40  # of a whole number
BREAKS = frozenset("\r\x85\u2028\u2029")
TAG = "tag:yaml.org,2002:"
# libyaml's parser, where PyYAML has it, is eight times as fast as the one in Python.
PARTS = (Composer, yaml.CSafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)


def parse_yaml(text: str, source: str) -> Any:
    """The value in a YAML text; None for an empty one.

    Raises ConfigError naming `source`, the line where there are several, and the key.
    """
    if len(text) > LENGTH:
        raise ConfigError(f"{source}: is longer than the {LENGTH:,} characters that are read")
    try:
        return Loader(text, source).get_single_data()
    except (yaml.YAMLError, UnicodeError) as error:
        hint = "; YAML is indented by spaces, not tabs" if "\n\t" in text else ""
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}{hint}") from error


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
    return yaml.dump(settings, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)


def check_plain(value: Any, source: str) -> None:
    """Raise ConfigError for what YAML may not hold either, in settings from Python or JSON."""
    waiting: list[tuple[str, Any, int]] = [("", value, 1)]
    nodes = 0
    while waiting:
        key, inner, depth = waiting.pop()
        nodes += 1
        fault = fault_of_size(depth, nodes) or fault_of_number(inner)
        if fault:
            raise ConfigError(": ".join(filter(None, (source, key, fault))))
        named: list[tuple[str, Any]] = []
        if isinstance(inner, Mapping):
            named = [(f"{key}.{name}".lstrip("."), each) for name, each in inner.items()]
        elif isinstance(inner, list | tuple):
            named = [(f"{key}[{place}]", each) for place, each in enumerate(inner)]
        for name, each in reversed(named):
            waiting.append((name, each, depth + 1))


def fault_of_size(depth: int, nodes: int) -> str:
    """A sentence where values are too deep or too many, else ""."""
    if depth > DEPTH:
        return f"more than {DEPTH} lists and mappings inside one another"
    if nodes > NODES:
        return f"more than {NODES:,} values, with those that aliases repeat"
    return ""


def fault_of_number(value: Any) -> str:
    """A sentence where a value is a number that no setting has, else ""."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is no finite number"
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        return f"a whole number of more than {DIGITS} digits"
    return ""


class Loader(*PARTS):
    """PyYAML's safe loader for the values of JSON, which checks every node as it is composed."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        letter: [pair for pair in pairs if pair[0] not in (f"{TAG}timestamp", f"{TAG}value")]
        for letter, pairs in Resolver.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        f"{TAG}str": SafeConstructor.construct_yaml_str,
        f"{TAG}merge": SafeConstructor.construct_yaml_str,  # `<<` as a value
        f"{TAG}int": SafeConstructor.construct_yaml_int,
        f"{TAG}float": SafeConstructor.construct_yaml_float,
        f"{TAG}bool": SafeConstructor.construct_yaml_bool,
        f"{TAG}null": SafeConstructor.construct_yaml_null,
        f"{TAG}seq": SafeConstructor.construct_yaml_seq,
        f"{TAG}map": SafeConstructor.construct_yaml_map,
        None: SafeConstructor.construct_undefined,
    }

    def __init__(self, text: str, source: str) -> None:
        PARTS[-1].__init__(self, text)
        Composer.__init__(self)
        self.source = source
        self.has_lines = "\n" in text.strip()
        self.nodes = 0
        self.nodes_of: dict[str, int] = {}  # anchor -> values in its node, once that is whole
        self.keys: list[str] = []  # on the way to the node that is composed, "" for none

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; `index` is its key's node, its place in a list, or None for a key."""
        event = self.peek_event()
        line = event.start_mark.line + 1
        self.keys.append(index.value if isinstance(index, yaml.ScalarNode) else "")
        before = self.nodes
        if not isinstance(event, yaml.AliasEvent):
            self.nodes += 1
        elif event.anchor in self.nodes_of:
            self.nodes += self.nodes_of[event.anchor]
        else:
            self.refuse(f"*{event.anchor} names nothing that is whole before it", line)
        if fault := fault_of_size(len(self.keys), self.nodes):
            self.refuse(fault, line)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode):
            self.check_scalar(node, line)
        elif isinstance(node, yaml.MappingNode):
            self.check_keys(node)
        if event.anchor is not None:
            self.nodes_of[event.anchor] = self.nodes - before
        self.keys.pop()
        return node

    def check_scalar(self, node: yaml.ScalarNode, line: int) -> None:
        """Refuse a word that is not of its kind, and a number that no setting has."""
        kind = node.tag.removeprefix(TAG)
        if kind in ("int", "float") and len(node.value) > 2 * DIGITS:
            self.refuse(f"a number of {len(node.value):,} characters", line)
        try:
            value = self.construct_object(node)
        except (ValueError, KeyError):
            self.refuse(f"'{node.value[:40]}' is no {kind}", line)
        if fault := fault_of_number(value):
            self.refuse(fault, line)

    def check_keys(self, mapping: yaml.MappingNode) -> None:
        """Refuse keys that are no texts or whole numbers, and those that stand twice."""
        known = set()
        for node, _ in mapping.value:
            line = node.start_mark.line + 1
            if not isinstance(node, yaml.ScalarNode):
                self.refuse("a list or mapping cannot be a key", line)
            key = self.construct_object(node)
            if not isinstance(key, str | int) or isinstance(key, bool):
                self.refuse(f"the key {str(key)[:40]} is no text; put it in quotes", line)
            if key in known:
                self.refuse(f"the key '{str(key)[:40]}' stands here twice", line)
            if node.tag != f"{TAG}merge":
                known.add(key)

    def refuse(self, fault: str, line: int) -> Never:
        """Raise ConfigError with the place of a fault."""
        place = f"{self.source}, line {line}" if self.has_lines else self.source
        key = ".".join(filter(None, self.keys))
        raise ConfigError(": ".join(filter(None, (place, key, fault))))


class Dumper(yaml.SafeDumper):
    """Puts texts with a line break other than \\n in quotes, which keep it."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """The text as a node."""
        quotes = '"' if set(data) & BREAKS else None
        return self.represent_scalar(f"{TAG}str", data, style=quotes)


Dumper.add_representer(str, Dumper.represent_str)
