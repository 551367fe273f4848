"""SIGKILL at random moments, within file renames and files of weights, around the record of a stage;
then resume, until the run ends. Every record, curve, weight and final number is to be that of an undisturbed
run. The same for `export`, `judge`, `rate` and `evaluate`.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.running import with_settings
from tests.soak._forked import KINDS, Ended, command, draw, load
from tests.soak._outcome import Outcome
from tests.soak._recorded import count, differences
from tests.soak._replies import serving

SIZE = 240
SMALL = ("prompts.held_out=8", "evaluate.samples=2", "learner.epochs=0.5")
RECIPES: Mapping[str, Sequence[str]] = {
    "rock_paper_scissors": ["generations=30"],
    "gpo_matrix": ["generations=20"],
    "quickstart": [*SMALL, "generations=2", "prompts.per_generation=12"],
    "sparta_clerks": [
        *SMALL,
        "generations=2",
        "prompts.per_generation=6",
        "prompts.test=4",
        "commit_every=8",
    ],
    "gpo_clerks": [
        "generations=4",
        "prompts.count=40",
        "prompts.per_generation=6",
        "prompts.held_out=6",
        "turns.steps={defender: 1, adversary: 1}",
        "learner.save_every=2",
        "evaluate.every=2",
        "evaluate.crossplay=2",
    ],
    "gtalign_clerks": [
        "generations=2",
        "prompts.per_generation=6",
        "prompts.held_out=6",
        "learner.batch_size=6",
    ],
    "an endpoint": [*SMALL, "generations=2", "prompts.per_generation=12", "commit_every=4"],
}
PARTS = len(RECIPES) + 4  # and verbs
RUN_SHARE = 2 / 3  # of the kills; the others fall on verbs, 20 each


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` kills, shared among the recipes and verbs, as are the minutes: after its share, and
    what those before it left, no kill of a recipe or verb begins.
    """
    load()
    start, seconds = time.monotonic(), 60 * minutes if minutes else float("inf")
    rows: list[Mapping[str, Any]] = []
    failures: list[str] = []
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as home, serving() as address:
        each = max(1, round(size * RUN_SHARE / len(RECIPES)))
        for name in RECIPES:
            folder = Path(home, name.replace(" ", "_"))
            folder.mkdir()
            recipe = _recipe(name, address)
            until = start + seconds * (len(rows) + 1) / PARTS
            rows.append(_killed_runs(name, recipe, folder, each, dice, until, failures))
            print(rows[-1], flush=True)
        calm = Path(home, "quickstart", "calm")
        each = max(1, round(size * (1 - RUN_SHARE) / 4))
        for verb, arguments in _verbs(Path(home)):
            folder = Path(home, verb)
            folder.mkdir()
            until = start + seconds * (len(rows) + 1) / PARTS
            rows.append(_killed_verb(verb, arguments, calm, folder, each, dice, until, failures))
            print(rows[-1], flush=True)
    return Outcome(rows, failures)


def _recipe(name: str, address: str) -> list[str]:
    if name == "an endpoint":
        by = f"{{kind: endpoint, model: judge, base_url: '{address}'}}"
        judge = f"judge={{kind: rubric, model: {by}}}"
        return ["quickstart", *with_settings([*RECIPES[name], judge])]
    return [name, *with_settings(RECIPES[name])]


# -- runs


def _killed_runs(
    name: str,
    recipe: Sequence[str],
    folder: Path,
    kills: int,
    dice: random.Random,
    until: float,
    failures: list[str],
) -> Mapping[str, Any]:
    """Run once undisturbed, then again and again under kills; the row of the table."""
    calm = command(["run", *recipe, "--out", "calm", "--json"], folder)
    if calm.code != 0:
        failures.append(f"{name}, undisturbed: {calm.output[-400:]}")
        return {"what": name, "kills": 0}
    marks = max(count(folder / "calm", "stages"), 8)
    kinds: Counter[str] = Counter()
    runs = equal = 0
    while kinds.total() < kills and time.monotonic() < until:
        run = folder / "killed"
        shutil.rmtree(run, ignore_errors=True)
        problems: list[str] = []
        while True:
            verb = ["resume", run] if run.exists() else ["run", *recipe, "--out", run]
            last = kinds.total() >= kills or time.monotonic() >= until
            # A run that writes no weights is not met there.
            kind = KINDS[(kinds.total() + runs) % len(KINDS)]
            moment = None if last else draw(dice, kind, calm.seconds, marks)
            ended = command([*verb, "--json"], folder, moment)
            problems += _problems(ended)
            if ended.code is not None:
                break
            kinds[kind] += 1
        runs += 1
        problems += differences(folder / "calm", run) if run.exists() else []
        if _measured(ended) != _measured(calm):
            problems.append("final numbers: differ")
        equal += not problems
        for problem in problems:
            print(f"{name}, run {runs}: {problem}", flush=True)
            failures.append(f"{name}, run {runs}: {problem}")
    return {
        "what": name,
        "kills": kinds.total(),
        **{kind: kinds[kind] for kind in KINDS},
        "runs": runs,
        "equal": equal,
    }


