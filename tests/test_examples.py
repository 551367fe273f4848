"""The examples run as their pages say, and their reports are right."""

import json
import shutil
import sys
from pathlib import Path

from small import settings

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FEW = settings(
    generations=1,
    evaluate__every=1,
    prompts__cards=16,
    prompts__per_generation=8,
    prompts__held_out=34,
    schedule__samples=2,
    learner__batch_size=16,
)


def test_a_game_with_its_own_measure_and_page(command, tmp_path, monkeypatch):
    for name in ("describe_and_guess.py", "describe_and_guess.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "describe_and_guess", raising=False)
    planned = command("plan", "describe_and_guess.yaml", *FEW, "--json")
    done = command("run", "describe_and_guess.yaml", *FEW, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert (
        planned.facts["counts"]["held_out_matches"] == 68
    )  # 34 cards, two measurements
    for found in done.facts["measured"]:
        sizes = found["by_size"].values()
        total = sum(size["n"] * size["mean"] for size in sizes) / 34
        assert sum(size["n"] for size in sizes) == found["right"]["n"] == 34
        assert abs(total - found["score"]) < 1e-12
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What was understood" in page and "Right guesses by size" in page
    assert "describer@0" in page and json.dumps("guesser@1") in page
