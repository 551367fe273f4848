"""What can be gained against a player, and what the player could gain: two quantities.

    exploitability   max_k  payoff[k, i]                      the best reply to player i
    gap (eq 9)       max_k  Σ_j m_j payoff[k, j] − Σ_j m_j payoff[i, j]
                     what i gains by its best deviation against the mixture m it faces

Both are maxima of means over prompts: `maximum.maximum_interval` gives their intervals. (arXiv
2509.23102, eq. 9; arXiv 1711.00832)
"""

from __future__ import annotations

import numpy as np


def exploitability_gains(payoff_PNN: np.ndarray, player: int) -> np.ndarray:
    """[P, N]: what each player of the league gets from `player`, prompt by prompt."""
    return payoff_PNN[:, :, player]


def deviation_gains(payoff_PNN: np.ndarray, player: int, mixture_N: np.ndarray) -> np.ndarray:
    """[P, N]: what `player` would gain on each prompt by playing as each of the league does,
    against the mixture that it faces.

    A player that the mixture leaves out need not be known.
    """
    faced = np.flatnonzero(mixture_N)
    against_PN = payoff_PNN[:, :, faced] @ mixture_N[faced]
    return against_PN - against_PN[:, player][:, None]
