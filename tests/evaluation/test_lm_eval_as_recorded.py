"""lm-eval's side of a measurement, by a small stand-in for the library: what it is asked for, how
its tasks are found, what is made of its results, and of its faults.
"""

import json
import sys
from pathlib import Path

import msgspec
import pytest
from readable_values import shown

from equipoise.errors import EquipoiseError
from equipoise.evaluation.harnesses import lm_eval_worker
from equipoise.evaluation.harnesses.base import Harness, HarnessModel, read_scores

MODEL = HarnessModel(
    "folder",
    adapter="adapter",
    tokenizer="tokens",
    dtype="bfloat16",
    products="float16",
    device="cpu:1",
    attention="eager",
    template_options={"thinking": False},
)


ASKED = {
    "plain": {"tasks": "gsm8k"},
    "patterns": {"tasks": "arc_*, gsm8k", "limit": 0.5, "apply_chat_template": True},
    "own": {"tasks": ["mine"], "include_path": "own", "model_args": {"max_length": 9}},
    "own and others": {
        "tasks": ["mine", "gsm8k"],
        "include_path": "own",
        "num_fewshot": 3,
        "batch_size": "auto",
        "fewshot_as_multiturn": False,
        "apply_chat_template": "named",
        "system_instruction": "Be brief.",
        "gen_kwargs": {"temperature": 0},
        "model_args": {"dtype": "float32", "pretrained": "elsewhere"},
        "confirm_run_unsafe_code": True,
        "seed": 5,
    },
    "by name of the template": {"tasks": "gsm8k", "apply_chat_template": "named"},
}


@pytest.mark.parametrize("name", ASKED)
def test_what_lm_eval_is_asked(name, lm_eval_library, as_recorded):
    harness = Harness.build({"kind": "lm_eval", **ASKED[name]})
    model = MODEL if "own" in name else HarnessModel("folder")
    prepared = harness.prepare()
    measured = harness.measure(model, Path("replies", "of"))
    parts = [
        [prepared.source, prepared.essentials],
        measured.document,
        [msgspec.to_builtins(each.result) for each in measured.scores],
    ]
    text = "\n\n".join(map(shown, parts))
    as_recorded(f"lm_eval/{name.replace(' ', '_')}.txt", text)


def test_replies_are_kept_apart_by_what_changes_them(lm_eval_library):
    def cache(model, **settings):
        harness = Harness.build({"kind": "lm_eval", "tasks": "gsm8k", **settings})
        return harness.measure(model, Path("replies")).document["given"]["use_cache"]

    first = cache(MODEL)
    assert Path(first).is_absolute()
    assert Path(first).name.startswith("replies-")
    moved = HarnessModel(**{**msgspec.to_builtins(MODEL), "model": "b", "adapter": "c"})
    assert cache(moved) == first, "where a model lies is no part of it"
    assert cache(MODEL, model_args={"max_length": 4}) != first
    assert cache(MODEL, model_args={"tokenizer": "other"}) == first
    assert cache(HarnessModel("folder")) != first


def test_another_interpreter_gives_the_same(lm_eval_library, capfd):
    here = Harness.build({"kind": "lm_eval", "tasks": "arc_*"})
    away = Harness.build({"kind": "lm_eval", "tasks": "arc_*", "python": sys.executable})
    assert away.prepare() == here.prepare()
    replies = Path("replies")
    assert away.measure(MODEL, replies).document == here.measure(MODEL, replies).document
    captured = capfd.readouterr()
    assert "what it prints" in captured.err
    assert "what it prints" not in captured.out


def test_faults_of_lm_eval(lm_eval_library, as_recorded, monkeypatch, capfd):
    texts = []
    for settings in (
        {"tasks": "gsm8", "limit": 1},
        {"tasks": "arc_*", "include_path": "nowhere"},
        {"tasks": "arc_*", "limit": 13},
        {"tasks": "arc_*", "limit": 14},
        {"tasks": "arc_*", "limit": 14, "python": sys.executable},
        {"tasks": "arc_*", "python": "./no-python"},
        {"tasks": "arc_*", "python": "/bin/false"},
    ):
        harness = Harness.build({"kind": "lm_eval", **settings})
        with pytest.raises(EquipoiseError) as raised:
            harness.prepare()
            harness.measure(MODEL, Path("replies"))
        texts.append(f"{type(raised.value).__name__}: {raised.value}")
    assert capfd.readouterr().err.count("Traceback") == 2, "of what is no fault of the hub"
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(EquipoiseError) as raised:
        Harness.build({"kind": "lm_eval", "tasks": "gsm8k"}).prepare()
    texts.append(f"{type(raised.value).__name__}: {raised.value}")
    text = "\n".join(texts).replace(sys.executable, "PYTHON")
    as_recorded("lm_eval/faults.txt", text)


