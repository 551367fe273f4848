"""Every recipe that names a paper says where it differs from it, and says it truly."""

import re

import pytest
import yaml

from equipoise.errors import ConfigError
from equipoise.planning.paper_differences import compare_with_published, setting
from equipoise.runs import recipe_loader

PAPER = re.compile(r"arXiv \d{4}\.\d{5}")
NAMING = [name for name, text in recipe_loader.recipe_descriptions().items() if PAPER.search(text)]
AS_RELEASED = [
    name for name in recipe_loader.recipe_descriptions() if name.endswith("_as_released")
]


@pytest.mark.long
@pytest.mark.parametrize("name", recipe_loader.recipe_descriptions())
def test_a_difference_has_a_reason(name):
    """`compare_with_published` refuses one without, and a setting that is not there."""
    compared = compare_with_published(name)
    if compared is None:
        assert name not in NAMING + AS_RELEASED, "it names a paper"
        return
    assert compared.elements
    assert all(element.why for element in compared.differences)
    assert not any(element.why for element in compared.same)


@pytest.mark.parametrize("name", NAMING)
def test_the_paper_is_the_one_that_the_recipe_names(name):
    (number,) = PAPER.findall(recipe_loader.recipe_descriptions()[name])
    assert number in compare_with_published(name).paper


def test_a_setting_is_what_the_recipe_resolves_to():
    """Defaults among them: those of a field, of a kind, and those that hang on others."""
    values = recipe_loader.with_defaults(recipe_loader.read("gtalign_clerks"))
    built = recipe_loader.load("gtalign_clerks")
    assert setting(values, "learner.policy_loss.clip", "") == built.learner.policy_loss.clip
    assert setting(values, "learner.over", "") == built.learner.over == "answer"
    assert setting(values, "evaluate.every", "") == built.evaluate.every == 20
    assert setting(values, "pairs", "") == built.pairs.kind
    assert setting(values, "players.assistant.top_p", "") == 1.0
    assert setting(values, "judge.terms.wait", "") == 500
    assert setting(values, "judge.terms.response_words.1", "") == 20


@pytest.mark.parametrize(
    ("name", "largest"),
    [("mnpo", {"weights of the history"}), ("mnpo_heterogeneous", {"opponents"})],
)
def test_mnpo_lists_its_largest_departures(name, largest):
    """A reader must see them before a run is held against the paper's figures."""
    compared = compare_with_published(name)
    shared = {"η", "reference's share", "judge", "prompts a generation", "base model"}
    assert {element.element for element in compared.differences} >= shared | largest
    assert compared.code == "smiles724/MNPO"


RECIPE = {
    "extends": "gtalign",
    "published": {"elements": {"clip": {"setting": "learner.policy_loss.clip", "published": 0.3}}},
}


def compared(tmp_path, elements):
    path = tmp_path / "mine.yaml"
    changed = {**RECIPE, "published": {"elements": elements}}
    path.write_text(yaml.safe_dump(changed))
    return compare_with_published(path)


@pytest.mark.parametrize(
    ("element", "complaint"),
    [
        ({"setting": "learner.policy_loss.clip", "published": 0.3}, "say why"),
        ({"setting": "learner.policy_loss.clipp", "published": 0.3}, "did you mean 'clip'"),
        ({"setting": "learner.policy_loss.clip.x", "published": 0.3}, "lies in nothing"),
        ({"published": 0.3}, "either the setting, or ours"),
        ({"setting": "learner.policy_loss.clip", "publishd": 0.3}, "did you mean 'published'"),
        ({"setting": "players.asistant.top_p", "published": 1}, "'assistant'"),
    ],
)
def test_a_faulty_element_is_refused(tmp_path, element, complaint):
    with pytest.raises(ConfigError, match=complaint):
        compared(tmp_path, {"a faulty one": element})


def test_a_recipe_has_the_block_of_the_one_it_extends(tmp_path):
    own = {
        "who judges": None,
        "clip": {"setting": "learner.policy_loss.clip", "published": 0.3, "why": "it is ours"},
    }
    names = {element.element for element in compared(tmp_path, own).elements}
    above = {element.element for element in compare_with_published("gtalign").elements}
    assert names == above - {"who judges"} | {"clip"}


def test_the_command_prints_both_sides(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    compared = compare_with_published("gtalign")
    lines = command("recipes", "gtalign")
    assert lines.code == 0
    assert compared.paper in lines.out
    for element in compared.differences:
        assert element.element[1:] in lines.out
    listed = command("recipes", "gtalign", "--json").facts
    assert listed["paper"] == compared.paper
    assert len(listed["differences"]) == len(compared.differences)
    assert len(listed["same"]) == len(compared.same)


def test_the_largest_differences_are_printed_first_a_sentence_each(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    lines = command("recipes", "mnpo").out.splitlines()
    titles = [place for place, line in enumerate(lines) if line.startswith(("Diff", "Other"))]
    most, others, hardly = titles
    eta = lines.index(next(line for line in lines if line.startswith("  η: ")))
    assert most < eta < others < hardly
    assert lines[eta].startswith(
        "  η: published [0.0075, 0.005], here loss.eta = 0.1. Targets of 67 nats and more"
    )
    assert {each.matters for each in compare_with_published("mnpo").elements} == {
        "much",
        "some",
        "little",
    }
