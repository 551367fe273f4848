"""The rows of published multiple-choice sets, as questions with options.

What stands before an option is what lm-eval 0.4 puts there, so that likelihoods can be compared
with its own, but for introductions, which `primer` brings.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from equipoise import seeds
from equipoise.errors import DataError
from equipoise.evaluation.sets.published_set import PlacedRow, list_of, name_of, text_of
from equipoise.judges.multiple_choice import options_of
from equipoise.prompts.row_prompts import to_prompt


@dataclass(frozen=True)
class ChoiceQuestion:
    """A question with options.

    `before` stands before each of `choices`, whose likelihoods are asked for; where `contexts` are
    given, each choice has its own. `right` numbers the right one. `question` and `options` are how
    it is asked in words. `more` are further choices, of which several may be right (TruthfulQA's
    second list). `group` is the subject.
    """

    name: str
    question: str
    options: tuple[str, ...]
    before: str
    choices: tuple[str, ...]
    right: int
    contexts: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    more_right: tuple[bool, ...] = ()
    group: str = ""


Reader = Callable[[PlacedRow, int], ChoiceQuestion]
"""(the placed row, a seed for shuffled options) -> the question. Raises DataError."""


def read_arc(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`question`, `choices` {text, label}, `answerKey`."""
    where, row = place
    question = text_of(row, where, "question")
    choices = row.get("choices")
    if not isinstance(choices, Mapping):
        raise DataError(f"{where}: choices: needs an object with text and label")
    texts = tuple(map(str, list_of(choices, f"{where}: choices", "text")))
    labels = list(map(str, list_of(choices, f"{where}: choices", "label")))
    right = _place(str(row.get("answerKey")), labels, where, "answerKey")
    return ChoiceQuestion(
        name_of(row, where, "id"), question, texts, f"Question: {question}\nAnswer:", texts, right
    )


