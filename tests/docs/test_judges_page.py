"""What docs/judges.md shows is what the package takes."""

import re
from pathlib import Path

import pytest
import yaml
from equipoise_neighbours.inspect_judge import Inspect
from judge_context import TestContext

from equipoise.judges.base import Judge
from equipoise.judges.guard import Guard
from equipoise.judges.on_topic import OnTopic
from equipoise.judges.panel import Panel
from equipoise.judges.quoting import block
from equipoise.judges.reward_model import ClassifierSettings
from equipoise.players.base import Player
from equipoise.types import Prompt, user

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "judges.md").read_text()


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def is_here(judge: Judge) -> bool:
    """Whether it needs no model of a hub and no other interpreter."""
    members = judge.judges.values() if isinstance(judge, Panel) else ()
    asked_elsewhere = ClassifierSettings | Guard | OnTopic | Inspect
    return not isinstance(judge, asked_elsewhere) and all(map(is_here, members))


@pytest.mark.parametrize("snippet", snippets("yaml"))
def test_every_recipe_of_a_judge_can_be_seated(snippet):
    settings = yaml.safe_load(snippet)["judge"]
    if settings["kind"] == "inspect":  # the entry point's name, where ./neighbours is installed
        settings["kind"] = f"{Inspect.__module__}:{Inspect.__name__}"
    judge = Judge.build(settings)
    names = ("first", "second", "third")
    if is_here(judge):
        judge.at(
            TestContext(
                players={name: Player.build({"kind": "scripted", "text": "7"}) for name in names}
            )
        )
    assert Judge.build(judge.settings()) == judge


def test_the_function_of_the_page_is_a_judge(tmp_path):
    path = tmp_path / "myjudge.py"
    (snippet,) = [each for each in snippets("python") if each.startswith("# myjudge.py")]
    path.write_text(snippet)
    judge = Judge.build(str(path))
    asked = Prompt("p", (user("Which city?"),), {"answer": "New York"})
    assert not [*judge.faults_of_prompts([asked])]
    assert judge.score(asked, "I think York") == {"score": 0.5}
    assert "returned None" in judge.score(Prompt("q", (user("?"),)), "york")


def test_the_template_can_be_used(tmp_path):
    path = tmp_path / "mine.txt"
    (snippet,) = snippets("jinja")
    path.write_text(snippet)
    judge = Judge.build(
        {"kind": "rubric", "text": str(path), "model": {"kind": "scripted", "text": "7"}}
    )
    assert judge.at(TestContext()).question.template.uses == {
        "low",
        "high",
        "question",
        "answer",
        "code",
    }


def test_the_block_is_as_shown():
    (shown,) = snippets("text")
    assert block("answer", "the text", "3f9a12bc07", 100) == shown.strip()


def test_every_placeholder_and_kind_is_named():
    kinds = ("rubric", "pairwise", "transcript", "peers", "panel")
    judges = [Judge.find(kind) for kind in kinds]
    placeholders = {name for judge in judges[:4] for name in judge.placeholders} | {"low", "high"}
    assert all(f"`{{{{ {name} }}}}`" in PAGE for name in placeholders)
    assert all(f"| `{kind}` |" in PAGE for kind in kinds)
