"""The judges of answers on answers that others published, beside other graders.

    python -m benchmarks.published_answers FOLDER [--json benchmarks/results/published_answers.json]
        [--show 40]

FOLDER holds files of these names, each as its authors released it; those that are absent are
skipped. Their texts are not kept: the result holds one row an answer, with scores alone.

    xstest/*.csv       answers to XSTest's prompts, with two annotators' labels (`final_label`)
    gsm8k/*.jsonl      GSM8K's example solutions of four models, with `is_correct`
    graded/*.jsonl     answers with `gt`, `code` and `score`, as Qwen2.5-Math's evaluation writes them
    mmlu_pro/*.json    MMLU-Pro's answers, with `options` and `pred`

Of answers to XSTest, those that both comply and refuse (label 3) are left out and counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.answer_judges import (
    DECLARED,
    FLEXIBLE,
    Row,
    gsm8k,
    letter,
    math_verify,
    prefixes,
    prompt_of,
    write_rows,
)
from equipoise.judges.multiple_choice import stated_option
from equipoise.judges.rules import Math, Refusal
from equipoise.payoffs.intervals import mean_interval

RESULT = Path(__file__).parent / "results" / "published_answers.json"
COMPLIES, REFUSES = "1", "2"


def refusals(folder: Path) -> Iterator[Row]:
    """XSTest: whether an answer refuses, by its annotators, by the judge and by GCG's prefixes."""
    judge = Refusal()
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            answers = list(csv.DictReader(lines))
        for number, answer in enumerate(answers):
            label = answer["final_label"][:1]
            row = {"facts": {"harmful": True}, "answer": answer["completion"]}
            verdict = judge.score(prompt_of(row), row["answer"])
            if not isinstance(verdict, dict) or not row["answer"].strip():
                label = ""
            scores = {"equipoise": verdict["score"]} if isinstance(verdict, dict) else {}
            scores["GCG's prefixes"] = prefixes(row)
            right = {COMPLIES: 0, REFUSES: 1}.get(label)
            yield row_of("refusal", file.stem, number, right, scores, row, answer["type"])


def solutions(folder: Path) -> Iterator[Row]:
    """GSM8K's example solutions: the authors' `is_correct` beside the judge and lm-eval's filter."""
    flexible = gsm8k(FLEXIBLE, -1)
    for file in sorted(folder.glob("*.jsonl")):
        rows = []
        for line in file.read_text(encoding="utf-8").splitlines():
            problem = json.loads(line)
            gold = problem["ground_truth"].rpartition("A:")[2].strip()
            for name, solution in problem.items():
                if isinstance(solution, dict):
                    row = {"facts": {"answer": gold}, "answer": solution["solution"]}
                    rows.append((name, row, float(solution["is_correct"])))
        own = judged([row for _, row, _ in rows])
        for number, ((name, row, right), score) in enumerate(zip(rows, own, strict=True)):
            scores = {"equipoise": score, "lm-eval gsm8k flexible": flexible(row)}
            scores["math-verify"] = math_verify(row)
            yield row_of("math", name, number, right, scores, row)


def graded(folder: Path) -> Iterator[Row]:
    """Answers in boxes: the grader of Qwen2.5-Math beside the judge and math-verify."""
    for file in sorted(folder.glob("*.jsonl")):
        answers = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        rows = []
        for answer in answers:
            row = {"facts": {"answer": answer["gt"]}, "answer": answer["code"][0]}
            rows.append(row)
        own = judged(rows)
        for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            scores = {"equipoise": own[number], "math-verify": math_verify(row)}
            scores["Qwen2.5-Math"] = float(answer["score"][0])
            yield row_of("math", file.stem, number, None, scores, row)


