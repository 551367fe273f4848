"""P(an answer beats a player) from samples: unbiased, on any scale, against whoever it is."""

import math
from itertools import product
from statistics import fmean

import msgspec
import numpy as np
import pytest

from equipoise.data.win_probabilities import Samples, win_share, with_wins
from equipoise.types import Judgement, Match, Move, Pair, PlayerId, Turn, View, user

CHAT = (user("?"),)
NOW, OLD = PlayerId("policy", 1), PlayerId("policy", 0)
# A policy on three answers, and what a judge of any scale gives them.
CHANCE = {"good": 0.2, "fair": 0.5, "poor": 0.3}
SCORE = {"good": 31.0, "fair": 30.0, "poor": -4.0}


def match(name, *answers):
    """(match, judgement); an answer is (player, text)."""
    seats = {str(i): player for i, (player, _) in enumerate(answers)}
    turns = tuple(Turn(str(i), View(CHAT), Move(text)) for i, (_, text) in enumerate(answers))
    scores = {str(i): {"score": SCORE[text]} for i, (_, text) in enumerate(answers)}
    played = Match(name, 1, "train", "answers", "p", seats, 0, turns)
    return played, Judgement(f"j{name}", name, "test", scores)


def samples(*matches):
    taken = Samples()
    taken.add([played for played, _ in matches], [word for _, word in matches], "score")
    return taken


def exact(text, rule, policy=CHANCE):
    return math.fsum(
        chance * win_share(SCORE[text], SCORE[other], rule) for other, chance in policy.items()
    )


@pytest.mark.parametrize("rule", ["counted", "bradley_terry"])
def test_the_estimate_is_unbiased(rule):
    """Over all draws of the other two answers, each with its probability."""
    for text in CHANCE:
        expected = 0.0
        for others in product(CHANCE, repeat=2):
            answers = [(NOW, each) for each in (text, *others)]
            win = samples(match("m", *answers)).win(
                "p", CHAT, text, SCORE[text], [(NOW, 1.0)], rule
            )
            expected += math.prod(CHANCE[other] for other in others) * win
        assert expected == pytest.approx(exact(text, rule), abs=1e-12)


def test_a_win_counts_on_any_scale_and_a_tie_half():
    for scale, shift in ((1.0, 0.0), (250.0, -7.0)):
        scores = [scale * value + shift for value in (1.0, 1.0, 2.0)]
        assert win_share(scores[0], scores[1], "counted") == 0.5
        assert win_share(scores[2], scores[0], "counted") == 1.0
        assert win_share(scores[0], scores[2], "counted") == 0.0
    sigma = 1 / (1 + math.exp(-1.5))
    assert win_share(2.0, 0.5, "bradley_terry") == pytest.approx(sigma)
    assert win_share(1e6, 0.0, "bradley_terry") == 1.0


def test_an_answer_given_twice_ties_with_itself_once():
    taken = samples(match("m", (NOW, "good"), (NOW, "good"), (NOW, "poor")))
    win = taken.win("p", CHAT, "good", SCORE["good"], [(NOW, 1.0)], "counted")
    assert win == fmean([0.5, 1.0])


def test_against_several_players_each_counts_by_its_own_answers():
    taken = samples(
        match("m", (NOW, "good"), (NOW, "fair"), (NOW, "poor")),
        match("n", (OLD, "good"), (OLD, "good")),
    )
    against = [(NOW, 0.75), (OLD, 0.25)]
    win = taken.win("p", CHAT, "good", SCORE["good"], against, "counted")
    assert win == pytest.approx(0.75 * 1.0 + 0.25 * 0.5)
    assert taken.win("p", CHAT, "fair", 30.0, [(OLD, 1.0)], "counted") == 0.0


PAIR = Pair("x", 1, "p", CHAT, "good", "poor", 31.0, -4.0, "m")


def test_pairs_carry_both_probabilities_or_are_dropped_by_name():
    taken = samples(match("m", (NOW, "good"), (NOW, "fair"), (NOW, "poor")))
    (pair,), dropped = with_wins([PAIR], taken, [(NOW, 1.0)], "counted")
    assert (pair.chosen_win, pair.rejected_win) == (1.0, 0.0)
    assert not dropped
    assert msgspec.json.decode(msgspec.json.encode(pair), type=Pair) == pair
    alone = samples(match("m", (NOW, "good")))
    assert with_wins([PAIR], alone, [(NOW, 1.0)], "counted") == ([], {"no opponent's answer": 1})


def test_the_rejected_answers_probability_is_its_own():
    taken = samples(match("m", (NOW, "good"), (NOW, "fair"), (NOW, "poor")))
    pair = msgspec.structs.replace(PAIR, rejected="fair", rejected_score=30.0)
    (pair,), _ = with_wins([pair], taken, [(NOW, 1.0)], "counted")
    assert (pair.chosen_win, pair.rejected_win) == (1.0, 0.5)


def test_an_answer_that_failed_beats_nobody():
    played, judgement = match("m", (NOW, "good"), (NOW, "fair"), (NOW, "poor"))
    failed = msgspec.structs.replace(
        played.turns[2], move=Move("poor", "error", error="the line is dead")
    )
    played = msgspec.structs.replace(played, turns=(*played.turns[:2], failed))
    taken = samples((played, judgement))
    assert taken.win("p", CHAT, "fair", 30.0, [(NOW, 1.0)], "counted") == 0.0


def test_the_best_of_many_wins_by_choice_and_independent_answers_do_not():
    """Why `best_worst` with `counted` is the constant target."""
    dice = np.random.default_rng(0)
    names, chances = list(CHANCE), list(CHANCE.values())
    chosen, other = [], []
    for _ in range(400):
        drawn = dice.choice(names, size=4, p=chances)
        taken = samples(match("m", *[(NOW, str(text)) for text in drawn]))
        best = str(max(drawn, key=SCORE.__getitem__))
        first = str(drawn[0])
        for text, into in ((best, chosen), (first, other)):
            win = taken.win("p", CHAT, text, SCORE[text], [(NOW, 1.0)], "counted")
            into.append(win)
    assert fmean(chosen) > 0.75
    assert fmean(other) == pytest.approx(0.5, abs=0.05)
