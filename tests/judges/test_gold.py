"""The gold judge over whole files of tasks: right answers score 1, wrong ones 0, rows without one
are unjudged.
"""

import json
import string

import pytest
from judge_context import TestContext
from pydantic import ValidationError

from equipoise.judges.base import Judge
from equipoise.judges.gold import Gold
from equipoise.prompts.prompt_files import Files
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

# file, or files that are judged together -> its published rows without a right answer
FILES = {
    "culturebench_scored.json#dev": 0,
    "culturebench_scored.json#test": 0,
    ("gsm8k_scored.json#dev", "gsm8k_scored.json#test"): 0,
    ("math_scored.json#dev", "math_scored.json#test"): 2,
    "truthfulqa_scored.json#dev": 0,
    "truthfulqa_scored.json#test": 0,
    "knowledge_crosswords.json": 0,
    "culture_country.json#train": 0,
    "culture_country.json#valid": 0,
    "culture_country.json#test": 0,
    "com2.json": 0,
    "gsm8k_questions.json": 400,
    "truthfulqa.jsonl": 400,
    "alpacaeval_scored.json#test": 300,
}


def answers_of(prompt: Prompt) -> tuple[list[str], list[str]]:
    """(right answers, wrong answers), as a model may word them."""
    gold, choices = prompt.facts["answer"], prompt.facts.get("choices")
    if gold in ("True", "False"):
        choices = ["True", "False"]
    if isinstance(choices, list):
        others = [word for word in choices if word.casefold() != gold.casefold()]
        return [gold, f"I think it's {gold}."], [
            others[0],
            f"I'd say {others[0].lower()}",
            "perhaps",
        ]
    if choices:
        wrong = [letter for letter in choices if letter != gold]
        right = [gold, choices[gold], f"{gold}. {choices[gold]}", f"The answer is ({gold})."]
        return right, [
            *(choices[letter] for letter in wrong),
            f"The answer is {wrong[0]}",
            "perhaps",
        ]
    if prompt.source == "com2.json":
        return [gold, f"  {gold.upper()}. "], [f"{gold} and more", ""]
    return [gold], ["987654321"]


SLOW = (
    "math_scored.json#dev",
    "math_scored.json#test",
)  # seconds of reading LaTeX; the others have none
ROWS = [pytest.param(name, marks=pytest.mark.slow) if name == SLOW else name for name in FILES]


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS, ids=str)
def test_every_row_of_a_file(rows_in_their_schemas, own_data, name):
    prompts = Files(path=name).load(rows_in_their_schemas / "sparta").training
    unknown = [prompt for prompt in prompts if "answer" not in prompt.facts]
    if rows_in_their_schemas == own_data:
        assert len(unknown) == (len(prompts) if FILES[name] >= 300 else 0)
    else:
        assert len(unknown) == FILES[name]
    assert all(
        isinstance(verdict, str) for verdict in Gold().scores([(prompt, "7") for prompt in unknown])
    )
    asked, expected = [], []
    for prompt in prompts:
        if "answer" in prompt.facts:
            right, wrong = answers_of(prompt)
            asked += [(prompt, text) for text in right + wrong]
            expected += [{"score": 1.0}] * len(right) + [{"score": 0.0}] * len(wrong)
    verdicts = Gold().scores(asked)
    missed = [
        (p.facts, text, got)
        for (p, text), got, right in zip(asked, verdicts, expected, strict=True)
        if got != right
    ]
    assert missed == []


def said(text, **facts):
    (verdict,) = Gold().scores([(Prompt("p", (user("?"),), facts), text)])
    return verdict["score"] if isinstance(verdict, dict) else verdict


def test_a_reference_is_no_answer():
    why = said("anything", task_type="reward_model", reference="one good answer")
    assert isinstance(why, str)
    assert "task_type reward_model" in why
    assert said("anything", task_type="reward_model", answer="anything") == why
    assert said("I cannot do that", task_type="reward_model", harmful=True) == 1


def test_options_come_before_mathematics():
    numbers = dict(zip(string.ascii_uppercase, ("1", "2", "3"), strict=False))
    assert said("The answer is B.", choices=numbers, answer="B") == 1
    assert said("It is 2.", choices=numbers, answer="B") == 1
    assert said("It is 3.", choices=numbers, answer="B") == 0


@pytest.mark.long
def test_numbers_and_formulas():
    rows = [
        ("150", "10 · 10 + 10 · 5\n#### 150", 1),
        ("#### 150", "It is 150.", 1),
        ("36,000", "36000", 1),
        ("150", "#### 151", 0),
        ("\\dfrac{2469}{20,\\!000}", "2469/20000", 1),
        ("300,\\!000", "300000", 1),
        ("18x^3+8x^2", "8x^2 + 18x^3", 1),
        ("18x^3+8x^2", "18x^3+8x", 0),
        ("5-12i", "5 - 12i", 1),
        ("2", "10 - 2", 0),
    ]
    verdicts = Gold().scores(
        [(Prompt("p", (user("?"),), {"answer": gold}), text) for gold, text, _ in rows]
    )
    assert verdicts == [{"score": float(score)} for *_, score in rows]


