"""One against many by Plackett–Luce: P(an answer comes first among several).

With rewards R, P(i first) = exp R_i / Σ_j exp R_j over all that are compared, i among them; for two
this is Bradley–Terry. (arXiv 2509.23102, §3.1)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import ConfigError


def first_place(reward_N: ArrayLike) -> np.ndarray:
    """P(each comes first) of rewards in logits. Raises ConfigError where one is not finite.

    >>> first_place(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    values_N = np.asarray(reward_N, float)
    if not np.isfinite(values_N).all():
        raise ConfigError(f"Plackett–Luce needs finite rewards, got {values_N}")
    odds_N = np.exp(values_N - values_N.max())
    return odds_N / odds_N.sum()


def one_against_many(reward_A: ArrayLike, opponents: Sequence[ArrayLike]) -> np.ndarray:
    """P_A: the exact chance of each move to come first against one move of every opponent.

    `reward_A`: in logits; `opponents`: policies over the same moves, drawn independently: A^K joint
    moves are summed. Raises ConfigError for a policy over other moves or infinite rewards.

    >>> one_against_many(np.log([1.0, 3.0]), [np.array([1.0, 0.0])])
    array([0.5 , 0.75])
    """
    values_A = np.asarray(reward_A, float)
    if not np.isfinite(values_A).all():
        raise ConfigError(f"Plackett–Luce needs finite rewards, got {values_A}")
    odds_A = np.exp(values_A - values_A.max())
    # the opponents' joint draws so far: how likely each is, and the sum of its odds
    chance_J, odds_J = np.ones(1), np.zeros(1)
    for policy in opponents:
        policy_A = np.asarray(policy, float)
        if policy_A.shape != odds_A.shape:
            raise ConfigError(f"an opponent has {len(policy_A)} moves, and there are {len(odds_A)}")
        chance_J = np.multiply.outer(chance_J, policy_A).ravel()
        odds_J = np.add.outer(odds_J, odds_A).ravel()
    share_AJ = odds_A[:, None] / (odds_A[:, None] + odds_J)
    return share_AJ @ chance_J
