"""What a solver is: from a symmetric game's pay-offs to a mixture over its players."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from equipoise.component import Component


class Solver(Component):
    """Turns `payoff_NN[i, j]` (what i gets when it meets j) into a mixture over the N players."""

    KINDS: ClassVar = {
        "zero_sum": "equipoise.solvers.zero_sum:ZeroSum",
        "multiplicative": "equipoise.solvers.multiplicative:Multiplicative",
        "replicator": "equipoise.solvers.replicator:Replicator",
        "fictitious": "equipoise.solvers.fictitious:Fictitious",
        "mirror": "equipoise.solvers.mirror:Mirror",
    }

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N, non-negative and summing to one."""
        raise TypeError(f"{type(self).__name__} must define solve()")
