"""Measurements, each beside a peer in the same run: `python -m benchmarks.NAME`. What
they said is in docs/lab.md.
"""

import os

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # as the command sets it: waiting threads leave the cores to others
