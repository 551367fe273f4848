"""Pairs of a better and a worse answer, made from the answers that one match holds.

Answers compete when they were given to the same chat. Equal texts count as one answer
with their mean score. Every match gives a pair or is counted once, by the name of what
was wrong:

    error       fewer than two scored answers, and a move failed
    unjudged    fewer than two scored answers otherwise
    identical   all the texts are the same
    tie         all the scores are the same
    margin      no two scores are `min_margin` apart
    limit       its prompt has `per_prompt` wider pairs already
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.data.base import PairMaker
from equipoise.errors import ConfigError
from equipoise.types import Judgement, Match, Message, Pair, Turn, record_id


@dataclass(frozen=True, slots=True)
class Answer:
    """A distinct answer of one match, with its score."""

    text: str
    score: float
    order: str  # the hash that orders equal scores


Contest = list[Answer]  # answers to one chat, best first


class Ranked(PairMaker):
    """The base of these pair makers; each chooses from the answers to one chat, ranked
    by score.
    """

    per_prompt: int | None = Field(
        None,
        ge=1,
        description="keep at most this many pairs a prompt, widest gaps first",
    )

    def make(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        utility: str = "score",
    ) -> tuple[list[Pair], dict[str, int]]:
        """(pairs in the order of the matches, matches that gave none by why). Raises
        ConfigError on a utility that no judgement has.
        """
        words = {judgement.match: judgement for judgement in judgements}
        _known(utility, judgements)
        made = [
            self._of_match(match, words.get(match.id), utility) for match in matches
        ]
        pairs = [pair for pair in made if isinstance(pair, list) for pair in pair]
        kept = _widest(pairs, self.per_prompt)
        dropped = Counter(
            one if isinstance(one, str) else "limit"
            for one in made
            if isinstance(one, str) or not any(pair.id in kept for pair in one)
        )
        return [pair for pair in pairs if pair.id in kept], dict(dropped)

    @abstractmethod
    def choose(self, answers: Contest) -> list[tuple[Answer, Answer]]:
        """(better, worse) answers of one contest, whose first and last scores differ."""

    def _of_match(
        self, match: Match, judgement: Judgement | None, utility: str
    ) -> list[Pair] | str:
        contests, why = _contests(match, judgement, utility)
        if why:
            return why
        pairs = []
        for messages, answers in contests:
            if answers[0].score > answers[-1].score:
                pairs += [
                    _pair(match, messages, better, worse)
                    for better, worse in self.choose(answers)
                ]
        if pairs:
            return pairs
        if all(len(answers) == 1 for _, answers in contests):
            return "identical"
        return (
            "tie"
            if all(answers[0].score == answers[-1].score for _, answers in contests)
            else "margin"
        )


class BestWorst(Ranked):
    """The best answer against the worst; among equals, the order of their hashes
    decides.
    """

    kind: Literal["best_worst"] = "best_worst"

    def most(self, seats: int) -> int:
        """One."""
        return min(1, seats - 1)

    def choose(self, answers: Contest) -> list[tuple[Answer, Answer]]:
        """The first against the last."""
        return [(answers[0], answers[-1])]


class AllPairs(Ranked):
    """Every two answers with different scores."""

    kind: Literal["all_pairs"] = "all_pairs"

    def choose(self, answers: Contest) -> list[tuple[Answer, Answer]]:
        """Every two, unless they are equal."""
        return [
            (better, worse)
            for better, worse in combinations(answers, 2)
            if better.score > worse.score
        ]


class Margin(Ranked):
    """Every two answers whose scores are at least `min_margin` apart."""

    kind: Literal["margin"] = "margin"
    min_margin: float = Field(
        gt=0, description="the smallest gap between scores, in the judge's units"
    )

    def choose(self, answers: Contest) -> list[tuple[Answer, Answer]]:
        """Every two that are far enough apart."""
        return [
            (better, worse)
            for better, worse in combinations(answers, 2)
            if better.score - worse.score >= self.min_margin
        ]


def _known(utility: str, judgements: Sequence[Judgement]) -> None:
    names = {name for judgement in judgements for name in judgement.names()}
    if names and utility not in names:
        raise ConfigError(
            f"utility: no judgement has '{utility}'; {nearest(utility, sorted(names))}"
        )


def _contests(
    match: Match, judgement: Judgement | None, utility: str
) -> tuple[list[tuple[tuple[Message, ...], Contest]], str]:
    last: dict[str, Turn] = {turn.seat: turn for turn in match.turns}
    scores = judgement.by_seat(utility) if judgement else {}
    by_chat: dict[tuple[Message, ...], list[tuple[str, float]]] = {}
    for seat, turn in last.items():
        if seat in scores and turn.move.finish != "error":
            by_chat.setdefault(turn.view.messages, []).append(
                (turn.move.text, scores[seat])
            )
    chats = {
        messages: answers for messages, answers in by_chat.items() if len(answers) > 1
    }
    if not chats:
        return [], "error" if any(
            turn.move.finish == "error" for turn in last.values()
        ) else "unjudged"
    return [
        (messages, _ranked(match, answers)) for messages, answers in chats.items()
    ], ""


def _ranked(match: Match, answers: Sequence[tuple[str, float]]) -> Contest:
    texts: dict[str, list[float]] = {}
    for text, score in answers:
        texts.setdefault(text, []).append(score)
    distinct = [
        Answer(text, fmean(scores), record_id(match.id, text))
        for text, scores in texts.items()
    ]
    return sorted(distinct, key=lambda answer: (-answer.score, answer.order))


def _pair(
    match: Match, messages: tuple[Message, ...], better: Answer, worse: Answer
) -> Pair:
    return Pair(
        id=record_id("pair", match.id, better.text, worse.text),
        generation=match.generation,
        prompt=match.prompt,
        messages=messages,
        chosen=better.text,
        rejected=worse.text,
        chosen_score=better.score,
        rejected_score=worse.score,
        match=match.id,
    )


def _widest(pairs: Sequence[Pair], per_prompt: int | None) -> set[str]:
    """The ids of each prompt's `per_prompt` pairs with the widest gaps; all of them
    without a limit.
    """
    by_prompt: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_prompt.setdefault(pair.prompt, []).append(pair)
    return {
        pair.id
        for group in by_prompt.values()
        for pair in sorted(
            group, key=lambda pair: (pair.rejected_score - pair.chosen_score, pair.id)
        )[:per_prompt]
    }
