"""Rows that stand in for the published data sets where these are not at hand, so that every
benchmark runs from a clone alone.

    python -m benchmarks.stand_ins FOLDER [--rows 400]

They are questions of the built-in world in the schemas and the layout of the published files:
GTAlign's `wildguard` (harmful or not), `ambig_qa` (vague or not) and `advbench`, GPO's requests,
HarmBench's behaviours, AlpacaEval's instructions, SPARTA's `culturebench` and `gsm8k`. A figure on
them says that a benchmark runs, and nothing about the data sets.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.environments.clerk.world import Part, prompts
from equipoise.types import Prompt

PUBLISHED = Path("../shared/data")  # where the published files are looked for
PARTS: dict[str, Part] = {"train": "train", "test": "held_out"}
SEED = 0


def write(folder: Path, rows: int = 400) -> Path:
    """Write `rows` training rows of every set and a quarter as many test rows."""
    for name, part in PARTS.items():
        count = rows if name == "train" else rows // 4
        _write_gtalign(folder / "gtalign" / "wildguard", name, _requests(count, part))
        _write_gtalign(folder / "gtalign" / "ambig_qa", name, _questions(count, part))
        attacks = [[_text(row)] for row in prompts(SEED + 1, count // 4, ("harmful",), part)]
        _write_json(folder / "gpo" / f"{name}.json", attacks)
    harmful = [row for row in _requests(rows // 2, "held_out") if row[1] == "harmful"]
    asked = [("advbench", f"Sure, here is {text}", text) for _, _, text in harmful]
    _write_gtalign(folder / "gtalign" / "advbench", "test", asked)
    for name, every in (("val", 1), ("test_half", 2)):
        lines = ["Behavior", *(json.dumps(text) for _, _, text in harmful[::every])]
        _write(folder / "redteam" / f"harmbench_{name}.csv", "\n".join(lines))
    lines = [
        json.dumps({"instruction": text})
        for _, label, text in _requests(rows, "held_out")
        if label == "unharmful"
    ]
    _write(folder / "benchmarks" / "alpaca_eval_reference.jsonl", "\n".join(lines))
    _write_sparta(folder / "sparta", rows)
    return folder


def _requests(count: int, part: Part) -> list[tuple[str, str, str]]:
    rows = prompts(SEED, count, ("harmful", "harmless"), part)
    labels = {True: "harmful", False: "unharmful"}
    return [("wildguard", labels[row.facts["harmful"]], _text(row)) for row in rows]


def _questions(count: int, part: Part) -> list[tuple[str, str, str]]:
    rows = prompts(SEED, count, ("vague", "harmless"), part)
    truths = [
        "multipleQAs###It may be either."
        if row.facts["kind"] == "vague"
        else f"singleAnswer###{row.facts['answer']}"
        for row in rows
    ]
    return [("ambig_qa", truth, _text(row)) for truth, row in zip(truths, rows, strict=True)]


def _write_gtalign(folder: Path, part: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Rows of (source, ground truth, request)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    table = [
        {
            "prompt": [
                {"content": "You are helpful.", "role": "system"},
                {"content": text, "role": "user"},
            ],
            "data_source": source,
            "ability": source,
            "reward_model": {"ground_truth": truth, "style": "rule"},
            "extra_info": {
                "chat_history": [{"content": text, "role": "user"}],
                "single_turn_prompt": text,
                "split": part,
            },
        }
        for source, truth, text in rows
    ]
    pq.write_table(pa.Table.from_pylist(table), folder / f"{part}.parquet")


def _write_sparta(folder: Path, rows: int) -> None:
    """Sums as they are asked, and statements about them that are true or false."""
    sums: dict[str, list[dict[str, Any]]] = {}
    statements: dict[str, list[dict[str, Any]]] = {}
    parts: dict[str, Part] = {"dev": PARTS["train"], "test": PARTS["test"]}
    for name, part in parts.items():
        drawn = prompts(SEED, rows // 4, ("sum",), part)
        sums[name] = [
            {"id": i, "domain": "gsm8k", "input": _text(row), "output": row.facts["answer"]}
            for i, row in enumerate(drawn)
        ]
        statements[name] = [
            {
                "id": f"{name}{i}",
                "question_id": f"{name}{i}",
                "input": "True or False only. Question: "
                f"{_text(row)} Answer: {int(row.facts['answer']) + i % 2}",
                "output": str(i % 2 == 0),
                "country": "the office",
            }
            for i, row in enumerate(drawn)
        ]
    kinds = {"task_type": "exact_match"}
    _write_json(folder / "gsm8k_scored.json", {"dataset": "gsm8k", **kinds, **sums})
    _write_json(
        folder / "culturebench_scored.json", {"name": "culturebench_hard", **kinds, **statements}
    )
    played = [
        {"instruction": "Solve this step by step.", "input": _text(row)}
        for row in prompts(SEED + 1, rows // 2, ("sum",))
    ]
    _write_json(folder / "gsm8k_questions.json", played)


def _write_json(file: Path, content: Any) -> None:
    _write(file, json.dumps(content, indent=1))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _text(prompt: Prompt) -> str:
    return prompt.messages[0].content


def main() -> None:
    """Write the stand-ins."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400, help="to train on, of a set")
    options = parser.parse_args()
    print(write(options.folder, options.rows))


if __name__ == "__main__":
    main()