def read_mmlu(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`question`, `choices`, `answer` (a place), `subject`."""
    where, row = place
    question = text_of(row, where, "question").strip()
    options = tuple(map(str, list_of(row, where, "choices")))
    letters = tuple(ascii_uppercase[: len(options)])
    right = row.get("answer")
    if not isinstance(right, int) or not 0 <= right < len(options):
        raise DataError(f"{where}: answer: {right!r} is no place among the choices")
    lines = [f"{letter}. {text}" for letter, text in zip(letters, options, strict=True)]
    before = "\n".join([question, *lines, "Answer:"])
    group = str(row.get("subject") or "").replace("_", " ")
    name = name_of(row, where, "id")
    return ChoiceQuestion(name, question, options, before, letters, right, group=group)


def read_hellaswag(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`activity_label`, `ctx_a`, `ctx_b`, `endings`, `label`."""
    where, row = place
    begun = text_of(row, where, "ctx_a", "ctx")
    rest = str(row.get("ctx_b") or "").capitalize()
    activity = text_of(row, where, "activity_label")
    before = _without_wiki_marks(f"{activity}: {begun} {rest}")
    endings = [_without_wiki_marks(str(e)) for e in list_of(row, where, "endings")]
    places = [str(place) for place in range(len(endings))]
    right = _place(str(row.get("label")), places, where, "label")
    name = name_of(row, where, "ind")
    texts = tuple(endings)
    question = f"{before}\n\nHow does it go on?"
    return ChoiceQuestion(name, question, texts, before, texts, right)


def _without_wiki_marks(text: str) -> str:
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def read_winogrande(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`sentence` with a blank `_`, `option1`, `option2`, `answer` ("1" or "2").

    By partial evaluation (Trinh and Le 2018, arXiv:1806.02847): the likelihood of what follows the
    blank, after each option in its place.
    """
    where, row = place
    sentence = text_of(row, where, "sentence")
    before, blank, after = sentence.partition("_")
    if not blank:
        raise DataError(f"{where}: sentence: has no blank '_'")
    options = tuple(text_of(row, where, f"option{n}") for n in (1, 2))
    right = _place(str(row.get("answer")), ["1", "2"], where, "answer")
    return ChoiceQuestion(
        name_of(row, where, "qID", "id"),
        f"{sentence}\n\nWhat belongs in the blank?",
        options,
        "",
        (after.strip(),) * 2,
        right,
        contexts=tuple(before + option for option in options),
    )


def read_gpqa(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`Question`, `Correct Answer`, `Incorrect Answer 1` to 3; the options are shuffled by seed and
    question.
    """
    where, row = place
    question = text_of(row, where, "Question").strip()
    correct = text_of(row, where, "Correct Answer").strip()
    wrong = [text_of(row, where, f"Incorrect Answer {n}").strip() for n in (1, 2, 3)]
    order = [*range(4)]
    random.Random(seeds.child(seed, "options", question)).shuffle(order)
    texts = tuple([correct, *wrong][n] for n in order)
    letters = tuple(f"({letter})" for letter in "ABCD")
    lines = [f"{letter} {text}" for letter, text in zip(letters, texts, strict=True)]
    asked = f"What is the correct answer to this question:{question}"
    return ChoiceQuestion(
        name_of(row, where, "Record ID", "id"),
        question,
        texts,
        "\n".join([asked, "Choices:", *lines, "Answer:"]),
        letters,
        order.index(0),
        group=str(row.get("Subdomain") or row.get("High-level domain") or ""),
    )


def read_truthfulqa(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """`question`, `mc1_targets` and `mc2_targets` {choices, labels}."""
    where, row = place
    question = text_of(row, where, "question")
    first, first_right = _targets(row, where, "mc1_targets")
    second, second_right = _targets(row, where, "mc2_targets")
    if sum(first_right) != 1:
        raise DataError(f"{where}: mc1_targets: needs one right choice")
    return ChoiceQuestion(
        name_of(row, where, "id"),
        question,
        first,
        f"Q: {question}\nA:",
        first,
        first_right.index(True),
        more=second,
        more_right=second_right,
    )


def _targets(
    row: Mapping[str, Any], where: str, name: str
) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """(choices, whether each is right)."""
    targets = row.get(name)
    if not isinstance(targets, Mapping):
        raise DataError(f"{where}: {name}: needs an object with choices and labels")
    texts = tuple(map(str, list_of(targets, f"{where}: {name}", "choices")))
    right = tuple(bool(x) for x in list_of(targets, f"{where}: {name}", "labels"))
    if len(texts) != len(right):
        raise DataError(f"{where}: {name}: {len(texts)} choices, {len(right)} labels")
    return texts, right


def read_options(place: PlacedRow, seed: int) -> ChoiceQuestion:
    """Rows in any schema of tasks: a question that shows its options, which are facts (`choices`),
    and the right one (`answer`).
    """
    where, row = place
    prompt = to_prompt(row, where, "")
    gold = prompt.facts.get("answer")
    options = options_of(prompt.facts.get("choices"), gold)
    if options is None:
        raise DataError(f"{where}: the row has no options (choices)")
    labels = list(options)
    right = str(gold).strip()
    if right not in labels:
        right = next((name for name, text in options.items() if text == right), right)
    question = prompt.messages[-1].content
    return ChoiceQuestion(
        prompt.id,
        question,
        tuple(options.values()),
        f"{question}\nAnswer:",
        tuple(labels),
        _place(right, labels, where, "answer"),
        group=str(prompt.facts.get("subject") or ""),
    )


READERS: dict[str, Reader] = {
    "options": read_options,
    "truthfulqa": read_truthfulqa,
    "arc": read_arc,
    "mmlu": read_mmlu,
    "hellaswag": read_hellaswag,
    "winogrande": read_winogrande,
    "gpqa": read_gpqa,
}


def _place(label: str, labels: list[str], where: str, column: str) -> int:
    if label not in labels:
        raise DataError(f"{where}: {column}: '{label}' is none of {', '.join(labels)}")
    return labels.index(label)
