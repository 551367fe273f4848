"""A user's own parts: named by import path, under a kind of their own or without one, and refused
before anything is played where a method is missing.
"""

import json
from typing import Literal

import pytest
import yaml
from families import FAMILIES, SETTING
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError
from small_runs import FINITE, settings

from equipoise.component import fixed_settings, function_path, nearest
from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.judges.pointwise import Pointwise
from equipoise.losses.base import PreferenceLoss
from equipoise.losses.preference import DPO
from equipoise.ratings.base import Ratings
from equipoise.ratings.elo import Elo
from equipoise.runs.config import RunConfig
from equipoise.system.plugins import plugin_modules
from equipoise.types import Prompt

for family, base in FAMILIES.items():
    # A class that is given nothing but a name and a kind.
    body = {"__module__": __name__, "__annotations__": {"kind": str}, "kind": "own"}
    globals()[f"Unfinished{family}"] = type(base)(f"Unfinished{family}", (base,), body)


class Polite(Pointwise):
    """1 where the answer says please."""

    kind: Literal["polite"] = "polite"
    please: str = "please"

    def score(self, prompt: Prompt, text: str):
        """By the word."""
        return {"score": float(self.please in text.lower())}


class AnyKind(Polite):
    """The same, under whatever kind."""

    kind: str = "any"


class Quiz(Answers):
    """A game with a kind of its own."""

    kind: Literal["quiz"] = "quiz"


class Halved(DPO):
    """A loss likewise."""

    kind: Literal["halved"] = "halved"


class Slow(Elo):
    """A rating likewise."""

    kind: Literal["slow"] = "slow"


def test_no_two_environments_give_a_family_the_same_kind():
    named = [(family, kind) for family, base in FAMILIES.items() for kind in base.KINDS]
    named += [
        (family, kind)
        for plugin in plugin_modules()
        for family, kinds in plugin.__dict__.get("KINDS", {}).items()
        for kind in kinds
    ]
    assert sorted(set(named)) == sorted(named)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_class_that_lacks_a_method_is_refused_by_its_family(family):
    base = FAMILIES[family]
    assert base.__abstractmethods__, "nothing is asked of its members"
    with pytest.raises(PydanticCustomError) as refused:
        base.build(f"{__name__}:Unfinished{family}")
    message = str(refused.value)
    assert f"Unfinished{family}" in message
    assert all(method in message for method in base.__abstractmethods__)


@pytest.mark.long
@pytest.mark.parametrize("family", SETTING)
def test_a_class_that_lacks_a_method_fails_in_the_plan(family, command):
    path = f"{__name__}:Unfinished{family}"
    value = f"[{{kind: '{path}'}}]" if family in ("Shaping", "Measure") else f"{{kind: '{path}'}}"
    done = command("plan", *FINITE, "-s", f"{SETTING[family]}={value}")
    assert done.code == 2
    assert SETTING[family] in done.err
    assert path in done.err
    assert all(method in done.err for method in FAMILIES[family].__abstractmethods__)


def test_every_family_that_a_recipe_names_is_tried():
    named = {
        family
        for family, base in FAMILIES.items()
        for field in RunConfig.model_fields.values()
        if base.__name__ in str(field.annotation)
    }
    assert named <= set(SETTING)


@pytest.mark.parametrize(
    ("family", "name", "further"),
    [
        (Judge, "Polite", {"please": "s'il vous plaît"}),
        (Judge, "AnyKind", {}),
        (Game, "Quiz", {}),
        (PreferenceLoss, "Halved", {"beta": 0.5}),
        (Ratings, "Slow", {}),
    ],
)
def test_a_part_named_by_import_path_keeps_it(family, name, further):
    path = f"{__name__}:{name}"
    part = family.build({"kind": path, **further})
    assert type(part) is globals()[name]
    assert part.kind == path
    written = json.loads(TypeAdapter(family).dump_json(part))
    assert written == {**written, "kind": path, **further}
    assert family.build(written) == part
    assert family.build(yaml.safe_load(yaml.safe_dump(part.settings()))) == part


@pytest.mark.filterwarnings("error")
def test_both_forms_of_a_judge_have_a_name_of_their_own():
    own, by_path = Polite(), Judge.build(f"{__name__}:Polite")
    assert (own.name, by_path.name) == ("polite", f"{__name__}:Polite")
    changed = Judge.build({"kind": f"{__name__}:Polite", "please": "pray"})
    assert changed.name.startswith(f"{__name__}:Polite-")
    assert '"kind":"polite"' in own.model_dump_json()


