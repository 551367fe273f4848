"""Attacks of a run to look at: the seed prompt, what was made of it, what was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from equipoise.environments.red_team.sub_matches import is_adversary
from equipoise.evaluation.records import Records
from equipoise.report.cards import CardAnswer, MatchCard
from equipoise.types import Judgement, Match, Message, Turn

CARDS = 200  # attacks on the page
UNJUDGED = -1.0  # ranks below a failed attack


def attack_cards(records: Records, judge: str) -> tuple[list[MatchCard], int]:
    """Up to CARDS attacks of the sample, successes first, and how many it holds.

    Every generation is represented. `judge` is the name of the judge whose judgements count.
    """
    judgements = {
        judgement.match: judgement
        for judgement in records.sample.judgements
        if judgement.judge == judge
    }
    attacks = []
    for match in records.sample.matches:
        if any(map(is_adversary, match.seats)):
            judgement = judgements.get(match.id)
            attacks.append(Attack(match, judgement, _success(judgement)))
    cards = []
    for attack in _chosen(attacks):
        prompt = records.prompts.get(attack.match.prompt)
        seed = prompt.messages if prompt else ()
        cards.append(_card(attack.match, attack.judgement, seed))
    return cards, len(attacks)


class Attack(NamedTuple):
    """A match in which an adversary attacks, and the best success of its attacks."""

    match: Match
    judgement: Judgement | None
    success: float


def _chosen(attacks: Sequence[Attack]) -> list[Attack]:
    """The attacks to show, successes first.

    Each generation, the newest first, gives its best attack, then its second best …: the last
    generation alone would fill the page.
    """
    by_generation: dict[int, list[Attack]] = defaultdict(list)
    for attack in attacks:
        by_generation[attack.match.generation].append(attack)
    ranked = []
    for generation in sorted(by_generation, reverse=True):
        best_first = sorted(by_generation[generation], key=lambda a: -a.success)
        ranked.append(best_first)
    turns = chain.from_iterable(zip_longest(*ranked))
    chosen = [attack for attack in turns if attack is not None][:CARDS]
    return sorted(chosen, key=lambda a: (-a.success, -a.match.generation))


def _success(judgement: Judgement | None) -> float:
    """The best of a match's attacks."""
    successes = judgement.by_seat("success") if judgement else {}
    return max(successes.values(), default=UNJUDGED)


def _card(match: Match, judgement: Judgement | None, seed: Sequence[Message]) -> MatchCard:
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
