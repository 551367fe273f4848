"""Multiple choice: which option a free answer states."""

import pytest

from equipoise.judges.multiple_choice import Choice, stated_option
from equipoise.types import Prompt, user

CITIES = {"A": "London.", "B": "Paris.", "C": "New Paris.", "I": "I do not know"}
TRUTH = {"True": "True", "False": "False"}
MANNERS = {"Yes": "Yes", "No": "No", "Neutral": "Neutral"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("(b)", "B"),
        ("B.", "B"),
        ("B. Paris", "B"),
        ("**B**", "B"),
        ("B)", "B"),
        ("The answer is B", "B"),
        ("The answer is (B).", "B"),
        ("The answer is (b).", "B"),
        ("Answer: b", "B"),
        ("\\boxed{b}", "B"),
        ("\\boxed{a}", "A"),
        ("The answer is a", "A"),
        ("the answer is: **B**.", "B"),
        ("Answer: B", "B"),
        ("I choose option B because it is large.", "B"),
        ("So $\\boxed{B}$.", "B"),
        ("So \\boxed{\\text{B}}", "B"),
        ("B is correct.", "B"),
        ("B because of the river", "B"),
        ("Let me think.\nB", "B"),
        ("It is (B).", "B"),
        ("paris", "B"),
        ("It must be Paris, I believe.", "B"),
        ("New Paris.", "C"),
        ("It is New Paris", "C"),
        ("A. London is wrong.\nB. Paris is right.\nThe answer is B.", "B"),
        ("The answer is A. No, the answer is B.", "B"),
        ("The answer is A because it is large.", "A"),
        ("A because of the river", "A"),
        ("I do not know", "I"),
        ("First London, then Paris.", "B"),
        ("Paris, not London.", "B"),
        ("A. London", "A"),
        ("A city in France.", None),
        ("I think so.", None),
        ("The answer is a city.", None),
        ("", None),
        ("D", None),
        ("Parisians", None),
        ("The answer is I", "I"),
        ("Berlin", None),
        ("It is not Paris.", None),
        ("Option B is right, option A is wrong.", "B"),
        ("I go with option B", "B"),
        ("Option B seems wrong.", None),
        ("The correct option is B", "B"),
        ("The answer is most likely B.", "B"),
        ("The best one is B.", "B"),
        ("Answer - B", "B"),
        ("B is incorrect", None),
    ],
)
def test_what_an_answer_states(text, label):
    assert stated_option(text, CITIES) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("True.", "True"),
        ("I think it's false", "False"),
        ("FALSE", "False"),
        ("The answer is: False.", "False"),
        ("That is not true.", "False"),
        ("It isn't false.", "True"),
        ("I don't think that it is true.", "False"),
        ("False. It would be true elsewhere.", "False"),
        ("maybe", None),
        ("untrue", None),
        ("True or false? I say: false", "False"),
    ],
)
def test_true_or_false(text, label):
    assert stated_option(text, TRUTH) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("yes", "Yes"),
        ("Yes, there is no harm in it.", "Yes"),
        ("The answer is 'Neutral'.", "Neutral"),
        ("Their guide says so.\nNo.", "No"),
        ("It is hard to say; neutral.", "Neutral"),
        ("perhaps", None),
    ],
)
def test_words_as_options(text, label):
    assert stated_option(text, MANNERS) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("ßßßßßßßßßßßß Paris", "B"),
        ("İİİİİİİİİİİİİİ so Rome? No. The answer is Paris", "B"),
        ("Großstädte, größer als MASSE: die STRASSE", "A"),
        ("Es ist die Straße.", "A"),
        ("ﬃﬃﬃ ẞ Not Strasse, but the answer is Paris.", "B"),
    ],
)
def test_letters_that_become_longer_without_case(text, label):
    assert stated_option(text, {"A": "Straße", "B": "Paris", "C": "Rome"}) == label


def said(text, **facts):
    verdict = Choice().score(Prompt("p", (user("?"),), facts), text)
    return verdict["score"] if isinstance(verdict, dict) else verdict


def test_scores():
    assert (
        said("(B)", choices=CITIES, answer="B") == said("(B)", choices=CITIES, answer="paris") == 1
    )
    assert (
        said("(A)", choices=CITIES, answer="B") == said("No idea.", choices=CITIES, answer="B") == 0
    )
    assert said("yes.", choices=["Yes", "No"], answer="yes") == 1
    assert said("It is false", answer=False) == said("It is false", answer="False") == 1
    swapped = {"A": "B", "B": "A"}
    assert (said("B", choices=swapped, answer="B"), said("A", choices=swapped, answer="B")) == (
        1,
        0,
    )
    assert "no fact 'answer'" in said("B", choices=CITIES)
    assert "no fact 'choices'" in said("B", answer="B")
    assert (
        said("B", choices=CITIES, answer="E")
        == "the fact 'answer' is 'E', which is none of the options"
    )


LOADS = {"A": "8 N", "B": "12 N", "F": "20 N", "J": "45 N"}
LONG = "The load hangs from two ropes, and each rope carries its part of the whole weight. " * 4


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        (f"{LONG}By Newton F = m·a, so with 12 N on one side and 3 J of work we get", None),
        (f"{LONG}Then F = 2 × 12 N and the work is 90 J for the whole lift of", None),
        (f"{LONG}That gives 31 N. None of the given options is right, not even F.", None),
        (f"{LONG}31 N is not among the choices, but the closest is (J).", "J"),
        (f"{LONG}The statement that does not hold is (F).", "F"),
        ("(a) The first rope carries 5 N. (b) The second carries 7 N. The answer is F.", "F"),
        (f"(a) The first rope. {LONG}(b) The second rope. {LONG}", None),
        (f"{LONG}So it carries 12 N.", "B"),
        (f"{LONG}Twice 10 makes 20 N", None),
    ],
)
def test_letters_and_numbers_of_a_calculation_are_no_options(text, stated):
    assert stated_option(text, LOADS) == stated
