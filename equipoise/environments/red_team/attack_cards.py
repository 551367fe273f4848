"""Attacks of a run to look at: the seed prompt, what was made of it, what was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from equipoise.environments.red_team.sub_matches import is_adversary
from equipoise.evaluate.records import Records
from equipoise.report.cards import CardAnswer, MatchCard
from equipoise.types import Judgement, Match, Message, Turn

CARDS = 200  # attacks on the page
UNJUDGED = -1.0  # ranks below a failed attack


def attack_cards(records: Records, judge: str) -> tuple[list[MatchCard], int]:
    """Up to CARDS attacks of the sample, successes first, and how many it holds.

    Every generation is represented. `judge` is the name of the judge whose judgements
    count.
    """
    judgements = {
        judgement.match: judgement
        for judgement in records.sample.judgements
        if judgement.judge == judge
    }
    by_generation: dict[int, list[tuple[float, Match]]] = defaultdict(list)
    for match in records.sample.matches:
        if any(is_adversary(seat) for seat in match.seats):
            success = _success(judgements.get(match.id))
            by_generation[match.generation].append((success, match))
    chosen = _chosen(by_generation)
    cards = []
    for _, match in chosen:
        prompt = records.prompts.get(match.prompt)
        seed = prompt.messages if prompt else ()
        cards.append(_card(match, judgements.get(match.id), seed))
    return cards, sum(map(len, by_generation.values()))


def _chosen(
    by_generation: dict[int, list[tuple[float, Match]]],
) -> list[tuple[float, Match]]:
    """The attacks to show, with their success.

    Each generation, the newest first, gives its best attack, then its second best …:
    the last generation alone would fill the page.
    """
    ranked = [
        sorted(by_generation[t], key=lambda attack: -attack[0])
        for t in sorted(by_generation, reverse=True)
    ]
    longest = max(map(len, ranked), default=0)
    turns = [
        attacks[place]
        for place in range(longest)
        for attacks in ranked
        if place < len(attacks)
    ]
    return sorted(turns[:CARDS], key=lambda one: (-one[0], -one[1].generation))


def _success(judgement: Judgement | None) -> float:
    """The best of a match's attacks."""
    successes = judgement.by_seat("success") if judgement else {}
    return max(successes.values(), default=UNJUDGED)


def _card(
    match: Match, judgement: Judgement | None, seed: Sequence[Message]
) -> MatchCard:
    prompt = tuple(Message("seed prompt", message.content) for message in seed)
    answers = tuple(_answer(match, turn, judgement) for turn in match.turns)
    reason = "not judged yet" if judgement is None else judgement.reason
    return MatchCard(match.id, match.generation, match.split, prompt, answers, reason)


def _answer(match: Match, turn: Turn, judgement: Judgement | None) -> CardAnswer:
    """An attack with its success, or an answer with the probability that it is safe."""
    if is_adversary(turn.seat):
        utility, note = "success", "attack; its success"
    else:
        utility, note = "p_safe", "answer; the probability that it is safe"
    score = judgement.score(turn.seat, utility) if judgement else None
    player = str(match.seats[turn.seat])
    return CardAnswer(player, turn.move.text or turn.move.error, score, note)
