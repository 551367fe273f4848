"""The tiny models of the players' tests, and short garbage collections."""

import gc
import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("tiny_models", Path(__file__).parents[1] / "players" / "conftest.py")
assert _spec is not None and _spec.loader is not None
_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_models)
model_folder = _models.model_folder


@pytest.fixture(autouse=True)
def _short_collections():
    """The Trainer collects garbage at every start, over all that torch and transformers hold."""
    gc.freeze()
