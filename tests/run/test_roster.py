"""Who learned when is recorded, and says how old everybody is."""

import pytest

from equipoise.run.ledger import Ledger
from equipoise.run.roster import Roster
from equipoise.run.turns import Alternate, BestResponse, Everyone
from equipoise.types import PlayerId

NAMES = ("red", "blue")


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def paid(ledger, t, name, reward):
    ledger.finish(f"{t}/episodes/{name}", t, "episodes", {"reward": reward}, 0.0)


def test_ages(ledger):
    line = Roster(Alternate(steps={"blue": 2, "red": 1}), NAMES, ledger)
    assert line.at(0) == [PlayerId("red", 0), PlayerId("blue", 0)]
    assert [line.turn(t) for t in range(4)] == [
        ("blue",),
        ("blue",),
        ("red",),
        ("blue",),
    ]
    assert line.at(3) == [PlayerId("red", 1), PlayerId("blue", 2)]
    assert line.at(1) == [PlayerId("red", 0), PlayerId("blue", 1)]


def test_where_all_learn_they_are_as_old_as_the_generation(ledger):
    line = Roster(Everyone(), NAMES, ledger)
    assert line.at(5) == [PlayerId("red", 5), PlayerId("blue", 5)]


def test_it_is_recorded_once_and_only_where_it_was_asked_for(ledger):
    line = Roster(Alternate(steps={"blue": 1, "red": 1}), NAMES, ledger)
    line.at(0)
    assert ledger.stages("turn") == []
    line.turn(1)
    line.turn(1)
    line.at(2)
    assert [(key, facts) for key, _, _, facts, _ in ledger.stages("turn")] == [
        ("0/turn", {"learn": ["blue"]}),
        ("1/turn", {"learn": ["red"]}),
    ]


def test_a_best_response_goes_by_the_recorded_rewards(ledger):
    line = Roster(BestResponse(order=("blue", "red"), window=1), NAMES, ledger)
    for t, reward in enumerate([0.1, 0.5, 0.5]):
        assert line.turn(t) == ("blue",)
        paid(ledger, t, "blue", reward)
        paid(ledger, t, "red", float(t))  # nobody's turn, so it counts for nothing
    assert line.turn(3) == ("red",)


def test_a_resumed_run_has_the_same_turns(ledger):
    rule = BestResponse(order=("blue", "red"), window=1)
    first = Roster(rule, NAMES, ledger)
    rewards = [0.1, 0.5, 0.5, 0.2, 0.2, 0.9]
    turns = []
    for t, reward in enumerate(rewards):
        turns.append(first.turn(t))
        paid(ledger, t, turns[-1][0], reward)
    assert len(set(turns)) == 2
    for t in range(len(rewards)):
        assert Roster(rule, NAMES, ledger).turn(t) == turns[t]
        assert Roster(rule, NAMES, ledger).at(t) == first.at(t)
    assert Roster(rule, NAMES, ledger).turn(len(rewards)) == first.turn(len(rewards))


def test_what_is_recorded_is_not_decided_anew(ledger):
    Roster(Alternate(steps={"blue": 2, "red": 1}), NAMES, ledger).turn(1)
    other = Roster(Alternate(steps={"red": 1, "blue": 1}), NAMES, ledger)
    assert [other.turn(t) for t in range(3)] == [("blue",), ("blue",), ("red",)]
