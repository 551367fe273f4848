"""A run whose player thinks, from its matches to its report, its status and its data frames."""

import json
from pathlib import Path

import pytest

import equipoise
from equipoise.runs.play_matches import count_thoughts
from equipoise.types import Match, Move, PlayerId, Turn, View, user

TEXTS = [
    "<think>\nIt may be 5, or \\boxed{9}.\n</think>\n\nThe sum is 10.",
    "<think>\nIt is 10, so it is",
    "It is 12.",
]


def test_moves_with_thoughts_and_without_an_end_are_counted_by_player() -> None:
    seats = {"1": PlayerId("thinker", 1), "2": PlayerId("other")}
    view = View((user("4 + 6?"),))
    turns = [Turn("1", view, Move(text)) for text in TEXTS] + [Turn("2", view, Move("Ten."))]
    match = Match("m", 0, "train", "answers", "p", seats, 1, tuple(turns))
    assert count_thoughts([match]) == {"thinker": {"moves": 3, "thought": 2, "unfinished": 1}}


@pytest.mark.long
def test_a_thinking_player_from_run_to_report(tmp_path: Path) -> None:
    rows = [{"prompt": f"4 + 6? ({n})", "answer": "10"} for n in range(24)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = equipoise.run(
        {
            "name": "thinking",
            "generations": 1,
            "players": {"policy": {"kind": "scripted", "texts": TEXTS}},
            "prompts": {"kind": "files", "path": str(prompts), "per_generation": 6, "held_out": 6},
            "game": {"kind": "answers", "samples": 4},
            "schedule": "self_play",
            "judge": "math",
            "max_unjudged": 0.9,
        },
        out=tmp_path / "run",
        progress=False,
    )
    matches = run.matches()
    thought = matches[matches.thoughts.notna()]
    assert set(thought[thought.finish != "error"].answer) == {"The sum is 10."}
    assert thought[thought.finish == "error"].error.str.contains("raise max_new_tokens").all()
    scores = run.judgements()
    assert set(scores[scores.answer == "The sum is 10."].score) == {1.0}
    assert set(scores[scores.answer == "It is 12."].score) == {0.0}
    assert scores[scores.answer == ""].score.isna().all()
    status = run.status()
    assert status["records"]["thoughts_without_an_end_share"] > 0
    (caution,) = (line for line in status["cautions"] if "thought to the end" in line)
    assert "'policy'" in caution
    assert "raise max_new_tokens" in caution
    page = run.report(tmp_path / "report.html").read_text()
    assert "thought to the end of their tokens" in page
    cards = page.partition('<script type="application/json">{"rows"')[2].partition("</script>")[0]
    answers = [a for row in json.loads('{"rows"' + cards)["rows"] for a in row["answers"]]
    shown = {answer["text"]: answer.get("thoughts", {}).get("text") for answer in answers}
    assert shown["The sum is 10."] == "It may be 5, or \\boxed{9}."
    assert shown["It is 12."] is None
