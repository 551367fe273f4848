"""IFEval, GSM8K and MATH: rows, what is asked, scores; equal to lm-eval's own, answer by answer
(`lm_eval_golden.json`, which `make_lm_eval_golden` wrote).
"""

from __future__ import annotations

import json

import pytest
from benchmark_answers import answer, failed, made, scored

from equipoise.environments.instructions.instruction_prompts import IFEval
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.problems import (
    GSM8K,
    MATH,
    flexible_extract,
    last_boxed,
    strict_match,
)
from equipoise.ledger.item_scores import estimate, paired_differences
from tests.evaluation.sets.make_lm_eval_golden import GOLDEN


def write_rows(path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def golden_rows(task: str) -> list[dict]:
    rows = json.loads(GOLDEN.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if row["task"] == task]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "task"), [(GSM8K, "gsm8k"), (IFEval, "ifeval")])
def test_lm_eval_scores_each_answer_alike(kind: type[Benchmark], task: str, tmp_path):
    rows = golden_rows(task)
    docs = [{**row["doc"], "id": n, "key": n} for n, row in enumerate(rows)]
    benchmark = kind.model_validate({"path": write_rows(tmp_path / "a.jsonl", docs)})
    items = benchmark.items()
    answers = [answer(item, row["response"]) for item, row in zip(items, rows, strict=True)]
    for row, scores in zip(rows, scored(benchmark, items, answers), strict=True):
        for metric, value in row["scores"].items():
            if isinstance(value, list):
                assert scores.counts[metric] == len(value)
                value = sum(value) / len(value)
            assert scores.values[metric] == value, (row["response"], metric)


def test_instructions_weigh_alike_in_accuracy_by_instruction(tmp_path):
    rows = [
        {
            "key": 1,
            "prompt": "Say a.",
            "instruction_id_list": ["punctuation:no_comma"] * 3,
            "kwargs": [{}] * 3,
        },
        {
            "key": 2,
            "prompt": "Say b.",
            "instruction_id_list": ["detectable_format:title"],
            "kwargs": [{"unused": None}],
        },
    ]
    benchmark = made(IFEval, path=write_rows(tmp_path / "a.jsonl", rows))
    items = benchmark.items()
    assert [item.id for item in items] == ["1", "2"]
    good = scored(benchmark, items, [answer(items[0], "yes"), answer(items[1], "no")])
    assert estimate(good, "inst_strict").mean == 0.75
    assert estimate(good, "prompt_strict").mean == 0.5
    bad = scored(benchmark, items, [answer(items[0], "a, b"), answer(items[1], "no")])
    assert paired_differences(good, bad)["inst_strict"].mean == 0.75
    lost = scored(benchmark, items, [answer(items[0], "yes"), failed(items[1])])
    result = benchmark.summary(lost, items)
    assert (result.unscored, result.score.n) == (1, 1)
    assert lost[1].reason == "no connection"


def test_an_unknown_instruction_is_named(tmp_path):
    row = {"prompt": "a", "instruction_id_list": ["punctuation:no_coma"], "kwargs": [{}]}
    with pytest.raises(ConfigError, match=r"a.jsonl:1: .*did you mean 'punctuation"):
        made(IFEval, path=write_rows(tmp_path / "a.jsonl", [row])).items()


@pytest.mark.long
def test_gsm8k_asks_in_two_forms_with_examples(tmp_path):
    row = {"question": "2 + 2?", "answer": "<<2+2=4>>4\n#### 4"}
    path = write_rows(tmp_path / "a.jsonl", [row, {**row, "question": "3 + 1?"}])
    (first, _) = made(GSM8K, path=path).items()
    assert first.prompt.messages[0].content.startswith("2 + 2?\n\nReason")
    shown = made(GSM8K, path=path, form="lm_eval", shots=2, shots_path=path).items()[0]
    contents = [message.content for message in shown.prompt.messages]
    assert contents[0] == "Question: 2 + 2?\nAnswer:"
    assert contents[1] == row["answer"]
    assert len(contents) == 5
    with pytest.raises(DataError, match="3 shots, but 2 examples"):
        made(GSM8K, path=path, shots=3, shots_path=path).items()
    cut = made(GSM8K, path=path, form="lm_eval")
    items = cut.items()
    texts = ["It is 4.\n\nQuestion: 5?", "#### 5"]
    scores = scored(cut, items, [answer(*pair) for pair in zip(items, texts, strict=True)])
    assert [row.values["accuracy"] for row in scores] == [1, 0]
    assert scores[0].values["flexible_extract"] == 1
    assert scores[0].values["strict_match"] == 0


def test_extraction_of_numbers():
    assert strict_match("#### 1,200 or so") == "1,200"
    assert strict_match("1200") == "[invalid]" == flexible_extract("none")
    assert flexible_extract("from 3 to $4") == "$4"


def test_the_last_box_with_its_braces():
    assert last_boxed(r"\boxed{a} and \boxed{b{c}d}") == "b{c}d"
    assert last_boxed("none") is last_boxed(r"\boxed{open") is None


@pytest.mark.long
def test_math_takes_the_boxed_answer(tmp_path):
    rows = [
        {"problem": "Half?", "solution": r"So \boxed{\frac{1}{2}}.", "type": "Algebra"},
        {"problem": "2 x?", "answer": "2x", "solution": "", "subject": "Algebra"},
    ]
    benchmark = made(MATH, path=write_rows(tmp_path / "a.jsonl", rows))
    items = benchmark.items()
    assert items[0].prompt.facts["answer"] == r"\frac{1}{2}"
    texts = [r"Thus \boxed{0.5}", r"It is \boxed{3x}."]
    scores = scored(benchmark, items, [answer(*pair) for pair in zip(items, texts, strict=True)])
    result = benchmark.summary(scores, items)
    assert result.score.mean == 0.5 == result.groups["Algebra"]["accuracy"].mean


def test_rows_that_lack_something_are_named_by_line(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [{"question": "1?", "answer": "one"}])
    with pytest.raises(DataError, match=r'a.jsonl:1: answer: no number after "####"'):
        made(GSM8K, path=path).items()
    path = write_rows(tmp_path / "b.jsonl", [{"questoin": "1?"}])
    with pytest.raises(DataError, match=r"b.jsonl:1: needs a text in the column"):
        made(GSM8K, path=path).items()
    path = write_rows(tmp_path / "c.jsonl", [{"question": " ", "answer": "#### 1"}])
    with pytest.raises(DataError, match=r"c.jsonl:1: .* 'question', which holds none"):
        made(GSM8K, path=path).items()
    with pytest.raises(DataError, match="no such file"):
        made(GSM8K, path=str(tmp_path / "d.jsonl")).items()


def test_a_hub_that_cannot_be_reached(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"gsm8k: .*openai/gsm8k.*path.*MIT"):
        made(GSM8K).items()
