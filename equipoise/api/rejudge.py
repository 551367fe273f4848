"""Another judge's view of a run's recorded matches, beside the run's own."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from equipoise.errors import RunError
from equipoise.evaluation.judge_opinions import Agreement, agreement_between
from equipoise.evaluation.judge_report import JudgeReport, judge_report
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import MEETING
from equipoise.ledger.votes_and_matches import PEOPLE
from equipoise.report.history import prompts as prompts_of
from equipoise.runs.contexts import judge_context
from equipoise.runs.directory import RunDirectory
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.monitor import Monitor, Silent
from equipoise.runs.open_run import OpenRun
from equipoise.types import Judgement, Match

JudgedPart = Literal["train", "held_out", "test", "people"]


@dataclass(frozen=True)
class Rejudgement:
    """Two judges' scores of the same matches, and how far they agree.

    `beside` is the run's own judge, None where it judged none of them; `scores` and `scores_beside`
    are each player's mean score by the new judge and by the run's.
    """

    run: Path
    judge: str
    matches: int
    beside: str | None
    scores: Mapping[str, float]
    scores_beside: Mapping[str, float]
    agreement: Agreement | None
    report: JudgeReport | None


def rejudge(
    run: RunDirectory,
    judge: Judge,
    split: JudgedPart = "held_out",
    generation: int | None = None,
    monitor: Monitor | None = None,
) -> Rejudgement:
    """Have `judge` judge recorded matches; its judgements are recorded beside the run's.

    Args: split: "people": pairs that people voted on, so that `agreement` is with people;
    generation: None: all. Raises RunError without such matches, NoSignal where too few were judged.
    """
    utility = run.config.utility
    matches = matches_to_judge(run, split, generation)
    judgements = judge_again(run, judge, split, matches, monitor or Silent())
    ids = [match.id for match in matches]
    name = own_judge(run, judge, matches[0])
    own_by_match = run.ledger.judgements_of(ids, name)
    own = [own_by_match[match] for match in ids if match in own_by_match]
    beside = None
    agreement = None
    if own:
        beside = own[0].judge
        agreement = agreement_between(own, judgements, utility)
    reports = judge_report(matches, judgements, utility)
    return Rejudgement(
        run=run.folder,
        judge=judge.name,
        matches=len(matches),
        beside=beside,
        scores=mean_scores(matches, judgements, utility),
        scores_beside=mean_scores(matches, own, utility),
        agreement=agreement,
        report=reports.get(judge.name),
    )


def matches_to_judge(run: RunDirectory, split: str, generation: int | None) -> list[Match]:
    """Played matches, oldest generation first, or the pairs that people decided."""
    are_pairs = split == PEOPLE
    matches = run.ledger.matches(split, generation)
    played = [match for match in matches if (match.game == MEETING) == are_pairs]
    if played:
        return sorted(played, key=lambda match: match.generation)
    if are_pairs:
        raise RunError(f"{run.folder}: nobody has voted yet")
    where = "" if generation is None else f" in generation {generation}"
    raise RunError(f"{run.folder}: no {split.replace('_', '-')} matches{where}")


def judge_again(
    directory: RunDirectory, judge: Judge, split: str, matches: Sequence[Match], monitor: Monitor
) -> list[Judgement]:
    """Judge the matches by another judge, and record what it says."""
    prompts = prompts_of(directory, {match.prompt for match in matches})
    judgements: list[Judgement] = []
    with OpenRun(directory, monitor) as run:
        for t in sorted({match.generation for match in matches}):
            of_generation = [match for match in matches if match.generation == t]
            key = f"{t}/{split}/judge/{judge.name}/{len(of_generation)}"
            context = judge_context(run, t)
            judgements += record_judgements(run, key, judge, context, of_generation, prompts, t)
    return judgements


def own_judge(run: RunDirectory, other: Judge, match: Match) -> str:
    """The name of the run's judge: the first that judged this match and is not the other."""
    names = run.ledger.rows("SELECT DISTINCT judge FROM judgements ORDER BY rowid")
    for (name,) in names:
        if name != other.name and run.ledger.judgements_of([match.id], name):
            return name
    return run.config.judge.name


def mean_scores(
    matches: Sequence[Match], judgements: Sequence[Judgement], utility: str
) -> dict[str, float]:
    """Player -> the mean of its scores."""
    seats_of = {match.id: match.seats for match in matches}
    scores: dict[str, list[float]] = defaultdict(list)
    for judgement in judgements:
        seats = seats_of[judgement.match]
        for seat, score in judgement.by_seat(utility).items():
            player = str(seats[seat])
            scores[player].append(score)
    return {player: fmean(values) for player, values in sorted(scores.items())}
