"""Hostile configurations: one for every setting that declares an effect, and one for every place
where a configuration can name code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isabstract
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from equipoise.games.base import Game
from equipoise.players.base import Player
from equipoise.runs import recipe_loader
from equipoise.system.effects import COMMAND, EXECUTES, MODEL_CODE, DeclaredEffect, type_of
from tests.soak._canaries import KEY, Canaries

HELPERS = Path(__file__).parents[1] / "helpers"
sys.path[:0] = [str(HELPERS), str(HELPERS.parent)]  # the tests' own modules

PLACES = {
    "Player": "players.guest",
    "Judge": "judge",
    "Prompts": "prompts",
    "Game": "game",
    "Benchmark": "evaluate.sets.canary",
    "Learner": "learner",
    "Sampler": "players.policy.sampler",
    "Embedding": "judge.embedding",
}
"""Family -> where a configuration names one of its kinds."""
FILLED: Mapping[str, Any] = {
    "model": "builtin/beginner",
    "trust_remote_code": True,
    "name": "kuhn_poker",
    "task": "chain_sum",
    "text": "hello",
}
"""Values of other settings that a part needs to have its effect."""
RECIPES = {"RedTeam": "gpo_clerks", "OpenSpiel": "kuhn_poker", "TextArena": "kuhn_poker"}
"""Part -> a recipe that it fits better than the run's own."""
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "Peers": {"judge.who": "self"},
    "MetaRewarding": {"judge.who": "self"},
}
"""Part -> settings that let it have its effects."""
PARTS: Mapping[type, Mapping[str, Any]] = {
    Player: {"kind": "local", "model": "builtin/beginner"},
    Game: {"kind": "debate"},
}
"""Family -> a member of it for a part that must have one."""
OPTIONS: Sequence[Any] = ({"a": "b"}, ["a"], True, "tasks")
"""Values of settings that other programs are given; each takes the first that fits its type."""
NOT_IN_RUNS = ("LmEval",)  # named by `evaluate --harness` alone


@dataclass(frozen=True)
class Hostile:
    """Settings of a run, and links in its folder, by the setting whose effect they have."""

    setting: str
    effect: str
    variant: str
    changes: Mapping[str, Any] = field(hash=False)
    links: Mapping[str, Path] = field(default_factory=dict, hash=False)
    first: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.setting} ({self.effect}, {self.variant})"


def hostile_runs(canaries: Canaries) -> list[Hostile]:
    """Every declared effect with each of its variants; of a setting the first is marked."""
    from every_setting import declarations
    from families import SETTING

    from equipoise.learners.launch import Launch
    from equipoise.learners.pretraining_loss import PretrainingLoss
    from equipoise.runs.config import RunConfig

    within = {Launch: "learner.launch", PretrainingLoss: "learner.pretraining", RunConfig: ""}
    runs: list[Hostile] = []
    for kind, name, does in declarations():
        if does.verb == "shows":  # it holds for a folder that is made
            continue
        place = within[kind] if kind in within else _place(kind)
        if isabstract(kind) or place is None or kind.__name__ in NOT_IN_RUNS:
            continue
        for number, (variant, value, links) in enumerate(_values(does, kind, name, canaries)):
            changes = _changes(kind, name, value, place, canaries)
            setting = f"{kind.__name__}.{name}"
            runs.append(Hostile(setting, does.verb, variant, changes, links, number == 0))
    for family, place in SETTING.items():
        changes = {place: {"kind": "canary:Part"}}
        if family == "PairMaker":
            changes = {place: "canary:Part"}
        value = [changes[place]] if family in ("Shaping", "Measure") else changes[place]
        runs.append(Hostile(f"{family}.kind", "executes", "a part", {place: value}, {}, True))
    return runs


def _place(kind: type[BaseModel]) -> str | None:
    from families import FAMILIES

    for family, place in PLACES.items():
        base = FAMILIES[family]
        if issubclass(kind, base) and _kind(kind) in base.known_kinds():
            return place
    return None


def _kind(kind: type[BaseModel]) -> str:
    return str(kind.model_fields["kind"].default) if "kind" in kind.model_fields else ""


