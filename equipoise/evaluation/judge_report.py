"""How good judges are at judging, from what they gave: what they left unread, and what sways them
beside the answer.

What cannot be known from the records is None: no voter that judged itself, no pair read in both
orders, no two voters on one answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from equipoise.evaluation.agreement import VoterAgreement, voter_agreement
from equipoise.evaluation.judge_biases import (
    LengthBias,
    SelfPreference,
    first_preferred,
    first_seat_lead,
    inconsistent,
    length_bias,
    self_preference,
)
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.readings import Opinion, Reading, opinions, readings, voter_of
from equipoise.types import Judgement, Match, Vote


class MeanGiven(msgspec.Struct, frozen=True):
    """The mean of what a voter gave one player's `n` answers."""

    mean: float
    n: int


class VoterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one voter read, what that took, and what sways it.

    `calls` are the votes that a model read; the biases are those of `judge_biases`.
    """

    votes: int
    unreadable_share: float | None
    calls: int
    tokens: int
    cost: float
    first_preferred: Estimate | None
    inconsistent: Estimate | None
    first_seat_lead: Estimate | None
    length: LengthBias | None


class JudgeReport(VoterReport, frozen=True, kw_only=True):
    """The same of a judge with all its voters; a judge without votes is its own only voter.

    Players of the run vote under their name, whatever their generation.

    `answers` are those in the judged matches, `unjudged_share` those of them without a score.
    `who_judged_whom` is voter -> player -> the mean of what it gave that player's answers.
    """

    judgements: int
    answers: int
    unjudged_share: float | None
    agreement: VoterAgreement | None
    agreement_on_pairs: VoterAgreement | None
    self_preference: dict[str, SelfPreference | None]
    who_judged_whom: dict[str, dict[str, MeanGiven]]
    voters: dict[str, VoterReport]


def judge_report(
    matches: Sequence[Match], judgements: Sequence[Judgement], utility: str = "score"
) -> dict[str, JudgeReport]:
    """A report on each judge that judged, by the name in the records.

    Raises ValueError for a judgement whose match is not among `matches`.
    """
    by_id = {match.id: match for match in matches}
    by_judge: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_judge[judgement.judge].append(judgement)
    return {judge: _of_judge(by_id, by_judge[judge], utility) for judge in sorted(by_judge)}


def _of_judge(
    matches: Mapping[str, Match], judgements: Sequence[Judgement], utility: str
) -> JudgeReport:
    every = readings(matches, judgements, utility)
    votes = [vote for judgement in judgements for vote in judgement.votes]
    answers = sum(len(matches[judgement.match].seats) for judgement in judgements)
    scored = sum(len(judgement.by_seat(utility)) for judgement in judgements)
    views = opinions(every)
    scores = [opinion for opinion in views if not opinion.other]
    pairs = [opinion for opinion in views if opinion.seat < opinion.other]
    names = sorted({reading.voter for reading in every})
    whole = _of_voter(votes, every, views)
    return JudgeReport(
        judgements=len(judgements),
        answers=answers,
        unjudged_share=1 - scored / answers if answers else None,
        agreement=voter_agreement(scores),
        agreement_on_pairs=voter_agreement(pairs),
        self_preference={name: self_preference(name, views) for name in names},
        who_judged_whom=_who_judged_whom(views),
        voters={
            name: _of_voter(
                [vote for vote in votes if voter_of(vote) == name],
                [reading for reading in every if reading.voter == name],
                [opinion for opinion in views if opinion.voter == name],
            )
            for name in names
        },
        **msgspec.structs.asdict(whole),
    )


def _of_voter(
    votes: Sequence[Vote], every: Sequence[Reading], views: Sequence[Opinion]
) -> VoterReport:
    unread = sum(vote.value is None for vote in votes)
    return VoterReport(
        votes=len(votes),
        unreadable_share=unread / len(votes) if votes else None,
        calls=sum(vote.tokens > 0 for vote in votes),
        tokens=sum(vote.tokens for vote in votes),
        cost=math.fsum(vote.cost for vote in votes),
        first_preferred=first_preferred(every),
        inconsistent=inconsistent(every),
        first_seat_lead=first_seat_lead(views),
        length=length_bias(views),
    )


def _who_judged_whom(views: Sequence[Opinion]) -> dict[str, dict[str, MeanGiven]]:
    """Voter -> player -> the mean of what it gave that player's answers.

    A comparison of two answers of one player says nothing of the player, and is left out.
    """
    given: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for opinion in views:
        if opinion.player != opinion.other_player:
            given[opinion.voter][opinion.player].append(opinion.value)
    return {
        voter: {
            player: MeanGiven(float(np.mean(values)), len(values))
            for player, values in sorted(players.items())
        }
        for voter, players in sorted(given.items())
    }
