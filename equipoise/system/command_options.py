"""Options that verbs of the command share, those of environments among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.system.packaged_recipes import packaged


def override(what: str) -> Any:
    """The option `-s KEY=VALUE`, which may be repeated; `what` says what it changes."""
    return typer.Option("-s", "--set", metavar="KEY=VALUE", help=f"override {what}")


def recipe_names(incomplete: str) -> list[tuple[str, str]]:
    """(name, description) of the packaged recipes that a shell may complete to."""
    return [
        (name, description)
        for name, description in packaged().items()
        if name.startswith(incomplete)
    ]


Recipe = Annotated[
    str,
    typer.Argument(
        help="a packaged recipe's name (see `equipoise recipes`) or a YAML file",
        autocompletion=recipe_names,
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run directory")]
Set = Annotated[list[str], override("a setting of the recipe: loss=dpo")]
Push = Annotated[
    str,
    typer.Option(
        metavar="ORG/NAME",
        help="upload the result to this repository of the Hugging Face hub, under its "
        "own login (`hf auth login`); a new one is private",
        show_default=False,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="execute what the run names that is not Equipoise's, and send its keys, "
        "though somebody else began it",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print facts as JSON, and nothing else")]


def show(facts: Any) -> None:
    """Print facts as JSON."""
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False, default=str))
