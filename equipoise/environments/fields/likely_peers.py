"""Peers whose grade of an answer is how likely they would have given it themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal, Self

from pydantic import model_validator

from equipoise.judges.base import JudgeContext
from equipoise.judges.grading import AnswerToGrade, RepliedGrade, answers_to_grade
from equipoise.judges.peers import Graded, Peers
from equipoise.judges.question import FAILED
from equipoise.players.base import Scorer
from equipoise.types import Match, PlayerId, Prompt, View, Vote

READ = {"kind", "who", "weights", "low", "high"}  # of the settings of peers


class LikelyPeers(Peers):
    """`peers` without a question: a grade is the chance a token that the peer gives an answer.

        s_k = low + (high − low) · exp(log p_k(answer | prompt) / tokens)

    Who knows a field finds right answers likely and wrong ones unlikely, so that judgement goes
    with skill and need not be taught. It takes local models, and costs one reading an answer.
    """

    kind: Literal["likely_peers"] = "likely_peers"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _asks_nothing(self) -> Self:
        usual = {name: field.get_default() for name, field in type(self).model_fields.items()}
        unread = [
            name
            for name in sorted(self.model_fields_set - READ)
            if getattr(self, name) != usual[name]
        ]
        if unread:
            raise ValueError(f"{', '.join(unread)}: nothing is asked, so these have no effect")
        return self

    def graded(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Graded]:
        """Every judge's grades of every answer that it judges."""
        answers = answers_to_grade(matches, prompts)
        judges = {match.id: self._judges(match) for match in matches}
        grades: list[Graded] = []
        for peer in dict.fromkeys(chain.from_iterable(judges.values())):
            its = [answer for answer in answers if peer in judges[answer.match.id]]
            for answer, vote in zip(its, self.votes(self.judge_context, peer, its), strict=True):
                grades.append(Graded(peer, answer, [RepliedGrade(vote, View(()), "")]))
        return grades

    def votes(
        self, context: JudgeContext, peer: PlayerId, answers: Sequence[AnswerToGrade]
    ) -> list[Vote]:
        """The peer's vote on each answer; without a value where it is no local model."""
        actor = context.actor(peer)
        if not isinstance(actor, Scorer):
            reason = f"{FAILED}: {peer} cannot say how likely an answer is; it is no local model"
            return [Vote(str(peer), answer.seat, None, "", reason) for answer in answers]
        chats = [answer.turn.view.messages or answer.prompt.messages for answer in answers]
        cut = [answer.turn.move.finish == "length" for answer in answers]
        sums = actor.logprobs(chats, [answer.text for answer in answers], cut=cut)
        return [
            Vote(str(peer), answer.seat, likely_grade(total, count, self.low, self.high))
            for answer, (total, count) in zip(answers, sums, strict=True)
        ]


def likely_grade(total: float, count: int, low: float, high: float) -> float:
    """The grade of an answer of this log-likelihood over so many tokens.

    >>> round(likely_grade(-1.386294, 2, 1, 10), 3), likely_grade(0.0, 0, 1, 10)
    (5.5, 1)
    """
    if count == 0:
        return low
    return low + (high - low) * math.exp(total / count)
