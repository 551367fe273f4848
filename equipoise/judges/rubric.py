"""The judge that is a language model with a rubric: it grades each answer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from equipoise.judges.grading import Grading, answers
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Prompt


class Rubric(Grading):
    """Scores every seat's last answer as `model` grades it, from `low` to `high`.

    What cannot be read is a vote without a value; an answer with no readable vote is
    unjudged.
    """

    kind: Literal["rubric"] = "rubric"
    model: Player = Field(description="the judging model, a player that no seat holds")

    def questions(self, seats: int, pool: int) -> int:
        """One a seat and sample."""
        return seats * self.samples

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order, by one batch of questions; `prompts` by
        id.
        """
        asked = answers(matches, prompts)
        votes = iter(self.votes(self.model, self.name, asked))
        mine: dict[str, list] = {match.id: [] for match in matches}
        for answer in asked:
            mine[answer.match.id] += [next(votes) for _ in range(self.samples)]
        return [self.word(match, mine[match.id]) for match in matches]
