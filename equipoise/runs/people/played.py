"""The matches that people played, in a file beside the ledger."""

from __future__ import annotations

from pathlib import Path

import msgspec

from equipoise.runs.people.journal import FOLDER, Journal
from equipoise.types import Judgement, Match, Prompt


class PlayedMatch(msgspec.Struct, frozen=True):
    """A match with a person in one of its seats, the prompt that it started from, and what a judge
    made of it; `at` is the time, in ISO 8601.
    """

    match: Match
    prompt: Prompt
    judgement: Judgement | None
    at: str


def played_by(folder: Path) -> Journal[PlayedMatch]:
    """The matches that people played against a run's players."""
    return Journal(folder / FOLDER / "matches.jsonl", PlayedMatch)
