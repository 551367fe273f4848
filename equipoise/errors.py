"""Every error that Equipoise raises on purpose.

    EquipoiseError                exit 1   a failure inside a run; what was recorded stays, `resume` goes on
    ├── DiskFull                  exit 1   the ledger or a checkpoint could not be written
    ├── Stopped                   exit 130 Ctrl-C or SIGTERM; resumable
    │   └── BudgetSpent                    an account has reached its limit; resumable with a larger one
    └── UserError                 exit 2   something that the user can mend
        ├── ConfigError                    a key, kind or value of the configuration
        ├── DataError                      a file or a row of it
        ├── ModelError                     a model or tokenizer that cannot be used
        ├── RunError                       a run directory: missing, busy, of another version
        └── NoSignal                       nothing to learn from: all ties, all unjudged

A message names what is wrong, where, and what to do. The command line prints it alone,
without a traceback.
"""


class EquipoiseError(Exception):
    """A failure that Equipoise understands."""

    exit_code = 1


class DiskFull(EquipoiseError):  # noqa: N818
    """A record or checkpoint could not be written for want of space."""


class Stopped(EquipoiseError):  # noqa: N818
    """The user stopped the run; it can be resumed."""

    exit_code = 130


class BudgetSpent(Stopped):
    """An account has reached a limit of its budget (calls, tokens or money); resumable
    with a larger one.
    """

    def __init__(self, message: str, account: str, limit: str) -> None:
        super().__init__(message)
        self.account, self.limit = account, limit


class UserError(EquipoiseError, ValueError):
    """Something that the user can mend: input or configuration."""

    exit_code = 2


class ConfigError(UserError):
    """A key, a kind or a value of the configuration."""


class DataError(UserError):
    """A missing or empty file, or a malformed row; the message names file and line."""


class ModelError(UserError):
    """A model, tokenizer or adapter that cannot be used as asked."""


class RunError(UserError):
    """A run directory that is missing, busy, or of another version."""


class NoSignal(UserError):  # noqa: N818
    """A stage that left nothing to learn from: every pair a tie, every judgement
    missing.
    """


def first_line(error: BaseException) -> str:
    """What a library's error says, in one line; a heading is followed by the first line
    under it.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        type(error).__name__
    ]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
