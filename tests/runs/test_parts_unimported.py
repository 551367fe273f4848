"""What one door takes, all take: a recipe is read once before parts of the user's own are imported,
and nothing is refused there for what only the imported class says of itself.
"""

import sys

import pytest

from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader

MINE = """
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge
from equipoise.judges.pointwise import Pointwise

class Bounded(Pointwise):
    kind: str = "parts_of_mine:Bounded"
    bounds = (0.0, 1.0)
    def score(self, prompt, text):
        return {"score": 1 / (1 + len(text))}

class Negative(Bounded):
    kind: str = "parts_of_mine:Negative"
    bounds = (-1.0, 0.0)

class Unknown(Bounded):
    kind: str = "parts_of_mine:Unknown"
    bounds = None

class Compares(Bounded):
    kind: str = "parts_of_mine:Compares"
    compares = True

class Trio(Answers):
    kind: str = "parts_of_mine:Trio"
    @property
    def seats(self):
        return ("first", "second", "third")
"""
OWN = "{right: clerk, own: 'parts_of_mine:%s'}"
TAKEN = {
    "least": "judge={kind: panel, how: least, judges: %s}" % (OWN % "Bounded"),
    "product": "judge={kind: panel, how: product, judges: %s}" % (OWN % "Bounded"),
    "mean": "judge={kind: panel, judges: {own: 'parts_of_mine:Compares', pairs: {kind: pairwise, model: "
    "{kind: local, model: builtin}}}}",
    "inner": "judge={kind: panel, how: least, judges: {right: clerk, gate: {kind: gated, "
    "judge_of_answers: 'parts_of_mine:Bounded'}}}",
    "gated": "judge={kind: gated, judge_of_answers: 'parts_of_mine:Bounded'}",
    "judged": "game={kind: judged, game: 'parts_of_mine:Trio', pair: [first, third]}",
}
REFUSED = {
    "negative": (
        "judge={kind: panel, how: least, judges: %s}" % (OWN % "Negative"),
        "own go from -1 to 0",
    ),
    "unknown": (
        "judge={kind: panel, how: product, judges: %s}" % (OWN % "Unknown"),
        "the least of own is not known.*bounds",
    ),
    "gated": ("judge={kind: gated, judge_of_answers: 'parts_of_mine:Unknown'}", "set floor"),
    "judged": (
        "game={kind: judged, game: 'parts_of_mine:Trio'}",
        "pair: name two seats of 'parts_of_mine:Trio'",
    ),
    "packaged": (
        "judge={kind: panel, how: least, judges: {brief: shorter, own: 'parts_of_mine:Bounded'}}",
        "brief go from -inf to 0",
    ),
}


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    (tmp_path / "parts_of_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "parts_of_mine", raising=False)


def announced(setting):
    """The configuration that a run or a plan begins with."""
    return recipe_loader.load_announced("quickstart", settings(setting), lambda _: None)


def settings(setting):
    """A game with a judge's seat needs who plays which role."""
    players = "schedule={kind: roles, shared: true, roles: {answer: policy, judge: policy}}"
    at_table = [players, "evaluate=at_table", "judge={kind: verdict, gold: clerk}"]
    return [setting, *(at_table if "judged" in setting else [])]


@pytest.mark.parametrize("setting", TAKEN.values(), ids=TAKEN)
def test_what_is_loaded_is_also_run(setting):
    assert announced(setting) == recipe_loader.load("quickstart", settings(setting))


@pytest.mark.parametrize(("setting", "why"), REFUSED.values(), ids=REFUSED)
def test_what_the_class_itself_forbids_is_refused(setting, why):
    with pytest.raises(ConfigError, match=why):
        announced(setting)
    with pytest.raises(ConfigError, match=why):
        recipe_loader.load("quickstart", settings(setting))


def test_faults_of_packaged_parts_are_found_before_anything_is_imported():
    with pytest.raises(ConfigError, match="brief go from"):
        announced(REFUSED["packaged"][0])
    assert "parts_of_mine" not in sys.modules
