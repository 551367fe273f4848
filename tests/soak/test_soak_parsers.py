"""The parsers of model output: nothing but their own errors, and work in proportion."""

import pytest

from equipoise.answer import COMBINING, normalised
from equipoise.environments.assistance.blocks import parse, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.environments.assistance.steering_engine import strip_hidden
from equipoise.judges.read_verdict import LONGEST, Unread, read_score
from tests.soak import parsers

MATRIX = dict.fromkeys(CELLS, Cell(1.0, 2.0))


@pytest.mark.long
def test_fuzzed_texts_raise_only_the_parsers_own_errors():
    broken = parsers.faults(400)
    assert broken == []


@pytest.mark.slow
def test_many_fuzzed_texts_and_the_growth_of_work():
    """Adds breadth: 20,000 texts, and every shape at 1 and 10 KB, the dearest at 100."""
    assert parsers.faults(20_000, seed=1) == []
    too_steep = []
    for name, parser in parsers.PARSERS.items():
        *_, texts = parsers.steep(parser, (1_000, 10_000, 100_000), 3)
        too_steep += [f"{name}: {text}" for text in texts]
    assert too_steep == []


@pytest.mark.long
def test_what_took_the_square_of_its_length_is_read_at_once():
    """Each of these took minutes at a megabyte; a ratio of work needs no clock there."""
    many = 200_000
    assert parse("<thinking>" * many).thinking is None
    assert parse("<payoff></thinking>" * many).faults
    assert strip_hidden("<payoff>" * many) == "<payoff>" * many
    assert isinstance(read_score('{"a":[' * many, 1, 10), Unread)
    assert isinstance(read_score('{"score": "7' + " " * many + 'x"}', 1, 10), Unread)
    assert len(normalised("a" + "\u0301\u0316" * many)) <= COMBINING + 1


@pytest.mark.long
def test_the_verdict_of_a_long_reply_is_its_last():
    junk = '{"score": 3, "note": [' * LONGEST
    assert read_score(f'{junk} {{"score": 7}}', 1, 10) == 7
    assert isinstance(read_score('{"score": 7}' + " on" * LONGEST, 1, 10), Unread)


@pytest.mark.parametrize(
    "value",
    ["0x" + "f" * 4000, "9" * 5000, "[" * 900 + "]" * 900, "'7" + " " * 3000 + "x'"],
    ids=("hexadecimal", "digits", "lists", "spaces"),
)
def test_values_that_python_will_not_print_are_no_verdicts(value):
    for key in ("'score'", '"score"'):
        assert isinstance(read_score(f"{{{key}: {value}}}", 1, 10), Unread)


def test_blocks_within_blocks_are_not_well_formed():
    whole = write("a", MATRIX, "DQ_DA is best", "b")
    assert parse(whole).well_formed
    nested = whole.replace("<thinking>a</thinking>", "<thinking>a").replace(
        "</payoff>", "</payoff></thinking>"
    )
    assert "<payoff> begins within another block" in parse(nested).faults


def test_hidden_blocks_are_taken_out_only_where_they_are_closed():
    text = "a<thinking>b<payoff>c</thinking>d</payoff>e<analyze>f"
    assert strip_hidden(text) == "ad</payoff>e<analyze>f"
