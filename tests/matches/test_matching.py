"""What each way of matching promises: who meets whom, how often, and on which side."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from equipoise.games.answers import Answers
from equipoise.matches.base import MatchContext
from equipoise.matches.rating_schedules import Sparta, Swiss
from equipoise.matches.schedule import Mixture, Prioritised
from equipoise.types import PlayerId, Prompt, user

GAME = Answers(samples=2)
POOL = [PlayerId(name, 2) for name in "abcdefgh"]
RATINGS = {player.name: 100.0 + 10 * i for i, player in enumerate(POOL)}
A, B = POOL[:2]
PAST = [PlayerId("a", 1), PlayerId("a", 0)]


def prompts(count):
    return [Prompt(f"p{i}", (user(str(i)),)) for i in range(count)]


def sides(table):
    """(who sat first, who sat second) of every match."""
    return [(seats["1"], seats["2"]) for _, seats in table]


def opponents(table, player):
    """How often `player` met whom."""
    return Counter(
        next(iter({*pair} - {player}), player) for pair in sides(table) if player in pair
    )


# --- sparta


def test_sparta_lets_everyone_be_first_once_a_loop_in_random_order():
    firsts = [
        first
        for first, _ in sides(
            Sparta().seatings(prompts(84), MatchContext(GAME, POOL, ratings=RATINGS))
        )
    ]
    loops = [firsts[i : i + 8] for i in range(0, 80, 8)]
    assert all(set(loop) == set(POOL) for loop in loops)
    assert len({tuple(loop) for loop in loops}) == 10
    assert len(set(firsts[80:])) == 4


@pytest.mark.parametrize("ratings", [RATINGS, {}])
def test_sparta_never_seats_one_against_itself_and_plays_each_prompt_once(ratings):
    asked = prompts(200)
    table = Sparta().seatings(asked, MatchContext(GAME, POOL, ratings=ratings))
    assert [prompt for prompt, _ in table] == asked
    assert all(first != second for first, second in sides(table))


def test_sparta_without_chance_takes_the_nearest():
    table = sides(
        Sparta(alpha=0, k=2).seatings(prompts(1600), MatchContext(GAME, POOL, ratings=RATINGS))
    )
    met = defaultdict(Counter)
    for first, second in table:
        met[first][second] += 1
    assert set(met[A]) == {POOL[1], POOL[2]}
    assert set(met[POOL[4]]) == {POOL[3], POOL[5]}
    assert min(count for counts in met.values() for count in counts.values()) > 60


def test_sparta_mixes_by_alpha():
    # from A, the far are met only by chance: alpha · 5/7
    table = sides(
        Sparta(alpha=0.4, k=2).seatings(prompts(8000), MatchContext(GAME, POOL, ratings=RATINGS))
    )
    far = np.mean([second not in (POOL[1], POOL[2]) for first, second in table if first == A])
    assert far == pytest.approx(0.4 * 5 / 7, abs=0.05)


def test_sparta_without_ratings_is_uniform():
    table = sides(Sparta(alpha=0, k=1).seatings(prompts(5600), MatchContext(GAME, POOL)))
    counts = Counter(second for first, second in table if first == A)
    assert set(counts) == set(POOL) - {A}
    assert max(counts.values()) < 2 * min(counts.values())


def test_equals_in_their_order_are_the_first_players_as_released():
    """A stable sort of equal distances: the first two of the others are the nearest."""
    equal = dict.fromkeys(RATINGS, 100.0)
    schedule = Sparta(alpha=0, k=2, ties="order")
    met = set(sides(schedule.seatings(prompts(700), MatchContext(GAME, POOL, ratings=equal))))
    expected = {
        (first, other)
        for first in POOL
        for other in [player for player in POOL if player != first][:2]
    }
    assert met == expected
    table = sides(schedule.seatings(prompts(700), MatchContext(GAME, POOL, ratings=RATINGS)))
    usual = sides(
        Sparta(alpha=0, k=2).seatings(prompts(700), MatchContext(GAME, POOL, ratings=RATINGS))
    )
    assert set(table) == set(usual), "where nobody is equally near"


def test_sparta_takes_one_without_a_rating_for_near_to_nobody():
    stranger = PlayerId("stranger")
    joined = sides(
        Sparta(alpha=0, k=1).seatings(
            prompts(450), MatchContext(GAME, [*POOL, stranger], ratings=RATINGS)
        )
    )
    assert all(second != stranger for _, second in joined)
    assert len({second for first, second in joined if first == stranger}) > 3


# --- swiss


@pytest.mark.parametrize("ratings", [RATINGS, {"a": 5.0, "b": 1.0}, {}])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_swiss_seats_everyone_once_a_round_and_byes_rotate(count, ratings):
    asked = prompts(30)
    table = Swiss().seatings(asked, MatchContext(GAME, POOL[:count], ratings=ratings))
    assert len(table) == 30 * (count // 2)
    played = Counter(player for pair in sides(table) for player in pair)
    assert set(played) == set(POOL[:count])
    assert max(played.values()) - min(played.values()) <= 1
    for prompt in asked:
        seated = [player for other, seats in table if other == prompt for player in seats.values()]
        assert len(seated) == len(set(seated)) == count // 2 * 2


def test_swiss_of_four_meets_everyone_before_anyone_again():
    pairs = [
        frozenset(pair)
        for pair in sides(Swiss(rounds=3).seatings(prompts(12), MatchContext(GAME, POOL[:4])))
    ]
    for start in range(0, 24, 6):
        assert len(set(pairs[start : start + 6])) == 6


def test_swiss_pairs_like_with_like_and_nobody_twice_in_a_tournament():
    table = Swiss(rounds=3).seatings(prompts(3), MatchContext(GAME, POOL, ratings=RATINGS))
    pairs = [frozenset(pair) for pair in sides(table)]
    assert len(set(pairs)) == 12
    assert set(pairs[:4]) == {frozenset(POOL[i : i + 2]) for i in (0, 2, 4, 6)}
    gaps = [abs(RATINGS[first.name] - RATINGS[second.name]) for first, second in sides(table)]
    assert max(gaps) <= 40
    again = Swiss(rounds=3).seatings(prompts(6), MatchContext(GAME, POOL, ratings=RATINGS))
    assert {frozenset(pair) for pair in sides(again)[12:16]} == set(pairs[:4])


def test_swiss_gives_both_sides_to_both():
    firsts = Counter(
        first
        for first, _ in sides(Swiss(rounds=1).seatings(prompts(200), MatchContext(GAME, [A, B])))
    )
    assert min(firsts.values()) > 70


def test_the_bye_goes_to_the_lowest_rated_of_those_with_the_fewest():
    three = POOL[:3]  # in rising order of their ratings
    table = Swiss(rounds=1).seatings(prompts(4), MatchContext(GAME, three, ratings=RATINGS))
    idle = [next(iter({*three} - {*pair})) for pair in sides(table)]
    assert idle == [three[0], three[1], three[2], three[0]]


# --- mixture


def test_mixture_draws_opponents_by_their_weight():
    match_context = MatchContext(
        GAME, [A, B], PAST, mixture={A: 0.1, PAST[0]: 0.6, B: 0.3, PlayerId("gone", 4): 1.0}
    )
    table = Mixture().seatings(prompts(2000), match_context)
    met = opponents(table[:2000], A)
    assert set(met) == {A, B, PAST[0]}
    assert [met[player] / 2000 for player in (A, PAST[0], B)] == pytest.approx(
        [0.1, 0.6, 0.3], abs=0.04
    )
    assert set(opponents(table[2000:], B)) == {A, B, PAST[0]}
    firsts = Counter(
        first for first, second in sides(table[:2000]) if {first, second} == {A, PAST[0]}
    )
    assert min(firsts.values()) > 500


@pytest.mark.parametrize("mixture", [{}, {PlayerId("gone", 4): 1.0}, {B: 0.0}])
def test_mixture_without_anyone_of_weight_is_uniform_over_the_others(mixture):
    met = opponents(
        Mixture().seatings(prompts(900), MatchContext(GAME, [A, B], PAST, mixture=mixture))[:900], A
    )
    assert set(met) == {B, *PAST}
    assert min(met.values()) > 230


# --- prioritised


def test_prioritised_prefers_whom_it_does_not_beat():
    win_rate = {(A, PAST[0]): 0.9, (PAST[1], A): 0.2, (A, B): 0.3}
    met = opponents(
        Prioritised(power=2).seatings(
            prompts(4000), MatchContext(GAME, [A, B], PAST, win_rate=win_rate)
        )[:4000],
        A,
    )
    weights = np.array([0.1**2, 0.2**2, 0.7**2])
    assert [met[p] / 4000 for p in (*PAST, B)] == pytest.approx(weights / weights.sum(), abs=0.02)


def test_prioritised_takes_the_unmeasured_for_even():
    table = Prioritised(power=1).seatings(
        prompts(4000),
        MatchContext(
            GAME,
            [A, B],
            PAST,
            win_rate={(A, B): 1.0, (A, PAST[0]): float("nan"), (PAST[1], A): 1.0},
        ),
    )
    met = opponents(table[:4000], A)
    assert set(met) == set(PAST)
    assert met[PAST[1]] / 4000 == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize(("power", "chance"), [(0, 0.9), (3, 1.0)])
def test_prioritised_is_uniform_without_power_or_worthy_opponents(power, chance):
    win_rate = {(A, opponent): chance for opponent in (B, *PAST)} | {(A, PAST[0]): 1.0}
    match_context = MatchContext(GAME, [A, B], PAST, win_rate=win_rate)
    met = opponents(Prioritised(power=power).seatings(prompts(900), match_context)[:900], A)
    assert set(met) == {B, *PAST}
    assert min(met.values()) > 230


def test_the_released_dice_draw_the_same_in_every_generation_and_may_go_in_turn():
    players = [PlayerId(name) for name in "abcde"]
    prompts = [Prompt(str(n), ()) for n in range(12)]
    schedule = Sparta(python_seed=42, rows_before=30)

    def drawn(seed: int, settings: Sparta = schedule):
        context = MatchContext(Answers(samples=2), players, seed=seed)
        return [
            [who.name for who in seats.values()] for _, seats in settings.seatings(prompts, context)
        ]

    assert drawn(1) == drawn(2)
    assert drawn(1, Sparta()) != drawn(2, Sparta())
    assert drawn(1, Sparta(python_seed=42, rows_before=45)) != drawn(1)
    for settings in (Sparta(first="in_turn"), Sparta(first="in_turn", python_seed=3)):
        assert [first for first, _ in drawn(5, settings)] == list("abcdeabcdeab")
