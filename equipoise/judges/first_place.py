"""One answer against all others of its match, by the scores of another judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator

from equipoise.judges.base import Judge, JudgeContext
from equipoise.payoffs.plackett_luce import first_place
from equipoise.types import Judgement, Match, Prompt


class FirstPlace(Judge):
    """Scores each seat P(its answer comes first of the match), by Plackett–Luce: exp(s/τ) over the
    sum of them, s what `judge` gave. (arXiv 2509.23102, §3.1)

    Seats without a score are out of the comparison; a seat alone in it is unjudged.
    """

    kind: Literal["first_place"] = "first_place"
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

    @property
    def score_range(self) -> tuple[float, float]:
        """Probabilities."""
        return 0.0, 1.0

    def at(self, judge_context: JudgeContext) -> Self:
        """A copy that works in `judge_context`, the judge of answers too."""
        inner = self.judge_of_answers.at(judge_context)
        seated = super().at(judge_context)
        return seated.model_copy(update={"judge_of_answers": inner})

    def questions(self, seats: int, pool: int) -> int:
        """Those of the judge of answers."""
        return self.judge_of_answers.questions(seats, pool)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """What the judge of answers says."""
        return self.judge_of_answers.why_unjudgeable(prompt)

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        scored = self.judge_of_answers.judge_checked(matches, prompts)
        return [
            self._first(match, judgement) for match, judgement in zip(matches, scored, strict=True)
        ]

    def _first(self, match: Match, judgement: Judgement) -> Judgement:
        by_seat = judgement.by_seat("score")
        if len(by_seat) < 2:
            reason = judgement.reason or "fewer than two answers were scored"
            return self.judgement(match, None, reason, judgement.votes)
        logits = [score / self.temperature for score in by_seat.values()]
        shares = first_place(logits).tolist()
        scores = {seat: {"score": share} for seat, share in zip(by_seat, shares, strict=True)}
        return self.judgement(match, scores, judgement.reason, judgement.votes)
