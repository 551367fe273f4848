"""What a process that leads others reads of them: their lines, and why they failed."""

import json

import pytest

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.learners.process_group import LOG, GroupLostError, failure, follow_lines


def left(folder, number, **said):
    given = {"kind": "", "message": "", "alone": False, **said}
    (folder / f"error-{number}.json").write_text(json.dumps(given))


def test_every_whole_line_is_read_once_until_nothing_more_comes(tmp_path):
    file, read, waited = tmp_path / "lines", [], []

    def has_ended(seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) > 1:
            with file.open("a") as lines:
                lines.write(f'{{"n": {len(waited)}}}\n{{"n":')
                lines.write(f" {10 * len(waited)}}}\n" if len(waited) % 2 else " 0}\n")
        return len(waited) == 4

    follow_lines(has_ended, file, read.append)
    assert [line["n"] for line in read] == [2, 0, 3, 30, 4, 0] and set(waited) == {0.1}


def test_the_first_process_that_knows_why_says_it_and_a_lost_one_shows_its_end(tmp_path):
    (tmp_path / LOG).write_text("".join(f"line {n}\n" for n in range(15)))
    lost = failure(tmp_path, -9)
    assert isinstance(lost, GroupLostError)
    message = str(lost)
    assert f"ended with exit code -9; the end of {tmp_path / LOG}:\nline 3\n" in message
    assert message.endswith("line 14") and "line 2\n" not in message
    left(tmp_path, 10, message="the others went", alone=True)
    assert isinstance(failure(tmp_path, 1), GroupLostError)
    left(tmp_path, 3, message="CUDA\nran out")
    foreign = failure(tmp_path, 1)
    assert type(foreign) is EquipoiseError and str(foreign).endswith(
        f"({tmp_path / LOG}):\nCUDA\nran out"
    )
    left(tmp_path, 9, kind="ConfigError", message="the rate is too high")
    known = failure(tmp_path, 1)
    assert type(known) is ConfigError and str(known) == "the rate is too high"
    with pytest.raises(ConfigError):
        raise known
