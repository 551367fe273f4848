"""transformers without its progress bars, load reports, and warnings that nobody can act on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and load reports; the caller raises their problems."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def ignore_known_warnings() -> None:
    """Leave out the warnings that nobody who runs a recipe can act on."""
    # PEFT asks transformers in a way that transformers will drop.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*", FutureWarning)
