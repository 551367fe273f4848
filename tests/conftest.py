"""Where the vectors and inputs that tests are held against lie; tests that need them
are skipped where they are not.
"""

import json
import os
from pathlib import Path

import pytest

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the tests run side by side; threads that spin would slow all of them
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks a hub, or waits for one
pytest_plugins = [
    "tiny_models",
    "openai_server",
    "fixtures.adapter_run",
    "fixtures.commands",
    "fixtures.hub",
    "fixtures.servers",
    "fixtures.report_pages",
]

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def golden():
    """golden("name.json") -> the parsed vectors."""

    def load(name: str):
        path = SHARED / "golden" / name
        if not path.exists():
            pytest.skip(f"golden vectors are absent: {path}")
        return json.loads(path.read_text())

    return load


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real inputs in their original schemas."""
    path = SHARED / "data"
    if not path.exists():
        pytest.skip(f"real inputs are absent: {path}")
    return path
