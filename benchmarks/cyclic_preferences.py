"""Games of preferences that run in circles or do not, and what a loss's exact updates come to in them,
by the learner that `equipoise` itself has for tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise import seeds
from equipoise.environments.matrix.game import cycle
from equipoise.learners.tabular_learner import expectation, newton, softmax
from equipoise.losses.base import PreferenceLoss
from equipoise.types import PlayerId

# The weight of the reference, where a member has it beside its past.
SHARE = 0.05


@dataclass(frozen=True)
class Member:
    """A loss of the family. `step` names the setting that holds the step (see `settings`)."""

    kind: str
    step: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, step: float) -> dict[str, Any]:
        """The member's settings for a step: the step itself, its inverse, or 4/β, which equals it
        to first order around P = ½.
        """
        size = {"beta": 4 / step, "tau": 1 / step, "eta": step, "1/eta": 1 / step}[self.step]
        inpo = {"tau": SHARE / step} if self.kind == "inpo" else {}
        return {"kind": self.kind, **self.more, **inpo, self.step.removeprefix("1/"): size}


def game(family: str, size: int, seed: int) -> np.ndarray:
    """payoff[a, b] = 2·P(a beats b) − 1, [A, A]."""
    rng = seeds.generator(seed, family, size)
    reward_A = rng.normal(scale=1.5, size=size)
    transitive_AA = np.tanh(np.subtract.outer(reward_A, reward_A) / 2)
    # A regular cycle C has C·1 = 0, so C / (p pᵀ) has the equilibrium p.
    equilibrium_A = softmax(rng.uniform(-0.7, 0.7, size))
    cyclic_AA = cycle(size, None) / np.outer(equilibrium_A, equilibrium_A)
    cyclic_AA *= 0.9 / np.abs(cyclic_AA).max()
    return {
        "transitive": transitive_AA,
        "cyclic": cyclic_AA,
        "mixed": (transitive_AA + cyclic_AA) / 2,
    }[family]


def iterates(
    member: Member, win_AA: np.ndarray, start_A: np.ndarray, updates: int, step: float
) -> np.ndarray:
    """The policies π_0 … π_updates, [updates + 1, A]."""
    loss = PreferenceLoss.build(member.settings(step))
    past, logits = [PlayerId("policy")], {PlayerId("policy"): start_A}
    for generation in range(updates):
        problem = expectation(loss, win_AA, past, logits.__getitem__, "current")
        minimiser_A = newton(problem, logits[past[0]], 100)[0]
        past.insert(0, PlayerId("policy", generation + 1))
        logits[past[0]] = minimiser_A
    return np.array([softmax(logits[player]) for player in reversed(past)])
