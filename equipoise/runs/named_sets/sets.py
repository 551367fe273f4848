"""From what a person names to sets that can be measured, and the variations of a sweep."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from equipoise.component import Component, own_part_hint
from equipoise.errors import ConfigError, shorten
from equipoise.evaluation.sets.base import Benchmark
from equipoise.judges.base import Judge
from equipoise.prompts.given_rows import as_prompts
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.recipe_loader import Overrides
from equipoise.system.user_parts import is_in_file
from equipoise.system.yaml_text import parse_yaml

Sweep = Mapping[str, Sequence[Any]] | Sequence[str]


def named_sets(
    on: Sequence[Any],
    judge: Judge | None,
    overrides: Overrides,
    sweep: Sweep = (),
    below: Mapping[str, Any] | None = None,
) -> dict[str, Benchmark]:
    """Name -> set for what `--on` gives: a kind's name, a file of prompts, a YAML file of a set or
    of several by name, YAML text, a mapping, a component; `NAME=` before one names it.

    Args: judge: of every set that names none; overrides: of every set; sweep: setting -> values, or
    `key=value,value` texts: each set once for every combination, named `SET[key=value]`; below:
    settings of sets of prompts that do not have them. Raises ConfigError.
    """
    sets: dict[str, Benchmark] = {}
    variations = list(_variations(sweep))
    for given in on:
        for base, values in settings_of(given):
            if judge is not None:
                values.setdefault("judge", judge.settings())
            if values["kind"] == "prompts":
                values = {**(below or {}), **values}
            for variation in variations:
                name = variation_name(base, variation)
                if name in sets:
                    raise ConfigError(
                        f"--on: two sets are called '{name}'; name one with NAME={name}"
                    )
                sets[name] = vary(name, values, overrides, variation)
    return sets


def as_trained(run: RunDirectory) -> dict[str, Any]:
    """Settings of a set of prompts that is played by the run's game and judged by its judge."""
    config = run.config
    return {
        "game": run.from_anywhere(config.game).settings(),
        "judge": run.from_anywhere(config.measuring_judge).settings(),
        "utility": config.utility,
    }


def _variations(sweep: Sweep) -> Iterator[dict[str, Any]]:
    if isinstance(sweep, Mapping):
        values = {str(key): list(several) for key, several in sweep.items()}
    else:
        values = dict(map(parse_sweep, sweep))
    for combination in product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    key, equals, values = text.partition("=")
    several = parse_yaml(f"[{values}]", f"--sweep {shorten(text)}")
    if not equals or not key or not several:
        raise ConfigError(f"--sweep {text}: write it as --sweep key=value,value")
    return key, several


def variation_name(base: str, variation: Mapping[str, Any]) -> str:
    if not variation:
        return base
    parts = ",".join(f"{key}={value_text(value)}" for key, value in variation.items())
    return f"{base}[{parts}]"


def vary(
    name: str, values: Mapping[str, Any], overrides: Overrides, variation: Mapping[str, Any]
) -> Benchmark:
    settings = json.loads(json.dumps(values))  # a copy that overrides may change
    varied = {key: value_text(value) for key, value in variation.items()}
    if varied:
        settings["varied"] = varied
    if isinstance(overrides, Mapping):
        merged: Overrides = {**overrides, **variation}
    else:
        swept = [f"{key}={json.dumps(value)}" for key, value in variation.items()]
        merged = [*overrides, *swept]
    benchmark = recipe_loader.component(Benchmark, settings, merged, f"--on {name}")
    if benchmark.judge is None:
        return benchmark
    return benchmark.model_copy(update={"judge": benchmark.judge.as_it_is()})


def value_text(value: Any) -> str:
    """A swept value as names have it."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.replace("/", "_")


def settings_of(given: Any) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(given, Component | type) or not isinstance(given, str | Path | Mapping):
        given = recipe_loader.plain_values(given)
    if isinstance(given, list):  # a data frame's rows
        return [("given", set_of_rows(given))]
    if isinstance(given, Mapping):
        return by_name(dict(recipe_loader.plain_values(given)))
    text = str(given)
    if text.startswith(("lm_eval:", "lm-eval:", "lm_eval/")):
        tasks = text[len("lm_eval:") :]
        raise ConfigError(f"--on {text}: write it as --on '{{kind: lm_eval, tasks: [{tasks}]}}'")
    name, equals, spec = text.partition("=")
    if equals and name.isidentifier():
        [(_, values)] = settings_of(spec)
        return [(name, values)]
    if text in Benchmark.known_kinds() or is_import_path(text):
        return [(text.rpartition(":")[2], {"kind": text})]
    if text.endswith((".yaml", ".yml")) or text.lstrip().startswith("{"):
        return by_name(recipe_loader.parse_mapping(text, "--on"))
    if text.endswith(".py"):
        hint = own_part_hint(text) or "there is no such file; name a class in one, as file.py:MySet"
        raise ConfigError(f"--on {text}: {hint}")
    check_is_there(text)
    file_name = Path(text.partition("#")[0]).stem or text
    return [(file_name, {"kind": "prompts", "prompts": text})]


def check_is_there(text: str) -> None:
    """Raises ConfigError for a bare word that is neither a benchmark nor a file."""
    if Path(text).suffix or "/" in text or "*" in text or Path(text).exists():
        return
    if text in Benchmark.REMOVED:
        raise ConfigError(f"--on {text}: {Benchmark.REMOVED[text]}")
    kinds = list(Benchmark.known_kinds())
    names = text.replace(" ", ",").split(",")
    if len(names) > 1 and all(name in kinds for name in names):
        wanted = " ".join(f"--on {name}" for name in names)
        raise ConfigError(f"--on {text}: name one set at a time: {wanted}")
    hint = ""
    if text.isidentifier():
        hint = f"; a task of lm-eval: --on '{{kind: lm_eval, tasks: [{text}]}}'"
    known = f"known: {', '.join(sorted(kinds))}"
    close = difflib.get_close_matches(text.lower(), kinds, 1, 0.75)
    if close:
        known = f"did you mean '{close[0]}'?"
    raise ConfigError(
        f"--on {text}: no benchmark and no file is called so; {known}{hint}; from Python, a prompt "
        "of a single word: on={'prompts': ['…', …]}"
    )


def by_name(values: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(name, settings) of a mapping that is a set, or of sets by name."""
    if "kind" in values or "prompts" in values:
        settings = {"kind": "prompts", **values}
        if isinstance(values.get("prompts"), list | tuple):
            settings["prompts"] = as_prompts(values["prompts"])
        return [(str(settings["kind"]), settings)]
    several = []
    for name, inner in values.items():
        if isinstance(inner, Mapping):
            several.append((name, dict(inner)))
        elif isinstance(inner, list | tuple):
            several.append((name, set_of_rows(inner)))
        else:
            for _, settings in settings_of(inner):
                several.append((name, settings))
    return several


def set_of_rows(rows: Sequence[Any]) -> dict[str, Any]:
    """The settings of a set of prompts, which are given as texts or rows."""
    return {"kind": "prompts", "prompts": as_prompts(list(rows))}


def is_import_path(text: str) -> bool:
    module, colon, name = text.rpartition(":")
    is_named = is_in_file(module) or module.replace(".", "").isidentifier()
    return bool(colon) and name.isidentifier() and is_named
