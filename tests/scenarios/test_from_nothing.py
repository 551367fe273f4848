"""A run that needs no hub: a new model from a corpus, a supervised start, and a game on it."""

import json

import pytest
from small_runs import SMALL, settings

import equipoise
from tools import fresh_model

TEXTS = [
    f"What is {a} plus {b}? Please tell the clerk at desk {a * b}."
    for a in range(12)
    for b in range(12)
]
MEMBERS = """
generations: 0
player_defaults: {kind: local, model: builtin, max_new_tokens: 6, temperature: 0}
players:
  north: {adapter: members/north}
  east: {adapter: members/east}
prompts: {kind: files, path: north.jsonl, per_generation: 1, held_out: 4}
judge: shorter
game: answers
schedule: round_robin
evaluate: {kind: held_out, samples: 1}
"""
ROWS = [
    {"prompt": text, "completion": "It is a number." if i % 2 else "No."}
    for i, text in enumerate(TEXTS)
]


@pytest.mark.long
def test_a_fresh_model_then_sft_then_a_game(command, rows, tmp_path):
    data = rows(ROWS, "answers.jsonl")
    shape = [
        "--vocabulary",
        "350",
        "--hidden",
        "32",
        "--layers",
        "2",
        "--heads",
        "2",
        "--context",
        "96",
    ]
    fresh_model.main(["--corpus", str(data), "--out", "start", *shape])
    taught = command(
        "sft", "start", data, "--out", "policy", "--epochs", 2, "--learning-rate", 3e-3, "--json"
    )
    assert taught.code == 0, taught.err
    assert taught.facts["examples"] == len(ROWS)
    done = command(
        "run",
        "mnpo",
        *SMALL,
        *settings(policy__model="policy", policy__max_length=96, policy__max_new_tokens=8),
        *settings(prompts__path=data, judge="shorter", learner__learning_rate=1e-3),
        "--out",
        "run",
        "--json",
    )
    assert done.code == 0, done.err
    assert done.facts["records"]["pairs"] > 0
    config = json.loads((tmp_path / "run" / "players" / "policy" / "1" / "config.json").read_text())
    assert config["vocab_size"] == 350


def test_sft_says_what_is_wrong(command, rows, tmp_path):
    refused = command("sft", "builtin", rows([{"prompt": "hello"}]), "--out", "policy")
    assert refused.code == 2
    assert ".jsonl:1" in refused.err
    assert "completion" in refused.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    refused = command("sft", "builtin", rows(ROWS), "--out", "full")
    assert refused.code == 2
    assert "not empty" in refused.err


def test_models_are_not_made_below_a_file(command, rows, tmp_path):
    out = tmp_path / "file" / "model"
    out.parent.write_text("mine")
    corpus = rows([{"prompt": "2 + 2?", "completion": "4"}])
    done = command("sft", "builtin", corpus, "--out", out)
    assert done.code == 2 and "file: cannot be written" in done.err, done.err


def test_a_stopped_sft_leaves_nothing(command, rows, tmp_path, monkeypatch):
    from equipoise.learners.answer_trainer import AnswerTrainer

    there = []

    def stop(trainer, **_):
        there.extend(each.name for each in tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(AnswerTrainer, "train", stop)
    data = rows([{"prompt": "2 + 2?", "completion": "4"}])
    stopped = command("sft", "builtin", data, "--out", "policy")
    assert stopped.code == 130
    assert "resume" not in stopped.err
    assert " run" not in stopped.err
    assert there == [data.name] == [each.name for each in tmp_path.iterdir()]


@pytest.mark.long
def test_adapters_on_one_base_are_taught_apart_and_play(command, rows, tmp_path, monkeypatch):
    """Each member has learned its own rows, and not its neighbour's; a run takes it as it lies."""
    from equipoise.models import shared_base

    loaded = []
    load = shared_base.load_model
    monkeypatch.setattr(
        shared_base, "load_model", lambda *given, **more: loaded.append(1) or load(*given, **more)
    )
    prompts = [f"Where is box {n}?" for n in range(8)]
    for name in ("north", "east"):
        rows([{"prompt": text, "completion": f"{name}."} for text in prompts], f"{name}.jsonl")
    taught = command(
        *("sft", "builtin", "north=north.jsonl", "east=east.jsonl", "--lora", "{r: 4, alpha: 16}"),
        *("--epochs", 90, "--learning-rate", 1e-2, "--batch-size", 8),
        *("--out", "members", "--json"),
    )
    assert taught.code == 0, taught.err
    assert loaded == [1]
    assert all(member["loss"] < 0.3 for member in taught.facts["adapters"].values())
    assert list(taught.facts["adapters"]) == ["north", "east"]
    for name in ("north", "east"):
        shape = json.loads((tmp_path / "members" / name / "adapter_config.json").read_text())
        assert (shape["r"], shape["lora_alpha"]) == (4, 16)
    (tmp_path / "members.yaml").write_text(MEMBERS)
    played = command("run", "members.yaml", "--out", "run", "--json")
    assert played.code == 0, played.err
    said: dict[str, set[str]] = {}
    for match in equipoise.open_run(tmp_path / "run").matches().itertuples():
        said.setdefault(match.player, set()).add(match.answer)
    assert said == {"north@0": {"north."}, "east@0": {"east."}}
