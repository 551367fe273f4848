"""A user's own parts: named by import path, under a kind of their own or without one, and refused
before anything is played where a method is missing.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError
from small import FINITE, settings

import equipoise
from equipoise.component import Component, fixed_settings, nearest
from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.judges.pointwise import Pointwise
from equipoise.losses.base import PreferenceLoss
from equipoise.losses.preference import DPO
from equipoise.ratings.base import Ratings
from equipoise.ratings.elo import Elo
from equipoise.runs.config import RunConfig
from equipoise.system.wings import wings
from equipoise.types import Prompt

SETTING = {
    "Player": "players.policy",
    "Prompts": "prompts",
    "Game": "game",
    "Schedule": "schedule",
    "Judge": "judge",
    "PairMaker": "pairs",
    "Shaping": "shaping",
    "PreferenceLoss": "loss",
    "Learner": "learner",
    "Turns": "turns",
    "Solver": "solver",
    "Ratings": "league_ratings",
    "Evaluation": "evaluate",
    "Executor": "executor",
}
"""Base class -> where a recipe names one of its kinds."""


def families() -> dict[str, type[Component]]:
    """Every base class with kinds of its own, by its name."""
    root = Path(equipoise.__file__).parent
    for path in root.rglob("*.py"):
        if "KINDS: ClassVar" in path.read_text():
            import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    bases = [base for base in descendants(Component) if "KINDS" in base.__dict__]
    return {base.__name__: base for base in bases}


def descendants(base: type) -> Iterator[type]:
    for child in base.__subclasses__():
        yield child
        yield from descendants(child)


FAMILIES = families()
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
        for wing in wings()
        for family, kinds in wing.__dict__.get("KINDS", {}).items()
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
    value = f"[{{kind: '{path}'}}]" if family == "Shaping" else f"{{kind: '{path}'}}"
    done = command("plan", *FINITE, "-s", f"{SETTING[family]}={value}")
    assert done.code == 2
    assert SETTING[family] in done.err and path in done.err
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
