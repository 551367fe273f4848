"""From YAML and overrides to a `RunConfig` of typed components; faults in words.

A recipe names kinds and settings; `extends: other` starts from another recipe, `player_defaults`
lie below every player of the same kind, and a player that is null is taken away. `-s
key.path=value` sets one setting (the value is YAML); a path that starts with a player's name means
that player: `-s policy.model=…`. A component given as a bare word is that kind with its defaults:
`-s loss=dpo`. From Python, overrides may be a mapping, `{"loss": "dpo", "policy.model": …,
"prompts": {"held_out": 50}}`, which means the same. An unknown key is an error that suggests the
nearest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from equipoise.component import Component, Settings, import_path, nearest
from equipoise.errors import ConfigError, shorten
from equipoise.runs.config import RunConfig
from equipoise.system.packaged_recipes import recipe_descriptions, recipe_folder
from equipoise.system.yaml_text import check_plain, parse_yaml, read_yaml

C = TypeVar("C", bound=Component)
S = TypeVar("S", bound=Settings)
Recipe = str | Path | Mapping[str, Any]
Overrides = Mapping[str, Any] | Sequence[str]
LONGEST = 20  # recipes that extend one another


def load(recipe: Recipe, overrides: Overrides = ()) -> RunConfig:
    """The configuration of a packaged recipe's name, a YAML file or a mapping, with overrides.

    Overrides are `key.path=value` texts, or a mapping of (dotted) keys to values. Raises
    ConfigError naming the file (or the override), the key, and the nearest valid one.
    """
    values = read(recipe)
    return build(values, title(recipe), override(values, overrides))


def title(recipe: Recipe) -> str:
    """The name or file of a recipe, for messages."""
    return "the recipe" if isinstance(recipe, Mapping) else str(recipe)


def build(
    values: Mapping[str, Any], source: str, origins: Mapping[str, str] | None = None
) -> RunConfig:
    """A RunConfig from plain values. Raises ConfigError naming `source` or the override."""
    check_plain(values, source)
    try:
        return RunConfig.model_validate(with_defaults(values))
    except ValidationError as error:
        raise config_error(error, source, origins or {}, values) from error


def component(
    room: type[C], given: str | Mapping[str, Any] | C | type[C], overrides: Overrides, option: str
) -> C:
    """A component from its kind, YAML file or text, settings, itself or its class.

    Raises ConfigError, in which `option` is what gave it.
    """
    check_plain(given, option)
    values = plain_values(given)
    if not isinstance(values, dict):
        values = parse_mapping(values, option)
    origins = override(values, overrides)
    check_plain(values, option)
    try:
        return TypeAdapter(room).validate_python(values)
    except ValidationError as error:
        raise config_error(error, option, origins) from error


def settings(kind: type[S], overrides: Overrides) -> S:
    """A group of settings by their defaults and overrides. Raises ConfigError."""
    values: dict[str, Any] = {}
    origins = override(values, overrides)
    check_plain(values, "-s")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise config_error(error, "-s", origins) from error


def parse_mapping(text: str, option: str) -> dict[str, Any]:
    """The mapping in a YAML file or text, or a kind's name. Raises ConfigError."""
    values: Any = {"kind": text}
    shown = f"{option} {shorten(text)}"
    if text.endswith((".yaml", ".yml")):
        values = read_yaml(Path(text), shown)
    elif "{" in text:
        values = parse_yaml(text, shown)
    if not isinstance(values, dict):
        raise ConfigError(f"{shown}: give a mapping of settings with a kind")
    return values


# -- recipes


def read(recipe: Recipe) -> dict[str, Any]:
    """The plain settings of a recipe, with what it `extends` merged in below it."""
    values = read_with_published(recipe)
    values.pop("published", None)
    return values


def read_with_published(recipe: Recipe) -> dict[str, Any]:
    """The settings as `read` gives them, and the recipe's block `published`."""
    return _with_extended(recipe, ())


def read_resolved(path: Path) -> dict[str, Any]:
    """The settings of a run's own config.yaml, which extends nothing. Raises ConfigError."""
    values = _read_yaml(path)
    if "extends" in values:
        raise ConfigError(f"{path}: extends: a run's own configuration is whole")
    return values


