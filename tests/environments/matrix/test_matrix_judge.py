import pytest
from judge_context import TestContext

from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge
from equipoise.types import Match, Move, PlayerId, Turn, View


def match(row, column):
    turns = tuple(
        Turn(seat, View(), move)
        for seat, move in (("row", row), ("column", column))
        if move is not None
    )
    return Match(
        "m",
        0,
        "train",
        "matrix",
        "p",
        dict.fromkeys(("row", "column"), PlayerId("policy")),
        0,
        turns,
    )


def judge(*matches):
    return (
        Judge.build("matrix").at(TestContext(Matrix(name="prisoners_dilemma"))).judge(matches, {})
    )


def test_each_seat_gets_its_own_payoff():
    (word,) = judge(match(Move("cooperate"), Move("defect")))
    assert word.scores == {"row": {"score": 0}, "column": {"score": 5}}
    assert (word.match, word.judge) == ("m", "matrix")


@pytest.mark.parametrize(
    ("moves", "reason"),
    [
        ((Move("rat"), Move("defect")), "row: 'rat' is not one of cooperate, defect"),
        (
            (Move("defect"), Move("", "error", error="out of memory")),
            "column did not move: out of memory",
        ),
        ((Move("defect"), None), "column made no move"),
    ],
)
def test_a_match_without_two_legal_moves_is_unjudged_with_the_reason(moves, reason):
    bad, good = judge(match(*moves), match(Move("defect"), Move("defect")))
    assert bad.scores is None
    assert bad.reason == reason
    assert good.scores == {"row": {"score": 1}, "column": {"score": 1}}


def test_it_needs_the_rules_of_a_finite_game():
    with pytest.raises(ConfigError, match="'answers' is none"):
        Judge.build("matrix").at(TestContext(Answers()))
    with pytest.raises(ConfigError, match="has no context"):
        Judge.build("matrix").judge([match(Move("defect"), Move("defect"))], {})


def test_a_context_leaves_the_judge_of_the_configuration_as_it_was():
    configured = Judge.build("matrix")
    configured.at(TestContext(Matrix()))
    with pytest.raises(ConfigError):
        configured.judge([match(Move("defect"), Move("defect"))], {})
