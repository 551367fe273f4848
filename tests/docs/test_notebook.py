"""The notebooks run from their first cell to their last, that of a first run without pandas, too."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_run.ipynb"
OWN_DATA = NOTEBOOK.with_name("own_data.ipynb")
SETTINGS = '{"generations": 2, "per_generation": 30, "held_out": 40}'
TINY = '{"generations": 1, "per_generation": 8, "held_out": 6}'
WHOLE = '{"generations": 2, "prompts": {"per_generation": 200, "held_out": 100}}'
FEW = '{"generations": 1, "prompts": {"per_generation": 12, "held_out": 8}}'
# What asks whether a package is there finds no pandas; transformers goes on with its own.
WITHOUT_PANDAS = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pandas" else find_spec(name, *more)
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", WITHOUT_PANDAS], ids=["pandas", "no_pandas"])
def test_the_notebook_runs(before, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[1]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    first = notebook.cells[1]
    assert WHOLE in first.source
    first.source = first.source.replace(WHOLE, FEW).replace(
        "import equipoise\n", f"import equipoise\n{before}"
    )
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=place).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = "".join(output.get("text", "") for output in outputs)
    assert ("pip install pandas" in printed) == bool(before)
    assert "\x1b" not in printed
    assert outputs[-1].data["text/plain"] == "'report.html'"
    assert (tmp_path / "runs" / "first" / "report.html").is_file()


@pytest.mark.slow
def test_the_notebook_of_own_data_compares_three_losses(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(OWN_DATA.parents[1]))
    notebook = nbformat.read(OWN_DATA, as_version=4)
    (trains,) = [cell for cell in notebook.cells if SETTINGS in cell.source]
    trains.source = trains.source.replace(SETTINGS, TINY)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=place).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [output.data["text/plain"] for output in outputs if "data" in output]
    (compared,) = [text for text in texts if "adjusted" in text]
    for first, second in (("mnpo", "dpo"), ("mnpo", "ipo"), ("dpo", "ipo")):
        assert re.search(rf"\b{first}\s+{second}\b", compared)
    assert (tmp_path / "runs" / "comparison.html").is_file()
    assert texts[-1] == "'report.html'"
    for loss in ("mnpo", "dpo", "ipo"):
        written = (tmp_path / "runs" / loss / "config.yaml").read_text()
        assert "def brief_and_right" in written
