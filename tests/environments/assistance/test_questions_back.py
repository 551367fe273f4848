"""What counts as a question back about the request, and as an answer for several readings."""

import pytest

from equipoise.environments.assistance.responses import asks_about, gives_several


@pytest.mark.parametrize(
    ("response", "is_about"),
    [
        ("Should the digits add up?", True),  # digit, digits: one word by its first letters
        ("Which bank do you mean?", True),  # it asks for the meaning
        ("Is the number even?", True),
        ("Shall I add it up?", False),  # common words are no substance
        ("The number is 7.", False),  # no question
        ("Anything else?", False),
    ],
)
def test_a_question_back_shares_a_word_of_substance(response, is_about):
    assert asks_about(response, "What is the last digit of the number?") is is_about


def test_the_meanings_count_too():
    assert asks_about("The river?", "Where is the bank?", "Meaning 0: a river; Answer 0: east")
    assert not asks_about("The river?", "Where is the bank?")


def test_answers_for_several_readings():
    meanings = "Meaning 0: money; Answer 0: Main Street\nMeaning 1: a river; Answer 1: Mill Road"
    assert gives_several("On Main Street, or by Mill Road.", meanings)
    assert not gives_several("On Main Street.", meanings)
    nested = "Answer 0: Mill\nAnswer 1: Mill Road"
    assert not gives_several("By Mill Road.", nested), "one answer holds the other"
    assert gives_several("If you mean money, there; alternatively, here.")
