"""What people mean by a setting, kind, option or verb that there is not.

The names that other programs use are data: `other_names.yaml`.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

from equipoise.component import Component, Settings
from equipoise.errors import shorten
from equipoise.runs.config import RunConfig
from equipoise.system.addresses import lacks_scheme
from equipoise.system.yaml_text import read_yaml


def suggest_settings(
    key: str,
    values: Mapping[str, Any],
    below: Mapping[str, Any],
    part: str = "",
    *,
    full: bool = False,
) -> str:
    """ "did you mean 'x'?" for the settings of a recipe that an unknown key may mean; "" for none.

    `values` are the recipe's, and `below` another's, both with their defaults; `part` is the dotted
    place where the key stood; `full` keeps the `players.` before a player's name. Looked for are,
    in this order: the key itself in another part, or what other programs call so, where the recipe
    has no such part also in those of `below`; a slip of the pen.
    """
    plain_key = key.replace("-", "_")
    option = other_names("options").get(plain_key)
    if option:
        return f"it is no setting, but on the command line there is {option[0]}"
    several = other_names("devices").get(plain_key)
    if several:
        return f"write {several[0]}"
    parts = dict(_parts(values, RunConfig))
    paths = _same_name(key, part, parts)
    room = _room(part)
    if room and key in room.known_kinds():
        return f"a kind is written {{kind: {key}, …}}"
    if not paths and (kinds := kinds_with(key, part)):
        return f"it is a setting of other kinds: {', '.join(kinds)}"
    for path in () if paths else _same_name(key, part, dict(_parts(below, RunConfig))):
        paths.append(path.replace("players.policy.", "players.NAME."))
    paths = paths or alike(key, part, parts, list(values.get("players") or ()))
    shown = []
    for path in paths[:3]:
        in_part = part and path.rpartition(".")[0] == part
        path = path.removeprefix(f"{part}.") if in_part else path
        shown.append(f"'{path if full else path.removeprefix('players.')}'")
    more = ["…"] if len(paths) > len(shown) else []
    return f"did you mean {' or '.join([*shown, *more])}?" if paths else ""


def _same_name(key: str, part: str, parts: Mapping[str, set[str]]) -> list[str]:
    """The dotted settings of this name, or of what other programs call so, those of `part` first.

    Settings of named sets count in their own part alone.
    """
    plain = key.replace("-", "_")
    for name in (plain, *other_names("settings").get(plain.lower(), ())):
        group, _, last = name.rpartition(".")
        paths = [
            f"{place}.{last}".lstrip(".")
            for place, fields in parts.items()
            if last in fields and f".{place}".endswith(f".{group}".rstrip("."))
        ]
        near = [path for path in paths if path.rpartition(".")[0] == part]
        outside = [path for path in paths if ".sets." not in path and may_mean(part, path)]
        if near or outside:
            return near or outside
    return []


def may_mean(part: str, path: str) -> bool:
    """False where a judge's or game's setting would be taken for a player's."""
    return part.split(".")[0] not in ("judge", "judges", "game") or path.startswith(part)


def alike(key: str, part: str, parts: Mapping[str, set[str]], players: Sequence[str]) -> list[str]:
    """The setting, or player, whose name is nearest; another part's only where it is very near."""
    own = [*parts.get(part, ()), *(players if not part else ())]
    places = {}
    for place, fields in parts.items():
        for field in fields:
            places[field] = place
    close = difflib.get_close_matches(key, own, 1, 0.6)
    if not part or part in parts:
        close += difflib.get_close_matches(key, places, 1, 0.8)
    nearest_name = difflib.get_close_matches(key, close, 1)
    if not nearest_name:
        return []
    name = nearest_name[0]
    return [f"{part if name in own else places[name]}.{name}".lstrip(".")]


def kinds_with(key: str, part: str) -> list[str]:
    """The kinds of the part's room that have this setting, where the part is of another kind."""
    room = _room(part)
    kinds = sorted(room.packaged_kinds()) if room else ()
    return [kind for kind in kinds if room and key in room.find(kind).model_fields]


def _room(part: str) -> type[Component] | None:
    """The base class of a part of the configuration: of `loss`, of `players.NAME`."""
    field = RunConfig.model_fields.get(part.split(".")[0])
    rooms = list(_groups(field.annotation)) if field else []
    by_name = field is not None and get_origin(field.annotation) is dict
    if len(rooms) != 1 or part.count(".") != by_name or not issubclass(rooms[0], Component):
        return None
    return rooms[0]


@cache
def other_names(table: str, part: str = "") -> dict[str, tuple[str, ...]]:
    """A name in other programs -> ours, of a table of `other_names.yaml`, or a part of it."""
    tables = read_yaml(Path(__file__).with_name("other_names.yaml"))[table]
    names: dict[str, tuple[str, ...]] = {}
    for ours, others in (tables.get(part, {}) if part else tables).items():
        for other in others:
            names[other] = (*names.get(other, ()), ours)
    return names


MODEL_NAME = re.compile(r"[\w.-]+/[\w.-]+$|gpt|claude|gemini|llama|qwen|o\d", re.IGNORECASE)
DATA_FILE = re.compile(r".*(/|\.(jsonl|ndjson|json|csv|tsv|parquet|txt)$)")


