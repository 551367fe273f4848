"""The examples run as their pages say, and their reports are right."""

import json
import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest
from small_runs import SMALL, settings

from equipoise.types import Prompt, user

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FEW = settings(
    generations=1,
    evaluate__every=1,
    prompts__cards=16,
    prompts__per_generation=8,
    prompts__held_out=34,
    schedule__samples=2,
    learner__batch_size=16,
)


@pytest.mark.long
def test_a_game_with_its_own_measure_and_page(command, tmp_path, monkeypatch):
    for name in ("describe_and_guess.py", "describe_and_guess.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "describe_and_guess", raising=False)
    planned = command("plan", "describe_and_guess.yaml", *FEW, "--json")
    done = command("run", "describe_and_guess.yaml", *FEW, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert planned.facts["counts"]["held_out_matches"] == 68  # 34 cards, two measurements
    for found in done.facts["measured"]:
        sizes = found["by_size"].values()
        total = sum(size["n"] * size["mean"] for size in sizes) / 34
        assert sum(size["n"] for size in sizes) == found["right"]["n"] == 34
        assert abs(total - found["score"]) < 1e-12
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What was understood" in page
    assert "Right guesses by size" in page
    assert "describer@0" in page
    assert json.dumps("guesser@1") in page


def load(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks annotations up there
    spec.loader.exec_module(module)
    del sys.modules[name]
    return module


def copy(name: str, folder: Path) -> None:
    for file in EXAMPLES.glob(f"{name}.*"):
        shutil.copy(file, folder)


@pytest.mark.long
def test_a_judge_with_settings_and_reasons(command, tmp_path, monkeypatch):
    copy("plain_speech", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plain_speech", raising=False)
    done = command("run", "plain_speech.yaml", *SMALL, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert done.facts["records"]["pairs"] > 0
    assert command("export", "run", "--to", "out").code == 0
    rows = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    utilities = {row["utility"] for row in rows if row["value"] is not None}
    assert utilities == {"score", "short_sentences", "short_words"}
    assert all(0 <= row["value"] <= 1 for row in rows if row["value"] is not None)


def test_what_the_judge_likes_and_cannot_judge():
    judge = load("plain_speech").PlainSpeech()
    prompt = Prompt("p", (user("Hello"),))
    plain = judge.score(prompt, "Go to desk two. It is open.")
    stiff = judge.score(
        prompt, "Applicants requiring assistance should immediately approach counter two"
    )
    assert plain["score"] == 1
    assert 0 < stiff["score"] < 0.6
    assert judge.score(prompt, "7 + 3") == "the answer holds no word"


@pytest.mark.long
def test_a_pool_behind_endpoints(command, tmp_path, openai_server):
    copy("endpoint_pool", tmp_path)
    openai_server.answer = lambda body: f"I do not know, says {body['model']}."
    servers = settings(
        players__large__base_url=openai_server.url, players__small__base_url=openai_server.url
    )
    few = settings(generations=1, prompts__per_generation=8, prompts__held_out=4)
    few += settings(evaluate__samples=1)
    done = command("run", "endpoint_pool.yaml", *servers, *few, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert done.facts["records"]["pairs"] > 0
    assert {body["model"] for body in openai_server.bodies()} == {"large", "small"}
