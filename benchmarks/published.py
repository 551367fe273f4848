"""A run's start and newest generation on published benchmarks, by `equipoise evaluate`.

    python -m benchmarks.published --run RUN --data FOLDER --judge MODEL
        [--sets ifeval gsm8k truthfulqa alpaca_eval] [--rows ifeval=40 …]
        [--lm-eval PYTHON] [--out benchmarks/results/published.json]

The run stays as it is: its weights are copied into a run directory of their own, where everything
answered and judged is recorded, and a second call, with more rows too, asks only what is missing.
Answers are greedy. `--judge` is a local model that is asked whether an answer is good: P(yes)
compares AlpacaEval's answers with the start's. A small one is a weak judge, whose word is worth little. `--lm-eval` is an interpreter with lm-eval,
whose own functions then score the answers to IFEval and GSM8K again. `--table` prints the results
so far.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.running import equipoise, provenance
from equipoise.ledger.benchmark_results import against_start, recorded_results
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import Answer, BenchmarkResult, Item
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.recorded_answers import answers_of

SETS: dict[str, dict[str, Any]] = {
    "ifeval": {"kind": "ifeval", "path": "benchmarks/ifeval_half.jsonl", "max_new_tokens": 256},
    "gsm8k": {"kind": "gsm8k", "path": "benchmarks/gsm8k_test.jsonl", "max_new_tokens": 256},
    "truthfulqa": {
        "kind": "prompts",
        "prompts": "sparta/truthfulqa_scored.json#test",
        "judge": "choice",
        "temperature": 0.0,
        "max_new_tokens": 128,
    },
    "alpaca_eval": {
        "kind": "alpaca_eval",
        "path": "benchmarks/alpaca_eval_reference.jsonl",
        "against": "start",
        "max_new_tokens": 128,
    },
}
ROWS = {"ifeval": 271, "gsm8k": 200, "truthfulqa": 200, "alpaca_eval": 100}
AGREEING = ("ifeval", "gsm8k")  # what lm-eval scores again
WIDTH = 200  # of the table, where it is no terminal that it is printed to


def settings(name: str, o: argparse.Namespace) -> dict[str, Any]:
    """What a set is asked with: files below the data's folder, and the judge."""
    values = {**SETS[name], "limit": o.rows[name]}
    for key in ("path", "prompts"):
        if key in values:
            values[key] = str(o.data.resolve() / values[key])
    if name == "alpaca_eval":
        alone = good_answer(o.judge)
        values["judge"] = {"kind": "first_place", "judge_of_answers": alone, "temperature": 0.1}
    return values


def good_answer(model: str) -> dict[str, Any]:
    """The judge: the probability of yes against no of the next token, where a model is asked
    whether an answer is good. Small models write no verdict that could be read.
    """
    question = Path(__file__).with_name("good_answer.txt").resolve()
    return {
        "kind": "guard",
        "model": model,
        "text": str(question),
        "words": [" yes", " no"],
        "opening": "Is this a good answer? The answer to that is",
        "dtype": "float32",
        "longest": 1500,
    }


def copied(o: argparse.Namespace) -> Path:
    """A run directory with the run's players and weights, in float32, in which everything is
    recorded.
    """
    folder = o.work / "run"
    if not folder.exists():
        config = yaml.safe_load((o.run / "config.yaml").read_text(encoding="utf-8"))
        for player in config["players"].values():
            player["dtype"] = "float32"
        with new_run(recipe_loader.load(config), folder):
            weights = folder / "players"
            shutil.copytree(o.run / "players", weights, dirs_exist_ok=True)
    return folder


