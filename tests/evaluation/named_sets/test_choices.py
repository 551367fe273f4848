"""Multiple choice in the columns of each published set: what is asked, and scores that are known by
hand.
"""

from __future__ import annotations

import json
import math

import pytest

from equipoise.errors import DataError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.choices import MMLU, MultipleChoice
from tests.benchmark_answers import answer, failed, likely, made, scored

ROWS = {
    "arc": {
        "id": "a1",
        "question": "What melts ice?",
        "choices": {"text": ["heat", "a cold wind"], "label": ["A", "B"]},
        "answerKey": "A",
    },
    "mmlu": {
        "question": "2 + 2? ",
        "choices": ["3", "4", "5", "6"],
        "answer": 1,
        "subject": "high_school_arithmetic",
    },
    "hellaswag": {
        "ind": 7,
        "activity_label": "Baking",
        "ctx_a": "A man opens an oven. [header] So",
        "ctx_b": "he",
        "endings": ["sings.", "takes [step] bread out."],
        "label": "1",
    },
    "winogrande": {
        "sentence": "The cup fell off the shelf since _ was tilted.",
        "option1": "the cup",
        "option2": "the shelf",
        "answer": "2",
    },
    "gpqa": {
        "Record ID": "r",
        "Question": "Why?",
        "Correct Answer": "so",
        "Incorrect Answer 1": "x",
        "Incorrect Answer 2": "y",
        "Incorrect Answer 3": "z",
        "Subdomain": "Physics",
    },
    "truthfulqa": {
        "question": "Do pigs fly?",
        "mc1_targets": {"choices": ["No", "Yes"], "labels": [1, 0]},
        "mc2_targets": {"choices": ["No", "Never", "Yes"], "labels": [1, 1, 0]},
    },
}


@pytest.fixture
def build(tmp_path):
    def make(name: str, *rows: dict, **settings) -> Benchmark:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows or [ROWS[name]]))
        return Benchmark.build({"kind": name, "path": str(path), **settings})

    return make


def test_what_likelihoods_are_asked_of(build):
    (arc,) = build("arc").items()
    assert arc.prompt.messages[0].content == "Question: What melts ice?\nAnswer:"
    assert arc.choices == (" heat", " a cold wind") and arc.plain
    (mmlu,) = build("mmlu").items()
    assert mmlu.prompt.messages[0].content.endswith("B. 4\nC. 5\nD. 6\nAnswer:")
    assert mmlu.choices == (" A", " B", " C", " D")
    assert mmlu.group == "high school arithmetic"
    (swag,) = build("hellaswag").items()
    text = swag.prompt.messages[0].content
    assert text == "Baking: A man opens an oven. So He"
    assert swag.choices[1] == " takes bread out."
    (wino,) = build("winogrande").items()
    contexts = [each.messages[0].content for each in wino.continuations]
    assert contexts[0] == "The cup fell off the shelf since the cup"
    assert [each.text for each in wino.continuations] == [" was tilted."] * 2
    assert len({each.key for each in wino.continuations}) == 2
    (gpqa,) = build("gpqa").items()
    right = gpqa.prompt.facts["right"]
    assert f"{gpqa.choices[right].strip()} so" in gpqa.prompt.messages[0].content
    (chat,) = build("arc", chat=True).items()
    assert chat.choices[0] == "heat" and not chat.plain


def test_accuracy_by_likelihood_and_by_likelihood_a_character(build):
    benchmark = build("arc")
    (item,) = benchmark.items()
    # 4 and 11 characters: the longer one is less likely, but likelier a character
    [row] = scored(benchmark, [item], [likely(item, -4.0, -5.5)])
    assert row.values == {"acc": 1.0, "acc_norm": 0.0}
    assert benchmark.summary([row], [item]).headline == "acc_norm"
    wino = build("winogrande")
    (item,) = wino.items()
    [row] = scored(wino, [item], [likely(item, -9.0, -8.0)])
    assert row.values["acc"] == 1.0


def test_truthfulqa_by_its_two_lists(build):
    benchmark = build("truthfulqa")
    (item,) = benchmark.items()
    assert item.choices == (" No", " Yes", " No", " Never", " Yes")
    logprobs = [math.log(p) for p in (0.2, 0.3, 0.2, 0.1, 0.3)]
    [row] = scored(benchmark, [item], [likely(item, *logprobs)])
    assert row.values["mc1"] == 0.0
    assert row.values["mc2"] == pytest.approx(0.5)
    # mc1 looks at the first list alone, whatever is likely in the second
    logprobs = [math.log(p) for p in (0.2, 0.1, 0.1, 0.2, 0.5)]
    [row] = scored(benchmark, [item], [likely(item, *logprobs)])
    assert row.values == {"mc2": pytest.approx(3 / 8), "mc1": 1.0}
    logprobs = [math.log(p) for p in (0.1, 0.05, 0.6, 0.1, 0.15)]
    [row] = scored(benchmark, [item], [likely(item, *logprobs)])
    assert row.values == {"mc2": pytest.approx(14 / 17), "mc1": 1.0}


