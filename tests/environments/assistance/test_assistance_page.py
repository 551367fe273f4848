"""The whole page of a run of the assistant's game: its answers stay text."""

import assistance_run
import pytest
from parsed_page import Page

from equipoise.blocks.html import render
from equipoise.blocks.section import Cards
from equipoise.environments.assistance.game import WARNING
from equipoise.report.page import page
from equipoise.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def collected(recorded_folder):
    with RunDirectory.read(recorded_folder("assistance", sources=("clerk", "wildguard"))) as run:
        return page(run)


@pytest.mark.long
def test_answers_are_text_in_their_parts(collected):
    parsed = Page(render(collected))
    words = " ".join(" ".join(parsed.words).split())
    for title in ("Welfare", "User and model", "Moves", "The written game"):
        assert title in words
    assert "Who beats whom" not in words
    assert "no generation has been evaluated" not in words
    assert "<b>bold" not in render(collected)
    assert assistance_run.HOSTILE not in words
    [rows] = [block["rows"] for block in parsed.data() if "rows" in block]
    parts = rows[0]["answers"][0]["parts"]
    assert [part["name"] for part in parts] == ["thinking", "payoff", "analyze: VQ_CQ", "response"]
    assert parts[0]["text"] == assistance_run.HOSTILE
    assert parts[1]["rows"][3] == ["VQ user", "2.5", "[2]", "1.5"]
    assert rows[0]["answers"][0]["text"] == ""
    assert "parts" not in rows[2]["answers"][0]


def matches(content):
    [section] = [section for section in content.sections if section.name == "matches"]
    [browser] = [block for block in section.blocks if isinstance(block, Cards)]
    return section, browser


@pytest.mark.long
def test_harmful_prompts_fold_the_answers_away(collected, recorded_folder):
    section, browser = matches(collected)
    assert browser.folded == ""
    assert "block by block" in section.lead
    with RunDirectory.read(recorded_folder("assistance", harmful=True)) as run:
        _, browser = matches(page(run))
    assert browser.folded == WARNING
