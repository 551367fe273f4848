"""A run's answers in the files that the official judges of AlpacaEval and Arena-Hard take."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from equipoise.errors import RunError
from equipoise.ledger.benchmark_results import SOURCE, recorded_results
from equipoise.ledger.item_scores import Answer, Answers, Item, Items
from equipoise.payoffs.controlled_win_rates import style
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.recorded_answers import answers_of
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable
from equipoise.types import record_id

Row = dict[str, Any]


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


RowWriter = Callable[[Item, Answer, str], Row]

FORMS: Mapping[str, tuple[str, RowWriter]] = {
    "alpaca_eval": ("model_outputs.json", alpaca_eval_row),
    "arena_hard": ("{model}.jsonl", arena_hard_row),
}
"""Kind of benchmark -> (the file's name, what writes a row of it)."""


def answer_rows(kind: str, items: Items, answers: Answers, model: str) -> list[Row]:
    """The rows of an answer file: the first sample of every item that was answered."""
    _, write = FORMS[kind]
    return [
        write(item, answers[item.id][0], model) for item in items if not answers[item.id][0].error
    ]


def write_answer_files(run: RunDirectory, folder: Path) -> dict[Path, int]:
    """Write answers to AlpacaEval and Arena-Hard as the official judges take them.

    To `folder`/SET/PLAYER@GENERATION/; file -> rows. Raises RunError where the run measured none of
    them, or the folder cannot be written; DataError where the set's data are gone.
    """
    results = [
        recorded.result
        for recorded in recorded_results(run.ledger)
        if recorded.result.benchmark in FORMS and recorded.result.source == SOURCE
    ]
    if not results:
        known = ", ".join(FORMS)
        raise RunError(f"{run.folder}: no answers to {known} are recorded")
    check_writable(folder)
    written = {}
    for result in results:
        items, answers = answers_of(run, result)
        model = f"{run.config.name}-{result.player}"
        rows = answer_rows(result.benchmark, items, answers, model)
        name = FORMS[result.benchmark][0].format(model=model)
        path = folder / result.name / result.player / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        else:
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            text = "".join(f"{line}\n" for line in lines)
        write_text(path, text)
        written[path] = len(rows)
    return written
