"""Measurements, each beside a peer in the same run: `python -m benchmarks.NAME`. Their results are
in docs/lab/2026-11.md.
"""

import os

# As the command sets it: waiting threads leave the cores to others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
