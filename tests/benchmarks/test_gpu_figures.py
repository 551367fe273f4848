"""Figures of a GPU are made by commands that run, one after the other, over several calls."""

from __future__ import annotations

import contextlib
import json
import time

import psutil
import pytest

from benchmarks.gpu import FIGURES, Figure, finished, has_gpu, made, main, options


def test_without_a_gpu_nothing_is_begun(tmp_path, capsys):
    if has_gpu():
        pytest.skip("there is a GPU")
    main(["--out", str(tmp_path)])
    assert "no GPU here" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no figure speed; there are tests, dpo, dpo_lora" in capsys.readouterr().err


def test_a_figure_waits_for_its_model_and_for_time(tmp_path):
    o = options(["--out", str(tmp_path)])
    later = time.monotonic() + 3600
    assert made("grpo", o, later) == {"state": "waits for --smollm2"}
    assert made("qwen_run", o, later) == {"state": "waits for --qwen"}
    assert made("vllm", options(["--smollm2", "m"]), later) == {"state": "waits for --server"}
    soon = time.monotonic() + 60 * FIGURES["dpo"].minutes - 1
    assert made("dpo", o, soon) == {"state": "waits for the next call"}


def test_a_figure_is_kept_and_not_made_again(tmp_path, monkeypatch):
    write = "import sys; print('said'); open(sys.argv[1], 'w').write('{\"x\": 3}')"
    (tmp_path / "write.py").write_text(write)
    tiny = f"{tmp_path}/write.py {{result}}"
    monkeypatch.setitem(FIGURES, "one", Figure(1, "never", tiny))
    o = options(["--tiny", "--out", str(tmp_path)])
    record = made("one", o, time.monotonic() + 60)
    assert record["state"] == "done"
    assert record["result"] == {"x": 3}
    assert record["command"] == f"python {tiny}"
    assert record["device"]
    assert record["versions"]
    assert json.loads((tmp_path / "one.json").read_text())["figures"] == record
    assert (tmp_path / "one.log").read_text() == "said\n"
    monkeypatch.setitem(FIGURES, "one", Figure(1, "never", "nowhere.py"))
    assert made("one", o, time.monotonic() + 60) == record


def test_a_rehearsal_on_a_gpu_is_there_and_in_its_numbers():
    tiny = FIGURES["dpo"].tiny
    assert FIGURES["dpo"].rehearsal(False) == tiny
    assert FIGURES["dpo"].rehearsal(True) == f"{tiny} --device cuda --dtype bfloat16"
    assert FIGURES["grpo"].rehearsal(True).endswith(" --device cuda")


@pytest.mark.long
def test_what_fails_or_takes_too_long_is_missing_and_said(tmp_path):
    o = options(["--tiny", "--out", str(tmp_path)])
    failed = finished("two", "-c raise(SystemExit(3))", o, tmp_path, 60)
    assert failed == {"state": "failed with code 3: see two.log"}
    (tmp_path / "sleep.py").write_text(
        "import subprocess, sys; child = subprocess.Popen(['sleep', '60']); print(child.pid, "
        "flush=True); child.wait()"
    )
    slow = finished("three", f"{tmp_path}/sleep.py", o, tmp_path, 2)
    assert slow["state"] == "took longer than 2 s"
    child = int((tmp_path / "three.log").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):  # what it began ends, too
        began = psutil.Process(child)
        end = time.monotonic() + 10
        while began.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_command_runs_at_a_size_for_tests(name, tmp_path):
    o = options(["--tiny", "--out", str(tmp_path)])
    assert made(name, o, time.monotonic() + 600)["state"] == "done", (
        tmp_path / f"{name}.log"
    ).read_text()
