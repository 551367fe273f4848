"""What people preferred, as a file that learners are taught from: `pairs: data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equipoise.errors import RunError
from equipoise.runs.directory import RunDirectory
from equipoise.runs.people.votes import Judged, judged_pairs, votes_of
from equipoise.system.files import write_text

FILE = "votes.jsonl"


def preference_rows(run: RunDirectory) -> list[dict[str, Any]]:
    """What people preferred, in TRL's preference format: of each chat the pair of answers on which
    they were most of one mind, of equal ones the one with more votes.

    `score_chosen` is the share that preferred the answer, a tie as ½. A chat on whose answers
    people were divided evenly has no row.
    """
    utility = run.config.utility
    best: dict[str, tuple[tuple[float, int], Judged]] = {}
    for pair in judged_pairs(run.ledger, votes_of(run.folder).read(), utility):
        share = pair.judgement.by_seat(utility)["1"]
        weight = abs(share - 0.5), len(pair.judgement.votes)
        chat = json.dumps([(m.role, m.content) for m in pair.match.turns[0].view.messages])
        if share != 0.5 and (chat not in best or weight > best[chat][0]):
            best[chat] = weight, pair
    return [_row(pair, utility) for _, pair in best.values()]


def _row(pair: Judged, utility: str) -> dict[str, Any]:
    scores = pair.judgement.by_seat(utility)
    texts = {turn.seat: turn.move.text for turn in pair.match.turns}
    chosen, rejected = ("1", "2") if scores["1"] > scores["2"] else ("2", "1")
    messages = pair.match.turns[0].view.messages
    return {
        "prompt": [{"role": m.role, "content": m.content} for m in messages],
        "chosen": texts[chosen],
        "rejected": texts[rejected],
        "score_chosen": scores[chosen],
        "score_rejected": scores[rejected],
        "votes": len(pair.judgement.votes),
    }


def export_votes(folder: Path, to: Path, trust: bool = False) -> dict[Path, int]:
    """Write what people preferred to `votes.jsonl` in the folder `to`: file -> rows.

    Raises RunError where nobody preferred anything.
    """
    with RunDirectory.read(folder, trust) as run:
        rows = preference_rows(run)
    if not rows:
        raise RunError(f"{folder}: people have preferred no answer yet")
    to.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(to / FILE, text)
    return {to / FILE: len(rows)}
