"""References to runs on the command line: `RUN` or `RUN@GENERATION`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.errors import ConfigError


def at_generation(
    text: str, generation: int | None = None, option: str = ""
) -> tuple[Path, int | None]:
    """The folder and the generation of `RUN` or `RUN@3`, None where none is named.

    Args: generation: what the option `option` says, None where it is not given. A folder whose own
    name ends in @3 is taken as it is. Raises ConfigError where both name a generation.
    """
    folder, at, number = text.rpartition("@")
    if not at or not number.isdecimal() or Path(text).is_dir():
        return Path(text), generation
    if generation is not None:
        raise ConfigError(
            f"{option} {generation}: {text} already names a generation; leave one of them out"
        )
    return Path(folder), int(number)


def short_names(folders: Sequence[Path]) -> list[str]:
    """Names of runs for a table: their folders' names, or whole paths where two different ones have
    the same name.
    """
    paths = {folder: folder.resolve() for folder in folders}
    names = []
    for folder in folders:
        path = paths[folder]
        ambiguous = any(p != path and p.name == path.name for p in paths.values())
        names.append(str(folder) if ambiguous else path.name)
    return names
