"""Short garbage collections."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _short_collections():
    """The Trainer collects garbage at every start, over all that torch and transformers
    hold.
    """
    gc.freeze()
