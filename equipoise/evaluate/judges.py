"""How good judges are at judging, from what they said: what they left unread, and what
sways them beside the answer.

Facts are plain JSON. What cannot be known from the records is None: no voter that
judged itself, no pair read in both orders, no two voters on one answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.evaluate.readings import (
    Opinion,
    Said,
    both_orders,
    opinions,
    readings,
    voter_of,
)
from equipoise.payoffs.agreement import krippendorff_alpha
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.types import Judgement, Match

Facts = dict[str, Any]


def judge_report(
    matches: Sequence[Match], judgements: Sequence[Judgement], utility: str = "score"
) -> dict[str, Facts]:
    """For each judge that judged, by the name in the records: facts about it, and about
    each of its `voters`.

    A judge without votes is its own only voter. Players of the run vote under their
    name, whatever their generation. Raises ValueError for a judgement whose match is
    not among `matches`.
    """
    by_id = {match.id: match for match in matches}
    by_judge: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_judge[judgement.judge].append(judgement)
    return {
        judge: _of_judge(by_id, by_judge[judge], utility) for judge in sorted(by_judge)
    }


def agreement_between(
    first: Sequence[Judgement], second: Sequence[Judgement], utility: str = "score"
) -> Facts:
    """How far two judges agree on the same matches.

    `spearman` and `kendall` (tau-b): of the scores of the `answers` that both scored.
    `same_winner`: of the two-seat pairs in which both judges prefer one answer, the
    share in which it is the same, with an interval that counts matches; `tied`: the
    pairs in which only one of them does, or neither. Raises ValueError for a match
    judged twice.
    """
    from scipy.stats import kendalltau

    both = _common(_by_match(first, utility), _by_match(second, utility))
    answers = [pair for seats in both.values() for pair in seats]
    a_n, b_n = np.array(answers).reshape(-1, 2).T
    same: list[float] = []
    clusters: list[str] = []
    tied = 0
    for match, seats in both.items():
        for i in range(len(seats)):
            for j in range(i):
                signs = [np.sign(seats[i][k] - seats[j][k]) for k in range(2)]
                if 0 in signs:
                    tied += 1
                else:
                    same.append(float(signs[0] == signs[1]))
                    clusters.append(match)
    return {
        "answers": len(answers),
        "spearman": _spearman(a_n, b_n),
        "kendall": _known(float(np.asarray(kendalltau(a_n, b_n))[0]))
        if _varies(a_n, b_n)
        else None,
        "same_winner": _plain(mean_interval(same, clusters, share=True)),
        "tied": tied,
    }


def _of_judge(
    matches: Mapping[str, Match], judgements: Sequence[Judgement], utility: str
) -> Facts:
    said = readings(matches, judgements, utility)
    votes = [vote for judgement in judgements for vote in judgement.votes]
    asked = sum(len(matches[judgement.match].seats) for judgement in judgements)
    scored = sum(len(judgement.by_seat(utility)) for judgement in judgements)
    seen = opinions(said)
    names = sorted({one.voter for one in said})
    return {
        "judgements": len(judgements),
        "answers": asked,
        "unjudged_share": 1 - scored / asked if asked else None,
        **_spent(votes),
        **_biases(said, seen),
        "agreement": _agreement([opinion for opinion in seen if not opinion.other]),
        "agreement_on_pairs": _agreement(
            [
                opinion
                for opinion in seen
                if opinion.other and opinion.seat < opinion.other
            ]
        ),
        "self_preference": {name: _self_preference(name, seen) for name in names},
        "who_judged_whom": _who_judged_whom(seen),
        "voters": {
            name: {
                **_spent([vote for vote in votes if voter_of(vote) == name]),
                **_biases(
                    [one for one in said if one.voter == name],
                    [opinion for opinion in seen if opinion.voter == name],
                ),
            }
            for name in names
        },
    }


def _spent(votes: Sequence) -> Facts:
    """How many votes, what share of them could not be read, and what they took; `calls`
    are those that a model read.
    """
    unread = sum(vote.value is None for vote in votes)
    return {
        "votes": len(votes),
        "unreadable_share": unread / len(votes) if votes else None,
        "calls": sum(vote.tokens > 0 for vote in votes),
        "tokens": sum(vote.tokens for vote in votes),
        "cost": math.fsum(vote.cost for vote in votes),
    }


def _biases(said: Sequence[Said], seen: Sequence[Opinion]) -> Facts:
    return {
        "first_preferred": _first_preferred(said),
        "inconsistent": _inconsistent(said),
        "first_seat_lead": _first_seat_lead(seen),
        "length": _length(seen),
    }


def _first_preferred(said: Sequence[Said]) -> Facts | None:
    """The share of decided comparisons that prefer the answer shown first; ½ without a
    bias where orders balance.
    """
    decided = [
        one for one in said if one.other and one.value is not None and one.value != 0.5
    ]
    return _share(
        [one.value is not None and one.value > 0.5 for one in decided],
        [one.match.prompt for one in decided],
    )


def _inconsistent(said: Sequence[Said]) -> Facts | None:
    """The share of pairs read in both orders in which the two orders prefer different
    answers.
    """
    pairs = list(both_orders(said))
    return _share(
        [(p - 0.5) * (q - 0.5) < 0 for _, p, q in pairs],
        [one.match.prompt for one, _, _ in pairs],
    )


def _first_seat_lead(seen: Sequence[Opinion]) -> Facts | None:
    """The mean score of the first seat's answer less the second's, where one player
    answered one chat in both.

    With different players the lead would be their skill.
    """
    known = {
        (opinion.voter, opinion.match.id, opinion.seat): opinion
        for opinion in seen
        if not opinion.other
    }
    leads, prompts = [], []
    for opinion in known.values():
        seats = list(opinion.match.seats)
        if len(seats) != 2 or opinion.seat != seats[0]:
            continue
        second = known.get((opinion.voter, opinion.match.id, seats[1]))
        if (
            second is not None
            and opinion.match.seats[seats[0]] == opinion.match.seats[seats[1]]
            and _same_chat(opinion.match)
        ):
            leads.append(opinion.value - second.value)
            prompts.append(opinion.match.prompt)
    return _plain(mean_interval(leads, prompts))


def _length(seen: Sequence[Opinion]) -> Facts | None:
    """Spearman's correlation of what was said with the answer's length in characters.

    `spearman`: of scores over all `answers`; `within_prompts`: of how far score and
    length lie from their means over that voter's answers to that prompt, where it
    judged two or more, so that prompts that ask for long answers do not count;
    `of_pairs`: of the probability of winning with the lead in length.
    """
    scores = [opinion for opinion in seen if not opinion.other]
    pairs = [opinion for opinion in seen if opinion.other]
    groups: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for opinion in scores:
        groups[opinion.voter, opinion.match.prompt].append(
            (opinion.value, _characters(opinion, opinion.seat))
        )
    values = np.array([row for group in groups.values() for row in group]).reshape(
        -1, 2
    )
    centred = [
        np.array(group) - np.mean(group, 0)
        for group in groups.values()
        if len(group) > 1
    ]
    within = np.concatenate(centred) if centred else np.empty((0, 2))
    lead = [
        (
            opinion.value,
            _characters(opinion, opinion.seat) - _characters(opinion, opinion.other),
        )
        for opinion in pairs
    ]
    if not seen:
        return None
    return {
        "spearman": _spearman(*values.T),
        "answers": len(values),
        "within_prompts": _spearman(*within.T),
        "answers_within": len(within),
        "of_pairs": _spearman(*np.array(lead).reshape(-1, 2).T),
        "pairs": len(pairs) // 2,
    }


def _agreement(seen: Sequence[Opinion]) -> Facts | None:
    """Krippendorff's alpha of the voters over the answers, or pairs, that at least two
    of them judged.
    """
    voters = {
        name: j for j, name in enumerate(sorted({opinion.voter for opinion in seen}))
    }
    units = {
        key: u
        for u, key in enumerate(dict.fromkeys(opinion.answer for opinion in seen))
    }
    rating_JU = np.full((len(voters), len(units)), np.nan)
    for opinion in seen:
        rating_JU[voters[opinion.voter], units[opinion.answer]] = opinion.value
    shared = int(((~np.isnan(rating_JU)).sum(0) > 1).sum())
    if not shared:
        return None
    return {
        "alpha": _known(krippendorff_alpha(rating_JU)),
        "alpha_ordinal": _known(krippendorff_alpha(rating_JU, "ordinal")),
        "units": shared,
        "voters": len(voters),
    }


def _self_preference(name: str, seen: Sequence[Opinion]) -> Facts | None:
    """How much more the voter `name` gives to its own answers than other voters give to
    the same answers.

    `lead` is that difference, `lead_on_others` the same on answers of other players: a
    voter that is mild with everyone leads on both. None where it never judged an answer
    of its own that somebody else judged too.
    """
    others: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for opinion in seen:
        if opinion.voter != name:
            others[opinion.answer].append(opinion.value)
    shared = [
        opinion
        for opinion in seen
        if opinion.voter == name and opinion.answer in others
    ]

    def lead(chosen: Callable[[Opinion], bool]) -> Facts | None:
        rows = [
            opinion
            for opinion in shared
            if opinion.player != opinion.rival and chosen(opinion)
        ]
        gaps = [
            opinion.value - float(np.mean(others[opinion.answer])) for opinion in rows
        ]
        return _plain(mean_interval(gaps, [opinion.match.prompt for opinion in rows]))

    own = lead(lambda opinion: opinion.player == name)
    if own is None:
        return None
    return {
        "lead": own,
        "lead_on_others": lead(
            lambda opinion: name not in (opinion.player, opinion.rival)
        ),
    }


def _who_judged_whom(seen: Sequence[Opinion]) -> dict[str, dict[str, Facts]]:
    """Voter -> player -> the mean of what it gave that player's answers, and their
    number.

    A comparison of two answers of one player says nothing of the player, and is left
    out.
    """
    given: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for opinion in seen:
        if opinion.player != opinion.rival:
            given[opinion.voter][opinion.player].append(opinion.value)
    return {
        voter: {
            player: {"mean": float(np.mean(found)), "n": len(found)}
            for player, found in sorted(players.items())
        }
        for voter, players in sorted(given.items())
    }


def _same_chat(match: Match) -> bool:
    last = {turn.seat: turn.view.messages for turn in match.turns}
    return len(set(last.values())) == 1


def _characters(opinion: Opinion, seat: str) -> int:
    """The length of the seat's last answer."""
    return len({turn.seat: turn.move.text for turn in opinion.match.turns}[seat])