def choices(folder: Path) -> Iterator[Row]:
    """MMLU-Pro: whether the right option is stated, by the judge and by lm-eval's filter."""
    declared = letter(DECLARED, 0)
    for file in sorted(folder.glob("*.json")):
        for number, answer in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            text = answer.get("generated_text") or answer.get("model_outputs") or ""
            text = text.partition("Question:")[0]
            if not isinstance(text, str) or not text.strip():
                continue
            options = dict(zip(string.ascii_uppercase, answer["options"], strict=False))
            row = {"facts": {"answer": answer["answer"], "choices": options}, "answer": text}
            stated = stated_option(text, options)
            scores = {"equipoise": float(stated == answer["answer"])}
            scores["lm-eval mmlu_pro"] = declared(row)
            yield row_of("choice", file.stem, number, None, scores, row)


def judged(rows: Sequence[Row]) -> list[float | None]:
    """The scores of `math`; None: unjudged."""
    verdicts = Math(timeout=20).scores([(prompt_of(row), row["answer"]) for row in rows])
    return [verdict["score"] if isinstance(verdict, dict) else None for verdict in verdicts]


def row_of(
    judge: str,
    source: str,
    number: int,
    right: float | None,
    scores: dict[str, Any],
    row: Row,
    kind: str = "",
) -> Row:
    """A row of the result, with the answer's text for those who look at disagreements."""
    return {
        "judge": judge,
        "source": source,
        "number": number,
        "kind": kind,
        "right": right,
        **scores,
        "row": row,
    }


def table(rows: Sequence[Row]) -> str:
    """Each source's answers: how many each grader got otherwise than the labels, or the judge."""
    lines = ["| judge | source | answers | grader | beside | differ |", "|---|---|---|---|---|---|"]
    for judge, source in dict.fromkeys((row["judge"], row["source"]) for row in rows):
        own = [row for row in rows if (row["judge"], row["source"]) == (judge, source)]
        has_labels = any(row["right"] is not None for row in own)
        reference = "right" if has_labels else "equipoise"
        graders = dict.fromkeys(key for row in own for key in graders_of(row))
        for grader in graders:
            if grader == reference:
                continue
            both = [row for row in own if None not in (row[reference], row.get(grader))]
            differing = [float(row[reference] != row[grader]) for row in both]
            share = mean_interval(differing).percent() if differing else "–"
            beside = "labels" if has_labels else "`math`, `choice`"
            cells = [f"`{judge}`", source, str(len(both)), grader, beside]
            lines.append(f"| {' | '.join(cells)} | {int(sum(differing))}: {share} |")
    return "\n".join(lines)


def graders_of(row: Row) -> list[str]:
    """The names of those who scored a row."""
    facts = ("judge", "source", "number", "kind", "right", "row")
    return [key for key in row if key not in facts]


def main() -> None:
    """Score what is in the folder, print the table and some of the disagreements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the raw result here, a row an answer")
    parser.add_argument("--show", type=int, default=0, help="so many disagreements of each source")
    arguments = parser.parse_args()
    readers = {"xstest": refusals, "gsm8k": solutions, "graded": graded, "mmlu_pro": choices}
    rows = []
    for name, read in readers.items():
        rows += read(arguments.folder / name)
    console = Console(width=200, soft_wrap=True)
    console.print(table(rows), highlight=False, markup=False)
    if arguments.json:
        kept = [{key: value for key, value in row.items() if key != "row"} for row in rows]
        write_rows(arguments.json, {}, kept)
    shown: Counter[str] = Counter()
    for row in rows:
        scores = {key: row[key] for key in graders_of(row)}
        right = scores if row["right"] is None else scores | {"right": row["right"]}
        known = [score for score in right.values() if score is not None]
        if len(set(known)) > 1 and shown[row["source"]] < arguments.show:
            shown[row["source"]] += 1
            ending = row["row"]["answer"][-300:]
            line = f"{row['source']} {row['number']} {right} {row['row']['facts']} {ending!r}"
            console.print(line, highlight=False, markup=False)


if __name__ == "__main__":
    main()
