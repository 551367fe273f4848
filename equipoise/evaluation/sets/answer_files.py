"""The files in which the official judges of AlpacaEval and Arena-Hard take answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.errors import DataError
from equipoise.prompts.prompt_files import find, read

Row = dict[str, Any]


def answers_in(path: str) -> dict[str, tuple[str, ...]]:
    """Name of the question -> the answers, one a turn, of a file in any of these forms.

    The name is `question_id`, `uid` or, in AlpacaEval's form, the instruction itself. Raises
    DataError that names file and line.
    """
    answers: dict[str, tuple[str, ...]] = {}
    for file, part in find(path, Path()):
        for where, row in read(file, part):
            name, texts = _read(row, where)
            answers[name] = texts
    return answers


def _read(row: Any, where: str) -> tuple[str, tuple[str, ...]]:
    try:
        if "messages" in row:  # Arena-Hard since 2025
            replies = [m for m in row["messages"] if m["role"] == "assistant"]
            texts = tuple(_content(message["content"]) for message in replies)
            return str(row["uid"]), texts
        if "choices" in row:  # Arena-Hard before
            turns = row["choices"][0]["turns"]
            return str(row["question_id"]), tuple(map(_content, turns))
        return str(row["instruction"]), (str(row["output"]),)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"{where}: no answer in the form of Arena-Hard (uid, messages, or question_id, "
            "choices) or AlpacaEval (instruction, output)"
        ) from error


def _content(turn: Any) -> str:
    """A turn's text, which lies in an object in Arena-Hard's files."""
    if isinstance(turn, Mapping):
        return str(turn["answer"] if "answer" in turn else turn["content"])
    return str(turn)
