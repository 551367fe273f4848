"""Rows of benchmark tasks, in the schemas of their files, as rows with a `prompt` and an `answer`.

What the prompt is:

    {"question", "choices": {"A": text, …} | [text, …], "answer": letter | place}
        the question and the lettered options
    {"question", "options": {"A": text, …}, "answer_idx": letter, "answer": text}
        MedQA: likewise
    {"question", "choices": {"label": [name, …], "text": [text, …]}, "answerKey": name}
        ARC and CommonsenseQA: likewise, the options lettered in their order
    {"question" | "problem" | "input", …}
        that text
    {"instruction", "input"?, …}
        Alpaca: both, with a blank line between them
    {"prompt", "completion": letter}, where the prompt lists lettered options, one a line
        the prompt

The right answer becomes the fact `answer`. It may be called `answer`, `gold`, `label` (beside an
instruction) or `output` (in a file with a `task_type`); in an answer that ends in "#### 150", the
text before is the `solution`. An `output` that no rule can check is no answer: it is a `reference`
where the `task_type` is reward_model, and a `completion` to learn from beside an instruction. The
fact `choices` holds the options: letter -> text, or a list of texts.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from equipoise.errors import DataError

# The columns that name the right option: MedQA's, ARC's and others'.
ANSWER_LETTERS = ("answer_idx", "answerKey", "answer_key", "correct_option", "answer_letter")
QUESTIONS = ("question", "instruction", "problem", "input")
OPTION = re.compile(r"^([A-Z])\. *(.*\S) *$", re.MULTILINE)
LISTED = re.compile(r"choose from: *('[^'\n]+'(?:, *'[^'\n]+')+)\W*$", re.IGNORECASE)


def with_prompt(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """`row` with a task's question as `prompt` and its facts, or as it is. Raises DataError."""
    held = {key: value for key, value in row.items() if value is not None}
    if "messages" in held or "conversations" in held:
        return row
    if "prompt" not in held and isinstance(held.get("chosen"), list):
        return row
    key = next((key for key in ("prompt", *QUESTIONS) if key in held), None)
    if key is None:
        return row
    task = {"prompt": held.pop(key)} | held
    if key == "question" and ("options" in task or "choices" in task):
        task = with_choices(task)
    if key == "instruction" and "input" in task:
        task["prompt"] = instruction_with_input(task["prompt"], task.pop("input"), where)
    task = with_answer(task, key)
    if key == "question" and "choices" in task:
        return with_options(task, where)
    return with_listed_options(task)


def with_choices(task: dict[str, Any]) -> dict[str, Any]:
    """`options` as `choices`, and the letter of the answer as `answer`."""
    if "choices" not in task:
        task["choices"] = task.pop("options")
    name = next((name for name in ANSWER_LETTERS if name in task), None)
    if name is not None:
        task["answer"] = task.pop(name)
    return task


def instruction_with_input(instruction: Any, context: Any, where: str) -> str:
    if not (isinstance(instruction, str) and isinstance(context, str)):
        raise DataError(f"{where}: instruction and input must be texts")
    return f"{instruction}\n\n{context}" if context.strip() else instruction


def with_answer(row: dict[str, Any], key: str) -> dict[str, Any]:
    names = ["gold"]
    if key == "instruction" and "output" not in row:
        names.append("label")
    elif key == "input" and row.get("task_type") not in (None, "reward_model"):
        names.append("output")
    name = next((name for name in names if name in row), None)
    if "answer" not in row and name is not None:
        row["answer"] = row.pop(name)
    elif key == "input" and "output" in row and row.get("task_type") == "reward_model":
        row.setdefault("reference", row.pop("output"))
    elif key in ("instruction", "input") and "output" in row:
        row.setdefault("completion", row.pop("output"))
    answer = row.get("answer")
    if isinstance(answer, str) and "####" in answer:
        before, _, final = answer.rpartition("####")
        row["answer"] = final.strip()
        if before.strip():
            row.setdefault("solution", before.strip())
    return row


def with_options(row: dict[str, Any], where: str) -> dict[str, Any]:
    choices: Any = row["choices"]
    answer: Any = row.get("answer")
    if isinstance(choices, Mapping) and choices.keys() == {"label", "text"}:  # as ARC writes them
        names = choices["label"]
        texts = choices["text"]
        if len(names) == len(texts) <= len(string.ascii_uppercase):
            # Some questions number their options.
            letters = dict(zip(names, string.ascii_uppercase, strict=False))
            choices = dict(zip(letters.values(), texts, strict=True))
            answer = letters.get(answer, answer)
    if isinstance(choices, list) and len(choices) <= len(string.ascii_uppercase):
        is_place = isinstance(answer, int) and not isinstance(answer, bool)
        if is_place and 0 <= answer < len(choices):
            answer = string.ascii_uppercase[answer]
        choices = dict(zip(string.ascii_uppercase, choices, strict=False))
    if not isinstance(choices, Mapping) or not are_options(choices):
        raise DataError(
            f"{where}: choices: needs two options or more, letter -> text or a list of texts"
        )
    spelled = [letter for letter, text in choices.items() if text == answer]
    if answer not in tuple(choices) and len(spelled) == 1:
        answer = spelled[0]
    if answer is not None and answer not in tuple(choices):
        raise DataError(
            f"{where}: answer: is {answer!r}, which is none of the choices {', '.join(choices)}"
        )
    lines = [f"{letter}. {text}" for letter, text in choices.items()]
    row = row | {"prompt": "\n".join([str(row["prompt"]), *lines]), "choices": dict(choices)}
    return row if answer is None else row | {"answer": answer}


def are_options(choices: Mapping[Any, Any]) -> bool:
    return len(choices) >= 2 and all(
        re.fullmatch(r"[A-Z]", letter) and isinstance(text, str) for letter, text in choices.items()
    )


def with_listed_options(row: dict[str, Any]) -> dict[str, Any]:
    """`choices` where the prompt itself lists them and the answer is among them."""
    prompt = row["prompt"]
    if not isinstance(prompt, str) or "choices" in row:
        return row
    completion = row.get("completion")
    answer = row.get("answer")
    if isinstance(completion, str) and "answer" not in row:
        options = dict(OPTION.findall(prompt))
        in_order = string.ascii_uppercase.startswith("".join(options))
        letter = completion.strip()
        if len(options) > 1 and in_order and letter in options:
            return row | {"choices": options, "answer": letter}
        return row
    listed = LISTED.search(prompt)
    if listed and isinstance(answer, str):
        options = re.findall(r"'([^']+)'", listed[1])
        if answer.casefold() in {option.casefold() for option in options}:
            return row | {"choices": options}
    return row
