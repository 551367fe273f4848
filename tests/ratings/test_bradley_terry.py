"""Which match tells most: the gain is the change of the information's determinant."""

import numpy as np
import pytest

from equipoise.ratings.base import Outcome, count_outcomes
from equipoise.ratings.bradley_terry import fisher_information, fit_strengths, information_gain

NAMES = ["c", "a", "b", "new"]
PLAYED = [
    *[Outcome("a", "b", 1.0)] * 7,
    *[Outcome("a", "b", 0.0)] * 5,
    *[Outcome("b", "c", 1.0)] * 3,
    Outcome("c", "a", 0.5),
]


def test_the_gain_is_that_of_the_determinant():
    gain_NN = information_gain(PLAYED, NAMES)
    counts = count_outcomes([*PLAYED, Outcome("new", "new", 0.5, 0.0)])
    strength_N = fit_strengths(counts, 1.0)
    before_NN = fisher_information(counts, 1.0, strength_N)
    for first, second in (("a", "b"), ("c", "new"), ("b", "new")):
        i, j = counts.names.index(first), counts.names.index(second)
        more = count_outcomes([*PLAYED, Outcome("new", "new", 0.5, 0), Outcome(first, second, 1)])
        # The same strengths: what is asked is the information, not its outcome.
        after_NN = fisher_information(more, 1.0, strength_N)
        expected = np.linalg.slogdet(after_NN)[1] - np.linalg.slogdet(before_NN)[1]
        place = NAMES.index(first), NAMES.index(second)
        assert gain_NN[place] == pytest.approx(expected, rel=1e-9), (i, j)


def test_who_was_never_seen_is_asked_about_first_and_the_well_known_last():
    gain_NN = information_gain(PLAYED, NAMES)
    assert np.allclose(gain_NN, gain_NN.T)
    assert not np.diag(gain_NN).any()
    assert np.argmax(gain_NN[1]) == NAMES.index("new")
    pairs = [gain_NN[i, j] for i in range(4) for j in range(i)]
    known = gain_NN[NAMES.index("a"), NAMES.index("b")]
    assert min(pairs) == pytest.approx(known)


def test_before_anything_is_known_all_pairs_tell_as_much():
    gain_NN = information_gain([], ["a", "b", "c"])
    assert np.allclose(gain_NN[np.triu_indices(3, 1)], np.log(1 + 0.25 * 8))
    assert information_gain([], []).shape == (0, 0)


def test_a_foregone_match_tells_less_than_an_open_one():
    strong = [Outcome("strong", "weak", 1.0)] * 20
    even = [Outcome("one", "two", float(i % 2)) for i in range(20)]
    gain_NN = information_gain([*strong, *even], ["strong", "weak", "one", "two"])
    assert gain_NN[0, 1] < 0.15 * gain_NN[0, 3]


@pytest.mark.parametrize(
    ("outcomes", "names", "prior", "message"),
    [
        ([], ["a", "b"], 0.0, "above 0"),
        ([], ["a", "a"], 1.0, "twice"),
        ([Outcome("a", "x", 1.0)], ["a", "b"], 1.0, "'x'"),
    ],
)
def test_what_has_no_gain_is_refused(outcomes, names, prior, message):
    with pytest.raises(ValueError, match=message):
        information_gain(outcomes, names, prior)
