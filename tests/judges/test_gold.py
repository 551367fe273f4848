"""The gold judge over whole files of tasks: right answers score 1, wrong ones 0, rows
without one are unjudged.
"""

import string

import pytest

from equipoise.judges.gold import Gold
from equipoise.prompts.files import Files
from equipoise.types import Prompt, user

# file, or files that are judged together -> rows without a right answer
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
        right = [
            gold,
            choices[gold],
            f"{gold}. {choices[gold]}",
            f"The answer is ({gold}).",
        ]
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
ROWS = [
    pytest.param(name, marks=pytest.mark.slow) if name == SLOW else name
    for name in FILES
]


@pytest.mark.parametrize("name", ROWS, ids=str)
def test_every_row_of_a_file(data, name):
    prompts = Files(path=name).load(data / "sparta").training
    unknown = [prompt for prompt in prompts if "answer" not in prompt.facts]
    assert len(unknown) == FILES[name]
    assert all(
        isinstance(verdict, str)
        for verdict in Gold().scores([(prompt, "7") for prompt in unknown])
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
    assert isinstance(why, str) and "task_type reward_model" in why
    assert said("anything", task_type="reward_model", answer="anything") == why
    assert said("I cannot do that", task_type="reward_model", harmful=True) == 1


def test_options_come_before_mathematics():
    numbers = dict(zip(string.ascii_uppercase, ("1", "2", "3"), strict=False))
    assert said("The answer is B.", choices=numbers, answer="B") == 1
    assert (
        said("It is 2.", choices=numbers, answer="B") == 1
        and said("It is 3.", choices=numbers, answer="B") == 0
    )


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
