"""Every schedule: pure, seeded, and every seat of every match is filled by someone who is there."""

from collections import Counter

import pytest

from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.matches.base import MatchContext, Schedule
from equipoise.matches.schedule import AgainstHistory, RoundRobin, SelfPlay, _beats, deal
from equipoise.types import PlayerId, Prompt, user

PROMPTS = [Prompt(f"p{i}", (user(str(i)),)) for i in range(40)]
A, B, C = PlayerId("a", 3), PlayerId("b", 3), PlayerId("c")
HISTORY = [PlayerId(name, g) for name in "ab" for g in (2, 1, 0)]
GAME = Answers(samples=4)


KNOWN = {
    "ratings": {"a": 90.0, "b": 120.0, "gone": 50.0},
    "mixture": {A: 0.25, HISTORY[1]: 0.5, PlayerId("gone", 1): 0.25},
    "win_rate": {(A, B): 0.3, (A, HISTORY[1]): 0.9, (B, HISTORY[0]): float("nan")},
}
NEED_TWO = ("sparta", "swiss")
REQUIRED = {"roles": {"roles": {"answer": A.name}}}
EVERY_KIND = [
    Schedule.build({"kind": kind, **REQUIRED.get(kind, {})}) for kind in sorted(Schedule.KINDS)
]


@pytest.mark.parametrize("known", [{}, KNOWN], ids=["unknown", "known"])
@pytest.mark.parametrize("schedule", EVERY_KIND, ids=lambda s: s.kind)
def test_common(schedule, known):
    first = schedule.seatings(PROMPTS, MatchContext(GAME, [A, B, C], HISTORY, 7, **known))
    assert first == schedule.seatings(PROMPTS, MatchContext(GAME, [A, B, C], HISTORY, 7, **known))
    for prompt, seats in first:
        assert prompt in PROMPTS
        assert tuple(seats) == GAME.seats
        assert set(seats.values()) <= {A, B, C, *HISTORY}
    assert {prompt.id for prompt, _ in first} == {prompt.id for prompt in PROMPTS}
    assert schedule.seatings([], MatchContext(GAME, [A, B, C], HISTORY, 7, **known)) == []
    if schedule.kind in NEED_TWO:
        with pytest.raises(
            ConfigError, match=rf"'{schedule.kind}' needs two players or more, and there is a@3"
        ):
            schedule.seatings(PROMPTS, MatchContext(GAME, [A], [], 7, **known))
        return
    alone = schedule.seatings(PROMPTS, MatchContext(GAME, [A], [], 7, **known))
    assert len(alone) == len(PROMPTS)
    assert all(set(seats.values()) == {A} for _, seats in alone)


@pytest.mark.parametrize("kind", ["sparta", "swiss", "mixture", "prioritised", "against_history"])
def test_another_seed_deals_otherwise(kind):
    schedule = Schedule.build(kind)
    one, other = (
        schedule.seatings(PROMPTS, MatchContext(GAME, [A, B, C], HISTORY, seed)) for seed in (1, 2)
    )
    assert one != other


@pytest.mark.parametrize("kind", ["self_play", "against_history", "mixture", "prioritised"])
def test_only_learners_are_scheduled(kind):
    table = Schedule.build(kind).seatings(
        PROMPTS, MatchContext(GAME, [A, B, C], HISTORY, 1, learners=[A])
    )
    assert len(table) == len(PROMPTS)
    assert all(A in seats.values() for _, seats in table)


def test_self_play_gives_every_seat_to_one_player():
    assert all(
        len(set(s.values())) == 1
        for _, s in SelfPlay().seatings(PROMPTS, MatchContext(GAME, [A, B], [], 0))
    )


def test_round_robin_meets_everyone_once_a_prompt_and_swaps_sides():
    table = RoundRobin().seatings(PROMPTS, MatchContext(GAME, [A, B, C], HISTORY, 0))
    met = Counter(frozenset(seats.values()) for _, seats in table)
    assert met == {frozenset(pair): 40 for pair in ((A, B), (A, C), (B, C))}
    first = Counter(seats["1"] for _, seats in table if set(seats.values()) == {A, B})
    assert first == {A: 20, B: 20}
    assert all(Counter(seats.values()).most_common()[0][1] == 2 for _, seats in table)


