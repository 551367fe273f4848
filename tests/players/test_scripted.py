import pytest

from equipoise.errors import ModelError
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.scripted import Scripted
from equipoise.types import Move, View, user

VIEW = View((user("2 + 2"),))


def shout(view: View, seed: int) -> str:
    """A script for the tests: what was asked, loudly, and the seed."""
    return f"{view.messages[-1].content.upper()}! {seed}"


def fail(view: View, seed: int) -> str:
    """A script that breaks on one seed."""
    if seed == 1:
        raise KeyError("no idea")
    return "fine"


def number(view: View, seed: int) -> int:
    """A script that returns no text."""
    return seed


class Words(str):
    """A text of a type of its own."""


def odd(view: View, seed: int) -> str:
    """A script that returns half a character."""
    return Words("half \ud83d")


def act(player, dice):
    return player.open(None, Resources()).act([VIEW] * len(dice), dice)


def test_one_text():
    assert act(Scripted(text="four"), [5, 6]) == [Move("four"), Move("four")]
    assert act(Scripted(text=""), [5]) == [Move("")]


def test_texts_go_round_by_seed():
    assert [move.text for move in act(Scripted(texts=("a", "b", "c")), [0, 1, 2, 3, 7])] == [
        "a",
        "b",
        "c",
        "a",
        "b",
    ]


def test_a_function_is_asked():
    assert act(Scripted(call="test_scripted:shout"), [3]) == [Move("2 + 2! 3")]


def test_a_function_that_raises_gives_an_error_move_and_spares_the_others():
    good, bad = act(Scripted(call="test_scripted:fail"), [0, 1])
    assert good == Move("fine")
    assert (bad.text, bad.finish, bad.error) == (
        "",
        "error",
        "test_scripted:fail raised KeyError: 'no idea'",
    )


def test_a_function_that_returns_no_text_gives_an_error_move():
    (move,) = act(Scripted(call="test_scripted:number"), [0])
    assert (move.finish, move.error) == ("error", "test_scripted:number returned int, not a text")


def test_a_functions_text_can_be_recorded_whatever_is_in_it():
    (move,) = act(Scripted(call="test_scripted:odd"), [0])
    assert type(move.text) is str
    assert move.text.encode() == "half \ufffd".encode()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "exactly one"),
        ({"text": "a", "texts": ["b"]}, "exactly one"),
        ({"texts": []}, "at least 1 item"),
        ({"call": "no_such_module:f"}, "cannot import"),
        ({"call": "test_scripted:absent"}, "cannot import"),
        ({"call": "test_scripted"}, "cannot import"),
        ({"call": "test_scripted:VIEW"}, "cannot be called"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Player.build({"kind": "scripted", **settings})


def test_settings_survive_a_round_trip():
    player = Scripted(call="test_scripted:shout")
    assert Player.build(player.settings()) == player


def test_no_weights_begin_a_player_that_has_none(tmp_path):
    fixed = Player.build({"kind": "scripted", "text": "yes"})
    assert fixed.settings_at(None) == fixed.settings()
    with pytest.raises(ModelError, match="'scripted' player has no weights"):
        fixed.settings_at(tmp_path)
