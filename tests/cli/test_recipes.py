"""Every packaged recipe is parsed, planned, and run for one generation."""

import json

import pytest
import yaml
from small import SMALL, settings

from equipoise import config

OWN = {
    "rock_paper_scissors": settings(generations=1),
    "quickstart": SMALL,
}
QUESTIONS = [{"prompt": f"What is {a} + {a + 1}?", "answer": str(2 * a + 1)} for a in range(40)]


def arguments(name, rows) -> list[str]:
    """What a recipe needs to run here: small parts, and where it asks for a model and prompts, those."""
    if name in OWN:
        return OWN[name]
    data = rows(QUESTIONS)
    return [*SMALL, *settings(policy__model="builtin", policy__max_length=128, policy__max_new_tokens=12),
            *settings(prompts__path=data, judge="exact", policy__temperature=1.0)]  # fmt: skip


@pytest.mark.parametrize("name", config.recipes())
def test_a_recipe_resolves_to_itself(name, rows):
    overrides = [part for part in arguments(name, rows) if part != "-s"]
    resolved = config.load(name, overrides)
    assert config.build(yaml.safe_load(resolved.yaml()), "again").yaml() == resolved.yaml()


@pytest.mark.parametrize("name", config.recipes())
def test_a_recipe_plans_and_runs_one_generation(name, rows, command, tmp_path):
    planned = command("plan", name, *arguments(name, rows), "--json")
    assert planned.code == 0, planned.err
    done = command("run", name, *arguments(name, rows), "--out", "run", "--json")
    assert done.code == 0, done.err
    counts = planned.facts["counts"]
    records = done.facts["records"]
    assert records["matches"] == counts["matches"] + counts["held_out_matches"]
    assert records["judgements"] == counts["judge_calls"]
    assert records["pairs"] <= counts["pairs_at_most"]
    assert [m["generation"] for m in done.facts["measured"]] == [0, 1]
    assert (tmp_path / "run" / "players" / "policy" / "1").is_dir()
    assert "<html" in (tmp_path / "run" / "report.html").read_text()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_every_recipe_says_what_it_is(command):
    listed = command("recipes", "--json").facts
    assert set(listed) == set(config.recipes())
    assert all(len(text) > 20 for text in listed.values())
