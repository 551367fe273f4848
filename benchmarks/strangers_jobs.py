"""Ten strangers' first jobs, each from an empty folder through the installed command to a report.

    python -m benchmarks.strangers_jobs [--jobs 1 2 …] [--together 1] [--out DIR]
        [--json benchmarks/results/strangers_jobs.json]

Five formats of data (JSONL, CSV, Parquet, TRL's conversational JSONL, one prompt a line), four
judges (a function, a rule, a reward model of random weights, an endpoint: a packaged model behind
`equipoise serve`) and three methods. Players are packaged models, so a figure here says what the
command does, and nothing of what is learned. Counted are optimizer steps, the command's messages
(notes, warnings, errors, which are kept), and tracebacks.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

from benchmarks.running import recorded, write_results
from benchmarks.serving import serving
from equipoise.runs.directory import RunDirectory

COMMAND = Path(sys.executable).with_name("equipoise")
MESSAGE = re.compile(r"^\s*(?:note|warning|error|\w*Warning)\b.*", re.MULTILINE | re.IGNORECASE)
TRACEBACK = "Traceback (most recent call last)"
HARMFUL = ("make a bomb", "pick a lock", "steal a car", "forge a cheque", "poison a well")
Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """What a stranger has. `first`: the command that they try first, `init` or `run` at once."""

    data: str
    judge: str
    method: str
    first: str = "init"


JOBS = (
    Job("JSONL", "function", "mnpo"),
    Job("CSV", "rule", "mnpo", "run"),
    Job("Parquet", "reward model", "mnpo"),
    Job("conversational", "endpoint", "mnpo"),
    Job("conversational", "function", "sparta"),
    Job("Parquet", "rule", "sparta"),
    Job("JSONL", "endpoint", "sparta", "run"),
    Job("CSV", "reward model", "gpo"),
    Job("text", "function", "gpo"),
    Job("JSONL", "rule", "gpo"),
)


def sums() -> list[dict[str, Any]]:
    """Sums with their answers."""
    return [{"prompt": f"What is {n} + {n % 9}?", "answer": str(n + n % 9)} for n in range(120)]


def requests() -> list[dict[str, Any]]:
    """Requests, every other one harmful."""
    rows = []
    for n in range(120):
        harmful = n % 2 == 0
        what = HARMFUL[n // 2 % len(HARMFUL)] if harmful else f"bake {n} rolls"
        rows.append({"prompt": f"How do I {what} in {n + 2} steps?", "harmful": harmful})
    return rows


def _csv(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _json_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _parquet(path: Path, rows: Rows) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)


def _conversational(path: Path, rows: Rows) -> None:
    turns = [[{"role": "user", "content": row["prompt"]}] for row in rows]
    _json_lines(path, [row | {"prompt": turn} for row, turn in zip(rows, turns, strict=True)])


def _text(path: Path, rows: Rows) -> None:
    path.write_text("".join(row["prompt"] + "\n" for row in rows))


WRITERS: dict[str, tuple[str, Callable[[Path, Rows], None]]] = {
    "JSONL": ("prompts.jsonl", _json_lines),
    "CSV": ("prompts.csv", _csv),
    "Parquet": ("prompts.parquet", _parquet),
    "conversational": ("chats.jsonl", _conversational),
    "text": ("prompts.txt", _text),
}
FUNCTIONS = {
    "mnpo": "def score(prompt, text):\n    return -abs(len(text.split()) - 5)\n",
    "gpo": "def safe(prompt, text):\n    return 0.0 if text.strip().endswith('.') else 1.0\n",
}


def write_reward_model(folder: Path, labels: Sequence[str]) -> None:
    """The packaged model under a head of random weights, one logit a label.

    Of a single label, the logit is a reward.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from equipoise.environments.clerk import world

    packaged = Path(world.__file__).parent / "model"
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        packaged,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: n for n, label in enumerate(labels)},
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(packaged).save_pretrained(folder)


def judge_of(job: Job, place: Path, url: str) -> str:
    """What the stranger writes behind `--judge`, its files made below `place`."""
    if job.judge == "function":
        (place / "myjudge.py").write_text(FUNCTIONS.get(job.method, FUNCTIONS["mnpo"]))
        return "myjudge.py"
    if job.judge == "rule":
        return "refusal" if job.method == "gpo" else "math"
    if job.judge == "reward model":
        labels = ("safe", "unsafe") if job.method == "gpo" else ("reward",)
        write_reward_model(place / "scorer", labels)
        return "scorer"
    model = f"{{kind: endpoint, base_url: '{url}', model: builtin/pool}}"
    return f"{{kind: rubric, text: rubric_compact, model: {model}}}"


