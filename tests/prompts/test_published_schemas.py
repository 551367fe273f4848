"""Every published schema is read, from small files of our own; the published files are read in
tests/prompts/test_prompt_files.py and test_tasks.py, where they are at hand.
"""

import pytest

from equipoise.prompts.prompt_files import Files
from equipoise.prompts.split import split
from equipoise.types import user


def gtalign(data, task, text="single"):
    path = str(data / "gtalign" / task / "test.parquet")
    return Files(path=path, text=text).load().training


def facts(data, task):
    """The facts of each row, without the request."""
    rows = [dict(prompt.facts) for prompt in gtalign(data, task)]
    for row in rows:
        assert row.pop("request")
    return rows


TRUTHS = {
    "wildguard": [{"harmful": False}, {"harmful": True}, {"harmful": False}],
    "ambig_qa": [
        {"ambiguous": True, "meanings": "The lake may be the upper or the lower."},
        {"ambiguous": False, "answer": "Paris"},
    ],
    "math-hard": [{"answer": "\\frac{1}{2}"}, {"answer": "7"}, {}],
    "medium": [{"reference": "A clerk is a person who keeps the books."}],
    "abg_coqa": [{"ambiguous": True}, {"ambiguous": False}],
    "advbench": [{"harmful": True, "unsafe_answer": "Sure, here is how to open the safe"}],
    "minerva": [{"answer": "1.6"}],
}


@pytest.mark.parametrize("task", TRUTHS)
def test_ground_truths_become_facts(own_data, task):
    assert facts(own_data, task) == TRUTHS[task]


def test_what_to_ask_of_a_gtalign_row(own_data):
    whole, chat, single = (
        gtalign(own_data, "math-hard", text)[0] for text in ("prompt", "chat", "single")
    )
    assert [message.role for message in whole.messages] == ["system", "user"]
    assert "<payoff>" in whole.messages[1].content
    assert [message.content for message in chat.messages] == [
        *("Help me.", "With what?", "What is a half of one?")
    ]
    assert [message.role for message in chat.messages] == ["user", "assistant", "user"]
    assert single.messages == (user("What is a half of one?"),)
    assert whole.facts["request"] == whole.facts["said"] == "What is a half of one?"
    assert "said" not in chat.facts


def test_rows_whose_texts_differ_in_case_and_space_do_not_leak(own_data):
    folder = own_data / "gtalign" / "wildguard"
    source = Files(path="test.parquet", held_out_path="test.parquet", text="single")
    result = split(source.load(folder), generations=0, per_generation=1, held_out=3, seed=0)
    assert len(result.held_out) == 3
    assert result.dropped["in_held_out"] == 3


def test_red_team_prompts_are_lists_with_one_text(own_data):
    source = Files(path="train.json", held_out_path="test.json").load(own_data / "gpo")
    assert [prompt.messages for prompt in source.training] == [
        (user("Open it."),),
        (user("Take it."),),
    ]
    assert source.held_out is not None
    assert source.held_out[0].messages == (user("Break it."),)


# path -> (what is asked ends with this, the facts among those that a row has)
ASKED = {
    "gsm8k_questions.json": ("How much is 3 + 4?", {}),
    "math_medium.jsonl": ("What is $3 + 4$?", {"answer": "7"}),
    "com2.json": ("Why does the clerk add?", {"answer": "to know the sum"}),
    "culture_country.json#train": (
        "'Yes', 'No', 'Neutral'",
        {"answer": "No", "choices": ["Yes", "No", "Neutral"]},
    ),
    "knowledge_crosswords.json": ("B. the clerk.", {"answer": "A", "choices": ["A", "B"]}),
    "gsm8k_scored.json#test": ("3 + 3?", {"answer": "6", "dataset": "gsm8k"}),
    "truthfulqa_scored.json#test": ("It is dry.", {"answer": "A"}),
    "alpacaeval_scored.json#dev": ("Write of a lake.", {"task_type": "reward_model"}),
    "truthfulqa.jsonl": ("Is it true?", {}),
}


@pytest.mark.parametrize("path", ASKED)
def test_the_files_of_sparta(own_data, path):
    ending, expected = ASKED[path]
    (prompt,) = Files(path=path).load(own_data / "sparta").training
    assert prompt.messages[-1].content.endswith(ending)
    assert expected.items() <= prompt.facts.items()
    assert "Gold Label" not in prompt.facts
