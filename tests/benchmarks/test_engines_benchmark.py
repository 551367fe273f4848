"""`benchmarks.engines` runs at a toy shape, and says which figure is missing."""

import json

import pytest

from benchmarks import engines


@pytest.mark.long
def test_without_a_server_the_figure_is_said_to_be_missing(tmp_path, capsys):
    file = tmp_path / "engines.json"
    small = ["--shape", "toy", "--rows", "8", "--prompt", "4", "--new", "3"]
    once = ["--rounds", "1", "--without-trl", "--out", str(file)]
    engines.main([*small, *once])
    assert "vLLM: the figure is missing" in capsys.readouterr().out
    figures = json.loads(file.read_text())["figures"]
    assert set(figures) == {"generate", "local sampler", "PEFT, 8 adapters"}
    assert figures["generate"]["times_generate"] == 1
    assert all(figure["tokens_per_second"] > 0 for figure in figures.values())
