"""`equipoise compare` of logs, imported matches and runs, as the command and from Python."""

import json
import random
from pathlib import Path

import pytest

import equipoise
from equipoise.errors import ConfigError, DataError
from equipoise.ledger.ledger import Ledger

MODELS = ("strong", "middling", "weak")


def annotation(number, model, preference):
    return {
        "instruction": f"question {number}",
        "output_1": "a",
        "generator_1": "baseline",
        "output_2": "b",
        "generator_2": model,
        "preference": preference,
        "annotator": "a judge",
    }


@pytest.fixture
def annotations(tmp_path):
    """AlpacaEval's file: `strong` beats the baseline on 36 of 40 questions, `weak` on four."""
    rows = [annotation(i, "strong", 2.0 if i % 10 else 1.0) for i in range(40)]
    rows += [annotation(i, "weak", 1.0 if i % 10 else 2.0) for i in range(45)]
    rows.append(annotation(99, "weak", None))
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(rows))
    return path


def lm_eval_log(folder, model, right, task="arc"):
    """The results and samples that lm-eval leaves of a model."""
    home = folder / model
    home.mkdir(parents=True)
    name = "2026-01-01T00-00-00"
    share = sum(right) / len(right)
    results = {
        "results": {task: {"alias": task, "acc,none": share, "acc_stderr,none": 0.1}},
        "n-shot": {task: 0},
        "n-samples": {task: {"original": len(right), "effective": len(right)}},
        "higher_is_better": {task: {"acc": True}},
        "config": {"model": "hf"},
        "model_name": model,
        "lm_eval_version": "0.4.13",
    }
    (home / f"results_{name}.json").write_text(json.dumps(results))
    lines = [
        {"doc_id": i, "filter": "none", "metrics": ["acc"], "acc": float(value)}
        for i, value in enumerate(right)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (home / f"samples_{task}_{name}.jsonl").write_text(text)


def test_models_of_one_log_are_compared_as_it_lies_on_disk(command, annotations, tmp_path):
    done = command("compare", annotations, "--json", "--out", tmp_path / "page.html")
    facts = json.loads(done.out)
    [each] = facts["differences"]
    assert (each["first"], each["second"], each["items"]) == ("strong", "weak", 40)
    assert each["difference"] == 0.8 and each["low"] > 0.5 and each["adjusted"] < 0.001
    assert each["only_second"] == 5 and each["differs"]
    rows = {row["target"]: row for row in facts["standings"][each["measure"]]}
    assert rows["weak"]["missing"] == 1 and rows["weak"]["places"] == [2, 2]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "strong is ahead" in page and len(page) < 1_500_000


def test_targets_of_several_programs_stand_in_one_comparison(command, annotations, tmp_path):
    right = [i % 3 > 0 for i in range(30)]
    lm_eval_log(tmp_path / "logs", "strong", right)
    lm_eval_log(tmp_path / "logs", "weak", [False] * 10 + right[10:])
    done = command("compare", "logs", f"x={annotations}@strong", f"y={annotations}@weak", "--json")
    facts = json.loads(done.out)
    pairs = {(each["first"], each["second"]): each for each in facts["differences"]}
    assert set(pairs) == {("strong", "weak"), ("x", "y")}
    assert pairs["strong", "weak"]["items"] == 30
    assert pairs["strong", "weak"]["difference"] == pytest.approx(6 / 30)
    assert facts["comparisons"] == 2 and 0.95 < facts["level_of_each"] <= 0.975


def test_the_terminal_says_who_is_ahead_and_where_the_page_is(command, annotations):
    text = command("compare", annotations).out
    assert "strong − weak: strong is ahead; +80.0 points" in text
    assert "page: comparison.html" in text


def battles(n=120):
    dice = random.Random(0)
    for i in range(n):
        a, b = dice.sample(range(3), 2)
        winner = "tie" if i % 6 == 0 else "model_a" if a < b else "model_b"
        chats = [
            [
                {"role": "user", "content": f"Question {i % 30}?"},
                {"role": "assistant", "content": f"I am {MODELS[k]}."},
            ]
            for k in (a, b)
        ]
        yield {
            "model_a": MODELS[a],
            "model_b": MODELS[b],
            "winner": winner,
            "conversation_a": chats[0],
            "conversation_b": chats[1],
        }


def test_imported_matches_are_compared_by_prompt_and_not_by_match(command, tmp_path):
    rows = tmp_path / "battles.json"
    rows.write_text(json.dumps(list(battles())))
    command("import-matches", rows, "--from", "lmarena", "--out", "runs/arena")
    comparison = equipoise.compare("runs/arena")
    [rates] = comparison.numbers.win_rates
    assert rates.rates["strong", "weak"].mean > 0.8
    assert rates.rates["strong", "weak"].n <= 30 < 120
    assert rates.mixture["strong"] == pytest.approx(1.0)
    frame = comparison.differences()
    assert len(frame) == 3 and {"difference", "low", "high", "items", "adjusted"} <= set(frame)


def test_a_runs_records_are_read_once_for_all_its_players(command, tmp_path, monkeypatch):
    rows = tmp_path / "battles.json"
    rows.write_text(json.dumps(list(battles())))
    command("import-matches", rows, "--from", "lmarena", "--out", "runs/arena")
    read = []
    matches, stages = Ledger.matches, Ledger.stages

    def counted_matches(ledger, split, *more):
        read.append(split)
        return matches(ledger, split, *more)

    def counted_stages(ledger, stage=None):
        read.append(f"stages: {stage}")
        return stages(ledger, stage)

    monkeypatch.setattr(Ledger, "matches", counted_matches)
    monkeypatch.setattr(Ledger, "stages", counted_stages)
    comparison = equipoise.compare("runs/arena")
    assert len(comparison.numbers.names) == 3
    for part in ("train", "held_out", "benchmark", "stages: measure", "stages: benchmark"):
        assert read.count(part) == 1, part
    usage = comparison.facts()["usage"]
    assert {name: usage[name]["answers"] for name in usage} == dict.fromkeys(MODELS, 0)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ((), "name what to compare"),
        (("nowhere*",), "no file or folder has a name like this"),
        (("{log}@strong",), "only 'strong' is named"),
        (("{log}@none", "{log}"), "has no scores of 'none'"),
    ],
)
def test_what_cannot_be_compared_is_one_message(annotations, targets, words):
    given = [target.format(log=annotations) for target in targets]
    with pytest.raises((ConfigError, DataError), match=words):
        equipoise.compare(*given)


