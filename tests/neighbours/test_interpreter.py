"""Interpreters of other packages that end, print too much, or answer something else."""

import sys
from pathlib import Path

import pytest
from equipoise_neighbours import interpreter
from equipoise_neighbours.interpreter import Interpreter

from equipoise.errors import ConfigError, EquipoiseError


def interpreter_of(folder: Path, code: str) -> Interpreter:
    script = folder / "worker.py"
    script.write_text(f"import sys\nsys.stdin.readline()\n{code}\n")
    return Interpreter(sys.executable, str(script), "the scorer", "judge.python")


def test_an_answer_is_an_object_with_the_fields_asked_for(tmp_path: Path) -> None:
    worker = interpreter_of(tmp_path, 'print(\'{"verdicts": [1], "other": 2}\', flush=True)')
    assert worker.exchange("verdicts", answers=["a"]) == {"verdicts": [1], "other": 2}


def test_a_line_without_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "LINE", 1000)
    worker = interpreter_of(tmp_path, "while True:\n    sys.stdout.write('[' * 500)")
    with pytest.raises(EquipoiseError, match="the scorer answered with a line of more than 1,000"):
        worker.exchange()
    with pytest.raises(EquipoiseError):  # the rest of the line is no further answer
        worker.exchange()


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("[1, 2]", "with no JSON object"),
        ("verdict: good", "in no JSON: verdict: good"),
        ("[" * 100_000, "in no JSON"),
        ('{"verdict": 1}', "without 'verdicts'"),
    ],
)
def test_another_answer_is_refused(tmp_path: Path, printed: str, message: str) -> None:
    worker = interpreter_of(tmp_path, f"print({printed!r}, flush=True)")
    with pytest.raises(EquipoiseError) as error:
        worker.exchange("verdicts")
    assert message in str(error.value)
    assert len(str(error.value)) < 300


def test_the_end_of_a_long_log_is_said_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "LOG_END", 100)
    code = "sys.exit('x' * 500 + '\\nno such scorer\\x1b[31m')"
    with pytest.raises(ConfigError) as error:
        interpreter_of(tmp_path, code).begin("fault")
    assert str(error.value).startswith("judge.python: the scorer ended by itself: no such scorer")
    assert "\x1b" not in str(error.value)
