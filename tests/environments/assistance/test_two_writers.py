"""A teacher of two models: who writes what, and what goes wrong."""

import json
import re

import pytest
from pydantic import ValidationError

from equipoise.environments.assistance.blocks import parse, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, write_matrix
from equipoise.environments.clerk import assistance_players
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import View, user

OWN = {name: Cell(0.0, 0.0) for name in CELLS}
OTHER = {name: Cell(float(n), 1.0) for n, name in enumerate(CELLS)}


def writer(view: View, seed: int) -> str:
    """A whole output at first; once there is a matrix, the choice by what it says."""
    text = view.messages[-1].content
    if "<payoff>" not in text:
        return write("It is clear.", OWN, "Choose DQ_AQ.", "A draft.")
    matrix = json.loads(text.partition("<payoff>")[2].partition("</payoff>")[0])
    best = max(matrix, key=lambda name: matrix[name]["user"])
    return f"<analyze>Choose {best}.</analyze><response>It is 19.</response>"


def forgetful(view: View, seed: int) -> str:
    return "19"


def silent_then(view: View, seed: int) -> str:
    text = view.messages[-1].content
    return "19" if "<payoff>" in text else writer(view, seed)


def failing(view: View, seed: int) -> str:
    raise RuntimeError("out of memory")


def weigher(view: View, seed: int) -> str:
    text = view.messages[-1].content
    assert "It is clear." in text
    assert "How much is 10 and 9?" in text
    return f"<payoff>{write_matrix(OTHER)}</payoff>"


def scripted(name: str) -> dict:
    return {"kind": "scripted", "call": f"test_two_writers:{name}"}


def teacher(first="writer", second="weigher") -> Player:
    kind = {"kind": "two_writers"}
    writers = {"writer": scripted(first), "matrix_writer": scripted(second)}
    return Player.build({**kind, **writers})


def written(player: Player, count=1):
    actor = player.open(None, Resources())
    views = [View((user("How much is 10 and 9?"),))] * count
    return actor.act(views, list(range(count)))


def test_the_matrix_is_the_others_and_the_choice_follows_from_it():
    for move in written(teacher(), 3):
        parsed = parse(move.text)
        assert parsed.well_formed
        assert move.finish == "stop"
        assert parsed.matrix == OTHER
        assert parsed.thinking == "It is clear."
        assert (parsed.chosen, parsed.response) == ("VQ_DA", "It is 19.")


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("forgetful", "weigher", "the writer gave no <thinking>"),
        ("writer", "forgetful", "its matrix must be an object"),
        ("writer", "failing", "the matrix's writer: .*out of memory"),
        ("failing", "weigher", "the writer: .*out of memory"),
        ("silent_then", "weigher", "no <analyze> and <response>"),
    ],
)
def test_a_step_that_fails_is_a_move_that_failed(first, second, reason):
    (move,) = written(teacher(first, second))
    assert (move.finish, move.text) == ("error", "")
    assert re.search(reason, move.error)


def test_it_does_not_learn_and_its_texts_are_checked(tmp_path):
    settings = {"kind": "two_writers", "writer": "x", "matrix_writer": "y"}
    writers = {"writer": scripted("writer"), "matrix_writer": scripted("weigher")}
    with pytest.raises(ValidationError, match="learns"):
        Player.build({**settings, **writers, "learns": True})
    path = tmp_path / "mine.txt"
    path.write_text("What is it worth?")
    with pytest.raises(ValidationError, match="placeholder 'question' is missing"):
        Player.build({**settings, **writers, "matrix_text": str(path)})


def clerk_writer(view: View, seed: int) -> str:
    """The clerk: its whole output, or the blocks that are left."""
    question, _, written_so_far = view.messages[-1].content.partition("\n\nYou have")
    text = assistance_players.teacher(View((user(question),)), seed)
    return text.partition("</payoff>")[2] if written_so_far else text


def clerk_weigher(view: View, seed: int) -> str:
    """The matrix that the clerk would write."""
    text = view.messages[-1].content.partition("was asked:\n")[2]
    question = text.partition("\n\nThe thoughts")[0]
    return parse(assistance_players.teacher(View((user(question),)), seed)).payoff


@pytest.mark.long
def test_nine_plays_by_two_writers_make_a_cold_start(command, tmp_path):
    both = {
        "kind": "two_writers",
        "writer": scripted("clerk_writer"),
        "matrix_writer": scripted("clerk_weigher"),
    }
    (tmp_path / "two.yaml").write_text(json.dumps(both))
    model = ("-s", "players.assistant.model=builtin")
    play = ("--teacher", "two.yaml", "--count", 3, "--out", "t", "--json")
    done = command("assistance", "traces", "gtalign_clerks", *model, *play)
    assert done.code == 0, done.err
    assert (done.facts["played"], done.facts["kept"]) == (27, 3)
    lines = (tmp_path / "t" / "traces.jsonl").read_text().splitlines()
    for line in lines:
        assert parse(json.loads(line)["completion"][0]["content"]).well_formed
