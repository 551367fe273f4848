"""An outcome is chosen from the edited matrix, and the model goes on from that one."""

from equipoise.environments.assistance.blocks import find_block, parse
from equipoise.environments.assistance.payoff_matrix import Cell, read_matrix
from equipoise.environments.assistance.steering import Steering

CELLS = ("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ", "VQ_DA")
# A direct answer is best as it is written; where it costs the model three, asking is.
WRITTEN = dict(zip(CELLS, (Cell(2, 2), Cell(1, 1), Cell(3, 3)) * 2, strict=True))
CHARGED = {"kind": "released", "llm": -2.0}


def test_the_outcome_is_chosen_from_what_was_edited():
    plain = Steering.model_validate({"question": "DQ"})
    choice = plain.choose(WRITTEN, None, 1)
    assert choice is not None
    assert choice.cell == "DQ_DA"
    # AQ: (2 + 1, 2 − 2); DA: (3, 3 − 2); CQ: (1 + ½, 1 − 2)
    edited = Steering.model_validate({"question": "DQ", "pricing": CHARGED, "by": "sum"})
    choice = edited.choose({**WRITTEN, "DQ_AQ": Cell(3.5, 2)}, None, 1)
    assert choice is not None
    assert choice.edited["DQ_AQ"] == Cell(4.5, 0)
    assert choice.cell == "DQ_AQ"


def test_the_model_goes_on_from_the_edited_matrix():
    steering = Steering.model_validate({"question": "DQ", "pricing": CHARGED})
    choice = steering.choose(WRITTEN, None, 1)
    assert choice is not None
    begun = '<thinking>t</thinking>\n<payoff>{"DQ_AQ": {"LLM"'
    text = steering.continuation(begun, choice)
    block = find_block(text, "payoff")
    assert block is not None
    assert read_matrix(block.content) == choice.edited
    assert choice.edited["DQ_DA"] == Cell(3, 1)
    assert parse(text).thinking == "t"
    assert f"Choose {choice.cell}" in text


def test_shown_numbers_may_keep_the_level_of_those_that_were_written():
    steering = Steering.model_validate({"pricing": CHARGED, "level": True})
    choice = steering.choose(WRITTEN, None, 1)
    assert choice is not None
    for side in (0, 1):
        shown = max(cell[side] for cell in choice.shown.values())
        assert shown == max(cell[side] for cell in WRITTEN.values())