def _by_match(
    judgements: Sequence[Judgement], utility: str
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for judgement in judgements:
        if judgement.match in found:
            raise ValueError(
                f"match {judgement.match} is judged twice in one list; give the judgements of one judge"
            )
        found[judgement.match] = judgement.by_seat(utility)
    return found


def _common(
    first: Mapping[str, Mapping[str, float]], second: Mapping[str, Mapping[str, float]]
) -> dict[str, list[tuple[float, float]]]:
    """Match -> both judges' scores of each seat that both scored."""
    return {
        match: [
            (score, second[match][seat])
            for seat, score in scores.items()
            if seat in second[match]
        ]
        for match, scores in first.items()
        if match in second
    }


def _spearman(a_n: np.ndarray, b_n: np.ndarray) -> float | None:
    """Spearman's rank correlation; None for fewer than three values, or where one side
    never changes.
    """
    from scipy.stats import spearmanr

    return (
        _known(float(np.asarray(spearmanr(a_n, b_n))[0])) if _varies(a_n, b_n) else None
    )


def _varies(a_n: np.ndarray, b_n: np.ndarray) -> bool:
    return len(a_n) > 2 and bool(np.ptp(a_n) > 0) and bool(np.ptp(b_n) > 0)


def _share(values: Sequence[bool], prompts: Sequence[str]) -> Facts | None:
    return _plain(mean_interval(np.array(values, float), prompts, share=True))


def _plain(interval: Interval) -> Facts | None:
    """An interval as JSON; None where there is no mean."""
    if not interval.n:
        return None
    return {
        "mean": interval.mean,
        "low": _known(interval.low),
        "high": _known(interval.high),
        "n": interval.n,
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
