"""The command, run in this process; and small things to run it on."""

import json
import sys

import pytest

from equipoise import cli


class Result:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def facts(self):
        """Its standard output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """command("run", "quickstart", …) in an empty working directory; a traceback fails the test that meets it."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["equipoise", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err + out
        return Result(code, out, err)

    return run


@pytest.fixture
def rows(tmp_path):
    """Write rows as JSONL and give the file's path."""

    def write(found, name="prompts.jsonl"):
        path = tmp_path / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in found))
        return path

    return write
