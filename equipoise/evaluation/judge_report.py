"""Reports on judges, from the scores that they gave: answers left unread, and what sways them
beside the answer.

What cannot be known from the records is None: no voter that judged itself, no pair read in both
orders, no two voters on one answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from equipoise.answer import answer_of
from equipoise.evaluation.judge_opinions import (
    Opinion,
    Reading,
    VoterAgreement,
    both_orders,
    estimate,
    opinions,
    readings,
    spearman,
    voter_agreement,
    voter_of,
)
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import mean_interval
from equipoise.types import Judgement, Match, Review, Vote


class MeanGiven(msgspec.Struct, frozen=True):
    """The mean of what a voter gave one player's `n` answers."""

    mean: float
    n: int


class VoterReport(msgspec.Struct, frozen=True, kw_only=True):
    """The readings of one voter, their cost, and its biases.

    `calls` are the votes that a model read.
    """

    votes: int
    unreadable_share: float | None
    calls: int
    tokens: int
    cost: float
    first_preferred: Estimate | None
    inconsistent: Estimate | None
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
    scored = sum(len(judgement.by_seat(utility)) for judgement in judgements)
    # Seats that it never scored are none that it judges, such as those only shown to it.
    seats = {seat for each in judgements for seat in each.by_seat(utility)}
    of_match = [matches[each.match].seats.keys() for each in judgements]
    answers = sum(len(own & seats if seats else own) for own in of_match)
    reviews = [review for judgement in judgements for review in judgement.reviews]
    views = opinions(every)
    scores = [opinion for opinion in views if not opinion.other]
    pairs = [opinion for opinion in views if opinion.seat < opinion.other]
    names = sorted({reading.voter for reading in every})
    whole = _of_voter(votes, every, views, reviews)
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
                [review for review in reviews if review.by.rpartition("@")[0] == name],
            )
            for name in names
        },
        **msgspec.structs.asdict(whole),
    )


def _of_voter(
    votes: Sequence[Vote],
    every: Sequence[Reading],
    views: Sequence[Opinion],
    reviews: Sequence[Review],
) -> VoterReport:
    unread = sum(vote.value is None for vote in votes)
    return VoterReport(
        votes=len(votes),
        unreadable_share=unread / len(votes) if votes else None,
        calls=sum(vote.tokens > 0 for vote in votes)
        + sum(len(review.replies) * (len(review.replies) - 1) for review in reviews),
        tokens=sum(each.tokens for each in (*votes, *reviews)),
        cost=math.fsum(each.cost for each in (*votes, *reviews)),
        first_preferred=first_preferred(every),
        inconsistent=inconsistent(every),
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


class LengthBias(msgspec.Struct, frozen=True, kw_only=True):
    """Spearman's correlation of what was given with the answer's length in characters.

    `spearman`: of scores over all `answers`; `within_prompts`: of how far score and length lie from
    their means over that voter's answers to that prompt, where it judged two or more, so that
    prompts that ask for long answers do not count; `of_pairs`: of the probability of winning with
    the lead in length.
    """

    spearman: float | None
    answers: int
    within_prompts: float | None
    answers_within: int
    of_pairs: float | None
    pairs: int


class SelfPreference(msgspec.Struct, frozen=True, kw_only=True):
    """The lead that a voter gives to its own answers over what other voters give to them.

    `lead` is that difference, `lead_on_others` the same on answers of other players: a voter that
    is mild with everyone leads on both.
    """

    lead: Estimate
    lead_on_others: Estimate | None


def first_preferred(readings: Sequence[Reading]) -> Estimate | None:
    """The share of decided comparisons that prefer the answer shown first; ½ without a bias where
    orders balance.
    """
    decided = [
        (reading.value > 0.5, reading.match.prompt)
        for reading in readings
        if reading.other and reading.value is not None and reading.value != 0.5
    ]
    return _share(decided)


def inconsistent(readings: Sequence[Reading]) -> Estimate | None:
    """The share of pairs read in both orders in which the two orders prefer different answers."""
    return _share(
        [
            ((first - 0.5) * (second - 0.5) < 0, reading.match.prompt)
            for reading, first, second in both_orders(readings)
        ]
    )


def _share(rows: Sequence[tuple[bool, str]]) -> Estimate | None:
    """The share of (whether, prompt) that is true, prompts counting as clusters."""
    values = np.array([value for value, _ in rows], float)
    return estimate(mean_interval(values, [prompt for _, prompt in rows], share=True))


def length_bias(opinions: Sequence[Opinion]) -> LengthBias | None:
    """Correlations of values with length; None without opinions."""
    if not opinions:
        return None
    rows: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    leads: list[tuple[float, float]] = []
    for opinion in opinions:
        length = _characters(opinion, opinion.seat)
        if opinion.other:
            lead = length - _characters(opinion, opinion.other)
            leads.append((opinion.value, lead))
        else:
            rows[opinion.voter, opinion.match.prompt].append((opinion.value, length))
    every_A2 = np.array([row for group in rows.values() for row in group])
    every_A2 = every_A2.reshape(-1, 2)
    centred = [np.array(group) - np.mean(group, 0) for group in rows.values() if len(group) > 1]
    within_A2 = np.concatenate(centred) if centred else np.empty((0, 2))
    return LengthBias(
        spearman=spearman(*every_A2.T),
        answers=len(every_A2),
        within_prompts=spearman(*within_A2.T),
        answers_within=len(within_A2),
        of_pairs=spearman(*np.array(leads).reshape(-1, 2).T),
        pairs=len(leads) // 2,
    )


def _characters(opinion: Opinion, seat: str) -> int:
    """The length of the seat's last answer, 0 where it was judged without one."""
    texts = {turn.seat: answer_of(turn.move).text for turn in opinion.match.turns}
    return len(texts.get(seat, ""))


def self_preference(name: str, opinions: Sequence[Opinion]) -> SelfPreference | None:
    """The voter `name` on its own answers, beside the other voters; None where it never judged an
    answer of its own that somebody else judged too.
    """
    others: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for opinion in opinions:
        if opinion.voter != name:
            others[opinion.answer].append(opinion.value)
    shared = [
        opinion
        for opinion in opinions
        if opinion.voter == name
        and opinion.answer in others
        and opinion.player != opinion.other_player
    ]

    def lead(chosen: Callable[[Opinion], bool]) -> Estimate | None:
        rows = [opinion for opinion in shared if chosen(opinion)]
        gaps = [opinion.value - float(np.mean(others[opinion.answer])) for opinion in rows]
        return estimate(mean_interval(gaps, [row.match.prompt for row in rows]))

    own = lead(lambda opinion: opinion.player == name)
    if own is None:
        return None
    on_others = lead(lambda opinion: name not in (opinion.player, opinion.other_player))
    return SelfPreference(lead=own, lead_on_others=on_others)
