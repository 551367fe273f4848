"""A script of this package under another interpreter, spoken to in JSON, a line each way."""

import json
import tempfile
from typing import Any

from equipoise.errors import ConfigError, EquipoiseError, shorten
from equipoise.system.subprocesses import PIPE, start_process

LINE = 64 * 1024 * 1024  # bytes of a line at most, several times the largest that was seen
LOG_END = 64 * 1024  # bytes at the end of what it printed, among which its last words are sought


class Interpreter:
    """A process of `python` that runs `script`, and ends with this one.

    `what` is what messages call it; `setting` the one that names the interpreter.
    """

    def __init__(self, python: str, script: str, what: str, setting: str) -> None:
        """Raises ConfigError where the interpreter cannot be run."""
        self.what, self.setting = what, setting
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  while it runs
        try:
            self._process = start_process(
                [python, script], stdin=PIPE, stdout=PIPE, stderr=self._log
            )
        except OSError as error:
            raise ConfigError(f"{setting}: {python} cannot be run ({error.strerror})") from error

    def begin(self, *fields: str, **line: Any) -> dict[str, Any]:
        """The answer to the first line. Raises ConfigError where none with `fields` comes."""
        try:
            return self.exchange(*fields, **line)
        except EquipoiseError as error:
            raise ConfigError(f"{self.setting}: {error}") from error

    def exchange(self, *fields: str, **line: Any) -> dict[str, Any]:
        """The answer to a line. Raises EquipoiseError where it lacks one of `fields`."""
        self.write(**line)
        return self.read(*fields)

    def write(self, **line: Any) -> None:
        """Send a line. Raises EquipoiseError where it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def read(self, *fields: str) -> dict[str, Any]:
        """The next line, a JSON object with `fields` of at most `LINE` bytes.

        Raises EquipoiseError where the process has ended or answers anything else; a line that is
        longer ends the process, since the rest of it would be read as further answers.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline(LINE)
        if not line:
            raise self._ended()
        if len(line) == LINE and not line.endswith(b"\n"):
            self._process.kill()
            raise EquipoiseError(f"{self.what} answered with a line of more than {LINE:,} bytes")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise EquipoiseError(f"{self.what} answered in no JSON: {_words(line)}") from None
        if not isinstance(answer, dict):
            raise EquipoiseError(f"{self.what} answered with no JSON object: {_words(line)}")
        missing = [field for field in fields if field not in answer]
        if missing:
            raise EquipoiseError(f"{self.what} answered without '{missing[0]}': {_words(line)}")
        return answer

    def _ended(self) -> EquipoiseError:
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - LOG_END))
        printed = [_words(line) for line in self._log.read().splitlines()]
        printed = [line for line in printed if line] or ["it printed nothing"]
        return EquipoiseError(f"{self.what} ended by itself: {printed[-1]}")


def _words(line: bytes) -> str:
    """The line as a message quotes it."""
    return shorten(line.decode(errors="replace").strip())
