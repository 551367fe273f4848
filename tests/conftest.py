"""Where the vectors and inputs that tests are held against lie; those elsewhere are
read by test_published_files.py, too.
"""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

# Nothing is timed: an example that is first to import scipy, or meets a busy machine, is as good as
# any other.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the tests run side by side; threads that spin would slow all of them
# What a user agreed to is remembered in their home; not what tests agree to.
STATE = tempfile.TemporaryDirectory(prefix="equipoise-tests.")
os.environ["XDG_STATE_HOME"] = STATE.name
# The codes of judges' questions come from the user's secret; recorded questions are compared.
SECRET = Path(STATE.name, "equipoise", "secret")
SECRET.parent.mkdir(mode=0o700)
SECRET.write_bytes(bytes(range(32)))
SECRET.chmod(0o600)
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks a hub, or waits for one
# Compiled modules are kept: otherwise each worker, and each command that a test starts, would
# compile the package and rewrite all assertions anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # while modules load; what they hold is never garbage
pytest_plugins = [
    "tiny_models",
    "thinking_model",
    "openai_server",
    "vllm_server",
    "fixtures.finished_runs",
    "fixtures.commands",
    "fixtures.harnesses",
    "fixtures.hub",
    "fixtures.own_samples",
    "fixtures.servers",
    "fixtures.report_pages",
    "fixtures.records",
]


def pytest_collection_finish():
    gc.enable()


def pytest_runtest_setup(item):
    """What modules hold is not looked through again: the Trainer collects garbage at every start,
    over all that torch and transformers hold.
    """
    loaded = item.config.stash.get(LOADED, 0)
    if len(sys.modules) > loaded + 50:
        gc.freeze()
        item.config.stash[LOADED] = len(sys.modules)


LOADED = pytest.StashKey[int]()  # how many modules were loaded at the last freeze
ORACLES = Path(__file__).parent / "oracles"
SHARED = Path(__file__).resolve().parents[2] / "shared"
SOURCES = ["own", *(["shared"] if SHARED.is_dir() else [])]


@pytest.fixture(scope="session")
def oracle():
    """oracle("name.json") -> what an oracle of this repository computed."""
    return lambda name: json.loads((ORACLES / name).read_text())


@pytest.fixture(scope="session", params=SOURCES)
def golden(request, oracle):
    """golden("name.json") -> vectors from a published formula: of this repository's own oracles,
    and of a second source in the same form where that lies beside the checkout.
    """

    def load(name: str):
        return json.loads((SHARED / "golden" / name).read_text())

    return oracle if request.param == "own" else load


@pytest.fixture(scope="session", params=SOURCES)
def rows_in_their_schemas(request, own_data) -> Path:
    """A folder laid out as the published files are: of rows of our own, and the published ones
    where they lie beside the checkout.
    """
    return own_data if request.param == "own" else SHARED / "data"
