"""From YAML and overrides to a `RunConfig` of typed components; faults in words.

A recipe names kinds and settings; `extends: other` starts from another recipe, `player_defaults`
lie below every player of the same kind, and a player that is null is taken away. `-s
key.path=value` sets one setting (the value is YAML); a path that starts with a player's name means
that player: `-s policy.model=…`. A component given as a bare word is that kind with its defaults:
`-s loss=dpo`. From Python, overrides may be a mapping, `{"loss": "dpo", "policy.model": …,
"prompts": {"held_out": 50}}`, which means the same. An unknown key is an error that suggests the
nearest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from equipoise.component import Component, Settings, import_path, nearest
from equipoise.errors import ConfigError, shorten
from equipoise.prompts.given_rows import as_prompts, rows_of
from equipoise.runs import suggestions
from equipoise.runs.config import RunConfig
from equipoise.runs.unread_settings import without_idle_entries, without_unread
from equipoise.system.effects import effects_of
from equipoise.system.given_functions import give
from equipoise.system.packaged_recipes import recipe_descriptions, recipe_folder
from equipoise.system.user_parts import may_name_code, only_reading
from equipoise.system.yaml_text import check_plain, parse_yaml, read_yaml

C = TypeVar("C", bound=Component)
S = TypeVar("S", bound=Settings)
Recipe = str | Path | Mapping[str, Any]
Overrides = Mapping[str, Any] | Sequence[str]
Announce = Callable[[Sequence[str]], None]
LONGEST = 20  # recipes that extend one another


def load(recipe: Recipe, overrides: Overrides = ()) -> RunConfig:
    """The configuration of a packaged recipe's name, a YAML file or a mapping, with overrides.

    Overrides are `key.path=value` texts, or a mapping of (dotted) keys to values. Raises
    ConfigError naming the file (or the override), the key, and the nearest valid one.
    """
    return build(*resolve(recipe, overrides))


class ResolvedRecipe(NamedTuple):
    """The plain settings of a recipe, its name in messages, which override set which key, and the
    settings that the user gave, by overrides or in a file or mapping of their own: their names
    (`losses`) and those one below (`losses.alice`).
    """

    values: dict[str, Any]
    source: str
    origins: dict[str, str]
    own: frozenset[str]


def resolve(recipe: Recipe, overrides: Overrides = ()) -> ResolvedRecipe:
    """Read a recipe with what it extends, and put the overrides in. Raises ConfigError."""
    values = read(recipe)
    source = title(recipe)
    origins = override(values, overrides)
    check_plain(values, source)  # each part was checked, and together they may be too large
    paths = list(origins)
    if isinstance(recipe, Mapping):
        paths += leaves([], recipe)
    elif Path(recipe).suffix in (".yaml", ".yml"):
        paths += leaves([], _read_yaml(recipe))
    own = set()
    for path in paths:
        first, *below = path.split(".")
        own.add(first)
        own.add(".".join([first, *below[:1]]))
    return ResolvedRecipe(values, source, origins, frozenset(own))


def load_announced(recipe: Recipe, overrides: Overrides, announce: Announce) -> RunConfig:
    """As `load`; `announce` gets what the recipe runs of a user's, and where it sends texts, before
    any of it is imported.
    """
    resolved = resolve(recipe, overrides)
    if may_name_code(resolved.values):
        with only_reading(files=True):
            config = build(resolved.values, resolved.source, resolved.origins)
        announce(effects_of(config, Path.cwd()).notes(quiet=True))
        return build(*resolved)
    config = build(*resolved)
    announce(effects_of(config, Path.cwd()).notes(quiet=True))
    return config


def title(recipe: Recipe) -> str:
    """The name or file of a recipe, for messages."""
    return "the recipe" if isinstance(recipe, Mapping) else str(recipe)


def build(
    values: Mapping[str, Any],
    source: str,
    origins: Mapping[str, str] | None = None,
    own: Set[str] | None = None,
) -> RunConfig:
    """A RunConfig from plain values, as `resolve` or a YAML file gives them.

    `own`: the settings that the user gave, as `ResolvedRecipe.own`; others yield where nothing
    reads them. None: all are the user's.
    Raises ConfigError naming `source` or the override.
    """
    filled = with_defaults(values)
    notes: list[str] = []
    if own is not None:
        filled, notes = without_idle_entries(filled, own)
    try:
        config = RunConfig.model_validate(filled)
    except ValidationError as error:
        raise config_error(error, source, origins or {}, values) from error
    if own is None:
        return config
    config.note_yielded(notes)
    return without_unread(config, own)


def component(
    room: type[C],
    given: str | Mapping[str, Any] | C | type[C],
    overrides: Overrides | None,
    option: str,
) -> C:
    """A component from its kind, YAML file or text, settings, itself or its class.

    `overrides`: None where it takes none, as beside another whose settings -s has. Raises
    ConfigError, in which `option` is what gave it.
    """
    check_plain(given, option)
    values = plain_values(given)
    if not isinstance(values, dict | str):
        raise ConfigError(
            f"{option}: needs a kind, a mapping of settings, a component or its class, or a "
            f"function, and this is of type {type(values).__name__}"
        )
    if isinstance(values, str):
        values = parse_mapping(values, option)
    origins = override(values, overrides or ())
    check_plain(values, option)
    try:
        return TypeAdapter(room).validate_python(values)
    except ValidationError as error:
        alone = str(values.get("kind", "")) if overrides is None else ""
        raise config_error(error, option, origins, kind=alone) from error


def component_announced(
    room: type[C],
    given: str | Mapping[str, Any] | C | type[C],
    overrides: Overrides | None,
    option: str,
    announce: Announce,
) -> C:
    """As `component`; `announce` gets what it runs of a user's, and where it sends texts, before
    any of it is imported.
    """
    with only_reading(files=True):
        draft = component(room, given, overrides, option)
    announce(effects_of(draft, Path.cwd()).notes(quiet=True))
    return component(room, given, overrides, option)


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
        check_colons(values, text, shown)
    if not isinstance(values, dict):
        raise ConfigError(f"{shown}: give a mapping of settings with a kind")
    return values


def check_colons(value: Any, text: str, source: str) -> None:
    """Raise ConfigError for {kind:x}, which YAML reads as one key and no value."""
    keys = [key for key, inner in value.items() if inner is None] if isinstance(value, dict) else []
    for key in map(str, keys):
        name, colon, rest = key.partition(":")
        if colon and name.isidentifier():
            meant = text.replace(key, f"{name}: {rest}")
            raise ConfigError(f"{source}: write a space behind each colon: '{meant}'")


# -- recipes


def read(recipe: Recipe) -> dict[str, Any]:
    """The plain settings of a recipe, with what it `extends` merged in below it."""
    values = read_with_published(recipe)
    values.pop("published", None)
    return values


def read_with_published(recipe: Recipe) -> dict[str, Any]:
    """The settings as `read` gives them, and the recipe's block `published`."""
    return with_extended(recipe, ())