def test_accuracy_is_by_the_first_list_in_columns_that_have_two(build):
    benchmark = build("multiple_choice", ROWS["truthfulqa"], format="truthfulqa")
    (item,) = benchmark.items()
    [row] = scored(benchmark, [item], [likely(item, -2.0, -9.0, -1.0, -1.5, -1.0)])
    assert row.values == {"acc": 1.0, "acc_norm": 1.0}


@pytest.mark.parametrize(
    ("name", "headline"),
    [
        ("arc", "acc_norm"),
        ("hellaswag", "acc_norm"),
        ("mmlu", "acc"),
        ("winogrande", "acc"),
        ("gpqa", "acc"),
        ("truthfulqa", "mc2"),
    ],
)
def test_the_headline_is_that_of_the_set(name: str, headline: str, build):
    benchmark = build(name)
    assert (benchmark.headline, build(name, ask="generate").headline) == (headline, "acc")
    (item,) = benchmark.items()
    rows = scored(benchmark, [item], [failed(item)])
    assert rows[0].values == {headline: None}
    assert benchmark.summary(rows, [item]).headline == headline


@pytest.mark.parametrize("name", ROWS)
def test_answers_in_words(name: str, build):
    benchmark = build(name, ask="generate")
    (item,) = benchmark.items()
    facts = item.prompt.facts
    right = facts["answer"]
    wrong = next(letter for letter in facts["choices"] if letter != right)
    assert f"\n{right}. {facts['choices'][right]}" in item.prompt.messages[0].content
    for text, value in [(f"The answer is {right}.", 1), (wrong, 0), ("Hm.", 0)]:
        [row] = scored(benchmark, [item], [answer(item, text)])
        assert row.values == {"acc": value}
    [row] = scored(benchmark, [item], [failed(item)])
    assert row.values == {"acc": None} and row.reason == "no connection"


def test_examples_of_the_same_subject_and_a_primer(build, tmp_path):
    examples = tmp_path / "dev.jsonl"
    rows = [{**ROWS["mmlu"], "question": q, "subject": s} for q, s in ["ax", "by"]]
    examples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    primer = tmp_path / "primer.txt"
    primer.write_text("On {subject}.\n", encoding="utf-8-sig")
    settings = {"shots": 1, "shots_path": str(examples), "primer": str(primer)}
    benchmark = build("mmlu", {**ROWS["mmlu"], "subject": "y"}, **settings)
    text = benchmark.items()[0].prompt.messages[0].content
    assert text.startswith("On y.\n\nb\nA. 3\n") and "Answer: B\n\n2 + 2?" in text
    with pytest.raises(DataError, match=r"1 shots.* 0 .*'z'"):
        build("mmlu", {**ROWS["mmlu"], "subject": "z"}, **settings).items()
    primer.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"primer: .* is not UTF-8 text"):
        benchmark.items()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("arc", {"answerKey": "E"}, r"arc.jsonl:1: answerKey: 'E'.* A, B"),
        ("mmlu", {"answer": 9}, r"mmlu.jsonl:1: answer: 9 is no place"),
        ("winogrande", {"sentence": "no blank"}, r"1: sentence: has no blank"),
        ("truthfulqa", {"mc1_targets": 3}, r"1: mc1_targets: needs an object"),
        ("gpqa", {"Question": ""}, r"1: .*'Question'"),
    ],
)
def test_faulty_rows_are_named(name: str, change: dict, message: str, build):
    with pytest.raises(DataError, match=message):
        build(name, {**ROWS[name], **change}).items()


def test_task_files_with_options(rows_in_their_schemas):
    path = f"{rows_in_their_schemas}/sparta/truthfulqa_scored.json#test"
    benchmark = made(MultipleChoice, path=path, limit=5)
    items = benchmark.items()
    assert 0 < len(items) <= 5 and items[0].choices[0] == " A"
    words = made(MultipleChoice, path=path, limit=5, ask="generate").items()
    assert words[0].prompt.facts["answer"] in words[0].prompt.facts["choices"]


def test_a_row_that_is_no_object_is_named(tmp_path):
    (tmp_path / "mmlu.jsonl").write_text(json.dumps(ROWS["mmlu"]) + "\n[1]\n")
    with pytest.raises(DataError, match=r"mmlu.jsonl:2.*not an object"):
        made(MMLU, path=str(tmp_path / "mmlu.jsonl")).items()


def test_a_set_of_several_files_keeps_all_rows(tmp_path):
    """MMLU comes as a file a subject, without names of its rows."""
    for subject in ("law", "virology"):
        rows = [
            {"question": f"{subject} {n}?", "choices": ["a", "b"], "answer": 0, "subject": subject}
            for n in range(3)
        ]
        (tmp_path / f"{subject}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    items = MMLU.model_validate({"path": f"{tmp_path}/*.jsonl"}).items()
    assert len({item.id for item in items}) == len(items) == 6
    assert {item.group for item in items} == {"law", "virology"}
