"""Reputation against vectors computed elsewhere, and what the rule promises beside them."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from equipoise.errors import ConfigError, DataError
from equipoise.ratings.base import Duel, Outcome, Ratings
from equipoise.ratings.reputation import (
    Reputation,
    State,
    gap_factor,
    player_weights,
    weighted_means,
)

CASES = ["normal_iter0", "dynamic_iter0", "dynamic_iter3", "static_iter0", "static_iter3"]


@pytest.fixture(params=CASES)
def case(request, golden):
    return golden("sparta_rating.json")[request.param]


def duels_of(case):
    return [(*match["players"], match["judge_scores"]) for match in case["matches"]]


def random_duels(count, seed, names="abcde"):
    """Duels judged by all who do not fight; later names answer better."""
    rng = np.random.default_rng(seed)
    duels = []
    for _ in range(count):
        i, j = rng.choice(len(names), 2, replace=False)
        judges = [name for k, name in enumerate(names) if k not in (i, j)]
        scores = {judge: (i + 3 + rng.normal(), j + 3 + rng.normal()) for judge in judges}
        duels.append(Duel(names[i], names[j], scores))
    return duels


def test_golden_trajectory(case):
    rating = Reputation(kind=case["kind"], weights=case["player_weights"])
    spelt_out = Reputation(kind=case["kind"], weights=case["player_weights"], **case["params"])
    assert spelt_out.model_dump() == rating.model_dump() | {"scaling": case["params"]["scaling"]}, (
        "published constants"
    )
    state = rating.init(list(case["player_weights"]))
    for duel, after in zip(duels_of(case), case["trajectory"], strict=True):
        state = rating.update(state, duel)
        for name, (value, deviation) in after.items():
            assert state.ratings[name] == pytest.approx(value, abs=1e-9)
            assert state.deviations[name] == pytest.approx(deviation, abs=1e-9)
    assert state.duels == 40


def test_golden_player_weights(case):
    weights = player_weights(case["kind"], case["iteration"], case["previous_scores"])
    assert {name: weights.get(name, 1.0) for name in case["player_weights"]} == case[
        "player_weights"
    ]


def test_golden_preferences(case):
    final = {name: value for name, (value, _) in case["trajectory"][-1].items()}
    for (first, second, scores), expected in zip(duels_of(case), case["preferences"], strict=True):
        a, b = weighted_means(scores, final)
        assert (expected["winner"], expected["loser"]) == (
            (first, second) if a > b else (second, first)
        )
        assert abs(a - b) == pytest.approx(expected["margin"], abs=1e-9)


@pytest.mark.long
def test_golden_through_training_ratings(golden):
    case = golden("sparta_rating.json")["normal_iter0"]
    names = list(case["player_weights"])
    rated = Ratings.build("reputation").training_ratings(
        names, [[Duel(*duel) for duel in duels_of(case)]], seed=1
    )
    assert {r.name: r.value for r in rated} == pytest.approx(
        {k: v for k, (v, _) in case["trajectory"][-1].items()}
    )
    assert all(r.low <= r.value <= r.high and r.low < r.high for r in rated)


def test_update_leaves_the_old_state_alone():
    rating = Reputation()
    state = rating.init(["a", "b", "j"])
    before = deepcopy(state)
    after = rating.update(state, ("a", "b", {"j": (9, 1)}))
    assert state == before
    assert after != state
    assert rating.update(after, ("a", "b", {})) == after


@given(st.floats(10, 300), st.floats(10, 300), st.floats(0.1, 50))
def test_an_upset_pays_no_more_than_a_favourites_win(high, low, deviation):
    assert gap_factor(high, low, deviation) == gap_factor(low, high, deviation)
    assert 0 <= gap_factor(high, low, deviation) <= 1
    start = Reputation().init(["x", "y", "j"])
    state = type(start)({"x": high, "y": low, "j": 100.0}, start.deviations, start.changes)
    favourite = Reputation().update(state, ("x", "y", {"j": (7, 6)})).ratings["x"] - high
    upset = Reputation().update(state, ("x", "y", {"j": (6, 7)})).ratings["x"] - high
    assert favourite == pytest.approx(-upset, abs=1e-9) or high + upset == 10


def test_reputation_never_falls_below_its_floor():
    rating = Reputation(initial_rating=12, scaling=0.1)
    state = rating.init(["a", "b", "j"])
    for _ in range(30):
        state = rating.update(state, ("a", "b", {"j": (1, 10)}))
        assert state.ratings["a"] >= 10
    assert state.ratings["a"] == 10
    assert state.ratings["b"] > 100
    assert state.changes["a"][-1] == 0, (
        "a change is what happened to the reputation, after the floor"
    )


def test_those_who_take_no_part_change_nothing():
    duels = random_duels(60, 0, "abcd")
    ends = []
    for names in (["a", "b", "c", "d"], ["z", "d", "c", "y", "b", "a"], ["x", "a", "c", "b", "d"]):
        rating = Reputation()
        state = rating.init(names)
        for duel in duels:
            state = rating.update(state, duel)
        ends.append({name: (state.ratings[name], state.deviations[name]) for name in "abcd"})
        assert all(state.ratings[name] == 100 for name in names if name in "xyz")
    assert ends[0] == ends[1] == ends[2]


def test_judges_weigh_as_their_reputation():
    assert weighted_means({"good": (8, 2), "bad": (2, 8)}, {"good": 300, "bad": 100}) == (6.5, 3.5)


@pytest.mark.parametrize(
    ("duel", "error", "message"),
    [
        (("a", "b", {"gpt": (1, 2)}), ConfigError, "'gpt'.* a, b, j"),
        (("a", "q", {"j": (1, 2)}), ConfigError, "'q' of the duel 'a' and 'q'"),
        (("a", "a", {"j": (1, 2)}), ConfigError, "'a' met itself"),
        (("a", "b", {"j": (1, float("nan"))}), DataError, "no finite number"),
    ],
)
def test_impossible_duels_are_named(duel, error, message):
    rating = Reputation()
    with pytest.raises(error, match=message):
        rating.update(rating.init(["a", "b", "j"]), duel)


def test_kind_may_name_the_scores():
    assert (
        Reputation(kind="dynamic")
        == Reputation(scores="dynamic")
        == Ratings.build(Reputation(kind="dynamic"))
    )  # type: ignore[arg-type]
    assert Reputation(kind="static").settings()["kind"] == "reputation"
    assert Ratings.build(Reputation(kind="static").settings()) == Reputation(scores="static")
    with pytest.raises(ValidationError, match="disagree"):
        Reputation(kind="dynamic", scores="static")
    with pytest.raises(ValidationError, match="rating_floor"):
        Reputation(rating_flor=3)


HANDICAPPED = (0, 0, 1, 2, 3, 4, 5, 6, 6, 6)
"""How many players are handicapped in each loop, from loop 0; METHODS, section 2."""

ENDS = [
    {"a": 9, "b": 1, "c": 5, "d": 7},  # of loop 0, which no handicap reads
    {"a": 1, "b": 2, "c": 3, "d": 4},
    {"a": 1, "b": 4, "c": 2, "d": 3},
    {"a": 4, "b": 1, "c": 2, "d": 3},
    {"a": 4, "b": 1, "c": 2, "d": 3},
]
A, AC = {"a": 0.0}, {"a": 0.0, "c": 0.1}
ACB, ACBD = {**AC, "b": 0.2}, {**AC, "b": 0.2, "d": 0.3}
BCD = {"b": 0.0, "c": 0.1, "d": 0.2}
BY_HAND = {
    "static": [{}, {}, A, AC, ACB, ACBD],
    "dynamic": [{}, {}, A, AC, BCD, {**BCD, "a": 0.3}],
    "normal": [{}] * 6,
}


@pytest.mark.parametrize("kind", BY_HAND)
@pytest.mark.parametrize("loop", range(6))
def test_weights_by_hand(kind, loop):
    weights = player_weights(kind, loop, ENDS[:loop])
    assert weights == (dict.fromkeys("abcd", 1.0) if loop else {}) | BY_HAND[kind][loop]
    if loop:
        assert player_weights(kind, loop, ENDS[1:loop]).items() <= weights.items()


def test_what_weights_cannot_be():
    ends = ENDS[1:4]
    with pytest.raises(ConfigError, match="iterations 1 to 4"):
        player_weights("dynamic", 5, ends)
    with pytest.raises(ConfigError, match="'dynmic'"):
        player_weights("dynmic", 1, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_so_many_are_handicapped_in_each_loop(kind):
    ends = [{f"p{i}": (i * 7 + 3 * t) % 10 for i in range(10)} for t in range(10)]
    loops = [player_weights(kind, loop, ends[:loop]) for loop in range(10)]
    assert [sum(w < 1 for w in loop.values()) for loop in loops] == list(HANDICAPPED)
    for loop in loops:
        handicaps = sorted(weight for weight in loop.values() if weight < 1)
        assert handicaps == [place / 10 for place in range(len(handicaps))]
    assert loops[9] == loops[8] == loops[7] != loops[6]
    assert player_weights(kind, 7, ends[:7], until=3) == loops[3]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_run_handicaps_as_the_loops_do(kind):
    """The ends of a run's loops, computed anew one loop at a time with the loop's weights written
    out by a rule of its own.
    """
    generations = [random_duels(40, seed) for seed in range(6)]
    ends, state, frozen = [], Reputation(kind=kind).init("abcde"), []
    for loop, duels in enumerate(generations):
        lowest = sorted("abcde", key=lambda name: state.ratings[name])
        if loop >= 2 and kind == "static":
            frozen += [name for name in lowest if name not in frozen][:1]
        if loop >= 2 and kind == "dynamic":
            frozen = lowest[: loop - 1]
        weights = {name: place / 10 for place, name in enumerate(frozen)}
        rating = Reputation(scores=kind, weights=weights)
        state = State(state.ratings, state.deviations, state.changes)
        for duel in duels:
            state = rating.update(state, duel)
        ends.append(dict(state.ratings))
    for loop in range(6):
        rated = Reputation(kind=kind, resamples=40).training_ratings(
            "abcde", generations[: loop + 1]
        )
        assert {r.name: r.value for r in rated} == pytest.approx(ends[loop])


def test_fresh_changes_begin_anew_with_each_iteration():
    first = [Duel("a", "b", {"c": (9, 1)})] * 3
    second = [Duel("a", "b", {"c": (2, 3)})]
    kept, fresh = (
        Reputation(resamples=40, fresh_changes=fresh).training_ratings(
            "abc", [first, second, second]
        )
        for fresh in (False, True)
    )
    state = Reputation().init("abc")
    for duel in first:
        state = Reputation().update(state, duel)
    for _ in range(2):
        state = State(state.ratings, state.deviations, dict.fromkeys("abc", ()), duels=0)
        state = Reputation().update(state, second[0])
    assert {r.name: r.value for r in fresh} == dict(state.ratings)
    assert {r.name: r.value for r in fresh} != {r.name: r.value for r in kept}


def test_an_unfair_start_has_the_mean_and_spread_of_reputations():
    state = Reputation(initial={"a": 0.1, "b": 0.5, "c": 0.6}).init(["a", "b", "c"])
    values = np.array(list(state.ratings.values()))
    assert values.mean() == pytest.approx(100)
    assert values.std() == pytest.approx(20)
    assert state.ratings["a"] < state.ratings["b"] < state.ratings["c"]
    assert set(Reputation(initial={"a": 3, "b": 3}).init(["a", "b"]).ratings.values()) == {100}
    with pytest.raises(ConfigError, match="no task score of 'c'"):
        Reputation(initial={"a": 3, "b": 3}).init(["a", "b", "c"])


def test_frozen_reputations_stay_as_they_start():
    kept = Reputation(frozen=True, initial={"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
    state, (duel,) = kept.init("abcde"), random_duels(1, 1)
    after = kept.update(state, duel)
    assert (after.ratings, after.duels) == (state.ratings, 1)
    rated = kept.training_ratings("abcde", [random_duels(50, 1)])
    assert [r.name for r in rated] == list("edcba")
    assert all(r.low == r.value == r.high for r in rated)
    assert rated[0].value == pytest.approx(100 + 20 * 2**0.5)


def test_the_interval_is_of_the_last_generations_duels_from_its_start():
    """Of a single duel every sample is that duel, so that it has but one end."""
    first = [Duel("a", "b", {"c": (9, 1)}), Duel("b", "c", {"a": (7, 6)})] * 3
    rated = Reputation(resamples=40).training_ratings(
        "abc", [first, [Duel("a", "b", {"c": (2, 9)})]]
    )
    by_name = {each.name: each for each in rated}
    for name in "ab":
        each = by_name[name]
        assert (each.low, each.high) == pytest.approx((each.value, each.value), abs=1e-12)


@pytest.mark.long
def test_generations_carry_on_and_start_their_count_again():
    first, second = random_duels(80, 2), random_duels(80, 3)
    rating = Reputation(resamples=40)
    state = rating.init("abcde")
    for duel in first:
        state = rating.update(state, duel)
    carried = type(state)(state.ratings, state.deviations, state.changes, 0)
    for duel in second:
        carried = rating.update(carried, duel)
    rated = {r.name: r for r in rating.training_ratings("abcde", [first, second], seed=4)}
    assert {name: r.value for name, r in rated.items()} == dict(carried.ratings)
    assert rating.training_ratings("abcde", [first, second], seed=4) == list(rated.values())
    assert rated["e"].high > rated["e"].low
    assert rated["e"].value > 100 > rated["a"].value


def test_who_had_no_duel_keeps_its_value_without_an_interval():
    duels = [Duel("a", "b", {"c": (3, 7), "d": (4, 6)})] * 5
    rated = {r.name: r for r in Reputation(resamples=40).training_ratings("abcd", [duels])}
    assert all(np.isnan([rated[name].low, rated[name].high]).all() for name in "cd")
    assert all(rated[name].low <= rated[name].value <= rated[name].high for name in "ab")
    rated = {
        r.name: r
        for r in Reputation(resamples=40).training_ratings(
            "abcd", [duels, duels, [Duel("a", "b", {})]]
        )
    }
    assert rated["c"].value == 100
    assert rated["b"].value > 100
    assert all(np.isnan([r.low, r.high]).all() for r in rated.values()), (
        "the last generation judged nothing"
    )


def test_outcomes_are_not_enough():
    with pytest.raises(ConfigError, match=r"needs the judges' scores.*training_ratings"):
        Reputation().rate([Outcome("a", "b", 1)])


@pytest.mark.parametrize("count", range(2, 12))
@pytest.mark.parametrize("score", [0.1, 0.3, 7.7, -2.2])
def test_members_that_begin_alike_begin_at_the_mean(count, score):
    names = [f"m{n}" for n in range(count)]
    start = Reputation(initial=dict.fromkeys(names, score)).init(names)
    assert set(start.ratings.values()) == {100.0}


def test_an_unfair_start_is_scaled_over_all_names_that_are_listed():
    listed = {"a": 10.0, "b": 20.0, "elsewhere": 60.0}
    start = Reputation(initial=listed).initial_ratings(["a", "b"])
    # mean 30, standard deviation 21.6
    assert start == pytest.approx({"a": 100 - 20 * 20 / 21.602469, "b": 100 - 20 * 10 / 21.602469})