def test_a_log_is_not_asked(annotations):
    with pytest.raises(ConfigError, match="is a log, whose model cannot be asked"):
        equipoise.compare(annotations, on="gsm8k")


def test_nothing_in_common_names_what_each_has(annotations, tmp_path):
    lm_eval_log(tmp_path / "logs", "other", [True, False])
    with pytest.raises(ConfigError, match=r"--on held_out\.jsonl") as error:
        equipoise.compare(f"{annotations}@weak", tmp_path / "logs")
    assert "other: arc: acc" in str(error.value)


def test_a_file_that_is_no_log_names_what_can_be_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"Inspect .*lm-eval .*AlpacaEval"):
        equipoise.compare(path, path)


QUESTIONS = "{kind: prompts, prompts: {kind: clerk_questions, count: 1, test: 6}}"
FIRST_PLACE = "{kind: first_place, judge_of_answers: shorter}"


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["clerk", FIRST_PLACE])
def test_missing_answers_are_played_once_and_kept(command, judge):
    few = ["-s", "prompts.per_generation=8", "-s", "prompts.held_out=4", "-s", "generations=1"]
    command("run", "quickstart", *few, "--out", "runs/a")
    asked = ["runs/a", "start=builtin/beginner", "--on", f"new={QUESTIONS}", "--judge", judge]
    first = command("compare", *asked, "--json", "--keep", "kept").facts
    with Ledger.open(Path("kept/beginner/ledger.sqlite"), reading=True) as ledger:
        before = ledger.counts()
    again = command("compare", *asked, "--json", "--keep", "kept").facts
    with Ledger.open(Path("kept/beginner/ledger.sqlite"), reading=True) as ledger:
        assert ledger.counts() == before
    assert before["matches"] >= 6
    assert first == again
    [each] = first["differences"]
    assert each["items"] == 6
    assert any(folder.endswith("kept/beginner") for folder in first["kept"])


def test_a_folder_of_answers_that_cannot_be_written_is_said_with_its_option(command, tmp_path):
    (tmp_path / "kept").write_text("a file")
    (tmp_path / "sums.jsonl").write_text('{"prompt": "What is 1 plus 1?", "answer": "2"}\n')
    asked = ["builtin", "builtin/beginner", "--on", "sums.jsonl", "--judge", "exact"]
    done = command("compare", *asked, "--keep", "kept")
    assert done.code == 2
    assert done.err.strip().endswith("choose another --keep")
    assert "--out" not in done.err
