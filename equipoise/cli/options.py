"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.errors import ConfigError

Recipe = Annotated[
    str,
    typer.Argument(
        help="a packaged recipe's name (see `equipoise recipes`) or a YAML file"
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run directory")]
Set = Annotated[
    list[str],
    typer.Option(
        "-s", "--set", metavar="KEY=VALUE", help="override a setting: loss=dpo"
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="print facts as JSON, and nothing else")
]


def show(facts: Any) -> None:
    """Print facts as JSON."""
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False, default=str))


def names(folders: Sequence[Path]) -> list[str]:
    """What a table calls the runs: their folders' names, or whole paths where two
    different ones have one name.
    """
    found = {folder: folder.resolve() for folder in folders}
    return [
        str(folder)
        if any(one != whole and one.name == whole.name for one in found.values())
        else whole.name
        for folder, whole in ((folder, found[folder]) for folder in folders)
    ]


def at_generation(
    text: str, generation: int | None = None, option: str = ""
) -> tuple[Path, int | None]:
    """`RUN` or `RUN@3` -> the folder and the generation, None where none is named;
    `generation` is what `option` says.

    A folder whose own name looks like that is taken as it is. Raises ConfigError where
    both name a generation.
    """
    folder, at, number = text.rpartition("@")
    if not at or not number.isdecimal() or Path(text).is_dir():
        return Path(text), generation
    if generation is not None:
        raise ConfigError(
            f"{option} {generation}: {text} names a generation already; leave one of them out"
        )
    return Path(folder), int(number)