def measure_all(o: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure set after set; the results file is written after each."""
    folder = copied(o)
    for name in o.sets:
        if "judged" in SETS[name] and not o.judge:
            console.print(f"{name} needs --judge")
            continue
        given = f"{name}={json.dumps(settings(name, o))}"
        equipoise("evaluate", str(folder), "--on", given, threads=o.threads)
        save(o, folder)
        console.print(table(stored(o.out)))
    if o.lm_eval:
        save(o, folder, agreement={n: agreement(folder, n, o) for n in AGREEING})
    return stored(o.out)


def save(o: argparse.Namespace, folder: Path, **more: Any) -> None:
    """Write what the run has recorded, whole or not at all."""
    results = {**stored(o.out), **provenance(), "sets": figures(folder), **more}
    o.out.parent.mkdir(parents=True, exist_ok=True)
    draft = o.out.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    draft.replace(o.out)


def stored(path: Path) -> dict[str, Any]:
    """The results so far."""
    return json.loads(path.read_text()) if path.exists() else {}


def figures(folder: Path) -> dict[str, Any]:
    """Set -> player -> metrics with their intervals, differences from the start, minutes."""
    sets: dict[str, Any] = {}
    with RunDirectory.read(folder) as run:
        seconds = {row[0]: row[-1] for row in run.ledger.stages("benchmark")}
        keys = {(r.result.name, r.result.player): r.stage for r in recorded_results(run.ledger)}
        for result, _, differences in against_start(run.ledger):
            of_set = sets.setdefault(result.name, {})
            of_set[result.player] = {
                "n": result.n,
                "answers": result.answers,
                "unscored": result.unscored,
                "headline": result.headline,
                "judge": result.judge.partition("-")[0],
                "note": result.note,
                "minutes": seconds[keys[result.name, result.player]] / 60,
                "metrics": _plain(result.metrics),
                "over_start": _plain(differences),
            }
    return sets


def _plain(estimates: dict[str, Estimate]) -> dict[str, list[float | None]]:
    return {name: [value.mean, value.low, value.high, value.n] for name, value in estimates.items()}


def table(results: dict[str, Any]) -> Table:
    """A row for each set, player and metric."""
    shown = Table(title="published benchmarks, greedy; mean and 95 % interval over items")
    columns = ("set", "player", "metric", "items", "unscored", "score", "over the start")
    for column in (*columns, "minutes"):
        shown.add_column(column)
    for name, players in results.get("sets", {}).items():
        for player, cell in players.items():
            minutes = f"{cell['minutes']:.0f}"
            for metric, values in cell["metrics"].items():
                difference = cell["over_start"].get(metric)
                shown.add_row(
                    *(name, player, metric, str(cell["n"]), str(cell["unscored"])),
                    _text(values),
                    _text(difference) if difference else "–",
                    minutes,
                )
    return shown


def _text(values: Sequence[float | None]) -> str:
    return Estimate(*values[:3], int(values[3] or 0)).interval.text()


def agreement(folder: Path, name: str, o: argparse.Namespace) -> dict[str, Any]:
    """How many values lm-eval's own functions give alike, of the same answers.

    `drawn` are those of instructions for which its checker draws what it counts.
    """
    compared, equal, drawn, version = 0, 0, 0, ""
    with RunDirectory.read(folder) as run:
        for stage, result in recorded_results(run.ledger):
            if result.name != name:
                continue
            ours = {
                (row.item, row.sample): row.values for row in run.ledger.benchmark_scores(stage)
            }
            items, answers = answers_of(run, result)
            pairs = [(item, answer) for item in items for answer in answers[item.id]]
            theirs = _scored_by_lm_eval(result, pairs, o)
            version = theirs["lm_eval"]
            for (item, answer), scores in zip(pairs, theirs["scores"], strict=True):
                values = ours[item.id, answer.sample]
                if _is_drawn(item):
                    drawn += len(scores)
                    continue
                for metric, value in scores.items():
                    if isinstance(value, list):
                        value = sum(value) / len(value)
                    compared += 1
                    equal += values[metric] == value
    return {"lm_eval": version, "values": compared, "equal": equal, "drawn": drawn}


def _is_drawn(item: Item) -> bool:
    """Whether the published checker, and lm-eval's, draw for an instruction: one that counts a mark
    that is no letter, such as "!", counts a letter drawn at random instead, and a language is
    guessed by langdetect, without a seed.
    """
    if "language:response_language" in item.prompt.facts.get("instruction_id_list", ()):
        return True
    marks = [given.get("letter") for given in item.prompt.facts.get("kwargs", ())]
    return any(mark and not mark.isalpha() for mark in marks)


def _scored_by_lm_eval(
    result: BenchmarkResult, pairs: Sequence[tuple[Item, Answer]], o: argparse.Namespace
) -> dict[str, Any]:
    rows = [
        {"task": result.benchmark, "doc": _doc(item, result.benchmark), "response": answer.text}
        for item, answer in pairs
    ]
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "answers.json"), Path(folder, "scores.json")
        given.write_text(json.dumps(rows), encoding="utf-8")
        script = str(Path(__file__).with_name("lm_eval_scores.py"))
        subprocess.run([o.lm_eval, script, str(given), str(made)], check=True)
        return json.loads(made.read_text(encoding="utf-8"))


def _doc(item: Item, kind: str) -> dict[str, Any]:
    """The item as the row of its data set."""
    facts, text = item.prompt.facts, item.prompt.messages[-1].content
    if kind == "gsm8k":
        return {"question": text, "answer": f"#### {facts['answer']}"}
    return {"key": item.id, "prompt": text, **facts}


def rows_of(texts: Sequence[str]) -> dict[str, int]:
    """SET=NUMBER over the numbers of rows that are asked by default."""
    given = dict(text.split("=", 1) for text in texts)
    unknown = sorted(given.keys() - ROWS.keys())
    if unknown:
        raise SystemExit(f"--rows: no set '{unknown[0]}'; known: {', '.join(ROWS)}")
    return ROWS | {name: int(number) for name, number in given.items()}


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--run", type=Path, help="a finished run of the recipe `instructions`")
    add("--data", type=Path, help="the folder with the sets' files")
    add("--judge", default="", help="a local model that judges: a folder or a hub id")
    add("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    add("--rows", nargs="+", default=[], metavar="SET=N", help="rows of a set")
    add("--lm-eval", default="", help="a Python interpreter that has lm-eval")
    add("--threads", type=int, default=1)
    add("--work", type=Path, default=Path("runs/published"), help="the folder of that run")
    add("--out", type=Path, default=Path("benchmarks/results/published.json"))
    add("--table", action="store_true", help="print the results that are there")
    return made


def main() -> None:
    """Print the table."""
    o = parser().parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    o.rows = rows_of(o.rows)
    if not o.table and (o.run is None or o.data is None):
        raise SystemExit("--run and --data are needed, or --table")
    results = stored(o.out) if o.table else measure_all(o, console)
    console.print(table(results))
    if "agreement" in results:
        console.print(f"the same values as lm-eval's: {results['agreement']}")


if __name__ == "__main__":
    main()
