"""The parser of the four blocks: what it accepts, what it says is wrong, and that it never breaks."""

import json
import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mangled import SHARDS, mangled, whole
from oracles import gtalign_released

from benchmarks.gtalign_outputs import outputs
from equipoise.environments.assistance.blocks import FormatError, parse, parse_as_released, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, PayoffMatrix, write_matrix
from equipoise.environments.assistance.responses import response_action

GOOD = {cell: Cell(1.0, -0.5) for cell in CELLS}
JSON = write_matrix(GOOD)


def blocks(payoff: str = JSON, analyze: str = "I choose DQ_DA.", response: str = "19") -> str:
    return f"<thinking>t</thinking><payoff>{payoff}</payoff><analyze>{analyze}</analyze><response>{response}</response>"


def test_a_written_output_is_read_again():
    parsed = parse(write("why", GOOD, "Front: all. Choose VQ_CQ.", "What?"), strict=True)
    assert parsed.matrix == GOOD
    assert (parsed.thinking, parsed.response, parsed.chosen) == ("why", "What?", "VQ_CQ")
    assert parsed.text[parsed.before :].startswith("<response>")


@pytest.mark.parametrize(
    "payoff",
    [
        JSON.replace('"', "'"),
        JSON.replace('"', "”"),
        JSON.replace('"DQ_AQ"', "“DQ_AQ”"),
        f"```json\n{JSON}\n```",
        "{'DQ_AQ': {\"LLM\": 1, 'user': 2,}, "
        + str({c: {"LLM": 1, "user": 2} for c in CELLS[1:]})[1:],
        json.dumps({cell: {"user": 3, "LLM": 1e2} for cell in reversed(CELLS)}, indent=2),
    ],
)
def test_other_ways_to_write_a_matrix_are_read(payoff):
    assert parse(blocks(payoff)).well_formed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no <thinking>"),
        (blocks().replace("<response>19</response>", ""), "there is no <response>"),
        (blocks().replace("</payoff>", ""), "<payoff> is not closed"),
        (blocks().replace("<analyze>", ""), "</analyze> closes nothing"),
        (
            blocks().replace("<thinking>t</thinking>", "</thinking>t<thinking>"),
            "<thinking> is closed before it is",
        ),
        (blocks() + " bye", "text stands outside the blocks, after"),
        ("hi " + blocks(), "text stands outside the blocks, before <thinking>"),
        (blocks() + "<response>20</response>", "<response> stands there more than once"),
        (blocks(response="a<thinking>b"), "<thinking> stands there more than once"),
        (blocks("LLM wins"), "<payoff>: is not JSON: Expecting value"),
        (blocks("[1]"), "<payoff>: must be an object"),
        (blocks(JSON.replace("VQ_DA", "VQ_XX")), "<payoff>: lacks VQ_DA"),
        (blocks(JSON[:-1] + ',"XX":{}}'), "<payoff>: has a foreign key 'XX'"),
        (blocks(JSON[:-1] + "," + JSON[1:]), "<payoff>: has the key 'DQ_AQ' twice"),
        (blocks(JSON.replace("-0.5", '"high"', 1)), "<payoff>: DQ_AQ: LLM is 'high'"),
        (blocks(JSON.replace("-0.5", "NaN", 1)), "<payoff>: DQ_AQ: LLM is nan"),
        (blocks(JSON.replace("-0.5", "true", 1)), "<payoff>: DQ_AQ: LLM is True"),
        (blocks(JSON.replace('"user":1.0', '"x":1', 1)), "<payoff>: DQ_AQ must be"),
        (blocks("{" * 30_000), "<payoff>: is 30000 characters long"),
    ],
)
def test_it_says_what_is_wrong(text, said):
    parsed = parse(text)
    assert any(fault.startswith(said) for fault in parsed.faults), parsed.faults
    assert not parsed.well_formed
    with pytest.raises(FormatError, match=r"."):
        parse(text, strict=True)


