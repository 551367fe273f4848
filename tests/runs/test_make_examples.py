"""What sums up the moves that a learner is taught."""

import pytest

from equipoise.runs.make_examples import part_means, repeated_share
from equipoise.types import Episode, Match, Move, PlayerId, Turn, View


def episode(match: str, role: str, **parts: float) -> Episode:
    return Episode(match, 0, match, 0, role, "g", sum(parts.values()), parts)


def match(name: str, text: str) -> Match:
    seats = {"1": PlayerId("policy")}
    turn = Turn("1", View(), Move(text))
    return Match(name, 0, "train", "answers", "p", seats, 0, (turn,))


def test_means_are_of_a_role_and_of_those_that_have_the_part():
    made = [
        episode("a", "attack", score=1.0, diversity=-0.5),
        episode("b", "attack", score=0.0),
        episode("c", "defence", score=0.25),
    ]
    assert part_means(made) == {
        "attack.score": 0.5,
        "attack.diversity": -0.5,
        "defence.score": 0.25,
    }


def test_a_repeated_text_is_one_that_another_move_of_the_role_has():
    texts = {"a": "open", "b": "open", "c": "take", "d": "open", "e": "no"}
    made = [episode(name, "attack", score=1.0) for name in "abcd"]
    made.append(episode("e", "defence", score=1.0))
    shares = repeated_share(made, [match(name, text) for name, text in texts.items()])
    assert shares == pytest.approx({"attack": 0.5, "defence": 0.0})
