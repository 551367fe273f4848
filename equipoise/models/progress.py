"""What models say while they work: how far they are, to whoever follows in this thread, and nothing
of other libraries' progress bars, load reports and warnings that nobody can act on.
"""

import io
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr

PAUSE = 0.5  # seconds between two looks at how far a batch is

_here = threading.local()


@contextmanager
def following(report: Callable[[float], None]) -> Iterator[None]:
    """Have `report(rows)` called for each so many rows that models finish in this thread."""
    before = getattr(_here, "report", None)
    _here.report = report
    try:
        yield
    finally:
        _here.report = before


def report_progress(rows: float) -> None:
    """Say that so many more rows, or parts of rows, are done."""
    report = getattr(_here, "report", None)
    if report is not None and rows > 0:
        report(rows)


class ProgressReports:
    """Tells how far a batch is, at most twice a second, for looking may wait for the device."""

    def __init__(self) -> None:
        self._told = 0.0
        self._next = time.monotonic() + PAUSE

    def look(self, rows: Callable[[], float]) -> None:
        """Tell what is new in `rows()`, the rows done since the beginning, if it is time."""
        if getattr(_here, "report", None) is not None and time.monotonic() >= self._next:
            self.end(rows())
            self._next = time.monotonic() + PAUSE

    def end(self, rows: float) -> None:
        """Tell what is new in `rows`."""
        report_progress(rows - self._told)
        self._told = max(self._told, rows)


@contextmanager
def quiet(*, all_bars: bool = False) -> Iterator[None]:
    """Silence transformers' progress bars and load reports; the caller raises their problems.

    `all_bars`: bars that no setting silences, too, with all else on standard error.
    """
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        if all_bars:
            with redirect_stderr(io.StringIO()):
                yield
        else:
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def no_foreign_bars() -> None:
    """Leave out the bars of other libraries from now on, in processes started here, too.

    Call it before they are imported.
    """
    for name in (
        "TQDM_DISABLE",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "HF_DATASETS_DISABLE_PROGRESS_BARS",
    ):
        os.environ.setdefault(name, "1")


def ignore_known_warnings() -> None:
    """Leave out the warnings that nobody who runs a recipe can act on."""
    # PEFT asks transformers in a way that transformers will drop.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*", FutureWarning)
    for library in ("bitsandbytes", "torchao", "torch.utils._pytree"):  # of kernels for GPUs
        logging.getLogger(library).setLevel(logging.ERROR)