def test_own_tasks_that_were_edited_are_others(lm_eval_library):
    def own():
        settings = {"kind": "lm_eval", "tasks": "mine", "include_path": "own"}
        return Harness.build(settings).prepare().essentials["own_tasks"]

    first = own()
    assert own() == first
    (lm_eval_library / "own" / "mine.yaml").write_text("task: mine\nversion: 2\n")
    second = own()
    (lm_eval_library / "own" / "mine.yaml").rename(lm_eval_library / "own" / "mine.yml")
    (lm_eval_library / "own" / "mine.yaml").write_text("")
    assert len({first, second, own()}) == 3


def test_a_job_from_file_to_file(lm_eval_library):
    job, reply = lm_eval_library / "job.json", lm_eval_library / "reply.json"
    job.write_text('{"do": "tasks", "tasks": ["arc*", "none"], "include_path": null}')
    lm_eval_worker.main(str(job), str(reply))
    known = ["arc_easy", "arc_challenge", "gsm8k"]
    found = {"arc*": ["arc_challenge", "arc_easy"], "none": []}
    assert json.loads(reply.read_text()) == {"version": "0.4.13", "tasks": found, "known": known}


def sample(document, **more):
    return {"doc_id": document, "metrics": ["acc"], "acc": float(document % 2), **more}


DOCUMENT = {
    "results": {
        "whole": {"acc,none": 0.6, "acc_stderr,none": 0.1},
        "part": {"acc,none": 0.7, "acc_stderr,none": 0.2, "alias": "part"},
        "a": {"acc,none": 0.5, "acc_stderr,none": 0.1, "em,strict": 0.25, "em_stderr,strict": 0.1},
        "b": {"acc,none": 0.9, "sample_len": 7, "acc_stderr,none": "N/A", "bits,none": 1.5},
        "alone": {"bits,none": 2.5, "bits_stderr,none": 0.5, "acc,none": True, "f1,x": 0.5},
    },
    "groups": {
        "whole": {"acc,none": 0.6, "acc_stderr,none": 0.1},
        "part": {"acc,none": 0.7, "acc_stderr,none": 0.2},
    },
    "group_subtasks": {"whole": ["part", "b"], "part": ["a"], "a": []},
    "versions": {"whole": 1, "alone": 2.0},
    "n-shot": {"whole": 5, "alone": 0},
    "n-samples": {"a": {"effective": 30}, "alone": {"effective": 4}},
    "higher_is_better": {"alone": {"bits": False, "f1": True}},
    "config": {"limit": 4.0, "gen_kwargs": {}, "model_dtype": "float32", "model": "hf"},
    "chat_template_sha": "abc",
    "system_instruction": "Be brief.",
    "lm_eval_version": "0.4.13",
}
SAMPLES = [
    sample(3, doc_hash="d3", prompt_hash="p3"),
    sample(4, doc_hash="d4"),
    sample(3, metrics=["f1", "acc"], f1=True, filter="x"),
    sample(5, metrics=["f1"], f1="nan"),
]


def test_results_with_groups_and_samples(tmp_path, as_recorded):
    path = tmp_path / "results_now.json"
    path.write_text(json.dumps(DOCUMENT))
    (tmp_path / "samples_alone_now.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in SAMPLES)
    )
    (tmp_path / "samples_alone_then.jsonl").write_text("not read")
    texts = []
    for scores in read_scores(path, "lm_eval"):
        texts.append(shown(scores.result.facts()))
        texts += [shown(msgspec.to_builtins(item)) for item in scores.items]
    as_recorded("lm_eval/results.txt", "\n\n".join(texts))


def test_results_that_cannot_be_read(tmp_path, as_recorded):
    path = tmp_path / "results_now.json"
    wrong = {
        "no JSON": "{",
        "no results": json.dumps({"a": 1}),
        "of no task": json.dumps({"results": {}}),
        "no number": json.dumps({"results": {"a": {"acc,none": "N/A", "alias": "a"}}}),
        "nothing": json.dumps({"results": {"a": {}}}),
        "samples": json.dumps({**DOCUMENT, "samples": {"alone": [{"doc_id": "x"}]}}),
        "deep": "[" * 100_000,
        "a line": None,
    }
    texts = []
    for name, text in wrong.items():
        path.write_text(text or json.dumps(DOCUMENT))
        if text is None:
            (tmp_path / "samples_b_now.jsonl").write_text('{"doc_id": 1}\n\n[]\n')
        with pytest.raises(EquipoiseError) as raised:
            read_scores(path, "lm_eval")
        texts.append(f"{name}\n  {raised.value}")
    path.write_bytes(b"\xff\xfe")
    (tmp_path / "samples_b_now.jsonl").write_text("")
    for file, source in ((path, "lm_eval"), (path, "lm_evil"), (tmp_path / "x", "lm_eval")):
        with pytest.raises(EquipoiseError) as raised:
            read_scores(file, source)
        texts.append(f"{source}\n  {raised.value}")
    path.write_text(json.dumps(DOCUMENT))
    with pytest.raises(EquipoiseError) as raised:
        read_scores(path, "lm_eval")
    texts.append(f"an empty file of samples\n  {raised.value}")
    as_recorded("lm_eval/unreadable.txt", "\n".join(texts))
