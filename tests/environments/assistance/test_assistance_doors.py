"""What the environment's package offers by itself, and what that loads."""

import subprocess
import sys

import pytest

import equipoise.environments.assistance as assistance


def test_an_output_is_parsed_and_paid():
    parsed = assistance.parse("<response>19</response>")
    assert parsed.response == "19"
    paid = assistance.reward(parsed, 1.0, 1.0)
    # it has no matrix
    assert paid is not None
    assert paid.welfare == 0.0


def test_another_name_is_none_of_its():
    with pytest.raises(AttributeError, match="no attribute 'pay'"):
        getattr(assistance, "pay")  # noqa: B009


@pytest.mark.long
def test_the_doors_load_nothing_heavy():
    code = (
        "import sys; from equipoise.environments.assistance import parse, reward; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
