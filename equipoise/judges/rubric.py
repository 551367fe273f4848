"""The judge that is a language model with a rubric: it grades each answer alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from equipoise.judges.grading import GradingJudge, answers_to_grade
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Prompt, Vote


class Rubric(GradingJudge):
    """Scores every seat's last answer as `model` grades it, from `low` to `high`.

    A reply that cannot be read is a vote without a value; an answer with no readable vote is
    unjudged.
    """

    kind: Literal["rubric"] = "rubric"
    model: Player = Field(description="the judging model, a player that no seat holds")

    def questions(self, seats: int, pool: int) -> int:
        """One a seat and sample."""
        return seats * self.samples

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id. One batch of questions."""
        answers = answers_to_grade(matches, prompts)
        votes_on = self.grading.votes(self.model, self.name, answers)
        by_match: dict[str, list[Vote]] = defaultdict(list)
        for answer, votes in zip(answers, votes_on, strict=True):
            by_match[answer.match.id] += votes
        return [self.judgement_by_votes(match, by_match[match.id]) for match in matches]
