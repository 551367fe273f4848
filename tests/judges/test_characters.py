"""One text in many guises is one text, and a pile of marks is not read for hours."""

import pytest

from equipoise.judges.rules import MARKS, even_width


@pytest.mark.parametrize(
    ("text", "even"),
    [
        ("plain", "plain"),
        ("\uff30\uff41\uff52\uff49\uff53 \uff11", "Paris 1"),
        ("e\u0301tude", "\u00e9tude"),
        ("\ufb01ne", "fine"),
        ("\U0001d7df", "7"),
    ],
)
def test_joined_wide_and_styled_characters_are_plain(text, even):
    assert even_width(text) == even


def test_of_many_marks_on_one_character_the_first_stay():
    marked = "q" + "\u0323" * 500 + "z"
    assert even_width(marked) == "q" + "\u0323" * MARKS + "z"
