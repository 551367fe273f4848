"""How much a run recorded, and what it left out, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from equipoise.evaluation.records import StageRecord
from equipoise.runs.directory import RunDirectory
from equipoise.runs.ledger import MEETING
from equipoise.runs.reading.stage_times import stage_times, total_seconds

# The game's name stands before the turns of a record, so that these stay unread.
IS_MEETING = f"""instr(substr(record, 1, 400), '"game":"{MEETING}"') > 0"""


def counts(run: RunDirectory, stages: Sequence[StageRecord]) -> dict[str, int | float]:
    """What was played, judged and learned from; a name that ends in "share" is a share."""
    records = run.ledger.counts()
    ((side_by_side,),) = run.ledger.rows(
        "SELECT count(*) FROM matches WHERE split IN ('held_out', 'benchmark', 'people') "
        f"AND {IS_MEETING}"
    )
    judged = [stage.facts for stage in stages if stage.stage == "judge"]
    answers = sum(facts["answers"] for facts in judged)
    unjudged = sum(facts["answers"] * facts["unjudged_share"] for facts in judged)
    matches = {"matches": records["matches"] - side_by_side}
    if side_by_side:
        matches["answers set side by side"] = 2 * side_by_side
    cut = {
        f"{what} with answers that were cut": number
        for what in ("pairs", "episodes")
        if (number := sum(s.facts.get(f"cut_{what}", 0) for s in stages))
    }
    return {
        "prompts": records["prompts"],
        **matches,
        "judgements": records["judgements"],
        "answers judged": round(answers - unjudged),
        "unjudged share": unjudged / answers if answers else 0.0,
        "pairs": records["pairs"],
        **cut,
        **({"episodes": records["episodes"]} if records["episodes"] else {}),
        "log-probabilities kept": records["logprobs"],
        "seconds": round(total_seconds(stage_times(run.ledger.stages()))),
    }


def dropped(stages: Sequence[StageRecord]) -> dict[str, int]:
    """What was left out, by what it was and the reason."""
    totals: Counter[str] = Counter()
    for stage in stages:
        reasons = stage.facts.get("dropped", {})
        for what in ("pairs", "episodes", "prompts"):
            if what in stage.facts:
                totals.update({f"{what}: {why}": n for why, n in reasons.items()})
        unjudged = stage.facts.get("reasons", {})
        totals.update({f"judging: {why}": n for why, n in unjudged.items()})
    return dict(totals)
