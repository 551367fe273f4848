"""The page on Python: its code runs as one script, and its tables name every column."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import equipoise
from equipoise.ledger import frames

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FEW = '{"generations": 2, "prompts": {"per_generation": 12, "held_out": 8}, "learner.epochs": 0.5}'
STEP = 'max_steps=1, report_to="none", save_strategy="no", use_cpu=True, bf16=False'


@pytest.mark.long
def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    script = ModuleType("page_script")
    monkeypatch.setitem(sys.modules, "page_script", script)
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("trl")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for snippet in SNIPPETS:
        code = snippet.replace('{"generations": 2}', FEW)
        code = re.sub(r'Config\("\w+"', lambda begun: f"{begun[0]}, {STEP}", code)
        code = code.replace('"grpo", ', '"grpo", max_completion_length=4, ')
        exec(compile(code, "docs/python.md", "exec"), vars(script))
    run = equipoise.open_run("runs/first")
    assert set(run.judgements("held_out", 2).judge) == {"clerk", "page_script:Short"}
    assert len(script.scores) == 8
    assert len(script.lost) <= 8
    assert (tmp_path / "runs/first/tables/pairs.parquet").is_file()
    assert run.path.joinpath("report.html").is_file()


def test_the_page_names_every_column():
    named = set(re.findall(r"`(\w+)`", PAGE))
    tables = (frames.MATCHES, frames.JUDGEMENTS, frames.PAIRS, frames.RATINGS)
    for columns in (*tables, frames.MEASURES):
        assert set(columns) <= named
