"""Rows of benchmark tasks, in the schemas that their files come in, as rows with a
`prompt` and an `answer`.

    {"question", "choices": {"A": text, …} | [text, …], "answer": letter | place}    the question and lettered options
    {"question" | "problem" | "input", …}                                            that text
    {"instruction", "input"?, …}                                                     Alpaca: both, a blank line between
    {"prompt", "completion": letter}, the prompt listing lettered options, one a line       the prompt

The right answer becomes the fact `answer`. It may be called `answer`, `gold`, `label`
(beside an instruction) or `output` (in a file that says its `task_type`); of an answer
that ends in "#### 150", what stands before is the `solution`. An `output` that no rule
can check is no answer: it is a `reference` where the `task_type` is reward_model, and a
`completion` to learn from beside an instruction. `choices` is the fact that says what
may be chosen: letter -> text, or a list of words.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from equipoise.errors import DataError

QUESTIONS = ("question", "instruction", "problem", "input")
OPTION = re.compile(r"^([A-Z])\. *(.*\S) *$", re.MULTILINE)
WORDS = re.compile(r"choose from: *('[^'\n]+'(?:, *'[^'\n]+')+)\W*$", re.IGNORECASE)


def with_prompt(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """`row` with what a task asks under `prompt` and its facts under their names; a row
    of another kind as it is.

    Raises DataError, beginning with `where`, on malformed options or an answer that is
    none of them.
    """
    there = {key: value for key, value in row.items() if value is not None}
    if "messages" in there or (
        "prompt" not in there and isinstance(there.get("chosen"), list)
    ):
        return row
    key = next((key for key in ("prompt", *QUESTIONS) if key in there), None)
    if key is None:
        return row
    asked = {
        "prompt": there[key],
        **{name: value for name, value in there.items() if name not in ("prompt", key)},
    }
    if key == "instruction" and "input" in asked:
        asked["prompt"] = _joined(asked["prompt"], asked.pop("input"), where)
    asked = _with_answer(asked, key)
    if key == "question" and "choices" in asked:
        return _with_options(asked, where)
    return _with_listed_options(asked)


def _joined(instruction: Any, given: Any, where: str) -> str:
    if not (isinstance(instruction, str) and isinstance(given, str)):
        raise DataError(f"{where}: instruction and input must be texts")
    return f"{instruction}\n\n{given}" if given.strip() else instruction


def _with_answer(row: dict[str, Any], key: str) -> dict[str, Any]:
    """The right answer under `answer`, an output that is not one under `reference` or
    `completion`.
    """
    names = ["gold"]
    if key == "instruction":
        names.append("label")
    elif key == "input" and row.get("task_type") not in (None, "reward_model"):
        names.append("output")
    found = next((name for name in names if name in row), None)
    if "answer" not in row and found is not None:
        row["answer"] = row.pop(found)
    elif key == "input" and "output" in row and row.get("task_type") == "reward_model":
        row.setdefault("reference", row.pop("output"))
    elif key == "instruction" and "output" in row:
        row.setdefault("completion", row.pop("output"))
    if isinstance(answer := row.get("answer"), str) and "####" in answer:
        before, _, final = answer.rpartition("####")
        row["answer"] = final.strip()
        if before.strip():
            row.setdefault("solution", before.strip())
    return row


def _with_options(row: dict[str, Any], where: str) -> dict[str, Any]:
    """The question followed by its options, one a line; `choices` by letter, and the
    letter as `answer`.
    """
    choices, answer = row["choices"], row.get("answer")
    if isinstance(choices, list) and len(choices) <= len(string.ascii_uppercase):
        if (
            isinstance(answer, int)
            and not isinstance(answer, bool)
            and 0 <= answer < len(choices)
        ):
            answer = string.ascii_uppercase[answer]
        choices = dict(zip(string.ascii_uppercase, choices, strict=False))
    if (
        not isinstance(choices, Mapping)
        or len(choices) < 2
        or not all(
            re.fullmatch(r"[A-Z]", letter) and isinstance(text, str)
            for letter, text in choices.items()
        )
    ):
        raise DataError(
            f"{where}: choices: needs two options or more, letter -> text or a list of texts"
        )
    if answer is not None and answer not in choices:
        raise DataError(
            f"{where}: answer: is {answer!r}, which is none of the choices {', '.join(choices)}"
        )
    lines = [f"{letter}. {text}" for letter, text in choices.items()]
    facts = {"choices": dict(choices)} | ({} if answer is None else {"answer": answer})
    return row | {"prompt": "\n".join([str(row["prompt"]), *lines])} | facts


def _with_listed_options(row: dict[str, Any]) -> dict[str, Any]:
    """`choices` where the prompt itself lists them and the answer is one of them."""
    prompt, completion = row["prompt"], row.get("completion")
    if not isinstance(prompt, str) or "choices" in row:
        return row
    if isinstance(completion, str) and "answer" not in row:
        listed = dict(OPTION.findall(prompt))
        letters = "".join(listed)
        if (
            len(listed) > 1
            and string.ascii_uppercase.startswith(letters)
            and completion.strip() in listed
        ):
            return row | {"choices": listed, "answer": completion.strip()}
    elif (listed := WORDS.search(prompt)) and isinstance(row.get("answer"), str):
        words = re.findall(r"'([^']+)'", listed[1])
        if row["answer"].casefold() in {word.casefold() for word in words}:
            return row | {"choices": words}
    return row
