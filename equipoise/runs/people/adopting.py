"""What people said and played, taken into the ledger by whoever holds the run's lock."""

from __future__ import annotations

from pathlib import Path

from equipoise.runs.ledger import Ledger
from equipoise.runs.people.played import played_by
from equipoise.runs.people.votes import PEOPLE, judged_pairs, votes_of


def adopt(folder: Path, ledger: Ledger, utility: str) -> None:
    """Record what people did beside the run that is not recorded yet."""
    _adopt_votes(folder, ledger, utility)
    _adopt_matches(folder, ledger)


def _adopt_matches(folder: Path, ledger: Ledger) -> None:
    """Record the matches that people played, with their prompts and judgements."""
    played = played_by(folder).read()
    known = ledger.known("matches", [each.match.id for each in played])
    new = [each for each in played if each.match.id not in known]
    if not new:
        return
    dealt = ledger.known("prompts", [each.prompt.id for each in new])
    judged = [(e.match, e.judgement) for e in new if e.judgement is not None]
    with ledger.transaction():
        own = [each.prompt for each in new if each.prompt.id not in dealt]
        ledger.add_prompts(own, PEOPLE, 0)
        ledger.add_matches(each.match for each in new)
        ledger.add_judgements(judged)


def _adopt_votes(folder: Path, ledger: Ledger, utility: str) -> None:
    """Record a run's votes as judgements by `human`, each of a match that sets the two answers
    beside each other; those that are recorded stay as they are, or grow.
    """
    votes = votes_of(folder).read()
    if not votes:
        return
    pairs = judged_pairs(ledger, votes, utility)
    with ledger.transaction():
        ledger.add_matches(pair.match for pair in pairs)
        ledger.grow_judgements((pair.match, pair.judgement) for pair in pairs)
