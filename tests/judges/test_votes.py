"""What votes count as: the grades of those who graded every answer."""

from equipoise.judges.base import comparable, mean_grades
from equipoise.types import Vote


def test_a_grade_is_the_mean_of_what_one_voter_gave_an_answer_alone():
    votes = (
        Vote("a@0", "1", 7.0),
        Vote("a@0", "1", 9.0),
        Vote("a@0", "2", 3.0),
        Vote("a@0", "1", 1.0, "2"),  # a comparison
        Vote("b@0", "1", None, reason="unread"),
    )
    assert mean_grades(votes) == {"a@0": {"1": 8.0, "2": 3.0}}


def test_who_graded_some_of_the_answers_counts_for_none():
    grades = {"a": {"1": 1.0, "2": 2.0}, "b": {"1": 9.0}}
    assert comparable(grades) == {"a": {"1": 1.0, "2": 2.0}}
    assert comparable({}) == {}