def test_blocks_out_of_order_are_still_read():
    swapped = blocks().replace("<thinking>t</thinking>", "") + "<thinking>t</thinking>"
    parsed = parse(swapped)
    assert parsed.faults == ("the blocks stand in the order payoff, analyze, response, thinking",)
    assert (parsed.thinking, parsed.response, parsed.matrix) == ("t", "19", GOOD)


@pytest.mark.parametrize(
    ("analyze", "cell"),
    [
        ("Front: DQ_DA, VQ_CQ. Choose DQ_DA.", "DQ_DA"),
        ("I choose VQ_CQ, since DQ_DA is worse.", "VQ_CQ"),
        ("First I picked DQ_AQ; then I select VQ_AQ.", "VQ_AQ"),
        ("VQ_DA and VQ_CQ", "VQ_CQ"),
        ("nothing here", None),
    ],
)
def test_the_chosen_cell(analyze, cell):
    assert parse(blocks(analyze=analyze)).chosen == cell


@pytest.mark.parametrize(
    ("response", "move"),
    [
        ("19", "DA"),
        ("Sorry, I can't help with that.", "DA"),
        ("1. Mix.\n2. Bake.", "DA"),
        ("", "DA"),
        ("Plus what?", "CQ"),
        (
            "Sure! To help you, could you share the exact question? For example:\n- the radius\n- the area",
            "CQ",
        ),
        ("Please clarify which meeting you mean.", "CQ"),
        ("**Which year do you mean?**", "CQ"),
        ("19. Plus what?", "AQ"),
        ("It was 3.5 million in 1990. Do you mean another year?", "AQ"),
        ("Here are two ways:\n- by bus\n- by train\nWhich do you like?", "AQ"),
    ],
)
def test_which_move_a_response_is(response, move):
    assert response_action(response) == move


def checked(text: str) -> None:
    """What holds of any text at all."""
    parsed = parse(text)
    assert parsed.well_formed == (not parsed.faults)
    assert parsed.well_formed <= (parsed.matrix is not None)
    assert parsed.chosen is None or parsed.chosen in CELLS
    if parsed.response is not None:
        assert response_action(parsed.response) in ("DA", "CQ", "AQ")
    try:
        assert parse(text, strict=True) == parsed
    except FormatError as error:
        assert parsed.faults
        assert str(error) == "; ".join(parsed.faults)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(SHARDS) | st.text(max_size=8), max_size=14))
def test_any_text_is_taken_apart_or_refused(parts):
    checked("".join(parts))


@pytest.mark.long
@pytest.mark.parametrize("texts", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mangled_outputs_are_taken_apart_or_refused(texts):
    dice = random.Random(0)
    for _ in range(texts):
        checked(mangled(dice))


@pytest.mark.long
def test_damaged_outputs_are_read_as_the_release_reads_them():
    """Beside a reader of its regular expressions and of JSON and Python, written apart."""
    readable = 0
    for text in islice(outputs(random.Random(2)), 600):
        found = parse_as_released(text)
        for name, content in found.contents.items():
            assert content == gtalign_released.block(text, name)
        cells = gtalign_released.matrix(found.payoff or "")
        if cells is not None and found.matrix is None:
            assert "vast" in found.faults[-1]  # beside a fraction it stops the released code
            continue
        assert repr(found.matrix) == repr(
            cells and {name: Cell(cells[name]["user"], cells[name]["LLM"]) for name in CELLS}
        )
        if found.matrix is not None:
            readable += 1
            assert found.well_formed == bool(gtalign_released.FORM.match(text))
    assert readable > 300


def test_whole_outputs_have_no_faults():
    dice = random.Random(1)
    assert all(parse(whole(dice)).well_formed for _ in range(200))


def test_a_matrix_is_written_with_one_decimal():
    odd: PayoffMatrix = {cell: Cell(-0.04, 1.25) for cell in CELLS}
    assert '"DQ_AQ":{"LLM":1.2,"user":0.0}' in write_matrix(odd)
