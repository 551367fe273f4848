"""The whole page of a run of adversary and defender: attacks stay folded away, and text."""

import pytest
import red_team_run
from parsed_page import Page

from equipoise.blocks.html import render
from equipoise.blocks.section import Cards
from equipoise.environments.red_team.game import CONTENT_WARNING
from equipoise.report.page import page
from equipoise.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def content(recorded_folder):
    with RunDirectory.read(recorded_folder("red_team")) as run:
        return page(run)


@pytest.mark.long
def test_an_attack_is_text_and_nothing_opens_by_itself(content):
    text = render(content)
    parsed = Page(text)
    folded = [
        attributes
        for tag, attributes in parsed.elements
        if tag == "details" and "folded-away" in str(attributes)
    ]
    assert len(folded) == 2
    assert all("open" not in attributes for attributes in folded)
    # It is in the browsers' data only.
    assert red_team_run.ATTACK not in "".join(parsed.words)
    rows = [row for block in parsed.data() if "rows" in block for row in block["rows"]]
    answers = [answer["text"] for row in rows for answer in row["answers"]]
    assert red_team_run.ATTACK in answers
    # Style, two browsers, figures, two programs.
    assert len(parsed.scripts) == 6
    assert "<b>bold" not in text
    words = " ".join(parsed.words)
    assert "Who beats whom" not in words
    assert "Match-ups" not in words


@pytest.mark.long
def test_every_match_is_folded_away(content):
    [section] = [section for section in content.sections if section.name == "matches"]
    [browser] = [block for block in section.blocks if isinstance(block, Cards)]
    assert browser.folded == CONTENT_WARNING
    assert browser.source == ""


def test_warnings_say_that_little_was_learned_and_a_quarter_was_not_judged(content):
    told, *steps, unjudged = content.warnings
    assert told.startswith("No change can be told from none")
    assert len(steps) == 2
    assert all("4 optimizer steps" in line for line in steps)
    assert unjudged == "25.0% of the answers could not be judged; they count nowhere"