def test_another_class_s_path_is_no_kind():
    with pytest.raises(ValueError, match="polite"):
        Polite.model_validate({"kind": f"{__name__}:Quiz"})


@pytest.mark.long
def test_a_run_with_a_judge_of_ones_own_can_be_planned(command):
    more = settings(judge=f"{__name__}:Polite")
    done = command("plan", "quickstart", *more, "--json")
    assert done.code == 0, done.err


def test_what_only_limits_or_addresses_a_computation_does_not_name_its_result():
    settings = {"model": "m", "base_url": "u", "judges": [{"timeout": 3, "k": 1}]}
    assert fixed_settings(settings) == {"model": "m", "judges": [{"k": 1}]}
    assert fixed_settings("timeout") == "timeout"


def test_the_nearest_name_is_offered_where_one_is_near():
    assert nearest("sucess", ["other", "success"]) == "did you mean 'success'?"
    assert nearest("score", ["welfare", "helpful"]) == "known: helpful, welfare"


def test_a_likeness_is_two_letters_of_five_and_all_names_are_listed_up_to_forty():
    assert nearest("abxyz", ["abcde"]) == "known: abcde"
    assert nearest("abxde", ["abcdexyz"]) == "did you mean 'abcdexyz'?"
    assert nearest("abcxy", ["abcdfgh"]) == "did you mean 'abcdfgh'?"  # half of their letters
    assert nearest("abxy", ["abcd"]) == "known: abcd"  # half of four are none
    assert nearest("abcx", ["abcd"]) == "did you mean 'abcd'?"
    assert nearest("ELO", ["elo_k", "elo"]) == "did you mean 'elo'?"
    assert nearest("a", ["b_a", "a_b", "a_a"]) == "did you mean 'a_a'?"
    assert nearest("", ["a"]) == "known: a"
    names = [f"n{i:03}" for i in range(1_041)]
    assert nearest("zzzzz", names[:40]) == f"known: {', '.join(names[:40])}"
    assert nearest("zzzzz", names) == f"known: {', '.join(names[:40])}, and 1,001 more"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("exactt", "unknown kind 'exactt'; did you mean 'exact'?"),
        (
            "my.module.Judge",
            "unknown kind 'my.module.Judge'; a part of your own is named as 'my.module:Judge'",
        ),
        ("https://me.example/judge", "unknown kind 'https://me.example/judge'; known: "),
        ("rows.txt", "unknown kind 'rows.txt'; a part of your own lies in a file that ends in .py"),
        (f"{__name__}:Quiz", f"'{__name__}:Quiz' is not a Judge"),
        (
            f"{__name__}:Nobody",
            f"cannot import '{__name__}:Nobody': module '{__name__}' has no attribute",
        ),
        ("nowhere.at_all:Judge", "cannot import 'nowhere.at_all:Judge': No module named 'nowhere'"),
    ],
)
def test_what_is_no_judge_is_refused_in_one_message(kind, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").touch()
    with pytest.raises(PydanticCustomError) as refused:
        Judge.build(kind)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("value", [3, None, ["exact"], {"model": "m"}])
def test_a_part_is_named_by_a_mapping_with_its_kind(value):
    with pytest.raises(
        PydanticCustomError, match=r"needs a mapping with 'kind', .*known: .*exact, "
    ):
        Judge.build(value)


def test_the_one_function_of_a_file_need_not_be_named(tmp_path):
    one, two, none = (tmp_path / f"{name}.py" for name in ("one", "two", "none"))
    one.write_text("def _helper(): ...\n\n\ndef mine(prompt, text): ...\n")
    two.write_text("def a(): ...\n\n\ndef b(): ...\n")
    none.write_text("x = 1\n")
    assert function_path(str(one)) == f"{one}:mine"
    assert function_path("package.module:f") == "package.module:f"
    for path, why in (
        (two, f"{two} has 2 public functions (a, b); name one, as '{two}:a'"),
        (none, f"{none} has no function, as '{none}:score'"),
    ):
        with pytest.raises(PydanticCustomError) as refused:
            function_path(str(path))
        assert str(refused.value) == why


def test_an_unknown_setting_names_its_neighbour():
    with pytest.raises(ValueError, match="unknown key 'pleas'; did you mean 'please'"):
        Polite.model_validate({"pleas": 1})
    assert Polite(please="pray").settings() == {"kind": "polite", "please": "pray"}
