"""The command, run in this process; and small things to run it on."""

import json
import shutil
import sys

import pytest
from small import BESIEGED

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


@pytest.fixture(scope="session")
def besieged(tmp_path_factory):
    """A finished run of `gpo_clerks` in which the defender learned, then the adversary; copy it to write to it."""
    from equipoise import config
    from equipoise.loop import league
    from equipoise.report.terminal import Display
    from equipoise.run import Run
    from equipoise.stages import RunStages

    folder = tmp_path_factory.mktemp("besieged") / "siege"
    resolved = config.load("gpo_clerks", [part for part in BESIEGED if part != "-s"])
    with Run.create(resolved, folder) as run:
        league(RunStages(run, Display(silent=True)), resolved.generations)
    return folder


@pytest.fixture
def siege(besieged, tmp_path):
    """siege("a") copies that run into the working directory under this name."""
    return lambda name: shutil.copytree(besieged, tmp_path / name)