def _with_extended(recipe: Recipe, above: tuple[Path, ...]) -> dict[str, Any]:
    """The settings over what they extend; `above` are those that extend this one."""
    if isinstance(recipe, Mapping):
        check_plain(recipe, title(recipe))
        values, home = plain_values(recipe), Path()
    elif isinstance(recipe, str | Path):
        values, home = _read_yaml(recipe), Path(recipe).parent
        place = Path(recipe).resolve()
        if place in above:
            raise ConfigError(f"{recipe}: extends itself")
        if len(above) > LONGEST:
            raise ConfigError(f"{recipe}: more than {LONGEST} recipes extend one another")
        above = (*above, place)
    else:
        raise ConfigError(
            "a recipe is a packaged name, a YAML file or a mapping, and this is of type "
            f"{type(recipe).__name__}"
        )
    values.pop("listed", None)  # for `equipoise recipes` alone
    base = values.pop("extends", None)
    if base is None:
        return values
    is_file = str(base).endswith((".yaml", ".yml"))
    return merge(_with_extended(home / base if is_file else base, above), values)


def _read_yaml(recipe: str | Path) -> dict[str, Any]:
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        values = read_yaml(path)
    else:
        values = parse_yaml(_packaged(str(recipe)), str(recipe))
    if not isinstance(values, dict):
        raise ConfigError(f"{recipe}: a recipe is a mapping of settings")
    return values