def _problems(ended: Ended) -> Iterator[str]:
    """What a process said that none should."""
    if "Traceback" in ended.output:
        yield f"traceback: {ended.output[-300:]}"
    if ended.code not in (0, None):
        yield f"exit code {ended.code}: {ended.output[-300:]}"


def _measured(ended: Ended) -> Any:
    """The final numbers that a run prints as JSON, after any notes."""
    start = ended.output.find("{\n")
    return json.loads(ended.output[start:])["measured"] if start >= 0 else None


# -- verbs


def _verbs(home: Path) -> Iterator[tuple[str, list[str]]]:
    """(verb, its arguments after the run)."""
    questions = home / "questions.jsonl"
    rows = ({"prompt": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(24))
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    yield "export", ["--to", "tables"]
    yield "judge", ["--with", "shorter"]
    yield "rate", ["--of", "league"]
    yield "evaluate", ["--on", str(questions), "--judge", "exact"]


def _killed_verb(
    verb: str,
    arguments: Sequence[str],
    finished: Path,
    folder: Path,
    kills: int,
    dice: random.Random,
    until: float,
    failures: list[str],
) -> Mapping[str, Any]:
    """Do it once undisturbed on a copy of a run, then under kills on others."""
    shutil.copytree(finished, folder / "calm")
    calm = command([verb, "calm", *arguments, "--json"], folder)
    if calm.code != 0:
        failures.append(f"{verb}, undisturbed: {calm.output[-400:]}")
        return {"what": verb, "kills": 0}
    tables = _tables(folder)
    kinds: Counter[str] = Counter()
    runs = equal = 0
    while kinds.total() < kills and time.monotonic() < until:
        for old in ("killed", "tables"):
            shutil.rmtree(folder / old, ignore_errors=True)
        shutil.copytree(finished, folder / "killed")
        problems: list[str] = []
        while True:
            last = kinds.total() >= kills or time.monotonic() >= until
            # A verb that renames nothing, or records no stage, is not met there.
            kind = KINDS[(kinds.total() + runs) % len(KINDS)]
            moment = None if last else draw(dice, kind, 2.5 * calm.seconds, 16)
            ended = command([verb, "killed", *arguments, "--json"], folder, moment)
            problems += _problems(ended)
            if ended.code is not None:
                break
            kinds[kind] += 1
            whole = _tables(folder)
            problems += [f"{t}: broken" for t in whole if whole[t] != tables.get(t)]
        runs += 1
        if _tables(folder) != tables:
            problems.append("tables: differ")
        if ended.output.replace("killed", "calm") != calm.output:
            problems.append("what it printed differs")
        problems += differences(folder / "calm", folder / "killed")
        equal += not problems
        failures += [f"{verb}, run {runs}: {problem}" for problem in problems]
        if runs > 10 * kills:
            break  # it is too quick to be met
    return {
        "what": verb,
        "kills": kinds.total(),
        **{kind: kinds[kind] for kind in KINDS},
        "runs": runs,
        "equal": equal,
    }


def _tables(folder: Path) -> dict[str, int | str]:
    """What was exported: file -> its rows, or why it cannot be read."""
    import pyarrow.parquet as pq

    rows: dict[str, int | str] = {}
    for path in sorted((folder / "tables").glob("*.parquet")):
        try:
            rows[path.name] = pq.read_table(path).num_rows
        except (OSError, ValueError) as error:
            rows[path.name] = str(error)
    return rows
