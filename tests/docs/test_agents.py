"""AGENTS.md and llms.txt lead to pages that are there, and their commands are known."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from test_docs import bind, commands, words

from equipoise.runs import recipe_loader

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "AGENTS.md"
LISTED = ROOT / "llms.txt"


@pytest.mark.parametrize("page", [AGENTS, LISTED], ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert len(links) > 5
    assert not [link for link in links if not (ROOT / link).is_file()]


def test_every_command_has_its_verb_and_options():
    lines = commands(AGENTS, "equipoise")
    assert len(lines) > 5
    for line in lines:
        bind(words(line)[1:])
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {line.split()[1] for line in commands(AGENTS, "make")} <= set(targets)


def test_every_setting_of_its_runs_is_one():
    for line in commands(AGENTS, "equipoise"):
        verb, recipe, *rest = words(line)[1:]
        if verb in ("plan", "run"):
            given = [value for option, value in pairwise(rest) if option == "-s"]
            assert recipe_loader.load(recipe, [*given, "judge=exact"])


def test_the_list_is_in_the_form_that_agents_read():
    lines = LISTED.read_text().splitlines()
    assert lines[0] == "# Equipoise"
    assert lines[2].startswith("> ")
    items = [line for line in lines if line.startswith("- ")]
    assert all(re.match(r"- \[[^]]+\]\([^)]+\): \S", line) for line in items)
    assert {line for line in lines if line.startswith("## ")} >= {"## Begin", "## Optional"}


def test_both_are_short():
    assert len(AGENTS.read_text().split()) < 700
    assert len(LISTED.read_text().split()) < 500
