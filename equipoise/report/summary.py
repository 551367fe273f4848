"""A run in brief, from its records, while it is running too: `status`, a line, a small table."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from math import isnan, nan
from pathlib import Path
from typing import Any

from equipoise.judges.question import advice, unread_reply
from equipoise.ledger.benchmark_results import STAGE
from equipoise.ledger.frames import Row, measured_rows
from equipoise.payoffs.intervals import Interval
from equipoise.report.best_responses import best_response, best_responses
from equipoise.report.history import history, stage_records
from equipoise.report.page import StageTime, cautions, counts, headlines, stage_times
from equipoise.runs.consent import changed_parts
from equipoise.runs.directory import RunDirectory, is_running

DEVICE = "device"  # under which the ledger keeps where the run's models were computed first
OTHER_DEVICES = "other_devices"  # and under which, a line each, where later
MANY = 3  # learners that a line names


@dataclass(frozen=True)
class Progress:
    """A player's score: now, and at the start where it learns, else "" there."""

    player: str
    start: str
    now: str


@dataclass(frozen=True)
class Summary:
    """A run's name, folder and state, and the scores of its learners, or of all where none is."""

    name: str
    folder: str
    state: str
    generation: int
    generations: int
    players: tuple[Progress, ...]
    learn: bool = True

    def text(self) -> str:
        """`Run 'quickstart' in runs/x: finished, 2 of 2 generations; policy@2 …`."""
        parts = [f"Run '{self.name}' in {self.folder}: {self.state_text()}"]
        for each in self.players[:MANY]:
            before = f", at the start {each.start}" if each.start else ""
            parts.append(f"{each.player} scores {each.now}{before}")
        more = len(self.players) - MANY
        if more > 0:
            parts.append(f"and {more} more {'learners' if self.learn else 'players'}")
        return "; ".join(parts)

    def html(self) -> str:
        """The same as a table."""
        head = f"<b>{escape(self.name)}</b> in {escape(self.folder)}: {self.state_text()}"
        if not self.players:
            return f"<div>{head}</div>"
        titles = ("", "score at the start", "now") if self.learn else ("", "score")
        rows = "".join(f"<th>{title}</th>" for title in titles)
        rows = f"<tr>{rows}</tr>"
        for each in self.players:
            cells = (each.player, each.start, each.now) if self.learn else (each.player, each.now)
            columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            rows += f"<tr>{columns}</tr>"
        return f'<div style="overflow-x: auto">{head}<table>{rows}</table></div>'

    def state_text(self) -> str:
        """The state, and how far the run has come."""
        if not self.generations:
            return self.state
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
    learn = bool(run.config.learning)
    players = []
    for name, row in last.items():
        if learn:
            players.append(Progress(row["player"], score_text(first[name]), score_text(row)))
        else:
            players.append(Progress(name, "", score_text(row)))
    generations = int(run.settings["generations"])
    generation = max((row["generation"] for row in measured), default=0)
    learned = [stage.generation + 1 for stage in run.ledger.stages("learn")]
    state = "unfinished"
    if is_running(run.folder):
        state = "running"
    elif generation == generations:
        state = "finished"
    folder = run.folder
    here = Path.cwd()
    if folder.is_relative_to(here):
        folder = folder.relative_to(here)
    return Summary(
        name=str(run.settings["name"]),
        folder=str(folder),
        state=state,
        generation=max([generation, *learned]),
        generations=generations,
        players=tuple(players),
        learn=learn,
    )


def score_text(row: Row) -> str:
    """A row's score with its interval, in percent where it is a share."""
    low = row.get("score_low", nan)
    high = row.get("score_high", nan)
    interval = Interval(row["score"], low, high, int(row.get("score_n", 0)))
    known = [bound for bound in (interval.mean, low, high) if not isnan(bound)]
    is_share = all(0 <= bound <= 1 for bound in known)
    return interval.text("%" if is_share else "")


def progress(run: RunDirectory) -> dict[str, Any]:
    """Progress, spending, times and the last measurement, as plain JSON values."""
    stages = run.ledger.stages()
    last = history(run).last
    generation = None if last is None else last.generation
    # A run of no generations is made to measure a model on named sets.
    only_measured = run.config.generations == 0 and bool(run.ledger.stages(STAGE))
    facts: dict[str, Any] = {
        "run": str(run.folder),
        "name": run.config.name,
        "generation": generation,
        "generations": run.config.generations,
        "finished": generation == run.config.generations or only_measured,
        "last_stage": stages[-1].key if stages else None,
    }
    turns = [stage.facts["learn"] for stage in stages if stage.stage == "turn"]
    if any(set(names) != set(turns[-1]) for names in turns):  # learners take turns
        facts["turn"] = ", ".join(turns[-1])
    named_counts = counts(run, stage_records(run))
    facts["records"] = {name.replace(" ", "_"): value for name, value in named_counts.items()}
    facts["time"] = {name: time_facts(time) for name, time in stage_times(stages).items()}
    if run.config.currency:
        facts["currency"] = run.config.currency
    facts["spent"] = {}
    for account, spent in run.ledger.accounts().items():
        amounts = asdict(spent).items()
        facts["spent"][account] = {name: round(amount, 6) for name, amount in amounts}
    own = best_response(run)
    if own:
        facts["best_response"] = own
    others = list(best_responses(run))
    if others:
        facts["best_responses"] = others
    devices = run.ledger.meta(OTHER_DEVICES).splitlines()
    if devices:
        facts["devices"] = [run.ledger.meta(DEVICE), *devices]
    changed = changed_parts(run.ledger)
    if changed:
        facts["changed_parts"] = [asdict(each) for each in changed]
    failed = run.ledger.failed_stage()
    if failed is not None and not is_running(run.folder):
        facts["failed"] = {"stage": failed.key, "error": failed.error}
    facts["judges"] = list(judge_facts(run))
    facts["cautions"] = cautions(run)
    facts["headlines"] = [asdict(line) for line in headlines(run)]
    facts["measured"] = {} if last is None else last.measures.all_numbers()
    return facts


def judge_facts(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """Counts of what each judge judged in each part of the run, and an example of the rest."""
    known = {judge.name: judge for judge in run.config.every_judge}
    titles = run.config.judge_titles
    for name, part, count, missing in run.ledger.judges():
        facts = {
            "judge": name,
            "title": titles.get(name, name),
            "part": part,
            "judgements": count,
            "without_score": missing,
        }
        if missing:
            examples = run.ledger.without_score(name, part)
            reasons = [each.reason for each in examples]
            unread = unread_reply(examples)
            facts["example"] = unread or next(iter(reasons), "")
            if unread and name in known:
                facts["advice"] = advice(known[name], unread)
        yield facts


def time_facts(time: StageTime) -> dict[str, Any]:
    """The seconds of a stage, and those of the stages inside it."""
    facts: dict[str, Any] = {"seconds": round(time.seconds, 1)}
    if time.parts:
        facts["parts"] = {name: round(seconds, 1) for name, seconds in time.parts.items()}
    return facts