GRADER = {"kind": "scripted", "call": f"{__name__}:long_is_good"}
OPEN = {"kind": "rubric", "model": GRADER, "text": "rubric_compact", "reference_fact": "completion"}


def long_is_good(view, seed):
    return "9" if "two words" in view.messages[0].content else "2"


def answered(prompt, *texts):
    turns = tuple(Turn(str(i), View(prompt.messages), Move(text)) for i, text in enumerate(texts))
    seats = {turn.seat: PlayerId("policy") for turn in turns}
    return Match(f"m{prompt.id}", 0, "train", "answers", prompt.id, seats, 0, turns)


@pytest.mark.long
def test_prompts_that_no_rule_can_judge_go_to_another_judge():
    checked = Prompt("a", (user("1 + 1?"),), {"answer": "2"})
    written = Prompt("b", (user("Write!"),), {"completion": "Some words."})
    context = TestContext()
    gold = Judge.build({"kind": "gold", "otherwise": OPEN}).at(context)
    matches = [answered(written, "two words", "one"), answered(checked, "2", "3")]
    judgements = gold.judge(matches, {"a": checked, "b": written})
    assert [judgement.match for judgement in judgements] == ["mb", "ma"]
    assert judgements[0].scores == {"0": {"score": 9}, "1": {"score": 2}}
    assert judgements[1].scores == {"0": {"score": 1}, "1": {"score": 0}}
    assert {judgement.judge for judgement in judgements} == {gold.name}
    assert len(context.asked) == 2 == gold.questions(2, 5)
    assert Judge.build({"kind": "gold", "otherwise": "peers"}).questions(2, 5) == 2 * 3
    assert Judge.build("gold").questions(2, 5) == Judge.build("choice").questions(2, 5) == 0
    assert "Some words." in context.asked[0][1].messages[0].content


def test_another_judge_scores_alone():
    comparing = {"kind": "pairwise", "model": {"kind": "scripted", "text": "1"}}
    with pytest.raises(ValidationError, match="'pairwise' compares answers"):
        Judge.build({"kind": "gold", "otherwise": comparing})


# a file of SPARTA's, or of the data set it took -> a row, a right and a wrong answer
SPARTA_ROWS = {
    "country_value_dataset.json#train": (
        {"train": {"7": {"instruction": "Value: care.\nIs it fine?.\n Choose from:"
        "'Yes', 'No', 'Neutral'", "label": "neutral"}}, "test": {"8": {}}},
        "Neutral",
        "No",
    ),
    "rule_of_thumb_dataset.json#train": (
        {"train": {"7": {"instruction": "Rule: share.\nIs it fine?.\n Choose from:"
        "'Yes', 'No', 'Neutral'", "label": "yes"}}, "test": {"8": {}}},
        "Yes, it is.",
        "Neutral",
    ),
    "medqa.json#dev": (
        {"name": "medqa", "task_type": "multiple_choice", "test": [{}], "dev": [
            {"id": 0, "question": "Which?", "choices": {"A": "Rest", "B": "Tea"},
            "answer": "B"}]},
        "B. Tea",
        "A",
    ),
    "US_train.json": (
        [{"question": "Which?", "options": {"A": "Rest", "B": "Tea"}, "answer": "Tea",
        "answer_idx": "B", "meta_info": "step1"}],
        "The answer is B.",
        "Rest",
    ),
    "alpaca_data_processed.json": (
        [{"instruction": "Name a colour.", "input": "", "output": "Blue."}],
        "two words",
        "one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARTA_ROWS)
def test_the_sets_of_sparta_are_read_and_judged(name, tmp_path):
    rows, right, wrong = SPARTA_ROWS[name]
    (tmp_path / name.partition("#")[0]).write_text(json.dumps(rows))
    (prompt,) = Files(path=name).load(tmp_path).training
    gold = Judge.build({"kind": "gold", "otherwise": OPEN}).at(TestContext())
    (judgement,) = gold.judge([answered(prompt, right, wrong)], {prompt.id: prompt})
    assert judgement.score("0", "score") > judgement.score("1", "score")


def test_the_range_is_that_of_the_rules_and_of_who_judges_otherwise():
    rubric = {"kind": "rubric", "model": {"kind": "scripted", "text": "1"}, "low": 3, "high": 7}
    ranges = [
        Judge.build(settings).score_range
        for settings in ("choice", "gold", {"kind": "gold", "otherwise": rubric})
    ]
    assert ranges == [(0, 1), (0, 1), (0, 7)]
