"""Judges whose replies cannot be read: the message and `status` say what one looks like, and what
may help.
"""

from __future__ import annotations

import json

import pytest

import equipoise
from equipoise.errors import NoSignal
from equipoise.judges.base import Judge
from equipoise.judges.question import CUT, UNREADABLE, advice, read_move, unread_reply
from equipoise.judges.read_verdict import Unread
from equipoise.judges.rules import Exact
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Move, Vote

pytestmark = pytest.mark.long  # whole runs


def recipe(folder, judge: dict) -> dict:
    rows = [json.dumps({"prompt": f"row {n}", "answer": "a"}) for n in range(8)]
    (folder / "prompts.jsonl").write_text("\n".join(rows))
    prompts = {"path": str(folder / "prompts.jsonl"), "per_generation": 4, "held_out": 2}
    return {
        "generations": 1,
        "players": {"a": {"kind": "scripted", "text": "a"}},
        "prompts": {"kind": "files", **prompts},
        "game": "answers",
        "judge": judge,
    }


def judge_that_says(text: str, **settings) -> dict:
    return {"kind": "rubric", "model": {"kind": "scripted", "text": text}, **settings}


def test_a_stage_without_verdicts_shows_a_reply_and_what_may_help(tmp_path, command):
    folder = tmp_path / "run"
    words = "100% of .*verdict could not be read. For example: .*'I rather like it'.*rubric_compact"
    with pytest.raises(NoSignal, match=words):
        equipoise.run(recipe(tmp_path, judge_that_says("I rather like it")), out=folder)
    facts = equipoise.open_run(folder).status()
    assert facts["failed"]["stage"].startswith("0/held_out/a/judge/rubric")
    assert "I rather like it" in facts["failed"]["error"]
    assert facts["records"]["unjudged_share"] == 1.0
    assert facts["records"]["answers_judged"] == 0
    [judge] = facts["judges"]
    assert judge["without_score"] == judge["judgements"] > 0
    assert "I rather like it" in judge["example"]
    assert "unreadable: midpoint" in judge["advice"]
    shown = " ".join(command("status", folder).out.split())
    assert "failed in 0/held_out/a/judge/rubric" in shown
    assert "unjudged share 100.0 %" in shown
    assert "judgements without a score, such as: no verdict" in shown
    equipoise.open_run(folder).resume({"max_unjudged": 1.0}, progress=False)
    assert "failed" not in equipoise.open_run(folder).status()


def test_unread_verdicts_of_a_stage_under_way_are_counted(tmp_path):
    """As a kill leaves them: judgements are recorded, and no stage is finished."""
    folder = tmp_path / "run"
    with pytest.raises(NoSignal):
        equipoise.run(recipe(tmp_path, judge_that_says("well")), out=folder, progress=False)
    with RunDirectory.open(folder) as run:
        run.ledger.note("failed", "")
    facts = equipoise.open_run(folder).status()
    assert "failed" not in facts
    assert facts["records"]["unjudged_share"] == 1.0


def test_two_judges_of_one_set_are_two_headlines(tmp_path):
    settings = recipe(tmp_path, {"kind": "exact"})
    (tmp_path / "more.jsonl").write_text('{"prompt": "one", "answer": "a"}\n')
    made = equipoise.run(settings, out=tmp_path / "run", progress=False)
    for judge in ("exact", "shorter"):
        made.evaluate(str(tmp_path / "more.jsonl"), judge=judge, progress=False)
    labels = [row["label"] for row in made.status()["headlines"] if "more" in row["label"]]
    assert len(set(labels)) == 2
    assert any("by exact" in label for label in labels)


def test_a_reply_that_was_cut_is_known_by_it():
    reading = read_move(Move("Let me", "length"), lambda text, code: Unread("no verdict"), "")
    judgement = Judgement("j", "m", "r", None, votes=(Vote("r", "1", None), reading.vote("r", "1")))
    assert reading.reason == f"{UNREADABLE}: no verdict ({CUT})"
    unread = unread_reply([judgement])
    assert unread == f"no verdict ({CUT})"
    assert unread_reply([]) == ""
    assert "max_new_tokens" in advice(Exact.model_validate({}), unread)
    assert "max_new_tokens" not in advice(Exact.model_validate({}), "no verdict")
    peers = [Judge.build({"kind": "peers", "unreadable": u}) for u in ("missing", "midpoint")]
    assert ["unreadable: midpoint" in advice(judge, "no verdict") for judge in peers] == [
        True,
        False,
    ]