def test_history_is_drawn_evenly_from_the_newest_of_ones_own():
    many = [Prompt(f"p{i}", (user(str(i)),)) for i in range(600)]
    table = AgainstHistory(max_history=2).seatings(many, MatchContext(GAME, [A], HISTORY, 1))
    met = Counter(player for _, seats in table for player in set(seats.values()) - {A})
    assert set(met) == {PlayerId("a", 2), PlayerId("a", 1)}
    assert min(met.values()) > 250
    assert table != AgainstHistory(max_history=2).seatings(
        many, MatchContext(GAME, [A], HISTORY, 2)
    )


def test_of_an_odd_number_of_seats_the_first_has_more():
    game = Answers(samples=3)
    assert deal(game.seats, A, B) == {"1": A, "2": A, "3": B}
    assert deal(game.seats, A, B, swap=True) == {"1": B, "2": B, "3": A}


def test_each_learner_has_dice_of_its_own_for_its_past():
    context = MatchContext(GAME, [A, B], HISTORY, 1)
    table = AgainstHistory(max_history=3).seatings(PROMPTS, context)

    def generations(learner):
        rows = [set(seats.values()) for _, seats in table if learner in seats.values()]
        return [next(iter(players - {learner})).generation for players in rows]

    assert len(generations(A)) == len(generations(B)) == 40
    assert generations(A) != generations(B)
    assert all(len({player.name for player in seats.values()}) == 1 for _, seats in table), (
        "everybody's own past"
    )


@pytest.mark.parametrize("kind", ["round_robin", "against_history", "mixture", "prioritised"])
def test_the_learner_sits_first_on_every_other_prompt_beginning_with_the_first(kind):
    two = MatchContext(GAME, [A, C], [PlayerId("a", 2)], 1, learners=[A])
    table = Schedule.build(kind).seatings(PROMPTS, two)
    assert [prompt for prompt, _ in table] == PROMPTS
    for i, (_, seats) in enumerate(table):
        halves = (seats["1"], seats["2"]), (seats["3"], seats["4"])
        own, others_ = halves if i % 2 == 0 else halves[::-1]
        if kind != "mixture":  # which may hold the learner itself
            assert own == (A, A)
            assert A not in others_
        assert A in own
        assert len(set(others_)) == 1


def test_chances_are_those_that_were_measured_either_way():
    measured = {(A, B): 0.3, (C, A): 0.9, (B, C): float("nan"), (A, A): 1.5}
    context = MatchContext(GAME, [A, B, C], [], 1, win_rate=measured)
    assert _beats(A, B, context) == 0.3
    assert _beats(B, A, context) == 0.7
    assert _beats(A, C, context) == pytest.approx(0.1)
    assert _beats(C, A, context) == 0.9
    assert _beats(B, C, context) == _beats(C, B, context) == 0.5
    assert _beats(A, A, context) == 1.0


def test_the_hardest_are_met_most_and_nobody_where_all_are_beaten_surely():
    many = [Prompt(f"p{i}", (user(str(i)),)) for i in range(2_000)]

    def met(power, **rates):
        measured = {(A, p): rates[p.name] for p in (B, C)}
        context = MatchContext(GAME, [A, B, C], [], 3, win_rate=measured, learners=[A])
        table = Schedule.build({"kind": "prioritised", "power": power}).seatings(many, context)
        return Counter((set(seats.values()) - {A}).pop() for _, seats in table)[B] / len(many)

    assert met(2, b=0.5, c=0.0) == pytest.approx(0.2, abs=0.04)  # .25 : 1
    assert met(1, b=0.5, c=0.0) == pytest.approx(1 / 3, abs=0.04)
    assert met(0, b=0.9, c=0.0) == pytest.approx(0.5, abs=0.04)
    assert met(2, b=1.0, c=1.0) == pytest.approx(0.5, abs=0.04)


def test_the_mixture_is_the_leagues_and_leaves_out_who_has_gone():
    many = [Prompt(f"p{i}", (user(str(i)),)) for i in range(2_000)]
    context = MatchContext(GAME, [A, B, C], HISTORY, 3, learners=[B], mixture=KNOWN["mixture"])
    table = Schedule.build("mixture").seatings(many, context)
    count = Counter(seats["3" if i % 2 == 0 else "1"] for i, (_, seats) in enumerate(table))
    assert set(count) == {A, HISTORY[1]}
    assert count[A] / 2_000 == pytest.approx(1 / 3, abs=0.04)
    without = MatchContext(GAME, [A, B], [], 3, learners=[B])
    for _, seats in Schedule.build("mixture").seatings(many[:50], without):
        assert set(seats.values()) == {A, B}