def _values(
    does: DeclaredEffect, kind: type[BaseModel], name: str, canaries: Canaries
) -> Iterator[tuple[str, Any, Mapping[str, Path]]]:
    """(variant, value, links in the run's folder) for what a setting can name."""
    if does.verb in ("reads", "writes", "fetches"):
        yield from _paths(does, name, canaries)
    elif does.verb == "sends" and does.says:
        yield "a tracker", ("tensorboard",), {}
    elif does.verb == "sends":
        yield "an address", f"{canaries.url}/v1", {}
        yield "without a path", canaries.url, {}
    elif does.verb == "key":
        yield "a variable", KEY, {}
    elif does == EXECUTES:
        yield "a function", "canary:function", {}
        yield "the system's", "os:system", {}
    elif does == COMMAND:
        command = str(canaries.there / "command")
        is_text = _fits(TypeAdapter(type_of(kind, name)), command)
        yield "a command", command if is_text else [command], {}
    elif does == MODEL_CODE:
        yield "a model's code", True, {}
    elif does.only == "/":
        yield "a kernel", "owner/kernel", {}
    elif does.only:
        yield "parameters", "kuhn_poker(players=2)", {}
    elif kind.__name__ == "Launch":
        yield "a launcher", {"num_processes": 1, "distributed_type": "NO", "debug": True}, {}
    elif name == "task":
        yield "a task of ours", {"chain_sum": {"a": "b"}}, {}
    else:
        adapter = TypeAdapter(type_of(kind, name))
        yield "options", next(each for each in OPTIONS if _fits(adapter, each)), {}


def _paths(
    does: DeclaredEffect, name: str, canaries: Canaries
) -> Iterator[tuple[str, str, Mapping[str, Path]]]:
    secret = canaries.treasure / ("secret.txt" if "text" in name else "secret.jsonl")
    if does.verb == "writes":
        secret = canaries.treasure / "new.sqlite"
    elif name == "adapter":  # no hub is asked for one
        secret = canaries.treasure / "adapter"
    elif does.verb == "fetches":
        yield "of the hub", "owner/canary", {}
        secret = canaries.treasure / "plain" if does.packaged else secret
    yield "absolute", str(secret), {}
    yield "of the home", f"~/treasure/{secret.name}", {}
    yield "relative", f"../home/treasure/{secret.name}", {}
    yield (
        "a link",
        str(canaries.there / "run" / f"link{secret.suffix}"),
        {f"link{secret.suffix}": secret},
    )


def _changes(
    kind: type[BaseModel], name: str, value: Any, place: str, canaries: Canaries
) -> dict[str, Any]:
    """The settings of a run in which a part has this value."""
    adapter = TypeAdapter(type_of(kind, name))
    if not _fits(adapter, value) and _fits(adapter, [value]):
        value = [value]
    value = list(value) if isinstance(value, tuple) else value
    if not place:
        return {name: value}
    if kind.__name__ == "Launch":
        return {f"{place}.{name}": value}
    if kind.__name__ == "PretrainingLoss":
        inner = _filled(kind, canaries) | {name: value}
        return {"learner": {"kind": "policy_gradient", "pretraining": inner}, "loss": None}
    part = {"kind": _kind(kind)} | _filled(kind, canaries) | {name: value}
    if part.get("trust_remote_code") and name == "trust_remote_code":
        part["model"] = str(canaries.treasure / "model")
    if place == "judge.embedding":
        return {"judge": {"kind": "on_topic", "embedding": part}}
    if place == "players.policy.sampler":
        return {place: part, "players.policy.lora": {"r": 8}}
    around = {}
    if recipe := RECIPES.get(kind.__name__):
        around = recipe_loader.load(recipe).model_dump(mode="json")
    return {**around, place: part, **BESIDE.get(kind.__name__, {})}


def _fits(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValueError:
        return False
    return True


def _filled(kind: type[BaseModel], canaries: Canaries) -> dict[str, Any]:
    """Values of the settings that a part must have."""
    run = canaries.there / "run"
    values: dict[str, Any] = dict(FILLED) | {
        "path": str(run / "config.yaml"),
        "base_url": f"{canaries.url}/v1",
    }
    required = [name for name, info in kind.model_fields.items() if info.is_required()]
    filled: dict[str, Any] = {}
    for name in required:
        if name != "kind":
            family: Any = kind.model_fields[name].annotation
            filled[name] = PARTS.get(family, values.get(name, "a"))
    return filled
