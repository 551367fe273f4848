"""The files in which the official judges of AlpacaEval, Arena-Hard and MT-Bench take answers:
written and read.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from equipoise.errors import DataError
from equipoise.evaluation.named_sets.item_scores import Answer, Answers, Item, Items
from equipoise.payoffs.controlled_win_rates import style
from equipoise.prompts.prompt_files import find, read
from equipoise.types import record_id

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
        if "choices" in row:  # MT-Bench, and Arena-Hard before
            turns = row["choices"][0]["turns"]
            return str(row["question_id"]), tuple(map(_content, turns))
        return str(row["instruction"]), (str(row["output"]),)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"{where}: no answer in the form of MT-Bench (question_id, choices), "
            "Arena-Hard (uid, messages) or AlpacaEval (instruction, output)"
        ) from error


def _content(turn: Any) -> str:
    """A turn's text, which lies in an object in Arena-Hard's files."""
    if isinstance(turn, Mapping):
        return str(turn["answer"] if "answer" in turn else turn["content"])
    return str(turn)


def alpaca_eval_row(item: Item, answer: Answer, model: str) -> Row:
    """An entry of AlpacaEval's `model_outputs.json`, which is one list."""
    return {
        "dataset": item.group,
        "instruction": item.prompt.messages[-1].content,
        "output": answer.text,
        "generator": model,
    }


def arena_hard_row(item: Item, answer: Answer, model: str) -> Row:
    """A line of Arena-Hard's `model_answer/MODEL.jsonl`.

    Its `token_len` counts words and marks, as `payoffs.style_control` does; the official script
    `add_markdown_info.py` counts anew with the tokenizer of its own.
    """
    length, headers, lists, bold = style(answer.text)
    return {
        "uid": item.id,
        "ans_id": record_id("answer", item.id, model, answer.text)[:22],
        "model": model,
        "messages": [
            {"role": "user", "content": item.prompt.messages[-1].content},
            {"role": "assistant", "content": {"answer": answer.text}},
        ],
        "tstamp": 0.0,
        "metadata": {
            "token_len": length,
            "header_count": {"all": headers},
            "list_count": {"all": lists},
            "bold_count": {"all": bold},
        },
    }


def mt_bench_row(item: Item, answer: Answer, model: str) -> Row:
    """A line of MT-Bench's `model_answer/MODEL.jsonl`."""
    number = int(item.id) if item.id.isdigit() else item.id
    turns = [move.text for move in answer.moves]
    return {
        "question_id": number,
        "answer_id": record_id("answer", item.id, model, *turns)[:22],
        "model_id": model,
        "choices": [{"index": answer.sample, "turns": turns}],
        "tstamp": 0.0,
    }


RowWriter = Callable[[Item, Answer, str], Row]

FORMS: Mapping[str, tuple[str, RowWriter]] = {
    "alpaca_eval": ("model_outputs.json", alpaca_eval_row),
    "arena_hard": ("{model}.jsonl", arena_hard_row),
    "mt_bench": ("{model}.jsonl", mt_bench_row),
}
"""Kind of benchmark -> (the file's name, what writes a row of it)."""


def answer_rows(kind: str, items: Items, answers: Answers, model: str) -> list[Row]:
    """The rows of an answer file: the first sample of every item that was answered."""
    _, write = FORMS[kind]
    return [
        write(item, answers[item.id][0], model) for item in items if not answers[item.id][0].error
    ]
