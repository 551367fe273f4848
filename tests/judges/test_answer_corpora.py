"""The judges of answers on the corpora of made answers: how often each is wrong."""

import json
from collections import Counter

import pytest

from benchmarks.answer_judges import RESULT, markdown
from equipoise import trl
from equipoise.judges.multiple_choice import Choice
from equipoise.judges.rules import Math, Refusal
from equipoise.types import Prompt, user
from tests.conftest import SHARED
from tests.corpora.make import FOLDER, MAKERS, text_of

JUDGES = {"mathematics": Math(timeout=20), "choices": Choice(), "refusals": Refusal()}
CASES = SHARED / "cases" / "answers.jsonl"


def rows_of(name: str) -> list[dict]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def wrong_rows(name: str, rows: list[dict]) -> list[dict]:
    """The rows that the judge scores otherwise; unjudged is as good as 0."""
    judge = JUDGES[name]
    prompts = [Prompt("p", (user("?"),), row["facts"]) for row in rows]
    asked = [(prompt, row["answer"]) for prompt, row in zip(prompts, rows, strict=True)]
    if name == "mathematics":
        verdicts = JUDGES["mathematics"].scores(asked)
    else:
        verdicts = [judge.score(*each) for each in asked]
    wrong = []
    for row, verdict in zip(rows, verdicts, strict=True):
        score = verdict["score"] if isinstance(verdict, dict) else 0
        if score != row["score"]:
            wrong.append(row)
    return wrong


@pytest.mark.parametrize("name", MAKERS)
def test_a_corpus_is_what_its_maker_writes(name):
    assert (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8") == text_of(name)
    rows = rows_of(name)
    assert len(rows) >= 400
    assert len({row["score"] for row in rows}) == 2
    if name != "mathematics":
        assert len({row["language"] for row in rows}) >= 10


@pytest.mark.parametrize("name", ["choices", "refusals"])
def test_a_sample_is_scored_rightly(name):
    assert wrong_rows(name, rows_of(name)[::15]) == []


@pytest.mark.long
@pytest.mark.parametrize("name", MAKERS)
def test_at_most_one_in_a_hundred_is_falsely_right_or_falsely_wrong(name):
    rows = rows_of(name)
    counts = Counter(row["score"] for row in rows)
    wrong = Counter(row["score"] for row in wrong_rows(name, rows))
    assert wrong[0] <= 0.01 * counts[0]
    assert wrong[1] <= 0.01 * counts[1]


def test_the_page_has_the_rates_of_the_raw_result():
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    page = FOLDER.parents[1] / "docs" / "judges.md"
    assert markdown(result["rows"]) in page.read_text(encoding="utf-8")


@pytest.mark.long
def test_the_rows_that_were_written_afterwards():
    rows = rows_of("written_afterwards")
    wrong = []
    for name, judge in JUDGES.items():
        wrong += wrong_rows(name, [row for row in rows if row["judge"] == judge.kind])
    assert len(wrong) <= 0.03 * len(rows)


@pytest.mark.long
@pytest.mark.skipif(not CASES.is_file(), reason="the shared cases are not at hand")
def test_the_shared_cases():
    wrong = []
    for line in CASES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        facts = {name: [value] for name, value in row["facts"].items()}
        reward = trl.reward(row["judge"])
        [score] = reward(prompts=["q"], completions=[row["answer"]], **facts)
        if (score or 0) != row["score"]:
            wrong.append(row)
    assert wrong == []
