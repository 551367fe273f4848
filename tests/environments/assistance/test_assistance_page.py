"""The whole page of a run of the assistant's game: its answers stay text."""

import assistance_run
import pytest
from test_html import Page

from equipoise.report.html import render
from equipoise.report.records import matches
from equipoise.report.section import Cards
from equipoise.run.collect import facts
from equipoise.run.directory import Run


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    folder = assistance_run.write_run(
        tmp_path_factory.mktemp("assistance") / "run", sources=("clerk", "wildguard")
    )
    with Run.read(folder) as run:
        return facts(run)


def test_answers_are_text_in_their_parts(collected):
    page = Page(render(collected))
    words = " ".join(" ".join(page.words).split())
    for title in ("Welfare", "User and model", "Moves", "The written game"):
        assert title in words
    assert (
        "Who beats whom" not in words
        and "no generation has been evaluated" not in words
    )
    assert "<b>bold" not in render(collected) and assistance_run.HOSTILE not in words
    [rows] = [block["rows"] for block in page.data() if "rows" in block]
    parts = rows[0]["answers"][0]["parts"]
    assert [part["name"] for part in parts] == [
        "thinking",
        "payoff",
        "analyze: VQ_CQ",
        "response",
    ]
    assert parts[0]["text"] == assistance_run.HOSTILE and parts[1]["rows"][3] == [
        "VQ user",
        "2.5",
        "[2]",
        "1.5",
    ]
    assert rows[0]["answers"][0]["text"] == "" and "parts" not in rows[2]["answers"][0]


def test_harmful_prompts_fold_the_answers_away(collected, tmp_path):
    [cards] = [block for block in matches(collected).blocks if isinstance(block, Cards)]
    assert cards.folded == ""
    with Run.read(assistance_run.write_run(tmp_path / "harm", harmful=True)) as run:
        [cards] = [
            block for block in matches(facts(run)).blocks if isinstance(block, Cards)
        ]
    assert cards.folded
