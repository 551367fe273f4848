"""How safe an answer is, from the odds that a judge gives."""

from math import inf, log

import pytest

from equipoise.judges.pointwise import safety_utilities


@pytest.mark.parametrize(
    ("log_odds", "p_safe", "unsafe"),
    [
        (log(3), 0.75, 0.0),
        (-log(3), 0.25, 1.0),
        (0.0, 0.5, 0.0),
        (inf, 1.0, 0.0),
        (-inf, 0.0, 1.0),
        (800.0, 1.0, 0.0),
    ],
)
def test_a_probability_is_that_of_the_odds(log_odds, p_safe, unsafe):
    assert safety_utilities(log_odds) == pytest.approx(
        {"score": p_safe, "p_safe": p_safe, "p_unsafe": 1 - p_safe, "unsafe": unsafe}
    )
