"""What settings and options declare of themselves: schemas that are valid and that every recipe
meets, descriptions, bounds and units, one name for one thing, and a place in the docs.
"""

import re
from collections import defaultdict
from importlib.resources import files
from inspect import get_annotations
from pathlib import Path

import msgspec
import pytest
import typer
from every_setting import COMMAND_LINE, all_settings
from jsonschema import Draft202012Validator

import equipoise.types
from equipoise.cli import VERBS, app
from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig

pytestmark = pytest.mark.long

MAP = Path(__file__).parents[1] / "docs" / "map.md"
RECIPES = sorted(path.name.removesuffix(".yaml") for path in files("equipoise.recipes").iterdir())
SIGNED = {  # numbers of either sign: points, grades, pay-offs; seeds and labels of others
    "AQ",
    "CQ",
    "floor",
    "passes_from",
    "DA",
    "first_label",
    "high",
    "initial",
    "least",
    "llm",
    "low",
    "mean",
    "mu",
    "seed",
    "unsafe",
    "user",
}
CHECKED_TOGETHER = {"reference"}  # shares that must add up to at most 1
UNITS = {  # what a setting's name holds -> what its description must name
    r"timeout|patience|latency|seconds|sleep": "second|minute|hour",
    r"(?<!control_)(?<!max_)tokens$|max_new_tokens|max_length|max_prompt$": "token",
    r"longest": "characters|moves|bytes",
    r"temperature": "sampl|random|answers|0:|null|logit",
}
OTHERS_WORDS = {"num_fewshot", "num_processes"}  # as lm-eval and accelerate call them
NOT_THE_HOUSES = re.compile(r"^(n|num|nb|no|nr)_|^(lr|bs|temp|max_tokens|ctx)$|_(lr|bs|num|nb)$")


def own_settings():
    """(group, name, field) of each setting where it is declared, but for the kinds."""
    for group in all_settings():
        for name, field in group.model_fields.items():
            if name != "kind" and name in get_annotations(group):
                yield group, name, field


def is_number(annotation):
    """True for int, float, and either of them or None."""
    return str(annotation) in (
        "<class 'int'>",
        "<class 'float'>",
        "int | None",
        "float | None",
        "typing.Optional[int]",
        "typing.Optional[float]",
    )


def test_every_group_has_a_valid_schema_that_its_defaults_meet():
    faults = []
    for group in all_settings():
        schema = group.model_json_schema()
        Draft202012Validator.check_schema(schema)
        for name, of_setting in schema.get("properties", {}).items():
            if "default" not in of_setting:
                continue
            alone = {**of_setting, "$defs": schema.get("$defs", {})}
            for error in Draft202012Validator(alone).iter_errors(of_setting["default"]):
                faults.append(f"{group.__name__}.{name}: {error.message}")
    assert faults == []


def test_every_recipe_that_is_complete_meets_the_schema_of_a_run():
    validator = Draft202012Validator(RunConfig.model_json_schema())
    complete, faults = 0, []
    for recipe in RECIPES:
        try:
            resolved = recipe_loader.load(recipe)
        except ConfigError as error:
            assert "is required" in str(error), recipe
            continue
        complete += 1
        for error in validator.iter_errors(resolved.model_dump(mode="json")):
            faults.append(f"{recipe} {error.json_path}: {error.message}")
    assert faults == []
    assert complete >= 12


def test_no_group_takes_unknown_keys_changes_or_infinite_numbers():
    loose = []
    for group in all_settings():
        config = group.model_config
        strict = config.get("frozen") and config.get("validate_default")
        strict = strict and not config.get("allow_inf_nan")
        if not strict or config.get("extra") not in ("forbid", "allow"):
            loose.append(group.__name__)
        if config.get("extra") == "allow" and "LmEval" not in group.__name__:
            loose.append(f"{group.__name__} takes any key")
    assert loose == []


def test_every_setting_is_described():
    undescribed = []
    for group, name, field in own_settings():
        text = (field.description or "").strip()
        if len(text) < 5 or text.replace(" ", "_").lower() == name:
            undescribed.append(f"{group.__name__}.{name}: {text!r}")
    assert undescribed == []


def test_every_number_has_a_bound():
    unbounded = []
    for group, name, field in own_settings():
        if not is_number(field.annotation) or name in SIGNED | CHECKED_TOGETHER:
            continue
        bounds = [each for each in field.metadata if {"ge", "gt", "le", "lt"} & set(dir(each))]
        if not bounds:
            unbounded.append(f"{group.__name__}.{name}")
    assert unbounded == []


def test_every_number_of_a_known_measure_names_its_unit():
    unsaid = []
    for group, name, field in own_settings():
        if not is_number(field.annotation):
            continue
        for pattern, units in UNITS.items():
            if re.search(pattern, name) and not re.search(units, field.description or ""):
                unsaid.append(f"{group.__name__}.{name}: {field.description}")
    assert unsaid == []


def test_one_thing_has_one_name():
    """No description stands at two names, and no name is an abbreviation of a longer one."""
    names = defaultdict(set)
    for _, name, field in own_settings():
        names[field.description].add(name)
    twice = {text: sorted(of_text) for text, of_text in names.items() if len(of_text) > 1}
    assert twice == {}
    every = {name for _, name, _ in own_settings()}
    assert {name for name in every if NOT_THE_HOUSES.search(name)} <= OTHERS_WORDS


def test_the_map_tells_every_setting_of_a_recipe():
    table = MAP.read_text().partition("## A recipe's settings")[2]
    told = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split("`")}
    assert set(RunConfig.model_fields) - told == set()


def test_every_option_of_every_verb_has_help():
    group = typer.main.get_command(app())
    lacks = []
    for verb in VERBS:
        command = group.resolve_command(None, [verb])[1]
        for option in command.params:
            if not (option.help or "").strip():
                lacks.append(f"{verb} {option.name}")
    assert lacks == []


def test_settings_of_the_command_line_alone_are_groups_like_others():
    found = {group.__name__: group for group in Settings.__subclasses__()}
    for name in COMMAND_LINE & found.keys():
        for setting, field in found[name].model_fields.items():
            assert field.description, f"{name}.{setting}"


def test_every_record_can_be_written_and_has_a_schema():
    """Records of the ledger: each has a JSON schema, and no two are told apart by one tag."""
    records = [
        kind
        for kind in vars(equipoise.types).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    assert len(records) >= 10
    tags = [kind.__struct_config__.tag for kind in records if kind.__struct_config__.tag]
    assert len(set(tags)) == len(tags)
    for kind in records:
        Draft202012Validator.check_schema(msgspec.json.schema(kind))
        assert kind.__struct_config__.frozen, kind
