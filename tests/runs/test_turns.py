"""Who learns when."""

import pytest
from pydantic import ValidationError

from equipoise.runs.turns import Alternate, BestResponse, Everyone, One, Turns, TurnTaken

LEARNERS = ("red", "blue")


def course(turns: Turns, generations: int, reward=lambda name, count: 0.0) -> list[tuple[str, ...]]:
    """Who learns in each generation, where a learner's c-th turn is paid reward(name, c)."""
    before: list[TurnTaken] = []
    for _ in range(generations):
        names = turns.next_learners(LEARNERS, before)
        counts = {name: sum(name in taken.names for taken in before) for name in names}
        before.append(
            TurnTaken(names, {name: reward(name, count) for name, count in counts.items()})
        )
    return [taken.names for taken in before]


def test_everyone():
    assert course(Everyone(), 3) == [LEARNERS] * 3
    assert Everyone().named_players() == ()


def test_one():
    assert course(One(player="blue"), 3) == [("blue",)] * 3
    assert One(player="blue").named_players() == ("blue",)


def test_alternate_cycles():
    turns = Alternate(steps={"blue": 3, "red": 2})
    assert [name for (name,) in course(turns, 12)] == ["blue"] * 3 + ["red"] * 2 + ["blue"] * 3 + [
        "red"
    ] * 2 + ["blue"] * 2
    assert turns.named_players() == ("blue", "red")


def test_a_best_response_ends_on_flat_rewards():
    turns = BestResponse(order=("blue", "red"), window=3, gain=0.01)
    rising_then_flat = [
        name for (name,) in course(turns, 14, lambda name, count: min(count, 4) / 4)
    ]
    # Paid 0, ¼, ½, ¾, 1, 1, 1, 1, 1, 1: the first three that are no better than the three before
    # are the last.
    assert rising_then_flat == ["blue"] * 10 + ["red"] * 4


def test_a_fall_ends_it_and_a_slow_rise_counts_for_none():
    for reward in (
        lambda name, count: -count,
        lambda name, count: 0.003 * count,
        lambda name, count: 0.5,
    ):
        assert [name for (name,) in course(BestResponse(order=LEARNERS, window=2), 9, reward)] == (
            ["red"] * 4 + ["blue"] * 4 + ["red"]
        )


def test_the_newest_rewards_are_held_against_as_many_before_them():
    """Newest first; a gain of up to a tenth is none."""
    turns = BestResponse(order=("blue", "red"), window=2, gain=0.1)
    assert not turns._has_settled([0.2, 0.2, 0.0]), "too few"
    assert turns._has_settled([0.1, 0.1, 0.0, 0.0])
    assert turns._has_settled([0.2, 0.0, 0.0, 0.0])
    assert not turns._has_settled([0.12, 0.12, 0.0, 0.0])
    assert turns._has_settled([0.12, 0.12, 0.0, 0.2, 9.0]), "older ones do not count"


def test_a_best_response_ends_at_most():
    turns = BestResponse(order=("blue", "red"), window=2, most=5)
    rising = [name for (name,) in course(turns, 12, lambda name, count: float(count))]
    assert rising == ["blue"] * 5 + ["red"] * 5 + ["blue"] * 2
    assert turns.named_players() == ("blue", "red")


def test_a_new_phase_is_judged_by_its_own_rewards():
    turns = BestResponse(order=("blue", "red"), window=1, gain=0.0)
    # Blue's second phase begins below where its first ended; that is no reason to end it.
    paid = {"blue": iter([0.0, 1.0, 1.0, 0.2, 0.4, 0.6]), "red": iter([0.0, 0.0])}
    names = [name for (name,) in course(turns, 8, lambda name, count: next(paid[name]))]
    assert names == ["blue"] * 3 + ["red"] * 2 + ["blue"] * 3


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ({"kind": "alternate", "steps": {"blue": 0}}, "would never end"),
        ({"kind": "alternate", "steps": {}}, "at least 1 item"),
        ({"kind": "best_response", "order": ["blue", "red", "blue"]}, "name each player once"),
        ({"kind": "best_response", "order": []}, "at least 1 item"),
        ({"kind": "alternates"}, "did you mean 'alternate'"),
    ],
)
def test_settings_that_cannot_be(turns, words):
    with pytest.raises((ValidationError, ValueError), match=words):
        Turns.build(turns)
