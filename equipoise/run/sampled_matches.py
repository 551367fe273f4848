"""What a sample of a run's matches tells: who met whom, and what tokens were spent on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from equipoise.payoffs.preference import meeting
from equipoise.payoffs.table import Meeting, PayoffTable, tally
from equipoise.report.facts import Tokens
from equipoise.types import Judgement, Match, PlayerId


@dataclass(frozen=True, slots=True)
class Sample:
    """Matches drawn at random with every judge's word on them; `total` is how many
    matches the run holds.
    """

    matches: Sequence[Match]
    judgements: Sequence[Judgement]
    total: int

    @property
    def scale(self) -> float:
        """How many matches of the run each one stands for."""
        return self.total / len(self.matches) if self.matches else 1.0


def met(
    sample: Sample, names: Sequence[str], judge: str, utility: str
) -> PayoffTable | None:
    """Who won how much against whom in training matches, by that judge's word; None
    where no two players met.
    """
    judgements = {
        judgement.match: judgement
        for judgement in sample.judgements
        if judgement.judge == judge
    }
    results = list(_results(sample.matches, judgements, utility))
    return tally(results, names) if results else None


def _results(
    matches: Sequence[Match], judgements: Mapping[str, Judgement], utility: str
) -> Iterator[Meeting]:
    """One result for each two players of a match: the mean over their seats, of those
    that were judged.
    """
    for match in matches:
        if match.split != "train":
            continue
        judgement = judgements.get(match.id)
        scores = judgement.by_seat(utility) if judgement else {}
        values: dict[tuple[str, str], list[float | None]] = defaultdict(list)
        for (a, first), (b, second) in combinations(
            sorted(match.seats.items(), key=lambda seat: seat[1]), 2
        ):
            if first.name != second.name:
                value = meeting(scores.get(a), scores.get(b))
                values[first.name, second.name].append(value)
        for (first, second), found in values.items():
            judged = [value for value in found if value is not None]
            yield Meeting(
                first, second, fmean(judged) if judged else None, match.prompt
            )


def tokens(sample: Sample, meeting_game: str) -> list[Tokens]:
    """Tokens by player name, and by the name of every other judge that read; scaled to
    the whole run.

    Matches of the game `meeting_game` repeat recorded answers, which cost nothing
    again.
    """
    answers: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    judging: dict[str, int] = defaultdict(int)
    for match in sample.matches:
        for turn in match.turns if match.game != meeting_game else ():
            row = answers[match.seats[turn.seat].name]
            row[0] += 1
            row[1] += turn.move.tokens
            row[2] += turn.move.prompt_tokens
    for judgement in sample.judgements:
        for vote in judgement.votes:
            if vote.tokens:
                judging[
                    PlayerId.parse(vote.by).name if "@" in vote.by else vote.by
                ] += vote.tokens
    return [
        Tokens(
            name,
            *(
                round(n * sample.scale)
                for n in (*answers.get(name, (0, 0, 0)), judging.get(name, 0))
            ),
        )
        for name in dict.fromkeys([*sorted(answers), *sorted(judging)])
    ]
