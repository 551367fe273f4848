"""Several judges made one: the mean, the median, or the majority of their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median, pstdev
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from equipoise.judges.base import Judge, JudgeContext
from equipoise.types import Judgement, Match, Prompt, Vote

Scores = dict[str, float]  # seat -> a member's score


class Panel(Judge):
    """Scores each seat by the `score` that the members give it, where at least
    `at_least` of them do.

        mean, median:   of the members' scores s_k, or with `standardise` of (s_k − mean_k) / sd_k,
                        mean_k and sd_k member k's over all answers that are judged together
        majority:       the mean over the other seats of 1 where more members prefer the seat, 0 where fewer do, ½ else

    Members that compare and members that grade answers alone do not mix. Votes are by
    members' names: each grade, or each comparison that a comparing member made. A panel
    does not weigh its members anew under later ratings.
    """

    kind: Literal["panel"] = "panel"
    judges: dict[str, Judge] = Field(
        min_length=2, description="the members by name, or a list of them"
    )
    how: Literal["mean", "median", "majority"] = Field(
        default="mean", description="how the members' words become one"
    )
    standardise: bool = Field(
        default=False,
        description="bring members to one scale (mean 0, deviation 1) over the matches judged together",
    )
    at_least: int = Field(
        default=1,
        ge=1,
        description="members that must have a score for a seat (or prefer, of two)",
    )

    @field_validator("judges", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        judges, seen, named = [Judge.build(one) for one in value], Counter(), {}
        for judge in judges:
            seen[judge.kind] += 1
            named[
                judge.kind
                if seen[judge.kind] == 1
                else f"{judge.kind}{seen[judge.kind]}"
            ] = judge
        return named

    @model_validator(mode="after")
    def _fits_together(self) -> Panel:
        alone = [name for name, judge in self.judges.items() if not judge.compares]
        if alone and len(alone) < len(self.judges):
            others = [name for name in self.judges if name not in alone]
            raise ValueError(
                f"judges: {', '.join(others)} compare answers and {', '.join(alone)} judge them alone; a panel holds "
                "judges of one sort"
            )
        if self.at_least > len(self.judges):
            raise ValueError(
                f"at_least: {self.at_least} of {len(self.judges)} judges can never agree"
            )
        if self.how == "majority" and self.standardise:
            raise ValueError(
                "standardise: a majority counts preferences, which have no scale"
            )
        return self

    @property
    def compares(self) -> bool:  # type: ignore[override]  # a panel is what its members and its rule make it
        """Whether scores of two matches mean nothing together."""
        return (
            self.how == "majority"
            or self.standardise
            or any(judge.compares for judge in self.judges.values())
        )

    def at(self, judge_context: JudgeContext) -> Self:
        """A copy of this panel whose members work in `judge_context`."""
        members = {name: judge.at(judge_context) for name, judge in self.judges.items()}
        return super().at(judge_context).model_copy(update={"judges": members})

    def questions(self, seats: int, pool: int) -> int:
        """Those of all members."""
        return sum(judge.questions(seats, pool) for judge in self.judges.values())

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        judgements = {
            name: judge.judge_checked(matches, prompts)
            for name, judge in self.judges.items()
        }
        found = {
            name: [judgement.by_seat("score") for judgement in said]
            for name, said in judgements.items()
        }
        if self.standardise:
            found = {name: standardised(scores) for name, scores in found.items()}
        return [
            self._word(
                match,
                {name: said[i] for name, said in judgements.items()},
                {name: scores[i] for name, scores in found.items()},
            )
            for i, match in enumerate(matches)
        ]

    def _word(
        self,
        match: Match,
        judgements: Mapping[str, Judgement],
        found: Mapping[str, Scores],
    ) -> Judgement:
        combine = self._majority if self.how == "majority" else self._middle
        scores = {
            seat: {"score": value}
            for seat in match.seats
            if (value := combine(seat, match, found)) is not None
        }
        reasons: list[str] = []
        if len(scores) < len(match.seats):
            reasons = [
                f"{name}: {judgement.reason}"
                for name, judgement in judgements.items()
                if judgement.reason
            ]
            reasons = reasons or [f"fewer than {self.at_least} judges had a score"]
        votes = [
            vote
            for name, judgement in judgements.items()
            for vote in _votes(name, match, judgement)
        ]
        return self.judgement(match, scores or None, "; ".join(reasons), votes)

    def _middle(
        self, seat: str, match: Match, found: Mapping[str, Scores]
    ) -> float | None:
        values = [scores[seat] for scores in found.values() if seat in scores]
        if len(values) < self.at_least:
            return None
        return fmean(values) if self.how == "mean" else float(median(values))

    def _majority(
        self, seat: str, match: Match, found: Mapping[str, Scores]
    ) -> float | None:
        wins: list[float] = []
        for other in match.seats:
            leads = [
                scores[seat] - scores[other]
                for scores in found.values()
                if {seat, other} <= scores.keys()
            ]
            if other != seat and len(leads) >= self.at_least:
                ahead = sum(lead > 0 for lead in leads) - sum(
                    lead < 0 for lead in leads
                )
                wins.append(0.5 if ahead == 0 else float(ahead > 0))
        return fmean(wins) if wins else None


def standardised(found: Sequence[Scores]) -> list[Scores]:
    """Scores less their mean, over their standard deviation; all 0 where they are all
    alike.
    """
    values = [value for scores in found for value in scores.values()]
    centre, spread = (fmean(values), pstdev(values)) if values else (0.0, 0.0)
    return [
        {seat: (v - centre) / spread if spread else 0.0 for seat, v in scores.items()}
        for scores in found
    ]


def _votes(name: str, match: Match, judgement: Judgement) -> list[Vote]:
    """A member's word as votes of its own: its comparisons, or its score of each seat
    with what these took.
    """
    if any(vote.other for vote in judgement.votes):
        return [
            Vote(name, v.seat, v.value, v.other, v.reason, v.tokens, v.cost)
            for v in judgement.votes
        ]
    scores, votes = judgement.by_seat("score"), []
    for seat in match.seats:
        mine = [vote for vote in judgement.votes if vote.seat == seat]
        tokens, cost = (
            sum(vote.tokens for vote in mine),
            sum(vote.cost for vote in mine),
        )
        reason = "" if seat in scores else judgement.reason or "no score"
        votes.append(Vote(name, seat, scores.get(seat), "", reason, tokens, cost))
    return votes
