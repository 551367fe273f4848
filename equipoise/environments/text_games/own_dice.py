"""Random numbers of one's own for code that draws from Python's and NumPy's global ones.

Matches advance together, so each keeps where it is in its own sequence, and the global generators
are given back as they were.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class OwnDice:
    """The state of both global generators as one match sees them."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self._python = dice.getstate()
        # the legacy generator is the one that is global
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Draws continue this match's sequence."""
        python, legacy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(legacy)
