"""Judges made of other judges: a panel, and the first place by another judge's scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from statistics import fmean, median, pstdev
from typing import Any, ClassVar, Literal, Self

import msgspec
from pydantic import Field, field_validator, model_validator

from equipoise.component import has_stand_ins
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.criteria import member_wins, scores_by_worst_criterion, seats_in_all
from equipoise.judges.pairwise import Comparing
from equipoise.payoffs.deviation import all_alike
from equipoise.payoffs.judge_agreement import first_place
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Prompt, Vote

Scores = dict[str, float]  # seat -> a member's score
BETA = 0.1  # of how: prosper, where none is set


class Panel(Judge):
    """Scores each seat by the scores of its members, where `at_least` of them have one.

    Means and medians are of the members that scored every seat that any member scored: else two
    seats would be compared by different judges.

        mean, median:   of the members' scores s_k, or with `standardise` of
                        (s_k − mean_k) / sd_k, with the mean and the deviation of
                        member k over all answers that are judged together
        majority:       the mean over the other seats of 1 where more members prefer
                        this seat, 0 where fewer do, else ½
        product, least: the welfare of the members' scores, none of which may be below 0:
                        ∏ s_k (Nash) or min s_k. All members have to score; the score of
                        each is a utility by its name
        prosper:        how often a seat's answer is preferred to an adversary's, by the member
                        by which the match's answers together are left with least against one
                        that answers them best near equal chances (arXiv 2602.19041). Members
                        are criteria: each two answers meet by each, and its own scores are a
                        utility by its name

    Members that compare a match's answers may stand beside members that grade each alone: their
    scores are multiplied, or their preferences counted; a mean of them needs one scale. Votes carry
    the members' names: each grade, or each comparison of a comparing member. A panel does not weigh
    its members anew under later ratings.
    """

    kind: Literal["panel"] = "panel"
    judges: dict[Text, Judge] = Field(
        min_length=2, description="the members by name, or a list of them"
    )
    how: Literal["mean", "median", "majority", "product", "least", "prosper"] = Field(
        default="mean", description="how the members' verdicts become one"
    )
    beta: float = Field(
        default=BETA,
        gt=0,
        description="of how: prosper, what the adversary pays for a nat away from equal chances "
        "among the match's answers, in probability",
    )
    standardise: bool = Field(
        default=False,
        description="bring members to one scale (mean 0, deviation 1) over the "
        "matches judged together",
    )
    at_least: int = Field(
        default=1, ge=1, description="members that must have a score for a seat (or prefer, of two)"
    )

    @field_validator("judges", mode="before")
    @classmethod
    def _name_members(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        members: dict[str, Judge] = {}
        kinds: Counter[str] = Counter()
        for judge in map(Judge.build, value):
            kinds[judge.kind] += 1
            number = kinds[judge.kind]
            members[judge.kind if number == 1 else f"{judge.kind}{number}"] = judge
        return members

    @model_validator(mode="after")
    def _fits_together(self) -> Panel:
        for name in self.judges:  # the voters of its judgements, and perhaps utilities
            if "@" in name or name in ("", "score" if self._keeps_members else ""):
                raise ValueError(f"judges: '{name}' can be no member's name; choose another")
        alone = [name for name, judge in self.judges.items() if not judge.compares]
        comparing = [name for name in self.judges if name not in alone]
        scales = {judge.score_range for judge in self.judges.values()}
        one_scale = self.standardise or (len(scales) == 1 and None not in scales)
        one_scale = one_scale or has_stand_ins(self.judges)
        if alone and comparing and self.how in ("mean", "median") and not one_scale:
            raise ValueError(
                f"judges: {', '.join(comparing)} compare answers and {', '.join(alone)} "
                f"judge them alone, on other scales, so that their {self.how} means nothing; set "
                "standardise: true, or how: product or majority"
            )
        if self.at_least > len(self.judges):
            raise ValueError(f"at_least: {self.at_least} of {len(self.judges)} can never agree")
        if self.how == "majority" and self.standardise:
            raise ValueError("standardise: a majority counts preferences, which have no scale")
        if self.beta != BETA and self.how != "prosper":
            raise ValueError(f"beta: is not read with how: {self.how}; set how: prosper")
        if self.how == "prosper":
            if self.standardise:
                raise ValueError("standardise: prosper counts preferences, which have no scale")
            for name, judge in self.judges.items():
                if isinstance(judge, Comparing) and judge.compare != "all":
                    raise ValueError(
                        f"judges: {name} compares some answers only, and how: prosper needs "
                        "every two; set compare: all"
                    )
        if self._keeps_members and self.at_least not in (1, self._needed):
            raise ValueError(f"at_least: is not read with how: {self.how}, which needs all")
        if self._is_welfare and (why := self._why_below_0()):
            raise ValueError(f"how: {self.how} needs scores of at least 0; {why}")
        return self

    def _why_below_0(self) -> str:
        """The reason why a score may be below 0; "" where none is."""
        if self.standardise:
            return "standardised ones lie on both sides of it; set standardise: false"
        for name, judge in self.judges.items():
            limits = judge.score_range
            if limits is not None and limits[0] < 0:
                return f"those of {name} go from {limits[0]:g} to {limits[1]:g}"
            if limits is None and not has_stand_ins(judge):
                return (
                    f"the least of {name} is not known; a judge that is a class says it by "
                    "`bounds = (0.0, 1.0)`"
                )
        return ""

    @property
    def _is_welfare(self) -> bool:
        return self.how in ("product", "least")

    @property
    def _keeps_members(self) -> bool:
        return self._is_welfare or self.how == "prosper"

    @property
    def _needed(self) -> int:
        return len(self.judges) if self._keeps_members else self.at_least

    @property
    def known_utilities(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("score", *self.judges) if self._keeps_members else ("score",)

    @property
    def title(self) -> str:
        """The panel with its members, as the user named them."""
        return f"{self.how} of {', '.join(self.judges)}"

    @property
    def compares(self) -> bool:  # type: ignore[override]
        return (
            self.how in ("majority", "prosper")
            or self.standardise
            or any(judge.compares for judge in self.judges.values())
        )

    @property
    def whole_matches(self) -> bool:  # type: ignore[override]
        return any(judge.whole_matches for judge in self.judges.values())

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The range of the widest members; 0 to 1 of preferences, none once standardised."""
        if self.how in ("majority", "prosper"):
            return 0.0, 1.0
        if self.standardise:
            return -math.inf, math.inf
        known = [limits for each in self.judges.values() if (limits := each.score_range)]
        if len(known) < len(self.judges):
            return None
        if self._is_welfare:
            one = math.prod if self.how == "product" else min
            return one(low for low, _ in known), one(high for _, high in known)
        return min(low for low, _ in known), max(high for _, high in known)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """The reasons why too few members can judge it; "" where enough can."""
        why = {name: judge.why_unjudgeable(prompt) for name, judge in self.judges.items()}
        reasons = [f"{name}: {reason}" for name, reason in why.items() if reason]
        return "; ".join(reasons) if len(why) - len(reasons) < self._needed else ""

    def inner_judges(self) -> Sequence[Judge]:
        return list(self.judges.values())

    def at(self, judge_context: JudgeContext) -> Self:
        members = {name: judge.at(judge_context) for name, judge in self.judges.items()}
        return super().at(judge_context).model_copy(update={"judges": members})

    def judged_seats(self, match: Match) -> Collection[str]:
        judged = [set(judge.judged_seats(match)) for judge in self.judges.values()]
        return [seat for seat in match.seats if any(seat in seats for seats in judged)]

    def questions(self, seats: int, pool: int) -> int:
        return sum(judge.questions(seats, pool) for judge in self.judges.values())

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        judgements = {
            name: judge.checked_judgements(matches, prompts) for name, judge in self.judges.items()
        }
        scores = {
            name: [judgement.by_seat("score") for judgement in of_member]
            for name, of_member in judgements.items()
        }
        if self.standardise:
            scores = {name: standardise_scores(of_all) for name, of_all in scores.items()}
        return [
            self._combine(
                match,
                {name: of_member[i] for name, of_member in judgements.items()},
                [of_member[i] for of_member in scores.values()],
            )
            for i, match in enumerate(matches)
        ]

    def _combine(
        self, match: Match, judgements: Mapping[str, Judgement], member_scores: Sequence[Scores]
    ) -> Judgement:
        """The panel's judgement of `match`, by the judgements of its members by name."""
        if self.how in ("mean", "median"):
            member_scores = on_all_seats(member_scores)
        values: dict[str, float | None]
        if self.how == "prosper":
            wins = {
                name: member_wins(self.judges[name], match, each)
                for name, each in judgements.items()
            }
            values = {**scores_by_worst_criterion(seats_in_all(match, wins), wins, self.beta)}
        else:
            combine = self._majority if self.how == "majority" else self._average
            values = {seat: combine(seat, match, member_scores) for seat in match.seats}
        scores = {seat: {"score": value} for seat, value in values.items() if value is not None}
        if self._keeps_members:
            of_member = {name: each.by_seat("score") for name, each in judgements.items()}
            for seat in scores:
                scores[seat] = {name: own[seat] for name, own in of_member.items()} | scores[seat]
        reasons: list[str] = []
        if len(scores) < len(self.judged_seats(match)):
            reasons = [f"{name}: {each.reason}" for name, each in judgements.items() if each.reason]
            reasons = reasons or [f"fewer than {self._needed} judges had a score"]
        votes: list[Vote] = []
        for name, judgement in judgements.items():
            votes += _votes(name, match, judgement)
        reviews = chain.from_iterable(each.reviews for each in judgements.values())
        return self.judgement(match, scores or None, "; ".join(reasons), votes, reviews)

    def _average(self, seat: str, match: Match, member_scores: Sequence[Scores]) -> float | None:
        values = [scores[seat] for scores in member_scores if seat in scores]
        if len(values) < self._needed:
            return None
        how = {"mean": fmean, "median": median, "product": math.prod, "least": min}[self.how]
        return float(how(values))

    def _majority(self, seat: str, match: Match, member_scores: Sequence[Scores]) -> float | None:
        """The share of the other seats that more members place below this one."""
        wins: list[float] = []
        for other in match.seats:
            leads = [
                scores[seat] - scores[other]
                for scores in member_scores
                if {seat, other} <= scores.keys()
            ]
            if other != seat and len(leads) >= self.at_least:
                better = sum(lead > 0 for lead in leads)
                worse = sum(lead < 0 for lead in leads)
                wins.append(0.5 if better == worse else float(better > worse))
        return fmean(wins) if wins else None