def read_resolved(path: Path) -> dict[str, Any]:
    """The settings of a run's own config.yaml, which extends nothing. Raises ConfigError."""
    values = _read_yaml(path)
    if "extends" in values:
        raise ConfigError(f"{path}: extends: a run's own configuration is whole")
    return values


def with_extended(recipe: Recipe, above: tuple[Path, ...]) -> dict[str, Any]:
    """The settings over what they extend; `above` are those that extend this one."""
    if isinstance(recipe, Mapping):
        check_plain(recipe, title(recipe))
        values = plain_values(recipe)
        home = Path()
        if "prompts" in values:
            values["prompts"] = as_prompts(values["prompts"])
    elif isinstance(recipe, str | Path):
        values = _read_yaml(recipe)
        home = Path(recipe).parent
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
    return merge(with_extended(home / base if is_file else base, above), values)


def _read_yaml(recipe: str | Path) -> dict[str, Any]:
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        if not path.exists() and str(path.with_suffix("")) in recipe_descriptions():
            raise ConfigError(f"{path}: no such file; the packaged recipe is '{path.stem}'")
        values = read_yaml(path)
    else:
        values = parse_yaml(packaged(str(recipe)), str(recipe))
    if not isinstance(values, dict):
        raise ConfigError(f"{recipe}: a recipe is a mapping of settings")
    return values


