"""Who learned when is recorded, and says who is there and how old everybody is."""

import pytest

from equipoise.errors import ConfigError
from equipoise.ledger.ledger import Ledger
from equipoise.matches.schedule import SelfPlay
from equipoise.runs.config import RunConfig
from equipoise.runs.roster import Roster
from equipoise.runs.turns import Alternate, BestResponse, Everyone, Turns
from equipoise.types import PlayerId

ALTERNATE = Alternate(steps={"blue": 2, "red": 1})


def config(turns: Turns, **changes) -> RunConfig:
    scripted = {"kind": "scripted", "text": "a"}
    values = {
        "generations": 4,
        "players": {
            "red": {**scripted, "learns": True},
            "blue": {**scripted, "learns": True},
            "grey": scripted,
        },
        "prompts": "blank",
        "game": "red_team",
        "schedule": {"kind": "roles", "roles": {"adversary": "red", "defender": "grey"}},
        "judge": {"kind": "red_team", "guard": "clerk_guard"},
        "learner": "policy_gradient",
        "evaluate": {"kind": "red_team", "every": 3},
        "turns": turns,
    }
    return RunConfig.model_validate({**values, **changes})


def roster(turns: Turns, ledger: Ledger) -> Roster:
    return Roster(config(turns), ledger)


def learning(here: Roster, t: int) -> tuple[str, ...]:
    return tuple(player.name for player in here.turn(t))


def ids(**ages: int) -> list[PlayerId]:
    return [PlayerId(name, age) for name, age in ages.items()]


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def paid(ledger, t, name, reward):
    ledger.finish(f"{t}/episodes/{name}", t, "episodes", {"reward": reward}, 0.0)


def test_ages(ledger):
    here = roster(ALTERNATE, ledger)
    assert here.learners(0) == ids(red=0, blue=0)
    assert [learning(here, t) for t in range(4)] == [("blue",), ("blue",), ("red",), ("blue",)]
    assert here.learners(3) == ids(red=1, blue=2)
    assert here.learners(1) == ids(red=0, blue=1)
    assert here.turn(3) == ids(blue=2)


def test_everybody_is_there(ledger):
    here = roster(ALTERNATE, ledger)
    assert here.others() == ids(grey=0)
    assert here.players(2) == ids(red=0, blue=2, grey=0)
    assert here.past(PlayerId("blue", 2)) == [PlayerId("blue", g) for g in (2, 1, 0)]


def test_where_all_learn_they_are_as_old_as_the_generation(ledger):
    assert roster(Everyone(), ledger).learners(5) == ids(red=5, blue=5)


def test_a_loss_meets_the_others_as_old_as_they_are_now(ledger):
    here = roster(ALTERNATE, ledger)
    for name, age, peer, old in (("blue", 2, "red", 1), ("red", 1, "blue", 2)):
        pool = here.opponent_pool(PlayerId(name, age), 3)
        assert pool.past == [PlayerId(name, g) for g in range(age, -1, -1)]
        assert pool.peers == [PlayerId(peer, old)]
        assert pool.outsiders == ids(grey=0)
        assert (pool.current, pool.reference) == (PlayerId(name, age), PlayerId(name))
    assert here.opponent_pool(PlayerId("red"), 2).peers == ids(blue=2)


def test_some_generations_are_measured(ledger):
    here = roster(ALTERNATE, ledger)
    assert [t for t in range(5) if here.due(t)] == [0, 3, 4]
    assert [here.last_measured(t) for t in range(5)] == [0, 0, 0, 3, 4]
    # at generations 0, 3 and 4 blue is 0, 2 and 3 generations old, and red 0, 1 and 1
    for player, ages in [
        (PlayerId("blue", 3), [3, 2, 0]),
        (PlayerId("blue", 2), [2, 0]),
        (PlayerId("blue", 1), [1, 0]),
        (PlayerId("blue", 0), [0]),
        (PlayerId("red", 1), [1, 0]),
        (PlayerId("grey"), [0]),
    ]:
        assert [old.generation for old in here.measured(player)] == ages


def test_a_player_is_measured_in_the_first_due_generation_that_has_it(ledger):
    here = roster(ALTERNATE, ledger)
    here.learners(4)
    told = {p: here.measured_at(PlayerId(*p)) for p in [("blue", 2), ("blue", 3), ("red", 1)]}
    assert told == {("blue", 2): 3, ("blue", 3): 4, ("red", 1): 3}
    assert here.measured_at(PlayerId("grey")) == here.measured_at(PlayerId("blue")) == 0


def test_where_a_player_was_measured_decides_no_turn_to_come(ledger):
    here = roster(ALTERNATE, ledger)
    here.turn(0)
    assert here.measured_at(PlayerId("blue", 1)) == 1  # it is due in generation 3
    assert len(ledger.stages("turn")) == 1


def test_roles_have_the_players_that_the_schedule_says(ledger):
    here = roster(ALTERNATE, ledger)
    assert here.seated(3) == {"adversary": PlayerId("red", 1), "defender": PlayerId("grey")}
    without = config(ALTERNATE).model_copy(update={"schedule": SelfPlay()})
    with pytest.raises(ConfigError, match="'self_play' gives no role to a player"):
        Roster(without, ledger).seated(0)


def test_it_is_recorded_once_and_only_where_it_was_asked_for(ledger):
    here = roster(Alternate(steps={"blue": 1, "red": 1}), ledger)
    here.learners(0)
    assert ledger.stages("turn") == []
    here.turn(1)
    here.turn(1)
    here.learners(2)
    assert [(key, facts) for key, _, _, facts, _ in ledger.stages("turn")] == [
        ("0/turn", {"learn": ["blue"]}),
        ("1/turn", {"learn": ["red"]}),
    ]


def test_a_best_response_goes_by_the_recorded_rewards(ledger):
    here = roster(BestResponse(order=("blue", "red"), window=1), ledger)
    for t, reward in enumerate([0.1, 0.5, 0.5]):
        assert learning(here, t) == ("blue",)
        paid(ledger, t, "blue", reward)
        paid(ledger, t, "red", float(t))  # nobody's turn, so it counts for nothing
    assert learning(here, 3) == ("red",)


def test_a_resumed_run_has_the_same_turns(ledger):
    rule = BestResponse(order=("blue", "red"), window=1)
    first = roster(rule, ledger)
    rewards = [0.1, 0.5, 0.5, 0.2, 0.2, 0.9]
    turns = []
    for t, reward in enumerate(rewards):
        turns.append(first.turn(t))
        paid(ledger, t, turns[-1][0].name, reward)
    assert len({player.name for turn in turns for player in turn}) == 2
    for t in range(len(rewards)):
        assert roster(rule, ledger).turn(t) == turns[t]
        assert roster(rule, ledger).learners(t) == first.learners(t)
    assert roster(rule, ledger).turn(len(rewards)) == first.turn(len(rewards))


def test_what_is_recorded_is_not_decided_anew(ledger):
    roster(ALTERNATE, ledger).turn(1)
    other = roster(Alternate(steps={"red": 1, "blue": 1}), ledger)
    assert [learning(other, t) for t in range(3)] == [("blue",), ("blue",), ("red",)]
