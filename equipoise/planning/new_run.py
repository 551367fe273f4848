"""A new run: its parts are checked before its folder is made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from equipoise.planning.checks import check_new_run
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory


@contextmanager
def new_run(
    config: RunConfig,
    folder: Path,
    overwrite: bool = False,
    command: str = "",
    meta: Mapping[str, str] | None = None,
    announce: Callable[[Sequence[str]], None] | None = None,
    option: str = "--out",
) -> Iterator[RunDirectory]:
    """A new run in `folder`, with the counts of prompts that the source has.

    Args: as `RunDirectory.create`; announce: as `check_new_run` takes it. Raises RunError when
    something is there and `overwrite` is false, when it is in use or cannot be written, and what
    `check_new_run` raises.
    """
    RunDirectory.check_vacant(folder, overwrite, config.ledger, option)  # before the long checks
    checked = check_new_run(config, announce)
    config = checked.config
    notes = checked.notes
    del checked  # all prompts are in it, and they are read anew where they are dealt
    with RunDirectory.create(config, folder, overwrite, command, meta, notes, option) as run:
        yield run