def commands(job: Job, data: str, judge: str) -> list[list[str]]:
    """The commands of a job: its recipe, written or given as settings; the run; its status."""
    run = "runs/mine"
    status = ["status", run, "--json"]
    if job.first == "init":
        count, model = {"mnpo": (1, "builtin"), "sparta": (3, "builtin/pool")}.get(
            job.method, (2, "builtin/red_team")
        )
        options = ["--method", job.method, "--data", data, "--judge", judge]
        init = ["init", "mine.yaml", *["--model", model] * count, *options]
        if job.method == "gpo":
            init += ["--hours", "0.05", "-s", "player_defaults.max_new_tokens=24"]
        return [init, ["run", "mine.yaml", "--out", run], status]
    settings = [f"prompts.path={data}", "learner.batch_size=1", "learner.gradient_accumulation=1"]
    settings.append("learner.learning_rate=2e-4")
    if job.method == "sparta":
        member = "{model: builtin/pool, lora: null}"
        players = f"{{ann: {member}, ben: {member}, cem: {member}}}"
        settings += [f"players={players}", "judge.text=rubric_compact"]
        settings += [f"evaluate.judge={judge}", "generations=3"]
        settings += ["player_defaults.max_new_tokens=24", "player_defaults.max_length=256"]
    else:
        settings += ["policy.model=builtin", "policy.max_length=256", f"judge={judge}"]
        settings.append("policy.max_new_tokens=24")
    options = [part for setting in settings for part in ("-s", setting)]
    return [["run", job.method, *options, "--out", run], status]


def play(job: Job, place: Path, url: str, more: Sequence[str] = ()) -> dict[str, Any]:
    """A job from its empty folder to its report, as a row of the results.

    `url` is the endpoint's address; `more` are further options of the run.
    """
    place.mkdir(parents=True)
    name, write = WRITERS[job.data]
    write(place / name, requests() if job.method == "gpo" else sums())
    judge = judge_of(job, place, url)
    codes, said, started = [], "", time.monotonic()
    for arguments in commands(job, name, judge):
        if arguments[0] == "run":
            arguments = [*arguments, *more]
        done = subprocess.run(
            [COMMAND, *arguments], cwd=place, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
        said += f"$ equipoise {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        if done.returncode:
            break
    (place / "said.txt").write_text(said)
    messages = [line.strip()[:300] for line in MESSAGE.findall(said)]
    return asdict(job) | {
        "codes": codes,
        "report": (place / "runs" / "mine" / "report.html").is_file(),
        **_learned(place / "runs" / "mine"),
        "messages": messages,
        "tracebacks": said.count(TRACEBACK),
        "seconds": round(time.monotonic() - started, 1),
    }


def _learned(folder: Path) -> dict[str, Any]:
    """Optimizer steps of all learners, and the answers without a score."""
    if not (folder / "ledger.sqlite").exists():
        return {"steps": 0, "judged": 0, "unjudged": 0}
    with RunDirectory.read(folder, trust=True) as run:
        steps = sum(facts.get("steps", 0) for facts in recorded(run, "learn"))
        judgements = recorded(run, "judge")
    unjudged = sum(round(facts["answers"] * facts["unjudged_share"]) for facts in judgements)
    judged = sum(facts["answers"] for facts in judgements)
    return {"steps": steps, "judged": judged, "unjudged": unjudged}


def table(rows: Rows) -> Table:
    """A row a job."""
    shown = Table(title="strangers' own jobs, from an empty folder to a report")
    columns = ("data", "judge", "method", "first", "codes", "report", "steps", "judged", "unjudged")
    for column in (*columns, "messages", "tracebacks", "seconds"):
        shown.add_column(column)
    for row in rows:
        cells = [str(row[column]) for column in columns]
        shown.add_row(*cells, *map(str, (len(row["messages"]), row["tracebacks"], row["seconds"])))
    return shown


def is_whole(row: dict[str, Any]) -> bool:
    """Whether a job came to its report with a model that has learned, and without a traceback."""
    return row["report"] and not any(row["codes"]) and row["steps"] > 0 == row["tracebacks"]


def main() -> None:
    """Print the table; exit with 1 where a job did not come to its report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=list(range(1, len(JOBS) + 1)))
    parser.add_argument("--together", type=int, default=1, help="jobs side by side")
    parser.add_argument("--out", type=Path, help="keep the folders, with all that was said, here")
    parser.add_argument("--json", type=Path, help="write a row a job here")
    o = parser.parse_args()
    console = Console(width=max(150, Console().width))
    rows = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with (
        tempfile.TemporaryDirectory(prefix="strangers-") as spare,
        serving(None, "builtin/pool", "--no-token") as server,
    ):
        place = (o.out or Path(spare)).resolve()
        with ThreadPoolExecutor(o.together) as pool:
            for row in pool.map(lambda n: play(JOBS[n - 1], place / f"{n}", server[0]), o.jobs):
                rows.append(row)
                console.print(row, highlight=False)
                if o.json:
                    write_results(o.json, rows)
    console.print(table(rows))
    sys.exit(not all(map(is_whole, rows)))


if __name__ == "__main__":
    main()
