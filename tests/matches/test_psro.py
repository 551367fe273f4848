"""PSRO: whoever learns meets the mixture of the others' leagues."""

from collections import Counter

import pytest
from attack_matches import game as red_team
from attack_matches import seed
from pydantic import ValidationError

from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.matches.base import MatchContext, Schedule
from equipoise.matches.psro import PSRO
from equipoise.runs import recipe_loader
from equipoise.types import PlayerId, Prompt, user

PROMPTS = [Prompt(f"p{i}", (user(str(i)),)) for i in range(400)]
RED = [PlayerId("red", g) for g in (3, 2, 1, 0)]
BLUE = [PlayerId("blue", g) for g in (3, 2, 1, 0)]
HISTORY = [*RED[1:], *BLUE[1:]]
BOTH = {"adversary": "red", "defender": "blue"}
MIXTURE = {RED[1]: 0.75, RED[3]: 0.25, BLUE[0]: 0.5, BLUE[2]: 0.5, PlayerId("x"): 1.0}


def context(rules, **more) -> MatchContext:
    players = [RED[0], BLUE[0]]
    return MatchContext(rules, players, HISTORY, 7, mixture=MIXTURE, **more)


def seats_of(table, seat) -> Counter:
    return Counter(seats[seat] for _, seats in table)


def test_a_role_meets_the_other_roles_mixture():
    attacks = [seed(str(i)) for i in range(400)]
    schedule = PSRO(roles=BOTH)
    table = schedule.seatings(attacks, context(red_team(), turn=["blue"]))
    assert set(seats_of(table, "defender")) == {BLUE[0]}
    met = seats_of(table, "adversary")
    assert set(met) == {RED[1], RED[3]}
    assert 260 < met[RED[1]] < 340
    assert schedule.opponents(BLUE[0], context(red_team())) == {
        "adversary": [(RED[1], 0.75), (RED[3], 0.25)]
    }
    both = schedule.seatings(attacks, context(red_team()))
    assert len(both) == 800
    assert seats_of(both[:400], "adversary") == {RED[0]: 400}
    assert set(seats_of(both[:400], "defender")) == {BLUE[0], BLUE[2]}


def test_raw_requests_are_nobodys_attacks():
    attacks = [seed(str(i)) for i in range(100)]
    schedule = PSRO(roles=BOTH, raw=0.5)
    table = schedule.seatings(attacks, context(red_team(), turn=["blue"]))
    raw = [seats for _, seats in table if "adversary" not in seats]
    assert 30 < len(raw) < 70
    assert all(seats["defender"] == BLUE[0] for seats in raw)


def test_one_league_takes_either_seat():
    table = PSRO().seatings(PROMPTS, context(Matrix(), learners=[RED[0]]))
    assert [seats["row"] == RED[0] for _, seats in table][:4] == [True, False] * 2 or (
        {"row", "column"} == {s for _, seats in table for s in seats}
    )
    opposite = Counter(
        seats["column" if i % 2 == 0 else "row"] for i, (_, seats) in enumerate(table)
    )
    shares = {player: count / 400 for player, count in opposite.items()}
    assert shares == pytest.approx(
        {RED[1]: 0.375, RED[3]: 0.125, BLUE[0]: 0.25, BLUE[2]: 0.25}, abs=0.07
    )


def test_of_a_game_of_one_role_the_learner_has_half_of_the_seats():
    table = PSRO().seatings(PROMPTS, context(Answers(samples=4), learners=[RED[0]]))
    for i, (_, seats) in enumerate(table[:6]):
        own = [seat for seat, player in seats.items() if player == RED[0]]
        assert own == (["3", "4"] if i % 2 else ["1", "2"])
        assert len({seats[seat] for seat in seats if seat not in own}) == 1


def test_of_two_answers_the_learners_is_in_turn_the_first_and_the_second():
    table = PSRO().seatings(PROMPTS, context(Answers(samples=2), learners=[RED[0]]))
    met = [seats["1" if i % 2 else "2"] for i, (_, seats) in enumerate(table)]
    assert all(seats["2" if i % 2 else "1"] == RED[0] for i, (_, seats) in enumerate(table))
    assert set(met) == {RED[1], RED[3], BLUE[0], BLUE[2]}


def test_without_a_mixture_the_newest_are_met():
    bare = MatchContext(red_team(), [RED[0], BLUE[0]], HISTORY, 7, turn=["red"])
    table = PSRO(roles=BOTH).seatings([seed("a")], bare)
    assert [seats for _, seats in table] == [{"adversary": RED[0], "defender": BLUE[0]}]
    alone = MatchContext(Matrix(), [RED[0]], RED[1:], 7)
    (_, seats), *_ = PSRO().seatings(PROMPTS, alone)
    assert set(seats.values()) == {RED[0]}


def test_what_psro_is_not_for_is_refused():
    with pytest.raises(ValidationError, match="leave roles empty"):
        Schedule.build({"kind": "psro", "roles": {"row": "a"}, "shared": True})
    with pytest.raises(ValidationError, match="with roles only"):
        Schedule.build({"kind": "psro", "raw": 0.5})
    with pytest.raises(ConfigError, match=r"draws from the league's mixture.*finite"):
        recipe_loader.load("psro_matrix", ["evaluate=finite"])
    with pytest.raises(
        ConfigError, match=r"keep: .*psro lets earlier generations .* all must be kept"
    ):
        recipe_loader.load("quickstart", ["schedule=psro", "keep=2"])
