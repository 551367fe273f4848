"""Run directories as games leave them, without any model: what their builders share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.ledger.ledger import MEETING
from equipoise.planning.new_run import new_run
from equipoise.planning.run_plan import plan
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Message, Prompt, Vote, record_id

Scores = Mapping[str, Mapping[str, float]]


@contextmanager
def recorded_run(
    folder: Path, recipe: str | dict[str, Any], overrides: Sequence[str] = ()
) -> Iterator[RunDirectory]:
    """A new run of this recipe, to be filled in one transaction."""
    settings = recipe_loader.load(recipe, list(overrides))
    with new_run(settings, folder) as run, run.ledger.transaction():
        yield run


def add_judged(
    run: RunDirectory,
    match: Match,
    judge: str,
    scores: Scores | None,
    reason: str = "",
    votes: Sequence[Vote] = (),
) -> None:
    """Record a judgement of a match, and the match where it is new."""
    identity = record_id("judgement", match.id, judge)
    by_seat = None if scores is None else {seat: dict(row) for seat, row in scores.items()}
    judgement = Judgement(identity, match.id, judge, by_seat, reason, tuple(votes))
    run.ledger.add_matches([match])
    run.ledger.add_judgements([(match, judgement)])


def user_prompt(name: str, text: str, *before: Message, **facts: Any) -> Prompt:
    """A prompt with the user's text."""
    return Prompt(name, (*before, Message("user", text)), facts)


def estimate(mean: float | None, half: float = 0.05, n: int = 6) -> dict[str, Any]:
    """A mean with its interval as a stage keeps it; None: nothing was judged."""
    if mean is None:
        return {"mean": None, "low": None, "high": None, "n": 0}
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": n}


def planned_and_played(run: RunDirectory) -> tuple[dict[str, int], dict[str, int]]:
    """The counts of a finished run's plan, and the same of its records."""
    counts = plan(run.config).counts
    ledger = run.ledger
    matches = {part: ledger.matches(part) for part in ("train", "held_out", "test", "opponents")}
    every = [match for part in matches.values() for match in part]
    judgements = list(ledger.every_judgement_of([match.id for match in every]))
    [(pairs,)] = ledger.rows("SELECT count(*) FROM pairs")
    played = {
        "matches": len(matches["train"]),
        "held_out_matches": len(matches["held_out"]) + len(matches["test"]),
        "judgements": len(judgements),
        "answers": sum(len(match.turns) for match in every if match.game != MEETING),
        "pairs_at_most": pairs,
    }
    return {name: getattr(counts, name) for name in played}, played
