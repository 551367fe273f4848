"""P(an answer beats a player), estimated from that player's answers to the same prompt.

P is the mean over the prompt's other answers: of the win indicator, a tie ½, or, for rewards of a
Bradley–Terry model, of σ(reward − reward of the other); against several players their weighted
mean. (arXiv 2405.00675, eq. 4.7; arXiv 2509.23102, eqs 10 to 13)

The best of the K answers is chosen by the same scores, so its share of wins is near 1 by choice:
take `pairs: all_pairs` or σ of the rewards where the size of P matters.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.types import Judgement, Match, Message, Pair, PlayerId, Turns

WinRule = Literal["counted", "bradley_terry"]
Chat = tuple[Message, ...]


class Samples:
    """The scored answers of players, by prompt and chat."""

    def __init__(self) -> None:
        self._scores: dict[tuple[str, Chat, PlayerId], list[tuple[str, float]]] = defaultdict(list)

    def add(self, matches: Iterable[Match], judgements: Iterable[Judgement], utility: str) -> None:
        """Take in the last answer of every seat that has this utility."""
        by_match = {judgement.match: judgement for judgement in judgements}
        for match in matches:
            judgement = by_match.get(match.id)
            scores = {} if judgement is None else judgement.by_seat(utility)
            for seat, turn in match.last_turns().items():
                if seat in scores and turn.move.finish != "error":
                    key = (match.prompt, turn.view.messages, match.seats[seat])
                    self._scores[key].append((turn.move.text, scores[seat]))

    def players(self) -> set[PlayerId]:
        """The players with answers."""
        return {player for _, _, player in self._scores}

    def win(
        self,
        prompt: str,
        chat: Chat,
        text: str | Turns,
        score: float,
        players: Sequence[tuple[PlayerId, float]],
        rule: WinRule,
    ) -> float | None:
        """P(`text`, scored `score`, beats the players), by weights that add up to one.

        An answer is not compared with itself. None where a player has no other answer.
        """
        total = 0.0
        for player, weight in players:
            others = list(self._scores.get((prompt, chat, player), ()))
            own = next((i for i, (same, _) in enumerate(others) if same == text), None)
            if own is not None and self._first_giver(prompt, chat, text, players) == player:
                others.pop(own)
            if not others:
                return None
            wins = [win_share(score, other, rule) for _, other in others]
            total += weight * math.fsum(wins) / len(wins)
        return total

    def _first_giver(
        self, prompt: str, chat: Chat, text: str | Turns, players: Sequence[tuple[PlayerId, float]]
    ) -> PlayerId | None:
        for player, _ in players:
            answers = self._scores.get((prompt, chat, player), ())
            if any(same == text for same, _ in answers):
                return player
        return None


def win_share(score: float, other: float, rule: WinRule) -> float:
    """The share of a win that `score` is over `other`: 1, ½ or 0; or σ of the difference."""
    gap = score - other
    if rule == "bradley_terry":
        return 0.5 * (1 + math.tanh(gap / 2))
    return 0.5 * (1 + (gap > 0) - (gap < 0))


def with_wins(
    pairs: Sequence[Pair],
    samples: Samples,
    players: Sequence[tuple[PlayerId, float]],
    rule: WinRule,
) -> tuple[list[Pair], Mapping[str, int]]:
    """(pairs with P(answer beats `players`); the number dropped for lack of another answer)."""
    kept: list[Pair] = []
    dropped: Counter[str] = Counter()
    for pair in pairs:
        chosen, rejected = (
            samples.win(pair.prompt, pair.messages, text, score, players, rule)
            for text, score in (
                (pair.chosen, pair.chosen_score),
                (pair.rejected, pair.rejected_score),
            )
        )
        if chosen is None or rejected is None:
            dropped["no opponent's answer"] += 1
        else:
            wins = {"chosen_win": chosen, "rejected_win": rejected}
            kept.append(msgspec.structs.replace(pair, **wins))
    return kept, dropped
