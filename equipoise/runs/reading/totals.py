"""Totals of a run: records, what was left out by reason, the seconds of its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.evaluation.measures import StageRecord
from equipoise.runs.directory import RunDirectory
from equipoise.runs.ledger import MEETING, FinishedStage


@dataclass
class StageTime:
    """Seconds of all stages of one name; `parts` are the stages inside it."""

    stage: str
    own: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Its own seconds and those of its parts."""
        return self.own + sum(self.parts.values())


def stage_times(stages: Iterable[FinishedStage]) -> dict[str, StageTime]:
    """The times of a run's finished stages, given in order of finishing, by name."""
    times: dict[str, StageTime] = {}
    for stage in stages:
        name = stage.within or stage.stage
        time = times.setdefault(name, StageTime(name))
        if stage.within is None:
            time.own += stage.seconds
        else:
            time.parts[stage.stage] = time.parts.get(stage.stage, 0.0) + stage.seconds
    return {name: time for name, time in times.items() if time.seconds}


def total_seconds(times: Mapping[str, StageTime]) -> float:
    """The seconds of all stages."""
    return sum(time.seconds for time in times.values())


# The game's name stands before the turns of a record, so that these stay unread.
IS_MEETING = f"""instr(substr(record, 1, 400), '"game":"{MEETING}"') > 0"""


def counts(run: RunDirectory, stages: Sequence[StageRecord]) -> dict[str, int | float]:
    """Numbers of matches, judgements, pairs, …; a name that ends in "share" is a share."""
    records = run.ledger.counts()
    ((side_by_side,),) = run.ledger.rows(
        "SELECT count(*) FROM matches WHERE split IN ('held_out', 'benchmark', 'people') "
        f"AND {IS_MEETING}"
    )
    judged = [stage.facts for stage in stages if stage.stage == "judge"]
    failed = run.ledger.failed_stage()
    if failed is not None and failed.stage == "judge" and "answers" in failed.facts:
        judged.append(failed.facts)
    answers = sum(facts["answers"] for facts in judged)
    unjudged = sum(facts["answers"] * facts["unjudged_share"] for facts in judged)
    share = unjudged / answers if answers else 0.0
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
        "unjudged share": share if answers else _share_under_way(run),
        "pairs": records["pairs"],
        **cut,
        **({"episodes": records["episodes"]} if records["episodes"] else {}),
        "log-probabilities kept": records["logprobs"],
        "seconds": round(total_seconds(stage_times(run.ledger.stages()))),
    }


def _share_under_way(run: RunDirectory) -> float:
    """The share of judgements without any score, of stages that are not finished, too."""
    counted = [(n, missing) for _, part, n, missing in run.ledger.judges() if part != "benchmark"]
    total = sum(n for n, _ in counted)
    return sum(missing for _, missing in counted) / total if total else 0.0


def drop_counts(stages: Sequence[StageRecord]) -> dict[str, int]:
    """Numbers of what was left out, by what it was and the reason."""
    totals: Counter[str] = Counter()
    for stage in stages:
        reasons = stage.facts.get("dropped", {})
        for what in ("pairs", "episodes", "prompts"):
            if what in stage.facts:
                totals.update({f"{what}: {why}": n for why, n in reasons.items()})
        unjudged = stage.facts.get("reasons", {})
        totals.update({f"judging: {why}": n for why, n in unjudged.items()})
    return dict(totals)
