"""Kuhn poker in normal form: a move is a whole plan, so that what matrix games have (exact
pay-offs, best replies, equilibria) holds for a game of hidden cards.

Three cards, jack, queen and king; each side puts in one and is dealt one. The first passes or bets
one more; the second, after a pass, passes (the higher card wins one) or bets; after a bet whoever
is to answer passes (and loses one) or bets, too (the higher card wins two). The value for the first
is −1/18. Source: Kuhn 1950, Contributions to the Theory of Games 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np

CARDS = "JQK"
FIRST = ("pp", "pb", "b")
"""What the first does with a card: pass (then pass or bet, if the second bets), or bet."""
SECOND = ("pp", "pb", "bp", "bb")
"""What the second does with a card after a pass, and after a bet."""


def plans(choices: Sequence[str]) -> tuple[str, ...]:
    """Every plan, one choice a card: `J:pp Q:pb K:b`."""
    return tuple(
        " ".join(f"{card}:{choice}" for card, choice in zip(CARDS, plan, strict=True))
        for plan in product(choices, repeat=len(CARDS))
    )


def kuhn_poker() -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """(the first's 27 plans, the second's 64, what the first gets on average over the six deals,
    [27, 64]).
    """
    deals = list(permutations(range(len(CARDS)), 2))
    first_plans = list(product(FIRST, repeat=len(CARDS)))
    second_plans = list(product(SECOND, repeat=len(CARDS)))
    payoff_AM = np.array(
        [
            [
                sum(_paid(first[a], second[b], a > b) for a, b in deals) / len(deals)
                for second in second_plans
            ]
            for first in first_plans
        ]
    )
    return plans(FIRST), plans(SECOND), payoff_AM


def _paid(first: str, second: str, higher: bool) -> int:
    """What the first gets of one deal; `higher`: its card is."""
    after_pass, after_bet = second
    showdown = 1 if higher else -1
    if first == "b":
        return 2 * showdown if after_bet == "b" else 1
    if after_pass == "p":
        return showdown
    return 2 * showdown if first == "pb" else -1