def packaged(name: str) -> str:
    """The text of a packaged recipe. Raises ConfigError."""
    known = list(recipe_descriptions())
    if name not in known:
        hint = f"{nearest(name, known)} (or give a .yaml file)"
        if Path(name, "config.yaml").is_file():
            hint = f"it is a run's folder: equipoise resume {name}"
        elif Path(name).is_file():
            hint = "a recipe's file is YAML, and its name ends in .yaml"
        elif Path(name).is_dir() or "/" in name or name.startswith("builtin"):
            hint = f"a model is played by a recipe: mnpo -s policy.model={shorten(name)}"
        raise ConfigError(f"no recipe '{shorten(name)}'; {hint}")
    return (recipe_folder() / f"{name}.yaml").read_text(encoding="utf-8")


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`; a component of another kind replaces the one below it whole."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if not (isinstance(old, dict) and isinstance(value, Mapping)):
            merged[key] = value
        else:
            merged[key] = merge(old, value) if same_kind(old, value, key) else value
    return merged


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in `player_defaults`, `learner` and `loss` for the same kinds; drop what is null."""
    filled = dict(values)
    player_defaults = filled.pop("player_defaults", None)
    if "players" in filled:
        filled["players"] = _over(player_defaults, values["players"])
    if "learners" in filled:
        filled["learners"] = _over(values.get("learner"), values["learners"])
    if "losses" in filled:
        filled["losses"] = _over(values.get("loss"), values["losses"])
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
        if mergeable and ("kind" not in below or same_kind(below, above)):
            filled[name] = merge(dict(below), above)
        elif above is not None:
            filled[name] = above
    return filled


def _mapping(component: Any) -> Any:
    """A bare kind as a mapping; anything else as it is."""
    return {"kind": component} if isinstance(component, str) else component


def same_kind(below: Mapping[str, Any], above: Mapping[str, Any], part: str = "") -> bool:
    """True if both are of one kind, that of `part` by default where the one below names none."""
    field = RunConfig.model_fields.get(part)
    kind = below.get("kind", field and field.default)
    return above.get("kind", kind) == kind


def plain_values(value: Any) -> Any:
    """A value from Python as YAML would give it: a component, or its class, as its settings; a
    function by its path, with its source text where it has no module; a data frame as its rows.
    """
    if isinstance(value, type) and issubclass(value, Component):
        return import_path(value)
    if isinstance(value, Component):
        known = value.kind in type(value).packaged_kinds()
        kind = value.kind if known else import_path(type(value))
        return {**value.settings(), "kind": kind}
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    rows = rows_of(value)
    if rows is not None:
        return rows
    if callable(value) and not isinstance(value, type):
        path, source = give(value)
        return {"kind": path, "source": source} if source else path
    return value


# -- overrides


def override(values: dict[str, Any], overrides: Overrides) -> dict[str, str]:
    """Put overrides into plain values; returns which override set which key."""
    origins: dict[str, str] = {}
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            path = full_path(str(key).split("."), values)
            check_plain(value, f"settings['{shorten(str(key))}']")
            plain = plain_values(value)
            if path == ["prompts"]:
                plain = as_prompts(plain)
            _put(values, path, plain)
            for leaf in leaves(path, value):
                origins[leaf] = f"settings['{key}']"
        return origins
    if isinstance(overrides, str):
        raise ConfigError(f"settings '{overrides}': must be a mapping")
    # `part.kind=…` comes before the settings of that kind.
    for text in sorted(overrides, key=lambda t: not t.partition("=")[0].strip().endswith(".kind")):
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"-s {shorten(text)}: write it as -s key.path=value")
        path = full_path(key.split("."), values)
        origin = f"-s {shorten(text)}"
        parsed = parse_yaml(value, origin)
        check_colons(parsed, value, origin)
        _put(values, path, parsed)
        origins |= dict.fromkeys([".".join(path), *leaves(path, parsed)], origin)
    return origins


def leaves(path: Sequence[str], value: Any) -> Iterator[str]:
    """The dotted keys of everything that a value sets."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves([*path, str(key)], inner)
    else:
        yield ".".join(path)


def full_path(path: list[str], values: Mapping[str, Any]) -> list[str]:
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
    if last == "kind" and inner.get("kind", value) != value:  # the other kind's settings go
        inner.clear()
    inner.update(merge({last: inner.get(last)}, {last: value}))


def suggest_option(option: str, arguments: Sequence[str]) -> str:
    """A hint for an option of `run` or `plan` that there is not, by the recipe's settings.

    `arguments` are those of the command, the verb first; option "": these are too many.
    """
    try:
        values = read(arguments[1])
    except (ConfigError, IndexError):
        values = read("mnpo")
    return suggestions.suggest_option(option, arguments, with_defaults(values))


UNION_ARMS = ("str", "int", "float", "bool")
SELF_EXPLAINING = ("unknown_kind", "kind", "value_error")
SHORT = 60  # characters of a value that a message repeats
MANY = 20  # faults that a message lists


def config_error(
    error: ValidationError,
    source: str,
    origins: Mapping[str, str],
    values: Mapping[str, Any] | None = None,
    kind: str = "",
) -> ConfigError:
    """One line for each fault: file, or override by `origins`, key, and what is wrong.

    `values` are those of a whole recipe, where an unknown key may be a setting of another part;
    `kind` that of a part whose settings can stand beside it alone.
    """
    # A default that could not be made because of another fault is no fault of its own.
    faults = [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]
    lines: dict[str, None] = {}
    for fault in faults:
        lines |= dict.fromkeys(_lines(fault, source, origins, values or {}, kind))
    if len(lines) > MANY:
        more = f"{source}: and {len(lines) - MANY:,} faults more"
        return ConfigError("\n".join([*list(lines)[:MANY], more]))
    return ConfigError("\n".join(lines))


def _lines(
    fault: Any, source: str, origins: Mapping[str, str], values: Mapping[str, Any], kind: str
) -> Iterator[str]:
    keys = [str(key) for key in fault["loc"] if "[" not in str(key) and key not in UNION_ARMS]
    path = ".".join(keys)
    shown = f"{path}: " if path else ""
    if fault["type"] != "unknown_key":
        message = suggestions.suggest_kind(fault, keys, values) or _message(fault, path, kind)
        yield f"{_place(path, source, origins)}: {shown}{message}"
        return
    for key in fault["ctx"]["unknown"]:
        place = _place(".".join([*keys, key]), source, origins)
        hint = fault["ctx"]["own"].get(key, "")
        if values and not hint:
            suggest = partial(
                suggestions.suggest_settings,
                values=with_defaults(values),
                below=with_defaults(read("mnpo")),
                part=path,
                full=place == source,
            )
            hint = suggest(key)
            leaf = leaf_of(key, values, keys)
            is_others_group = key.lower() in suggestions.other_names("settings")
            if leaf != key and (is_others_group or not hint):  # as trainer.n_gpus_per_node
                hint = suggest(leaf) or hint
        if hint == f"did you mean '{key}'?":  # a path with dots, as `-s` takes it
            hint = f"in a recipe it is written {_nested(key)}"
        if not hint:
            hint = fault["ctx"]["hint"] if key == fault["ctx"]["key"] else "it is no setting"
        yield f"{place}: {shown}unknown key '{shorten(key)}'; {hint}"


def _nested(path: str) -> str:
    """The dotted path as a recipe writes it: "prompts: {path: …}"."""
    first, *inner = path.split(".")
    braces = "".join(f"{{{key}: " for key in inner)
    return f"{first}: {braces}…{'}' * len(inner)}"


def leaf_of(key: str, values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The innermost key of an unknown one that holds a single setting: lr of {optim: {lr: 1}}."""
    inner: Any = values
    for name in (*keys, key):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    while isinstance(inner, Mapping) and len(inner) == 1:
        key, inner = next(iter(inner.items()))
    return str(key)


def _place(path: str, source: str, origins: Mapping[str, str]) -> str:
    """The override that set this key or a part of it, else the file."""
    for key, override in origins.items():
        if path == key or key.startswith(f"{path}."):
            return override
    return source


def _message(fault: Any, path: str, kind: str) -> str:
    if path == "players" and not fault.get("input"):
        return "is required; name them: -s 'players={a: {model: …}, b: {model: …}}'"
    if fault["type"] == "missing" or fault.get("input", "") is None:
        where = f"write it beside the kind, as '{{kind: {kind}, {path}: …}}'"
        where = where if kind else f"set it with -s {path}=…"
        return f"is required; {where}" if path else "is empty"
    message = fault["msg"].removeprefix("Value error, ")
    value = repr(fault["input"])
    if fault["type"] not in SELF_EXPLAINING and len(value) < SHORT:
        message += f" (got {value})"
    return message
