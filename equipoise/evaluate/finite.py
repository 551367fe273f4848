"""Exact measures on a finite game: how exploitable the last policy and the average
policy of each learner are.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from equipoise.errors import ConfigError
from equipoise.evaluate.base import Arena, Evaluation
from equipoise.solvers.exploitability import exploitability


class Finite(Evaluation):
    """For tabular players: the gain of a best reply against the last iterate and
    against the uniform average of all.

    The average of a learner's policies is its mixed strategy over generations; it, not
    the last iterate, is what no-regret dynamics promise to converge.
    """

    kind: Literal["finite"] = "finite"

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """Exploitability of each learner at generation t, in pay-off units;
        `exploitability` is the average's.
        """
        payoff_AA = arena.game.payoff_AM()
        if payoff_AA is None or payoff_AA.shape[0] != payoff_AA.shape[1]:
            raise ConfigError(
                "evaluate: 'finite' needs a finite game in which both seats have the same moves"
            )
        actions = arena.game.actions
        facts: dict[str, Any] = {
            "actions": list(actions),
            "policies": {},
            "averages": {},
            "gap": {},
            "last_gap": {},
        }
        for player in arena.learners(t):
            policies = [arena.probabilities(old, actions) for old in arena.past(player)]
            average_A = np.mean(policies, axis=0)
            facts["policies"][str(player)] = policies[0].tolist()
            facts["averages"][str(player)] = average_A.tolist()
            facts["gap"][str(player)] = exploitability(payoff_AA, average_A)
            facts["last_gap"][str(player)] = exploitability(payoff_AA, policies[0])
        facts["exploitability"] = max(facts["gap"].values())
        facts["last_exploitability"] = max(facts["last_gap"].values())
        return facts
