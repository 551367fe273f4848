"""The figures of one short call on a card: each step ends at its limit, and what there is stays."""

import argparse
import io
import json

import pytest

from benchmarks import gpu_short
from benchmarks.gpu import has_gpu
from benchmarks.gpu_short import STEPS, ended_in_time, main, options


def test_without_a_gpu_nothing_is_begun(tmp_path, capsys):
    if has_gpu():
        pytest.skip("there is a GPU")
    main(["--out", str(tmp_path / "out")])
    assert "no GPU here" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_the_steps_fit_into_the_call():
    assert [*STEPS][:2] == ["doctor", "quickstart"]
    assert sum(step.seconds for step in STEPS.values()) <= 60 * 8 * 1.2


def test_a_step_without_time_is_not_begun():
    o = argparse.Namespace(tiny=True)
    assert ended_in_time("doctor", o, 4.0, io.StringIO()) == {"state": "no time was left"}


@pytest.mark.long
def test_a_step_ends_at_its_limit_and_a_failure_is_named(tmp_path):
    o = argparse.Namespace(tiny=True)
    with (tmp_path / "log.txt").open("w") as log:
        assert ended_in_time("grpo", o, 5.0, log)["state"] == "took longer than 5 s"
        failed = ended_in_time("no such step", o, 120.0, log)
    assert failed["state"] == "failed with code 2; see log.txt"
    assert "invalid choice" in (tmp_path / "log.txt").read_text()


@pytest.mark.slow
def test_all_steps_are_rehearsed_and_written_one_by_one(tmp_path, monkeypatch):
    few = {name: STEPS[name] for name in ("dpo_lora", "grpo", "sampling")}
    monkeypatch.setattr(gpu_short, "STEPS", few)
    with pytest.raises(SystemExit) as ended:
        main(["--tiny", "--minutes", "20", "--out", str(tmp_path)])
    assert ended.value.code == 0
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert {step["state"] for step in figures["steps"].values()} == {"done"}
    assert figures["steps"]["grpo"]["tokens_per_second"] > 0
    assert figures["steps"]["dpo_lora"]["loss"] == pytest.approx(0.69, abs=0.1)
    assert set(figures["steps"]["sampling"]) == {"state", "took", "1 rows", "4 rows"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.json", "log.txt"]


def test_the_call_lasts_eight_minutes_unless_told_otherwise():
    assert options([]).minutes == 8
