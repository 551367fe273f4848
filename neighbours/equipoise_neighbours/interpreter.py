"""A script of this package under another interpreter, spoken to in JSON, a line each way."""

import json
import tempfile
from typing import Any

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.system.subprocesses import PIPE, start_process


class Interpreter:
    """A process of `python` that runs `script`, and ends with this one.

    `what` is what messages call it; `setting` the one that names the interpreter.
    """

    def __init__(self, python: str, script: str, what: str, setting: str) -> None:
        """Raises ConfigError where the interpreter cannot be run."""
        self.what, self.setting = what, setting
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  while it runs
        try:
            self._process = start_process(
                [python, script], stdin=PIPE, stdout=PIPE, stderr=self._log, text=True
            )
        except OSError as error:
            raise ConfigError(f"{setting}: {python} cannot be run ({error.strerror})") from error

    def begin(self, **line: Any) -> dict[str, Any]:
        """What it answers to its first line. Raises ConfigError where it is none that answers."""
        try:
            return self.exchange(**line)
        except EquipoiseError as error:
            raise ConfigError(f"{self.setting}: {error}") from error

    def exchange(self, **line: Any) -> dict[str, Any]:
        """What it answers to a line."""
        self.write(**line)
        return self.read()

    def write(self, **line: Any) -> None:
        """Send a line. Raises EquipoiseError where it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def read(self) -> dict[str, Any]:
        """The next line. Raises EquipoiseError where it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        try:
            return json.loads(line)
        except ValueError:
            raise EquipoiseError(f"{self.what} answered in no JSON: {line.strip()}") from None

    def _ended(self) -> EquipoiseError:
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()] or ["it printed nothing"]
        return EquipoiseError(f"{self.what} ended by itself: {lines[-1]}")
