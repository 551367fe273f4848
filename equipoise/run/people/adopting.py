"""What people said, taken into the ledger by whoever holds the run's lock."""

from __future__ import annotations

from pathlib import Path

from equipoise.run.ledger import Ledger
from equipoise.run.people.votes import judged_pairs, votes_of


def adopt_votes(folder: Path, ledger: Ledger, utility: str) -> None:
    """Record a run's votes as judgements by `human`, each of a match that sets the two
    answers beside each other; those that are recorded stay as they are, or grow.
    """
    votes = votes_of(folder).read()
    if not votes:
        return
    pairs = judged_pairs(ledger, votes, utility)
    with ledger.transaction():
        ledger.add_matches(pair.match for pair in pairs)
        ledger.grow_judgements((pair.match, pair.judgement) for pair in pairs)
