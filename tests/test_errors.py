"""Errors that are told of by one process and raised again in another, and what messages show of
texts from outside.
"""

import unicodedata

import pytest

from equipoise import errors
from equipoise.errors import BudgetSpent, ConfigError
from equipoise.system.hugging_face import hub_repository


@pytest.mark.parametrize(
    ("raised", "again"),
    [
        (errors.ConfigError("no such model"), errors.ConfigError),
        # It needs an account besides its message.
        (errors.BudgetSpent("all is spent", "judge", "calls"), errors.Stopped),
    ],
)
def test_what_is_sent_can_be_received(raised, again):
    got = errors.unpack_error(*errors.pack_error(raised))
    assert type(got) is again
    assert str(got) == str(raised)


def test_a_strangers_error_is_sent_as_its_traceback():
    kind, message = errors.pack_error(KeyError("lost"))
    assert kind == ""
    assert "KeyError: 'lost'" in message


@pytest.mark.parametrize("kind", ["DiskFull", "Stopped", "RunBusy", "NoSignal", "EquipoiseError"])
def test_every_class_of_ours_comes_again_with_its_exit_code(kind):
    again = errors.unpack_error(kind, "so")
    assert errors.pack_error(again) == (kind, "so")
    code = {"Stopped": 130, "DiskFull": 1, "EquipoiseError": 1}.get(kind, 2)
    assert again.exit_code == code


def test_no_character_reaches_a_terminal_that_it_obeys():
    """Of all characters: controls are shown as pictures, what turns letters round is replaced."""
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    for code in range(0x11000):
        letter = chr(code)
        shown = errors.clean(letter)
        kind = unicodedata.category(letter)
        if letter in "\t\n" or (
            kind not in ("Cc", "Cs") and unicodedata.bidirectional(letter) not in turning
        ):
            assert shown == letter, hex(code)
        elif code < 0x80:
            assert unicodedata.name(shown).startswith("SYMBOL FOR ")
            assert code == 0x7F or ord(shown) - 0x2400 == code
        else:
            assert shown == "\ufffd", hex(code)
    assert errors.clean("a\r\nb\rc") == "a\nb␍c"
    assert errors.clean("\x7f") == "␡"


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("kind", [k for k in KINDS if issubclass(k, errors.EquipoiseError)])
def test_what_an_error_quotes_is_obeyed_by_no_terminal(kind):
    """Python callers print it as it is, or write it into their logs."""
    hostile = "a \x1b[2J\x1b]0;title\x07 b\r\x9b31m \u202egrade\u2066 \u200f\u200e\u061c c\nd\te"
    more = ("judge", "calls") if kind is BudgetSpent else ()
    error = kind(hostile, *more)
    assert str(error) == "a ␛[2J␛]0;title␇ b␍�31m �grade�  c\nd\te"
    assert "\x1b" not in repr(error)
    again = errors.unpack_error(*errors.pack_error(error))
    assert str(again) == str(error)


def test_long_texts_are_cut_to_their_limit():
    assert errors.shorten("a" * 200) == "a" * 200
    assert errors.shorten("a" * 201) == "a" * 199 + "…"
    assert errors.shorten("abc", 2) == "a…"


def test_a_librarys_message_in_a_line():
    assert errors.first_line(ValueError("\n  one  \n two")) == "one"
    assert errors.first_line(ValueError("Error(s) in it:\n\n one\n two")) == "Error(s) in it: one"
    assert errors.first_line(ValueError("alone:")) == "alone:"
    assert errors.first_line(KeyError()) == "KeyError"


class PanicException(BaseException):
    """Named as what compiled code of libraries raises."""


def test_odd_files_are_one_message():
    for error in (OSError("x" * 400), PanicException("x" * 400)):
        with pytest.raises(errors.ModelError) as raised, errors.unreadable("it"):
            raise error
        assert str(raised.value) == f"it: {'x' * 300}"
    shapes = "its weights have other shapes than config.json says"
    with pytest.raises(errors.ModelError, match=f"^it: {shapes}$"), errors.unreadable("it"):
        raise RuntimeError("use ignore_mismatched_sizes, see the report above")
    for passing in (errors.DataError("ours"), KeyboardInterrupt()):
        with pytest.raises(type(passing)), errors.unreadable("it"):
            raise passing


def test_a_spent_budget_says_whose_and_which():
    spent = BudgetSpent("judge: 3 calls of 3 are made", "judge", "calls")
    assert str(spent) == "judge: 3 calls of 3 are made"
    assert (spent.account, spent.limit, spent.exit_code) == ("judge", "calls", 130)


@pytest.mark.parametrize("name", ["a/b/c", "org/na me", "-x", "org/.git"])
def test_a_name_that_no_repository_can_have_is_refused_before_anybody_is_asked(name):
    pytest.importorskip("huggingface_hub")
    with pytest.raises(ConfigError, match=f"^--push {name}: "):
        hub_repository(name, "model")
