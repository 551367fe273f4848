"""Every error that Equipoise raises on purpose.

    EquipoiseError        exit 1    a failure inside a run; its records stay, and
                                    `resume` continues it
    ├── DiskFull          exit 1    the ledger or a checkpoint could not be written
    ├── Stopped           exit 130  Ctrl-C or SIGTERM; resumable
    │   └── BudgetSpent             an account reached its limit; resumable with more
    └── UserError         exit 2    something that the user can correct
        ├── ConfigError             a key, kind or value of the configuration
        ├── DataError               a file or a row of it
        ├── ModelError              a model or tokenizer that cannot be used
        ├── OwnPartError            a judge, game or other part of the user's raised an error
        ├── RunError                a run directory: missing, of another version
        │   └── RunBusy             another process holds its lock
        └── NoSignal                nothing to learn from: all ties, all unjudged

A message names what is wrong, where, and what to do. The command line prints the message without a
traceback.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception

DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class EquipoiseError(Exception):
    """A failure that Equipoise understands.

    What its message quotes of a server, a file or a model is shown as by `clean` and has no mark of
    direction, so that no terminal or log obeys it.
    """

    exit_code = 1

    def __init__(self, *parts: object) -> None:
        shown = [clean_message(part) if isinstance(part, str) else part for part in parts]
        super().__init__(*shown)


class DiskFull(EquipoiseError):  # noqa: N818
    """A record or checkpoint could not be written: the disk is full."""


class Stopped(EquipoiseError):  # noqa: N818
    """The user stopped the run; it can be resumed."""

    exit_code = 130


class BudgetSpent(Stopped):
    """An account has reached a limit of its budget: calls, tokens or money.

    The run can be resumed with a larger one.
    """

    def __init__(self, message: str, account: str, limit: str) -> None:
        super().__init__(message)
        self.account, self.limit = account, limit


class UserError(EquipoiseError, ValueError):
    """Something that the user can correct: input or configuration."""

    exit_code = 2


class ConfigError(UserError):
    """A key, a kind or a value of the configuration."""


class DataError(UserError):
    """A missing or empty file, or a malformed row; the message names file and line."""


class ModelError(UserError):
    """A model, tokenizer or adapter that cannot be used as asked."""


class OwnPartError(UserError):
    """A part of the user's own raised an error, which is its `__cause__`."""


class RunError(UserError):
    """A run directory that is missing, busy, or of another version."""


class RunBusy(RunError):  # noqa: N818
    """Another process holds a run's lock."""


class NoSignal(UserError):  # noqa: N818
    """A stage left nothing to learn from: only ties, or no judgements."""


def pack_error(error: BaseException) -> tuple[str, str]:
    """The error in a form that another process can raise again.

    Returns the nearest class of ours that it belongs to and that a message makes, and its message;
    where there is none, "" and the traceback.
    """
    kinds = [kind for kind in type(error).__mro__ if kind.__module__ == __name__]
    for place, kind in enumerate(kinds):
        own = [base for base in kinds[place:] if base is not EquipoiseError]
        if not any("__init__" in vars(base) for base in own):
            return kind.__name__, str(error)
    return "", "".join(format_exception(error)).rstrip()


def unpack_error(kind: str, message: str) -> EquipoiseError:
    """The error that `pack_error` packed, if it is of a class of ours."""
    return globals()[kind](message)


_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # order of letters on the screen
_UNSEEN = (
    dict.fromkeys([*range(0x80, 0xA0), *_DIRECTIONS, *range(0xD800, 0xE000)], "\ufffd")
    | {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
    | {0x7F: "\u2421"}
)


def clean(text: str) -> str:
    """A text from outside with nothing that a terminal or page would obey.

    Control characters (C0 but tab and line feed, C1) become visible (␀), what turns the order of
    letters and lone surrogates become �.
    """
    return text.replace("\r\n", "\n").translate(_UNSEEN)


_MARKS = dict.fromkeys([0x061C, 0x200E, 0x200F])  # of direction, which some scripts need


def clean_message(text: str) -> str:
    """A message that quotes a text from outside, as `clean` shows it and without marks of
    direction.
    """
    return clean(text).translate(_MARKS)


def shorten(text: str, limit: int = 200) -> str:
    """A text from outside for a message, cut beyond `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def first_line(error: BaseException) -> str:
    """The first line of a library's error message, with the second where the first is only a
    heading; the error's class where it has no message.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def out_of_memory(error: BaseException) -> bool:
    """True where the system, or torch, had no memory to give, also while a library was loaded."""
    signs = (
        "failed to map segment",
        "annot allocate memory",
        "an't allocate memory",
        "out of memory",
    )
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)


@contextmanager
def unreadable(what: str) -> Iterator[None]:
    """Turn whatever libraries raise for odd files, and the panics of their compiled code, into a
    ModelError "`what`: the reason".
    """
    try:
        yield
    except EquipoiseError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = first_line(error)
        if "ignore_mismatched_sizes" in reason:  # "the report above", which is not shown
            reason = "its weights have other shapes than config.json says"
        raise ModelError(f"{what}: {reason[:300]}") from error
