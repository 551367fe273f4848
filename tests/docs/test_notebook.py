"""The notebook runs from its first cell to its last, with and without pandas."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_run.ipynb"
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
