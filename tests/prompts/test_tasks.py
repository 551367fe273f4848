"""Task rows: what is asked, which fact is the right answer, the parts of a file, and what is said
of bad rows.
"""

import json

import pytest

from equipoise.errors import DataError
from equipoise.judges.gold import Gold
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.row_prompts import to_prompt

CHOICES = {"A": "Rome", "B": "Paris"}
OPTIONS = "Where?\nA. Rome\nB. Paris"


# row -> (what is asked, facts)
ROWS = {
    "options": (
        {"question": "Where?", "choices": CHOICES, "answer": "B"},
        OPTIONS,
        {"choices": CHOICES, "answer": "B"},
    ),
    "options by place": (
        {"question": "Where?", "choices": ["Rome", "Paris"], "answer": 1, "subject": "geography"},
        OPTIONS,
        {"choices": CHOICES, "answer": "B", "subject": "geography"},
    ),
    "options without answer": (
        {"question": "Where?", "choices": CHOICES},
        OPTIONS,
        {"choices": CHOICES},
    ),
    "medqa": (
        {
            "question": "Where?",
            "options": CHOICES,
            "answer": "Paris",
            "answer_idx": "B",
            "meta_info": "step1",
        },
        OPTIONS,
        {"choices": CHOICES, "answer": "B", "meta_info": "step1"},
    ),
    "options, the answer's text": (
        {"question": "Where?", "choices": ["Rome", "Paris"], "answer": "Paris"},
        OPTIONS,
        {"choices": CHOICES, "answer": "B"},
    ),
    "arc, numbered": (
        {
            "question": "Where?",
            "choices": {"text": ["Rome", "Paris"], "label": ["1", "2"]},
            "answerKey": "2",
        },
        OPTIONS,
        {"choices": CHOICES, "answer": "B"},
    ),
    "arc": (
        {
            "question": "Where?",
            "choices": {"text": ["Rome", "Paris"], "label": ["A", "B"]},
            "answerKey": "A",
        },
        OPTIONS,
        {"choices": CHOICES, "answer": "A"},
    ),
    "question": ({"question": "1 + 1?", "answer": "2"}, "1 + 1?", {"answer": "2"}),
    "question, solved": (
        {"question": "1 + 1?", "answer": "One and one.\n#### 2"},
        "1 + 1?",
        {"answer": "2", "solution": "One and one."},
    ),
    "problem": (
        {"problem": "1 + 1?", "solution": "2!", "answer": None},
        "1 + 1?",
        {"solution": "2!"},
    ),
    "alpaca": (
        {"instruction": "Add.", "input": "1, 1", "output": "2"},
        "Add.\n\n1, 1",
        {"completion": "2"},
    ),
    "alpaca without input": ({"instruction": "Add.", "input": " "}, "Add.", {}),
    "label": ({"instruction": "Is it?", "label": "no"}, "Is it?", {"answer": "no"}),
    "label among words": (
        {"instruction": "Is it?\n Choose from:'Yes', 'No'", "label": "no"},
        "Is it?\n Choose from:'Yes', 'No'",
        {"answer": "no", "choices": ["Yes", "No"]},
    ),
    "gold": (
        {"prompt": "Where?", "gold": "Rome", "datasplit": "x"},
        "Where?",
        {"answer": "Rome", "datasplit": "x"},
    ),
    "listed options": (
        {"prompt": OPTIONS, "completion": "B"},
        OPTIONS,
        {"completion": "B", "choices": CHOICES, "answer": "B"},
    ),
    "not an option": ({"prompt": OPTIONS, "completion": "Be"}, OPTIONS, {"completion": "Be"}),
    "checked": (
        {"input": "1 + 1?", "output": "2", "task_type": "exact_match"},
        "1 + 1?",
        {"answer": "2", "task_type": "exact_match"},
    ),
    "unchecked": (
        {"input": "Sing.", "output": "La", "task_type": "reward_model"},
        "Sing.",
        {"reference": "La", "task_type": "reward_model"},
    ),
    "no task": ({"input": "Sing.", "output": "La"}, "Sing.", {"completion": "La"}),
    "labelled completions": (
        {"prompt": "Sing.", "completion": "La", "label": True},
        "Sing.",
        {"completion": "La"},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_a_row_asks(name):
    row, text, facts = ROWS[name]
    prompt = to_prompt(row, "here", "file")
    assert prompt.messages[-1].content == text
    assert prompt.facts == facts
    assert prompt.source == "file"


NORM = {
    "Country": "egypt",
    "Value": "respect for elders",
    "Rule-of-Thumb": "Greet the eldest first.",
    "Story": "Mona greeted her aunt last.",
    "Explanation": "…",
    "Gold Label": "no",
}
CONTEXTS = {
    "country": "Country: egypt",
    "value": "Country: egypt\n\nValue: respect for elders",
    "rule_of_thumb": "Rule of thumb: Greet the eldest first.",
}


@pytest.mark.parametrize("norm", CONTEXTS)
def test_a_story_is_asked_with_its_context(norm):
    prompt = to_prompt(NORM, "here", "file", norm=norm)
    asked = prompt.messages[0].content
    assert asked == (
        f"{CONTEXTS[norm]}\n\nMona greeted her aunt last.\n\n"
        "Is this socially acceptable?\nChoose from: 'Yes', 'No', 'Neutral'"
    )
    assert prompt.facts["choices"] == ["Yes", "No", "Neutral"]
    scores = [
        verdict["score"]
        for verdict in Gold().scores([(prompt, text) for text in ("No.", "Yes, it is.")])
    ]
    assert scores == [1, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Gold Label": "maybe"}, "Gold Label: is 'Maybe', none of 'Yes', 'No'"),
        ({"Country": None}, "Country: "),
    ],
)
def test_a_malformed_story_is_named(change, words):
    with pytest.raises(DataError, match=r"rows\.jsonl:7") as caught:
        to_prompt({**NORM, **change}, "rows.jsonl:7", "")
    assert words in str(caught.value)


BAD_ROWS = {
    "one option": ({"choices": {"A": "Rome"}}, "choices: needs two options or more"),
    "options as text": ({"choices": "Rome, Paris"}, "choices: needs two options or more"),
    "numbers as options": ({"choices": [1, 2]}, "choices: needs two options or more"),
    "long letters": (
        {"choices": {"first": "Rome", "second": "Paris"}},
        "choices: needs two options or more",
    ),
    "no such option": (
        {"choices": CHOICES, "answer": "C"},
        "'C', which is none of the choices A, B",
    ),
    "several answers": ({"choices": CHOICES, "answer": ["B"]}, "['B'], which is none of the"),
    "several labels": (
        {"data_source": "wildguard", "reward_model": {"ground_truth": ["harmful"]}, "prompt": "?"},
        "ground_truth is ['harmful']; known: harmful, unharmful",
    ),
    "no chat": (
        {"data_source": "a", "reward_model": {}, "prompt": "?", "extra_info": {"chat_history": 3}},
        "needs a text, or a list of messages",
    ),
    "no such place": (
        {"choices": ["Rome", "Paris"], "answer": 2},
        "2, which is none of the choices A, B",
    ),
    "instruction": (
        {"question": None, "instruction": 3, "input": "x"},
        "instruction and input must be texts",
    ),
    "number": ({"question": 3}, "needs a text"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_malformed_row_is_named(name):
    row, words = BAD_ROWS[name]
    with pytest.raises(DataError, match=r"rows\.jsonl:7") as caught:
        to_prompt({"question": "Where?", **row}, "rows.jsonl:7", "")
    assert words in str(caught.value)


def test_what_stands_beside_a_prompt_may_be_a_text():
    row = {"prompt": "?", "data_source": "a", "reward_model": {}, "extra_info": "test"}
    assert to_prompt(row, "rows.jsonl:7", "").source == "a"


def test_the_parts_of_a_file(tmp_path):
    rows = [{"input": text, "output": text.upper()} for text in "abcd"]
    whole = {"name": "letters", "task_type": "exact_match", "dev": rows[:1], "test": rows[1:]}
    (tmp_path / "tasks.json").write_text(json.dumps(whole))
    source = Files(
        path="tasks.json#test", held_out_path="*.json#dev", test_path=["tasks.json#dev"]
    ).load(tmp_path)
    assert [prompt.messages[0].content for prompt in source.training] == ["b", "c", "d"]
    assert source.training[0].facts == {
        "dataset": "letters",
        "task_type": "exact_match",
        "answer": "B",
    }
    assert source.training[0].source == "letters"
    assert source.held_out == source.test
    assert source.test is not None
    assert len(source.test) == 1
    for path, words in {
        "tasks.json": "lists under dev, test; name the list to read: tasks.json#dev",
        "tasks.json#tset": "no list is under tset; did you mean 'test'",
        "task.json#dev": "did you mean 'tasks.json'",
    }.items():
        with pytest.raises(DataError, match=words):
            Files(path=path).load(tmp_path)
    (tmp_path / "list.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match="a list of rows, without parts; leave out #dev"):
        Files(path="list.json#dev").load(tmp_path)


def test_a_single_part_and_rows_by_id(tmp_path):
    (tmp_path / "one.json").write_text(
        json.dumps({"train": {"7": {"prompt": "a"}, "8": {"prompt": 3}}, "made": {}})
    )
    with pytest.raises(DataError, match=r"one\.json#train: row 8: prompt: needs a text"):
        Files(path="one.json").load(tmp_path)
    (tmp_path / "odd#name.json").write_text(json.dumps({"train": {"7": {"prompt": "a"}}}))
    (prompt,) = Files(path="odd#name.json").load(tmp_path).training
    assert prompt.messages[0].content == "a"
    assert prompt.facts == {"id": "7"}
