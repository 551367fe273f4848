"""Multiplicative weights choose the step for which their bound is proved."""

import numpy as np

from equipoise.solvers.base import span
from equipoise.solvers.dynamics import multiplicative_weights
from equipoise.solvers.exploitability import nash_conv

BIASED = np.array([[0.0, -1, 3], [1, 0, -1], [-3, 1, 0]])


def test_multiplicative_weights_choose_the_step_of_their_bound():
    for steps in (20, 80):
        bound = span(BIASED) * np.sqrt(2 * np.log(3) / steps)
        eta = np.sqrt(8 * np.log(3) / steps) / span(BIASED)
        chosen, given = (
            multiplicative_weights(BIASED, steps=steps, eta=step) for step in (None, eta)
        )
        np.testing.assert_allclose(chosen.last.row_A, given.last.row_A)
        assert nash_conv(BIASED, *chosen.average) <= bound