def suggest_kind(fault: Any, keys: Sequence[str], values: Mapping[str, Any]) -> str:
    """The message for a text that is no kind, by what it was meant for; "" where that is unknown.

    `keys` are the dotted place of the part.
    """
    if fault["type"] not in ("kind", "unknown_kind") or not keys:
        return ""
    room = {"judges": "judge", "learners": "learner", "losses": "loss"}.get(keys[0], keys[0])
    room = "judge" if keys[-1] == "judge" else room
    if fault["type"] == "kind":
        known = [name for name in values.get("players") or () if name != keys[-1]]
        close = difflib.get_close_matches(keys[-1], known, 1, 0.6) if room == "players" else ()
        return f"there is no such player; did you mean '{close[0]}'?" if close else ""
    kind = fault["ctx"]["kind"]
    unknown = f"unknown kind '{shorten(kind)}'"
    named = _room(".".join(keys))
    if named and kind.lower() in named.known_kinds():
        return f"{unknown}; did you mean '{kind.lower()}'?"
    meant = other_names("kinds", room).get(kind.lower())
    if meant:
        return f"{unknown}; did you mean {' or '.join(map(repr, meant))}?"
    if kind.lower() == "none":
        return f"{unknown}; nothing is written null"
    if room == "loss" and "policy_gradient" in other_names("kinds", "learner").get(
        kind.lower(), ()
    ):
        return f"{unknown}; '{kind}' is a learner here: -s learner=policy_gradient -s loss=null"
    hint = ""
    if lacks_scheme(kind):
        kind = f"http://{kind}"
    if room == "players":
        path = ".".join(keys).removeprefix("players.")
        hint = f"a model is named by -s {path}.model={kind}"
        if "://" in kind:
            hint = f"a server's model plays as {{kind: endpoint, base_url: {kind}, model: …}}"
    elif room == "prompts" and DATA_FILE.match(kind):
        hint = f"a file, or org/name of the hub, is named by -s prompts.path={kind}"
    elif "://" in kind and room == "judge":
        hint = (
            "a server's model judges as {kind: rubric, model: {kind: endpoint, "
            f"base_url: {kind}, model: …}}}}"
        )
    elif room == "judge" and MODEL_NAME.match(kind) and not kind.endswith(".py"):
        hint = (
            f"a reward model is {{kind: reward_model, model: {kind}}}; a model that is asked is "
            "{kind: rubric, model: {kind: endpoint, base_url: …, model: …}}"
        )
    return f"{unknown}; {hint}" if hint else ""


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
            parts = {inner: default | as_mapping(given)}
            if isinstance(by_name, Mapping):
                parts = {f"{inner}.{key}": as_mapping(part) for key, part in by_name.items()}
            for part_place, part in parts.items():
                kind_name = part.get("kind")
                if kind_name in group.known_kinds():
                    yield from _parts(part, group.find(kind_name), part_place)


def as_mapping(part: Any) -> dict[str, Any]:
    """A part's settings, or its bare kind, as a mapping; empty for anything else."""
    if isinstance(part, str):
        return {"kind": part}
    return dict(part) if isinstance(part, Mapping) else {}


def _groups(annotation: Any) -> Iterator[type[Settings]]:
    """The groups of settings that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for inner in get_args(annotation):
        yield from _groups(inner)


def suggest_option(option: str, arguments: Sequence[str], values: Mapping[str, Any]) -> str:
    """A hint for an option that there is not, or for arguments too many (option "").

    `arguments` are those of the command, the verb first; `values` the recipe's settings with their
    defaults. "" where nothing is known.
    """
    before = dict(pairwise(arguments))
    if not option:
        return suggest_arguments(arguments)
    key = option.lstrip("-").replace("-", "_")
    if key in ("config", "recipe", "config_file", "cfg"):
        return f"The recipe has no option: equipoise {arguments[0]} RECIPE"
    meant = other_names("options").get(key)
    if meant:
        return f"Write {meant[0]}"
    joined = next((t for t in arguments if t.startswith(f"{option}=")), "").partition("=")[2]
    value = joined or before.get(option, "-")
    value = "…" if value.startswith("-") else value
    paths = [key] if key.split(".")[0] in RunConfig.model_fields else _likely(key, values)
    return f"Write {' or '.join(f'-s {path}={value}' for path in paths)}" if paths else ""


def suggest_arguments(arguments: Sequence[str]) -> str:
    """A hint for a command with more arguments than it takes; "" where nothing is known.

    A value with spaces that was not quoted comes in pieces, and so does `-s KEY VALUE`.
    """
    loose: list[str] = []
    given = list(arguments[2:])
    while given:
        text = given.pop(0)
        if text in ("-s", "--set"):
            value = given.pop(0) if given else ""
            pieces = [value]
            while given and open_brackets(" ".join(pieces)) > 0:
                pieces.append(given.pop(0))
            if len(pieces) > 1:
                return f"A value with spaces is quoted: -s '{' '.join(pieces)}'"
            if "=" not in value and given and not given[0].startswith("-"):
                return f"Write -s {value}={given[0]}"
        elif "=" in text and not text.startswith("-"):
            loose.append(f"-s {text}")
    return f"Write {' '.join(loose)}" if loose else ""


def open_brackets(text: str) -> int:
    """The number of YAML's brackets that a text opens and does not close."""
    return sum(text.count(sign) for sign in "{[") - sum(text.count(sign) for sign in "}]")


def _likely(key: str, values: Mapping[str, Any]) -> list[str]:
    """The settings that a key may mean, as overrides name them; itself where none is like it."""
    parts = dict(_parts(values, RunConfig))
    paths = _same_name(key, "", parts) or alike(key, "", parts, list(values.get("players") or ()))
    return [path.removeprefix("players.") for path in paths[:2]]


def verb_called(name: str) -> str:
    """The verb for what other programs call so; "" for none."""
    return other_names("verbs").get(name, ("",))[0]
