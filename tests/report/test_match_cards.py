"""What a sample of matches shows: who met whom."""

import math

from equipoise.evaluation.measures import Sample
from equipoise.report.match_cards import match_up_table
from equipoise.types import Judgement, Match, PlayerId


def test_two_players_that_fill_several_seats_meet_once_a_match():
    seats = {"1": PlayerId("b"), "2": PlayerId("a"), "3": PlayerId("b"), "4": PlayerId("a", 3)}
    match = Match("m", 3, "train", "answers", "p", seats, 0)
    scores = {seat: {"score": value} for seat, value in (("1", 0.0), ("2", 1.0), ("3", 1.0))}
    sample = Sample(
        [match, Match("n", 3, "held_out", "answers", "p", seats, 0)],
        [Judgement("j", "m", "x", scores)],
        2,
    )
    table = match_up_table(sample, ["a", "b"], "x", "score")
    assert table is not None
    assert table.count_NN.tolist() == [[0, 1], [1, 0]]
    assert (
        table.payoff_NN[0, 1] == 0.5
    )  # a@0 beats one b and ties with the other; a@3 was not judged
    silent = match_up_table(sample, ["a", "b"], "y", "score")
    assert silent is not None
    assert silent.unjudged_NN[0, 1] == 1
    assert math.isnan(silent.payoff_NN[0, 1])
