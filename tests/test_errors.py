"""Errors that are told of by one process and raised again in another."""

import pytest

from equipoise import errors


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
