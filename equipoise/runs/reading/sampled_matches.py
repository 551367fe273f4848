"""What a sample of a run's matches shows: who met whom, and what tokens were spent on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from equipoise.evaluation.records import Sample
from equipoise.payoffs.preference import meeting
from equipoise.payoffs.table import Meeting, PayoffTable, tally
from equipoise.report.cost import Tokens
from equipoise.types import Judgement, Match, PlayerId


def met(sample: Sample, names: Sequence[str], judge: str, utility: str) -> PayoffTable | None:
    """Who won how much against whom in training matches, by that judge's scores; None where no two
    players met.
    """
    judgements = {
        judgement.match: judgement for judgement in sample.judgements if judgement.judge == judge
    }
    training = [match for match in sample.matches if match.split == "train"]
    results = [
        result
        for match in training
        for result in _results(match, judgements.get(match.id), utility)
    ]
    return tally(results, names) if results else None


def _results(match: Match, judgement: Judgement | None, utility: str) -> Iterator[Meeting]:
    """One result for each two players of a match: the mean over their seats, of those that were
    judged.
    """
    scores: Mapping[str, float] = {} if judgement is None else judgement.by_seat(utility)
    seats = sorted(match.seats.items(), key=lambda seat: seat[1])
    values: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for (a, first), (b, second) in combinations(seats, 2):
        if first.name != second.name:
            value = meeting(scores.get(a), scores.get(b))
            values[first.name, second.name].append(value)
    for (first, second), every in values.items():
        judged = [value for value in every if value is not None]
        yield Meeting(first, second, fmean(judged) if judged else None, match.prompt)


def tokens(sample: Sample, meeting_game: str) -> list[Tokens]:
    """Tokens by player name, and by the name of every other judge that read; scaled to the whole
    run.

    Matches of the game `meeting_game` repeat recorded answers, which cost nothing again.
    """
    playing = _playing(sample, meeting_game)
    judging = _judging(sample)
    usages = []
    for name in dict.fromkeys([*sorted(playing), *sorted(judging)]):
        counts = (*playing.get(name, (0, 0, 0)), judging.get(name, 0))
        usages.append(Tokens(name, *(round(count * sample.scale) for count in counts)))
    return usages


def _playing(sample: Sample, meeting_game: str) -> dict[str, list[int]]:
    """Player -> [answers, tokens generated, tokens read]."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for match in sample.matches:
        if match.game == meeting_game:
            continue
        for turn in match.turns:
            row = counts[match.seats[turn.seat].name]
            row[0] += 1
            row[1] += turn.move.tokens
            row[2] += turn.move.prompt_tokens
    return counts


def _judging(sample: Sample) -> dict[str, int]:
    """Who judged -> the tokens of its readings."""
    counts: dict[str, int] = defaultdict(int)
    for judgement in sample.judgements:
        for vote in judgement.votes:
            if vote.tokens:
                is_player = "@" in vote.by
                name = PlayerId.parse(vote.by).name if is_player else vote.by
                counts[name] += vote.tokens
    return counts
