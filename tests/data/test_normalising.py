"""Pay-offs of several data sources made comparable: what is kept, what is refused."""

import numpy as np
import pytest

from equipoise.data.normalising import Normalising
from equipoise.errors import ConfigError
from equipoise.types import Episode


def episodes(rewards, role="assistant"):
    return [
        Episode(str(n), 0, str(n), 0, role, str(n), value, {"score": value})
        for n, value in enumerate(rewards)
    ]


def normalise(**settings) -> Normalising:
    return Normalising.model_validate(settings)


EASY_AND_HARD = [0.9, 0.8, 0.1, 0.0]
SOURCES = ["easy", "easy", "hard", "hard"]
NOTHING = [{}] * 4


def test_each_source_gets_its_own_scale_and_the_pay_off_stays_on_record():
    found = normalise(method="z_score").apply(episodes(EASY_AND_HARD), SOURCES, NOTHING)
    assert [one.reward for one in found] == pytest.approx([1, -1, 1, -1])
    assert [one.parts["score"] for one in found] == EASY_AND_HARD
    assert all(sum(one.parts.values()) == pytest.approx(one.reward) for one in found)


def test_all_together_keeps_the_gap_between_sources():
    found = normalise(method="rank", by="all").apply(episodes(EASY_AND_HARD), SOURCES, NOTHING)
    assert [one.reward for one in found] == pytest.approx([1, 2 / 3, 1 / 3, 0])


def test_roles_are_never_mixed():
    both = [*episodes([1.0, 0.0], "assistant"), *episodes([10.0, 5.0], "user")]
    found = normalise(method="min_max").apply(both, ["one"] * 4, NOTHING)
    assert [one.reward for one in found] == pytest.approx([1, 0, 1, 0])


def test_nor_do_roles_share_what_is_taken_of_all_sources():
    both = [*episodes([1.0, 0.0, 0.5, 0.5], "assistant"), *episodes([10.0, 5.0], "user")]
    alone = normalise(method="decentralise").apply(both[:4], SOURCES, NOTHING)
    found = normalise(method="decentralise").apply(both, [*SOURCES, "easy", "hard"], [{}] * 6)
    assert [one.reward for one in found[:4]] == [one.reward for one in alone]


def test_none_changes_nothing():
    given = episodes(EASY_AND_HARD)
    assert normalise().apply(given, SOURCES, NOTHING) == given


def test_sides_are_normalised_apart_and_joined():
    sides = [
        {"user": u, "llm": l} for u, l in ((0.2, 100.0), (0.1, 300.0), (0.3, 200.0), (0.0, 0.0))
    ]
    apart = normalise(method="min_max", by="all", apart=True, welfare={"kind": "utilitarian"})
    found = apart.apply(episodes(EASY_AND_HARD), SOURCES, sides)
    assert [one.reward for one in found] == pytest.approx(
        np.array([2 / 3 + 1 / 3, 1 / 3 + 1, 1 + 2 / 3, 0]) / 2
    )


def test_the_user_is_the_user():
    sides = [{"user": 0.0, "llm": 9.0}, {"user": 1.0, "llm": 3.0}]
    apart = normalise(method="min_max", apart=True, welfare={"kind": "user_only"})
    found = apart.apply(episodes([0.5, 0.5]), ["a", "a"], sides)
    assert [one.reward for one in found] == [0.0, 1.0]


def test_a_side_that_nobody_gave_is_named():
    apart = normalise(method="rank", apart=True, welfare={"kind": "cobb_douglas"})
    with pytest.raises(ConfigError, match=r"'llm'.*score, user"):
        apart.apply(episodes([1.0]), ["a"], [{"score": 1.0, "user": 1.0}])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "rank", "apart": True}, "welfare: is given where, and only where"),
        ({"method": "rank", "welfare": {"kind": "ces"}}, "welfare: is given where, and only where"),
        ({"apart": True, "welfare": {"kind": "ces"}}, "method: none normalises nothing"),
        (
            {"method": "z_score", "apart": True, "welfare": {"kind": "cobb_douglas"}},
            "'cobb_douglas' of method: z_score, half of whose values are negative",
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        normalise(**settings)