def on_all_seats(member_scores: Sequence[Scores]) -> list[Scores]:
    """The scores of those members that scored every seat that any member scored."""
    seats = set().union(*member_scores)
    return [scores for scores in member_scores if scores.keys() == seats]


def standardise_scores(member_scores: Sequence[Scores]) -> list[Scores]:
    """One member's scores less their mean, over their deviation; 0 where all are alike."""
    values = [value for scores in member_scores for value in scores.values()]
    if all_alike(values):
        return [dict.fromkeys(scores, 0.0) for scores in member_scores]
    mean, deviation = fmean(values), pstdev(values)
    return [
        {seat: (value - mean) / deviation for seat, value in scores.items()}
        for scores in member_scores
    ]


def _votes(name: str, match: Match, judgement: Judgement) -> list[Vote]:
    """A member's comparisons, or its score of each seat with tokens and cost, as votes."""
    if any(vote.other for vote in judgement.votes):
        return [msgspec.structs.replace(vote, by=name) for vote in judgement.votes]
    scores = judgement.by_seat("score")
    votes = []
    for seat in match.seats:
        on_seat = [vote for vote in judgement.votes if vote.seat == seat]
        votes.append(
            Vote(
                name,
                seat,
                scores.get(seat),
                reason="" if seat in scores else judgement.reason or "no score",
                tokens=sum(vote.tokens for vote in on_seat),
                cost=sum(vote.cost for vote in on_seat),
            )
        )
    return votes


