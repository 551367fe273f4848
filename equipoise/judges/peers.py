"""The judge that is the pool itself: the players who are not in a match grade its
answers (arXiv 2506.04721).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

import msgspec
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.judges.base import JudgeContext
from equipoise.judges.grading import WEIGHTLESS, Grading, answers
from equipoise.types import Judgement, Match, PlayerId, Prompt, Vote


class Peers(Grading):
    """Scores each answer s̄ = Σ_k R_k s_k / Σ_k R_k, R_k the rating of peer k and s_k
    its grade (SPARTA, eq. 2).

    With `who: others`, every player of the pool judges whose name sits at no seat of
    the match; it takes three. With `who: self`, the players of the match judge all its
    answers, their own included. A peer with a rating of 0 or less weighs nothing. Where
    one of those who voted on an answer is not rated, all of them weigh the same.
    """

    kind: Literal["peers"] = "peers"
    who: Literal["others", "self"] = Field(
        default="others",
        description="who judges a match: all players that do not sit in it, or those that do",
    )
    weights: Literal["rating", "equal"] = Field(
        default="rating", description="a peer weighs its rating, or 1"
    )

    def at(self, judge_context: JudgeContext) -> Self:
        """This judge, knowing the bench. Raises ConfigError where the pool is too small
        to judge itself.
        """
        names = {player.name for player in judge_context.pool}
        if self.who == "others" and len(names) < 3:
            raise ConfigError(
                f"judge: 'peers' needs at least three players, so that one is left to judge the other two; there "
                f"{'is' if len(names) == 1 else 'are'} {len(names)} ({', '.join(sorted(names))}). Add players, or set "
                "judge.who: self"
            )
        return super().at(judge_context)

    def questions(self, seats: int, pool: int) -> int:
        """One a seat, sample and peer; of two players at the table."""
        return seats * self.samples * (2 if self.who == "self" else max(0, pool - 2))

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; each peer gets one batch. `prompts` by id."""
        asked = answers(matches, prompts)
        mine: dict[str, list[Vote]] = {match.id: [] for match in matches}
        panels = {match.id: self._judges(match) for match in matches}
        for peer in dict.fromkeys(peer for panel in panels.values() for peer in panel):
            its = [answer for answer in asked if peer in panels[answer.match.id]]
            votes = iter(self.votes(peer, str(peer), its))
            for answer in its:
                mine[answer.match.id] += [next(votes) for _ in range(self.samples)]
        return [
            self.word(
                match,
                mine[match.id],
                self._weight(mine[match.id], self.judge_context.ratings),
            )
            for match in matches
        ]

    def weighed(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        """The judgement that the recorded votes give under these ratings by name
        (SPARTA weighs after all updates).
        """
        votes = judgement.votes
        scores = self.scores(votes, self._weight(votes, ratings))
        lost = {
            vote.seat for vote in votes if self.value(vote) is not None
        } - scores.keys()
        reasons = [
            reason
            for reason in judgement.reason.split("; ")
            if reason and reason != WEIGHTLESS
        ]
        reason = "; ".join([*reasons, WEIGHTLESS] if lost else reasons)
        return msgspec.structs.replace(judgement, scores=scores or None, reason=reason)

    def _judges(self, match: Match) -> list[PlayerId]:
        if self.who == "self":
            return list(dict.fromkeys(match.seats.values()))
        sitting = {player.name for player in match.seats.values()}
        return [
            player for player in self.judge_context.pool if player.name not in sitting
        ]

    def _weight(
        self, votes: Sequence[Vote], ratings: Mapping[str, float]
    ) -> Callable[[str], float]:
        names = {vote.by: PlayerId.parse(vote.by).name for vote in votes}
        if self.weights == "equal" or not all(
            name in ratings for name in names.values()
        ):
            return lambda by: 1.0
        return lambda by: ratings[names[by]]
