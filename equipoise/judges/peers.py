"""The pool as its own judge: those not in a match grade its answers (SPARTA, arXiv 2506.04721)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Literal

import msgspec
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.judges.base import comparable
from equipoise.judges.grading import WEIGHTLESS, GradingJudge, answers_to_grade
from equipoise.types import Judgement, Match, PlayerId, Prompt, Vote


class Peers(GradingJudge):
    """Scores each answer s̄ = Σ_k R_k s_k / Σ_k R_k (SPARTA, eq. 2).

    R_k is the rating of peer k and s_k its grade. With `who: others`, every player of the pool
    judges that is at no seat; that takes three players. With `who: self`, the players of the match
    judge all its answers, their own included. Ratings of 0 or less have no weight. Where a voter is
    not rated, all weigh the same. A peer that graded only some of the answers counts for none.
    """

    kind: Literal["peers"] = "peers"
    who: Literal["others", "self"] = Field(
        default="others",
        description="who judges a match: all players that do not sit in it, or those that do",
    )
    weights: Literal["rating", "equal"] = Field(
        default="rating", description="a peer weighs its rating, or 1"
    )

    def prepare(self) -> None:
        """Raises ConfigError where nobody is left to judge, DataError for a faulty template."""
        names = {player.name for player in self.judge_context.pool}
        if self.who == "others" and len(names) < 3:
            raise ConfigError(
                "judge: 'peers' needs at least three players, so that one is left to judge the "
                f"other two; there {'is' if len(names) == 1 else 'are'} {len(names)} "
                f"({', '.join(sorted(names))}). Add players, or set judge.who: self"
            )
        super().prepare()

    def questions(self, seats: int, pool: int) -> int:
        return seats * self.samples * (2 if self.who == "self" else max(0, pool - 2))

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        grading = self.grading
        answers = answers_to_grade(matches, prompts)
        judges = {match.id: self._judges(match) for match in matches}
        peers = dict.fromkeys(chain.from_iterable(judges.values()))
        by_match: dict[str, list[Vote]] = {match.id: [] for match in matches}
        graders = [
            (peer, str(peer), [answer for answer in answers if peer in judges[answer.match.id]])
            for peer in peers
        ]
        votes_on = grading.votes_of_several(graders)
        for (_, _, its), votes_of_peer in zip(graders, votes_on, strict=True):
            for answer, votes in zip(its, votes_of_peer, strict=True):
                by_match[answer.match.id] += votes
        return [self._judgement(match, by_match[match.id]) for match in matches]

    def _judgement(self, match: Match, votes: Sequence[Vote]) -> Judgement:
        weight = self._weight(votes, self.judge_context.ratings)
        return self.judgement_by_votes(match, votes, weight)

    def reweigh(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        """The recorded votes under these ratings; SPARTA takes those after all updates."""
        votes = judgement.votes
        scores = self.scores(votes, self._weight(votes, ratings))
        counted = comparable(self.grades_by_votes(votes)).values()
        graded = set(chain.from_iterable(counted))
        reasons = [
            reason for reason in judgement.reason.split("; ") if reason and reason != WEIGHTLESS
        ]
        if graded - scores.keys():
            reasons.append(WEIGHTLESS)
        reason = "; ".join(reasons)
        return msgspec.structs.replace(judgement, scores=scores or None, reason=reason)

    def _judges(self, match: Match) -> list[PlayerId]:
        if self.who == "self":
            return list(dict.fromkeys(match.seats.values()))
        sitting = {player.name for player in match.seats.values()}
        return [player for player in self.judge_context.pool if player.name not in sitting]

    def _weight(
        self, votes: Sequence[Vote], ratings: Mapping[str, float]
    ) -> Callable[[str], float]:
        names = {vote.by: PlayerId.parse(vote.by).name for vote in votes}
        if self.weights == "equal" or not set(names.values()) <= ratings.keys():
            return lambda by: 1.0
        return lambda by: ratings[names[by]]
