"""What lm-eval's own scoring functions make of given answers to IFEval and GSM8K.

It runs where lm-eval is installed, which may be an environment of its own, and imports nothing of
this package:

    python benchmarks/lm_eval_scores.py ANSWERS.json SCORES.json

ANSWERS.json is a list of {"task": "ifeval" or "gsm8k", "doc": the row of the data set, "response":
the answer}. SCORES.json is a list of {metric: value} in the same order, with the version under
which they were made.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any


def gsm8k(doc: dict[str, Any], response: str) -> dict[str, float]:
    """The task's filters and its `exact_match`, as its packaged YAML sets them."""
    from lm_eval.api.metrics import exact_match_hf_evaluate  # pyright: ignore[reportMissingImports]
    from lm_eval.filters.extraction import RegexFilter  # pyright: ignore[reportMissingImports]

    task = _task("gsm8k")
    (metric,) = task["metric_list"]
    names = ("ignore_case", "ignore_punctuation", "regexes_to_ignore")
    options = {name: metric[name] for name in names}
    scores = {}
    for steps in task["filter_list"]:
        settings = {k: v for k, v in steps["filter"][0].items() if k != "function"}
        ((extracted,),) = RegexFilter(**settings).apply([[response]], [doc])
        same = exact_match_hf_evaluate([extracted], [doc["answer"]], **options)
        name = steps["name"].replace("-", "_")
        scores[name] = float(same["exact_match"])
    return scores


@cache
def _task(name: str) -> dict[str, Any]:
    import yaml

    text = files("lm_eval.tasks").joinpath(name, f"{name}.yaml").read_text()
    return yaml.safe_load(text)


def ifeval(doc: dict[str, Any], response: str) -> dict[str, Any]:
    """The task's `process_results`."""
    from lm_eval.tasks.ifeval.utils import process_results  # pyright: ignore[reportMissingImports]

    made = process_results(doc, [response])
    return {
        "prompt_strict": float(made["prompt_level_strict_acc"]),
        "prompt_loose": float(made["prompt_level_loose_acc"]),
        "inst_strict": list(map(bool, made["inst_level_strict_acc"])),
        "inst_loose": list(map(bool, made["inst_level_loose_acc"])),
    }


TASKS = {"gsm8k": gsm8k, "ifeval": ifeval}


def main() -> None:
    """Score a file of answers."""
    given, wanted = map(Path, sys.argv[1:3])
    rows = json.loads(given.read_text(encoding="utf-8"))
    scores = [TASKS[row["task"]](row["doc"], row["response"]) for row in rows]
    result = {"lm_eval": version("lm_eval"), "scores": scores}
    wanted.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