class FirstPlace(Judge):
    """Scores each seat by Plackett–Luce: exp(s/τ) over the sum (arXiv 2509.23102, §3.1).

    Seats without a score are out of the comparison; a seat alone in it is unjudged.
    """

    kind: Literal["first_place"] = "first_place"
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)
    compares: ClassVar[bool] = True
    judge_of_answers: Judge = Field(description="scores each answer alone; its scores are rewards")
    temperature: float = Field(
        1.0, gt=0, description="τ: the gap in scores that is worth one logit"
    )

    @field_validator("judge_of_answers")
    @classmethod
    def _scores_alone(cls, judge: Judge) -> Judge:
        if judge.compares:
            raise ValueError(
                f"'{judge.kind}' compares answers; first_place reads scores of each alone, "
                "such as a reward_model's"
            )
        return judge

    def at(self, judge_context: JudgeContext) -> Self:
        inner = self.judge_of_answers.at(judge_context)
        return super().at(judge_context).model_copy(update={"judge_of_answers": inner})

    def questions(self, seats: int, pool: int) -> int:
        return self.judge_of_answers.questions(seats, pool)

    def inner_judges(self) -> Sequence[Judge]:
        return [self.judge_of_answers]

    @property
    def whole_matches(self) -> bool:  # type: ignore[override]
        return self.judge_of_answers.whole_matches

    @property
    def title(self) -> str:
        return f"first place by {self.judge_of_answers.title}"

    def why_unjudgeable(self, prompt: Prompt) -> str:
        return self.judge_of_answers.why_unjudgeable(prompt)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        scored = self.judge_of_answers.checked_judgements(matches, prompts)
        return list(map(self._by_scores, matches, scored))

    def _by_scores(self, match: Match, judgement: Judgement) -> Judgement:
        by_seat = judgement.by_seat("score")
        if len(by_seat) < 2:
            reason = judgement.reason or "fewer than two answers were scored"
            return self.judgement(match, None, reason, judgement.votes, judgement.reviews)
        logits = [score / self.temperature for score in by_seat.values()]
        shares = first_place(logits).tolist()
        scores = {seat: {"score": share} for seat, share in zip(by_seat, shares, strict=True)}
        return self.judgement(match, scores, judgement.reason, judgement.votes, judgement.reviews)
