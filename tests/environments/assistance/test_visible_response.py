"""What a client sees of four blocks, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.environments.assistance.blocks import parse, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.environments.assistance.steering_engine import VisibleResponse

MATRIX = dict.fromkeys(CELLS, Cell(1.0, 2.0))
WORDS = st.text(alphabet="ab <>/\n.respons", max_size=30)
TAGS = (
    "<thinking>",
    "</thinking>",
    "<payoff>",
    "</payoff>",
    "<analyze>",
    "</analyze>",
    "<response>",
    "</response>",
)


def seen(text: str, cuts: list[int], stop: tuple[str, ...] = (), *, plain: bool = False) -> str:
    """What is seen of `text`, cut at the places `cuts`."""
    response = VisibleResponse(stop, plain=plain)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    said = "".join(response.add(text[a:b]) for a, b in pairwise(places))
    return said + response.end()


CUTS = st.lists(st.integers(0, 10**6), max_size=40)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(words=WORDS, cuts=CUTS, gap=st.sampled_from(["", "\n", " "]))
def test_of_four_blocks_the_response_is_seen_as_the_parser_reads_it(
    words: str, cuts: list[int], gap: str
):
    text = write("VQ: it is <vague>.", MATRIX, "Choose VQ_CQ.", words).replace("><", f">{gap}<")
    assert seen(text, cuts) == parse(text).response


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(st.one_of(st.sampled_from(TAGS), WORDS), max_size=12),
    cuts=CUTS,
    plain=st.booleans(),
)
def test_whatever_is_written_the_cuts_change_nothing(
    parts: list[str], cuts: list[int], plain: bool
):
    text = "".join(parts)
    whole = seen(text, [], ("ro", "\n\n"), plain=plain)
    assert (
        seen(text, cuts, ("ro", "\n\n"), plain=plain)
        == whole
        == seen(text, list(range(len(text))), ("ro", "\n\n"), plain=plain)
    )
    if not plain:
        inner = text.partition("<response>")[2].partition("</response>")[0]
        assert whole in inner


def test_pieces_are_seen_as_soon_as_they_are_sure():
    response = VisibleResponse()
    pieces = ("<analyze>x</analyze><resp", "onse>\n", "Plus", " ", "what", "?</", "b")
    assert [response.add(piece) for piece in pieces] == ["", "", "Plus", "", " what", "?", "</b"]
    assert not response.ended
    assert response.add("</response> and more") == ""
    assert response.ended


def test_the_clients_stop_texts_end_the_response_and_not_the_hidden_blocks():
    assert (
        seen("<thinking>a END b</thinking><response>one END two</response>", [3, 20, 47], ("END",))
        == "one"
    )


def test_a_closing_tag_that_was_cut_short_is_dropped_and_a_lone_bracket_is_not():
    assert seen("<response>19</respon", []) == "19"
    assert seen("<response>3 <", []) == "3 <"


def test_plain_text_is_seen_at_once_where_it_may_be_all():
    response = VisibleResponse(plain=True)
    assert [response.add(text) for text in ("<", "b>bold", "</b> text")] == [
        "",
        "<b>bold",
        "</b> text",
    ]
    assert seen("<thinking>secret</thinking><response>19</response>", [4], plain=True) == "19"


def test_an_output_without_a_response_is_given_without_its_hidden_blocks():
    def whole(text: str) -> str:
        response = VisibleResponse(("STOP",))
        assert response.add(text) == response.end() == ""
        return response.whole_text()

    assert whole("<thinking>a</thinking><payoff>{}</payoff> 19 STOP more") == "19 "
    assert whole("just words") == "just words"
    assert whole("<thinking>all there is</thinking>").startswith("<thinking>")


def test_a_closing_tag_that_was_cut_short_is_dropped():
    """But a single sign may be meant."""
    for said, shown in (("ab</", "ab"), ("ab</resp", "ab"), ("1 <", "1 <"), ("ab</x", "ab</x")):
        assert seen(f"<response>{said}", [11, 13]) == shown


def test_blocks_have_begun_with_any_of_their_tags():
    def begins(text: str) -> bool:
        response = VisibleResponse()
        response.add(text)
        return response.begins_blocks

    for name in ("thinking", "payoff", "analyze", "response"):
        assert begins(f"so <{name}>x")
        assert not begins(f"<{name}")
        assert not begins(f"</{name}>")
    assert not begins("")
    assert not begins("<answer>")