def _packaged(name: str) -> str:
    """The text of a packaged recipe. Raises ConfigError."""
    known = list(recipe_descriptions())
    if name not in known:
        hint = nearest(name, known)
        raise ConfigError(f"no recipe '{shorten(name)}'; {hint} (or give a .yaml file)")
    return (recipe_folder() / f"{name}.yaml").read_text(encoding="utf-8")


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`; a component of another kind replaces the one below it whole."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if not (isinstance(old, dict) and isinstance(value, Mapping)):
            merged[key] = value
        else:
            merged[key] = merge(old, value) if _same_kind(old, value) else value
    return merged


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in `player_defaults` and `learner` for the same kinds; drop what is null."""
    filled = dict(values)
    player_defaults = filled.pop("player_defaults", None)
    if "players" in filled:
        filled["players"] = _over(player_defaults, values["players"])
    if "learners" in filled:
        filled["learners"] = _over(values.get("learner"), values["learners"])
    return filled


def _over(defaults: Any, components: Any) -> Any:
    """Components over the defaults; other types are left for the validation to refuse."""
    if not isinstance(components, Mapping):
        return components
    below = _mapping(defaults)
    filled = {}
    for name, component in components.items():
        above = _mapping(component)
        mergeable = isinstance(below, Mapping) and isinstance(above, Mapping)
        if mergeable and _same_kind(below, above):
            filled[name] = merge(dict(below), above)
        elif above is not None:
            filled[name] = above
    return filled


def _mapping(component: Any) -> Any:
    """A bare kind as a mapping; anything else as it is."""
    return {"kind": component} if isinstance(component, str) else component


def _same_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return above.get("kind", below.get("kind")) == below.get("kind")


def plain_values(value: Any) -> Any:
    """A value from Python as YAML would give it: a component, or its class, as its settings."""
    if isinstance(value, type) and issubclass(value, Component):
        return import_path(value)
    if isinstance(value, Component):
        known = value.kind in type(value).known_kinds()
        kind = value.kind if known else import_path(type(value))
        return {**value.settings(), "kind": kind}
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


# -- overrides


def override(values: dict[str, Any], overrides: Overrides) -> dict[str, str]:
    """Put overrides into plain values; returns which override set which key."""
    origins: dict[str, str] = {}
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            path = _full_path(str(key).split("."), values)
            check_plain(value, f"settings['{shorten(str(key))}']")
            _put(values, path, plain_values(value))
            for leaf in _leaves(path, value):
                origins[leaf] = f"settings['{key}']"
        return origins
    if isinstance(overrides, str):
        raise ConfigError(f"settings '{overrides}': must be a mapping")
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"-s {shorten(text)}: write it as -s key.path=value")
        path = _full_path(key.split("."), values)
        origin = f"-s {shorten(text)}"
        _put(values, path, parse_yaml(value, origin))
        origins[".".join(path)] = origin
    return origins


def _leaves(path: Sequence[str], value: Any) -> Iterator[str]:
    """The dotted keys of everything that a value sets."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves([*path, str(key)], inner)
    else:
        yield ".".join(path)


def _full_path(path: list[str], values: Mapping[str, Any]) -> list[str]:
    """The path, with `players` before a player's name."""
    known = path[0] in RunConfig.model_fields
    is_player = not known and path[0] in (values.get("players") or {})
    return ["players", *path] if is_player else path


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    inner = values
    for key in path[:-1]:
        component = _mapping(inner.get(key))
        inner[key] = dict(component) if isinstance(component, dict) else {}
        inner = inner[key]
    last = path[-1]
    inner.update(merge({last: inner.get(last)}, {last: value}))


UNION_ARMS = ("str", "int", "float", "bool")
SELF_EXPLAINING = ("unknown_kind", "kind", "value_error")
SHORT = 60  # characters of a value that a message repeats
MANY = 20  # faults that a message lists


def config_error(
    error: ValidationError,
    source: str,
    origins: Mapping[str, str],
    values: Mapping[str, Any] | None = None,
) -> ConfigError:
    """One line for each fault: file, or override by `origins`, key, and what is wrong.

    `values` are those of a whole recipe, where an unknown key may be a setting of another part.
    """
    # A default that could not be made because of another fault is no fault of its own.
    faults = [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]
    lines: dict[str, None] = {}
    for fault in faults:
        lines |= dict.fromkeys(_lines(fault, source, origins, values or {}))
    if len(lines) > MANY:
        more = f"{source}: and {len(lines) - MANY:,} faults more"
        return ConfigError("\n".join([*list(lines)[:MANY], more]))
    return ConfigError("\n".join(lines))


def _lines(
    fault: Any, source: str, origins: Mapping[str, str], values: Mapping[str, Any]
) -> Iterator[str]:
    keys = [str(key) for key in fault["loc"] if "[" not in str(key) and key not in UNION_ARMS]
    path = ".".join(keys)
    shown = f"{path}: " if path else ""
    if fault["type"] != "unknown_key":
        message = _kind_hint(fault, keys, values) or _message(fault, path)
        yield f"{_place(path, source, origins)}: {shown}{message}"
        return
    for key in fault["ctx"]["unknown"]:
        place = _place(".".join([*keys, key]), source, origins)
        hint = settings_called(key, values, path, full=place == source)
        if not hint:
            hint = fault["ctx"]["hint"] if key == fault["ctx"]["key"] else "it is no setting"
        yield f"{place}: {shown}unknown key '{shorten(key)}'; {hint}"


def _place(path: str, source: str, origins: Mapping[str, str]) -> str:
    """The override that set this key or a part of it, else the file."""
    for key, override in origins.items():
        if path == key or key.startswith(f"{path}."):
            return override
    return source


def _message(fault: Any, path: str) -> str:
    if path == "players" and not fault.get("input"):
        return "is required; name them: -s 'players={a: {model: …}, b: {model: …}}'"
    if fault["type"] == "missing" or fault.get("input", "") is None:
        return f"is required; set it with -s {path}=…" if path else "is empty"
    message = fault["msg"].removeprefix("Value error, ")
    value = repr(fault["input"])
    if fault["type"] not in SELF_EXPLAINING and len(value) < SHORT:
        message += f" (got {value})"
    return message


# -- settings by the names that people know


def settings_called(
    key: str, values: Mapping[str, Any], part: str = "", *, full: bool = False
) -> str:
    """ "did you mean 'x'?" for the settings of a recipe that an unknown key may mean; "" for none.

    `values` are the recipe's; `part` is the dotted place where the key stood; `full` keeps the
    `players.` before a player's name. Looked for are, in this order: the key itself in another
    part, or what other programs call so, where the recipe has no such part also in those of the
    recipe mnpo; a slip of the pen.
    """
    if option := _other_names("options").get(key.replace("-", "_")):
        return f"it is no setting, but on the command line there is {option[0]}"
    if not values:
        return ""
    parts = dict(_parts(with_defaults(values), RunConfig))
    below = dict(_parts(with_defaults(read("mnpo")), RunConfig))
    paths = _same_name(key, part, parts)
    if not paths and (kinds := _kinds_with(key, part)):
        return f"it is a setting of other kinds: {', '.join(kinds)}"
    for path in () if paths else _same_name(key, part, below):
        paths.append(path.replace("players.policy.", "players.NAME."))
    paths = paths or _alike(key, part, parts, list(values.get("players") or ()))
    shown = [f"'{path if full else path.removeprefix('players.')}'" for path in paths[:3]]
    more = ["…"] if len(paths) > len(shown) else []
    return f"did you mean {' or '.join([*shown, *more])}?" if paths else ""


def _same_name(key: str, part: str, parts: Mapping[str, set[str]]) -> list[str]:
    """The dotted settings of this name, or of what other programs call so, those of `part` first.

    Settings of named sets count in their own part alone.
    """
    plain = key.replace("-", "_")
    for name in (plain, *_other_names("settings").get(plain.lower(), ())):
        group, _, last = name.rpartition(".")
        found = [
            f"{place}.{last}".lstrip(".")
            for place, fields in parts.items()
            if last in fields and f".{place}".endswith(f".{group}".rstrip("."))
        ]
        near = [path for path in found if path.rpartition(".")[0] == part]
        outside = [path for path in found if ".sets." not in path and _may_mean(part, path)]
        if near or outside:
            return near or outside
    return []


def _may_mean(part: str, path: str) -> bool:
    """False where a judge's or game's setting would be taken for a player's."""
    return part.split(".")[0] not in ("judge", "judges", "game") or path.startswith(part)


def _alike(
    key: str, part: str, parts: Mapping[str, set[str]], players: Sequence[str]
) -> list[str]:
    """The setting, or player, whose name is nearest; another part's only where it is very near."""
    own = [*parts.get(part, ()), *(players if not part else ())]
    places = {field: place for place, fields in parts.items() for field in fields}
    close = difflib.get_close_matches(key, own, 1, 0.6)
    if not part or part in parts:
        close += difflib.get_close_matches(key, places, 1, 0.8)
    nearest_name = difflib.get_close_matches(key, close, 1)
    if not nearest_name:
        return []
    name = nearest_name[0]
    return [f"{part if name in own else places[name]}.{name}".lstrip(".")]


def _kinds_with(key: str, part: str) -> list[str]:
    """The kinds of the part's room that have this setting, where the part is of another kind."""
    field = RunConfig.model_fields.get(part)
    rooms = list(_groups(field.annotation)) if field else []
    if len(rooms) != 1 or not issubclass(rooms[0], Component):
        return []
    kinds = sorted(rooms[0].known_kinds())
    return [kind for kind in kinds if key in rooms[0].find(kind).model_fields]


@cache
def _other_names(table: str, part: str = "") -> dict[str, tuple[str, ...]]:
    """A name in other programs -> ours, of a table of `other_names.yaml`, or a part of it."""
    tables = read_yaml(Path(__file__).with_name("other_names.yaml"))[table]
    names: dict[str, tuple[str, ...]] = {}
    for ours, others in (tables.get(part, {}) if part else tables).items():
        for other in others:
            names[other] = (*names.get(other, ()), ours)
    return names


MODEL_NAME = re.compile(r"[\w.-]+/[\w.-]+$|gpt|claude|gemini|llama|qwen|o\d", re.IGNORECASE)
DATA_FILE = re.compile(r".*(/|\.(jsonl|ndjson|json|csv|tsv|parquet|txt)$)")


def _kind_hint(fault: Any, keys: Sequence[str], values: Mapping[str, Any]) -> str:
    """The message for a text that is no kind, by what it was meant for; "" where that is unknown.

    `keys` are the dotted place of the part.
    """
    if fault["type"] not in ("kind", "unknown_kind") or not keys:
        return ""
    room = {"judges": "judge", "learners": "learner"}.get(keys[0], keys[0])
    room = "judge" if keys[-1] == "judge" else room
    if fault["type"] == "kind":
        known = [name for name in values.get("players") or () if name != keys[-1]]
        close = difflib.get_close_matches(keys[-1], known, 1, 0.6) if room == "players" else ()
        return f"there is no such player; did you mean '{close[0]}'?" if close else ""
    kind = fault["ctx"]["kind"]
    unknown = f"unknown kind '{shorten(kind)}'"
    if meant := _other_names("kinds", room).get(kind.lower()):
        return f"{unknown}; did you mean {' or '.join(map(repr, meant))}?"
    if room == "loss" and kind.lower() in _other_names("kinds", "learner"):
        return f"{unknown}; '{kind}' is a learner here: -s learner=policy_gradient -s loss=null"
    hint = ""
    if room == "players":
        path = ".".join(keys).removeprefix("players.")
        hint = f"a model is named by -s {path}.model={kind}"
    elif room == "prompts" and DATA_FILE.fullmatch(kind):
        hint = f"a file, or org/name of the hub, is named by -s prompts.path={kind}"
    elif room == "judge" and MODEL_NAME.match(kind):
        hint = (
            f"a reward model is {{kind: reward_model, model: {kind}}}; a model that is asked is "
            "{kind: rubric, model: {kind: endpoint, base_url: …, model: …}}"
        )
    return f"{unknown}; {hint}" if hint else ""


def verb_called(name: str) -> str:
    """The verb for what other programs call so; "" for none."""
    return _other_names("verbs").get(name, ("",))[0]


def option_called(option: str, arguments: Sequence[str]) -> str:
    """What to write for an option that there is not, or for arguments too many (option "").

    `arguments` are those of the command, the verb first; "" where nothing is known.
    """
    before = dict(pairwise(arguments))
    if not option:
        taken = (before.get("-s"), before.get("--set"))
        loose = [t for t in arguments[2:] if "=" in t and t[0] != "-" and t not in taken]
        return f"Write {' '.join(f'-s {text}' for text in loose)}" if loose else ""
    key = option.lstrip("-").replace("-", "_")
    if key in ("config", "recipe", "config_file", "cfg"):
        return f"The recipe has no option: equipoise {arguments[0]} RECIPE"
    if meant := _other_names("options").get(key):
        return f"Write {meant[0]}"
    try:
        values = read(arguments[1])
    except (ConfigError, IndexError):
        values = read("mnpo")
    joined = next((t for t in arguments if t.startswith(f"{option}=")), "").partition("=")[2]
    value = joined or before.get(option, "-")
    value = "…" if value.startswith("-") else value
    paths = [key] if key.split(".")[0] in RunConfig.model_fields else _likely(key, values)
    return f"Write {' or '.join(f'-s {path}={value}' for path in paths)}" if paths else ""


def _likely(key: str, values: Mapping[str, Any]) -> list[str]:
    """The settings that a key may mean, as overrides name them; itself where none is like it."""
    parts = dict(_parts(with_defaults(values), RunConfig))
    found = _same_name(key, "", parts) or _alike(key, "", parts, list(values.get("players") or ()))
    return [path.removeprefix("players.") for path in found[:2]]


def _parts(values: Any, kind: type[Settings], place: str = "") -> Iterator[tuple[str, set[str]]]:
    """(dotted place, names of the settings) of a group of settings and all groups within it."""
    yield place, set(kind.model_fields)
    for name, field in kind.model_fields.items():
        inner = f"{place}.{name}".lstrip(".")
        given = values.get(name) if isinstance(values, Mapping) else None
        by_name = given if get_origin(field.annotation) is dict else None
        default = {"kind": field.default} if isinstance(field.default, str) else {}
        for group in _groups(field.annotation):
            if not issubclass(group, Component):
                yield from _parts(given, group, inner)
                continue
            parts = {inner: default | _as_mapping(given)}
            if isinstance(by_name, Mapping):
                parts = {f"{inner}.{key}": _as_mapping(part) for key, part in by_name.items()}
            for part_place, part in parts.items():
                if (kind_name := part.get("kind")) in group.known_kinds():
                    yield from _parts(part, group.find(kind_name), part_place)


def _as_mapping(part: Any) -> dict[str, Any]:
    """A part's settings, or its bare kind, as a mapping; empty for anything else."""
    part = _mapping(part)
    return dict(part) if isinstance(part, Mapping) else {}


def _groups(annotation: Any) -> Iterator[type[Settings]]:
    """The groups of settings that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for inner in get_args(annotation):
        yield from _groups(inner)
