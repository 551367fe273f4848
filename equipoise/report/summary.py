"""A run in brief, from its records, while it is running too: `status`, a line, a small table."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from math import nan
from pathlib import Path
from typing import Any

from equipoise.judges.question import advice, unread_reply
from equipoise.ledger.benchmark_results import STAGE
from equipoise.ledger.frames import Row, measured_rows
from equipoise.payoffs.intervals import Interval
from equipoise.report.best_responses import best_response, best_responses
from equipoise.report.history import history, stage_records
from equipoise.report.page import StageTime, cautions, counts, headlines, stage_times
from equipoise.runs.directory import RunDirectory, is_running

DEVICE = "device"  # under which the ledger keeps where the run's models were computed first
OTHER_DEVICES = "other_devices"  # and under which, a line each, where later
MANY = 3  # learners that a line names


@dataclass(frozen=True)
class Progress:
    """A learner's score, at the start and now."""

    player: str
    start: str
    now: str


@dataclass(frozen=True)
class Summary:
    """A run's name, folder and state, and the scores of its learners."""

    name: str
    folder: str
    state: str
    generation: int
    generations: int
    learners: tuple[Progress, ...]

    def text(self) -> str:
        """`Run 'quickstart' in runs/x: finished, 2 of 2 generations; policy@2 …`."""
        scores = [
            f"{learner.player} scores {learner.now}, at the start {learner.start}"
            for learner in self.learners[:MANY]
        ]
        if len(self.learners) > MANY:
            scores.append(f"and {len(self.learners) - MANY} more learners")
        return "; ".join([f"Run '{self.name}' in {self.folder}: {self._state()}", *scores])

    def html(self) -> str:
        """The same as a table."""
        head = f"<b>{escape(self.name)}</b> in {escape(self.folder)}: {self._state()}"
        rows = "".join(
            f"<tr><td>{escape(learner.player)}</td><td>{escape(learner.start)}</td>"
            f"<td>{escape(learner.now)}</td></tr>"
            for learner in self.learners
        )
        if not rows:
            return f"<div>{head}</div>"
        titles = "<tr><th></th><th>score at the start</th><th>now</th></tr>"
        return f"<div>{head}<table>{titles}{rows}</table></div>"

    def _state(self) -> str:
        return f"{self.state}, {self.generation} of {self.generations} generations"


def summary(run: RunDirectory) -> Summary:
    """The summary of an open run."""
    measured = list(measured_rows(run.ledger))
    first: dict[str, Row] = {}
    last: dict[str, Row] = {}
    for row in measured:
        if "score" in row:
            first.setdefault(row["name"], row)
            last[row["name"]] = row
    learned = [t for _, t, *_ in run.ledger.stages("learn")]
    generations = int(run.settings["generations"])
    generation = max((row["generation"] for row in measured), default=0)
    learners = (
        Progress(row["player"], _score(first[name]), _score(row)) for name, row in last.items()
    )
    return Summary(
        name=str(run.settings["name"]),
        folder=_shown(run.folder),
        state=_state(run, generation == generations),
        generation=max([generation, *(t + 1 for t in learned)]),
        generations=generations,
        learners=tuple(learners),
    )


def _state(run: RunDirectory, finished: bool) -> str:
    if is_running(run.folder):
        return "running"
    return "finished" if finished else "unfinished"


def _score(row: Row) -> str:
    low, high = row.get("score_low", nan), row.get("score_high", nan)
    interval = Interval(row["score"], low, high, int(row.get("score_n", 0)))
    bounds = (interval.mean, low, high)
    is_share = all(0 <= bound <= 1 for bound in bounds if bound == bound)
    return interval.text("%" if is_share else "")


def _shown(folder: Path) -> str:
    """The folder from here, where it lies below."""
    here = Path(os.getcwd())
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def progress(run: RunDirectory) -> dict[str, Any]:
    """Progress, spending, times and the last measurement, as plain JSON values."""
    stages = run.ledger.stages()
    last = history(run).last
    generation = None if last is None else last.generation
    # A run of no generations is made to measure a model on named sets.
    only_measured = run.config.generations == 0 and bool(run.ledger.stages(STAGE))
    named_counts = counts(run, stage_records(run))
    return {
        "run": str(run.folder),
        "name": run.config.name,
        "generation": generation,
        "generations": run.config.generations,
        "finished": generation == run.config.generations or only_measured,
        "last_stage": stages[-1].key if stages else None,
        **_turn([stage.facts["learn"] for stage in stages if stage.stage == "turn"]),
        "records": {name.replace(" ", "_"): value for name, value in named_counts.items()},
        "time": {name: _time(time) for name, time in stage_times(stages).items()},
        "spent": {
            account: {name: round(amount, 6) for name, amount in asdict(spent).items()}
            for account, spent in run.ledger.accounts().items()
        },
        **_best_responses(run),
        **_devices(run),
        **_failure(run),
        "judges": list(_judges(run)),
        "cautions": cautions(run),
        "headlines": [asdict(line) for line in headlines(run)],
        "measured": {} if last is None else last.measures.all_numbers(),
    }


def _devices(run: RunDirectory) -> dict[str, list[str]]:
    """The devices that the run's models were computed on, if several or with other threads."""
    others = run.ledger.meta(OTHER_DEVICES).splitlines()
    return {"devices": [run.ledger.meta(DEVICE), *others]} if others else {}


def _failure(run: RunDirectory) -> dict[str, Any]:
    """The stage in which the run stopped by an error, and the error."""
    failed = run.ledger.failed_stage()
    if failed is None or is_running(run.folder):
        return {}
    return {"failed": {"stage": failed.key, "error": failed.error}}


def _judges(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """What each judge judged in each part of the run, and an example of what it did not."""
    known = {judge.name: judge for judge in run.config.every_judge}
    for name, part, count, missing in run.ledger.judges():
        facts = {"judge": name, "part": part, "judgements": count, "without_score": missing}
        if missing:
            examples = run.ledger.without_score(name, part)
            unread = unread_reply(examples)
            facts["example"] = unread or next((each.reason for each in examples), "")
            if unread and name in known:
                facts["advice"] = advice(known[name], unread)
        yield facts


def _best_responses(run: RunDirectory) -> dict[str, Any]:
    """The results of this exploiter's run, and of exploiters trained against this run's players."""
    own, others = best_response(run), list(best_responses(run))
    return {
        **({"best_response": own} if own else {}),
        **({"best_responses": others} if others else {}),
    }


def _time(time: StageTime) -> dict[str, Any]:
    parts = {name: round(seconds, 1) for name, seconds in time.parts.items()}
    return {"seconds": round(time.seconds, 1), **({"parts": parts} if parts else {})}


def _turn(turns: list[list[str]]) -> dict[str, str]:
    """The learners of the last turn, where the turn passes on."""
    takes_turns = any(set(names) != set(turns[-1]) for names in turns)
    return {"turn": ", ".join(turns[-1])} if takes_turns else {}
