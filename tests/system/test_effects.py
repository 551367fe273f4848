"""Every setting declares its effect on the world, and every declared effect is signed."""

import re
from inspect import isabstract
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from every_setting import all_settings, declarations, fields
from pydantic import BaseModel, Field, TypeAdapter

from equipoise.component import Settings
from equipoise.judges.pointwise import Pointwise
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.system.effects import (
    VERBS,
    Code,
    DeclaredEffect,
    ReadPath,
    Text,
    effects_of,
    type_of,
    undeclared,
)

DOCS = Path(__file__).parents[2] / "docs" / "trust.md"


@pytest.mark.long
def test_every_setting_declares_its_effect():
    missing = [
        f"{kind.__module__}.{kind.__name__}.{name}: {type_}"
        for kind, name, type_ in fields()
        if undeclared(type_)
    ]
    assert missing == [], "declare their effects (equipoise.system.effects)"
    assert RunConfig in all_settings()
    assert len(all_settings()) > 150


@pytest.mark.parametrize(
    ("type_", "lacks"),
    [
        (str, True),
        (Path | None, True),
        (dict[str, float], True),
        (list[str], True),
        (Any, True),
        (tuple[int, ...], False),
        (Literal["a"] | bool | float | None, False),
        (dict[Text, float], False),
        (dict[Text, str], True),
        (ReadPath | None, False),
        (Annotated[dict[str, Any], DeclaredEffect("executes")], False),
    ],
)
def test_a_type_that_can_hold_text_lacks_a_declaration(type_, lacks):
    assert undeclared(type_) is lacks


EXAMPLES: dict[str, Any] = {
    "text": "texts/mine.txt",
    "api_key_env": "A_KEY",
    "base_url": "http://127.0.0.1:1/v1",
    "attention": "kernels/flash",
    "name": "game(a=1)",
    "report_to": ("wandb",),
}


def value_for(type_: Any, name: str) -> Any:
    """A value of the setting that has its effect."""
    tries = [EXAMPLES.get(name), [EXAMPLES.get(name)], True, "a/b", ["a/b"], {"a": "b"}]
    for value in [*tries, {"a": {"b": "c"}}]:
        try:
            valid = TypeAdapter(type_).validate_python(value, strict=False)
        except ValueError:
            continue
        if valid not in (None, [None]):
            return valid
    raise AssertionError(f"no value for {type_}")


def holder(kind: type[Settings], name: str, value: Any) -> BaseModel:
    """The settings with this value; of the others, those with which it has its effect."""
    beside = {"base_url": "http://127.0.0.1:1", "model": "a/b"}
    known = {key: item for key, item in beside.items() if key in kind.model_fields}
    if isinstance(known.get("base_url"), str) and "Remote" in str(kind.__mro__):
        known["base_url"] = (known["base_url"],)  # type: ignore[assignment]
    unset = dict.fromkeys(kind.model_fields)
    return kind.model_construct(**{**unset, **known, name: value})


@pytest.mark.long
def test_every_declared_effect_changes_the_signature(tmp_path):
    for kind, name, _ in declarations():
        if isabstract(kind):
            continue
        before = effects_of(holder(kind, name, None), tmp_path)
        value = value_for(type_of(kind, name), name)
        after = effects_of(holder(kind, name, value), tmp_path)
        assert after.signed() != before.signed(), f"{kind.__name__}.{name}"
        assert set(after.notes()) != set(before.notes()), f"{kind.__name__}.{name}"


def test_a_users_part_is_code_and_what_it_does_not_declare_is_given_to_it(tmp_path):
    class Mine(Pointwise):
        kind: str = "mine"
        words: ReadPath = "words.txt"
        label: Text = "x"
        options: dict[str, Any] = Field(default_factory=dict)
        call: Code | None = None

        def score(self, prompt, text):
            return {"score": 1.0}

    notes = effects_of(Mine(options={"run": "rm"}), tmp_path).notes()  # type: ignore[call-arg]
    assert f"reads {tmp_path}/words.txt (words)" in notes
    assert any(note.startswith("runs code that is not Equipoise's: test_effects") for note in notes)
    assert any("passes on to test_effects" in note and '{"run": "rm"}' in note for note in notes)
    assert len(notes) == 3


def rows() -> list[str]:
    """The table of docs/trust.md: each effect with the names of the settings that declare it."""
    names: dict[str, set[str]] = {verb: set() for verb in VERBS}
    for _, name, does in declarations():
        names[does.verb].add(name)
    return [f"| {VERBS[verb]} | `{' '.join(sorted(names[verb]))}` |" for verb in VERBS]


@pytest.mark.long
def test_the_docs_name_every_setting_with_an_effect():
    present = re.findall(r"^\| .* \| `.*` \|$", DOCS.read_text(), re.M)
    missing = [row for row in rows() if row not in present]
    assert missing == [], "\n".join(rows())


def test_a_tracker_is_named_with_its_setting(tmp_path):
    config = recipe_loader.load("rock_paper_scissors", ["report_to=[trackio]"])
    [effect] = [each for each in effects_of(config, tmp_path).all if each.verb == "sends"]
    assert (effect.what, effect.identity, effect.quiet) == ("trackio", "trackio", True)
    assert effect.setting.startswith("report_to")
    assert "trackio" not in effect.setting
    assert effect.note == f"hands numbers and names to the tracker trackio ({effect.setting})"
