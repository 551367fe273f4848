"""`equipoise attack-judge`: what it prints, and what a stranger gets wrong."""

import json

import pytest
from capitals import ROWS

JUDGE = """
def score(prompt, text, answer=None):
    return float(str(answer) in text) + min(0.5, len(text.split()) / 100)
"""


@pytest.fixture
def asked(rows, tmp_path):
    (tmp_path / "mine.py").write_text(JUDGE)
    (tmp_path / "empty.jsonl").write_text("")
    rows([{"prompt": "Why?"}, {"prompt": "How?"}], "bare.jsonl")
    return rows(ROWS, "asked.jsonl")


@pytest.mark.long
def test_findings_a_page_and_json(command, asked, tmp_path):
    shown = command(
        "attack-judge", "mine.py", "--prompts", asked, "--truth", "gold", "--kinds", "length",
        "--out", "page.html",
    )  # fmt: skip
    assert shown.code == 0, shown.err
    assert "mine alone: 4 exploits by 6 attacks on 12 prompts; open: length" in shown.out
    assert "mine behind the gate: no exploit shown" in shown.out
    assert "Exploits: length" in (tmp_path / "page.html").read_text()
    done = command(
        "attack-judge", "mine.py", "--prompts", asked, "--kinds", "empty", "--json",
        "--no-gate", "--beside", "other=on_topic",
    )  # fmt: skip
    facts = json.loads(done.out)
    assert [judge["judge"] for judge in facts["judges"]] == ["mine alone", "other"]
    assert facts["judges"][0]["prompts"] == len(ROWS)
    assert facts["page"].endswith("attack.html")


MISTAKES = {
    "no prompts": (["mine.py"], "name the prompts"),
    "no judge": (["--prompts", "asked.jsonl"], "Missing argument 'JUDGE'"),
    "a judge's name misspelled": (["on_topics", "--prompts", "asked.jsonl"], "on_topic"),
    "a judge's file that is not there": (["yours.py", "--prompts", "asked.jsonl"], "yours.py"),
    "a player for a judge": (["local", "--prompts", "asked.jsonl"], "answers and does not judge"),
    "a file that is not there": (["mine.py", "--prompts", "no.jsonl"], "no.jsonl"),
    "an empty file": (["mine.py", "--prompts", "empty.jsonl"], "empty.jsonl"),
    "no answers": (["mine.py", "--prompts", "bare.jsonl"], "--model"),
    "a kind misspelled": (["mine.py", "--prompts", "asked.jsonl", "--kinds", "lenght"], "length"),
    "a truth misspelled": (
        ["mine.py", "--prompts", "asked.jsonl", "--truth", "likenes"],
        "likenes",
    ),
    "a trained attacker without a model": (
        ["mine.py", "--prompts", "asked.jsonl", "--updates", "3"],
        "--model MODEL",
    ),
    "no votes": (["mine.py", "--prompts", "asked.jsonl", "--truth", "votes"], "--votes"),
    "a judge without its name": (
        ["mine.py", "--prompts", "asked.jsonl", "--beside", "on_topic"],
        "NAME=JUDGE",
    ),
    "a model's setting without a model": (
        ["mine.py", "--prompts", "asked.jsonl", "-s", "player.max_new_tokens=5"],
        "--model",
    ),
    "an unknown setting": (
        ["on_topic", "--prompts", "asked.jsonl", "-s", "threshhold=0.5"],
        "threshold",
    ),
    "a model that is not there": (
        ["mine.py", "--prompts", "asked.jsonl", "--model", "no/where"],
        "no/where",
    ),
    "a folder for a page": (["mine.py", "--prompts", "asked.jsonl", "--out", "."], "is a folder"),
    "one prompt": (["mine.py", "--prompts", "asked.jsonl", "--limit", "1"], "--limit"),
    "a judge without its facts": (["refusal", "--prompts", "asked.jsonl"], "harmful"),
    "a recipe without a judge": (["arena", "--prompts", "asked.jsonl"], "no judge of its own"),
    "a judge that needs a model": (["rubric", "--prompts", "asked.jsonl"], "model"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_message(command, asked, mistake):
    arguments, why = MISTAKES[mistake]
    shown = command("attack-judge", *arguments)
    assert shown.code == 2, (shown.out, shown.err)
    assert why in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.long
def test_the_command_attacks_a_model_s_answers_and_trains_an_attacker(command, asked, tmp_path):
    arguments = [
        "attack-judge", "mine.py", "--prompts", asked, "--truth", "gold",
        "--model", "builtin/beginner", "--kinds", "length", "--updates", "2",
        "-s", "player.max_new_tokens=5", "-s", "train.prompts.per_generation=4",
        "-s", "train.game.samples=2", "--out", "whole.html",
    ]  # fmt: skip
    done = command(*arguments)
    assert done.code == 0, done.err
    for title in ("alone", "behind the gate"):
        assert f"trained against mine {title}: " in done.out
    assert done.out.count("after 2 updates and ") == 2
    runs = sorted((tmp_path / "runs" / "attack-judge").iterdir())
    assert len(runs) == 2
    page = (tmp_path / "whole.html").read_text()
    assert "A trained attacker" in page and "tokens sampled" in page
    again = command(*arguments, "--json")  # goes on with the same runs, which are at their end
    facts = json.loads(again.out)
    assert sorted((tmp_path / "runs" / "attack-judge").iterdir()) == runs
    assert [each["judge"] for each in facts["trained"]] == ["mine alone", "mine behind the gate"]
    for trained in facts["trained"]:
        tokens = [point["tokens"] for point in trained["points"]]
        assert [point["updates"] for point in trained["points"]] == [1, 2]
        assert 0 < tokens[0] < tokens[1] <= 2 * 4 * 2 * 5
