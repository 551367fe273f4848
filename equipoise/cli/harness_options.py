"""The options of `equipoise evaluate` that hand a generation to a harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.errors import ConfigError

HarnessKind = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="measure by this harness and not by --on: lm_eval", show_default=False
    ),
]
Tasks = Annotated[
    str, typer.Option(metavar="T1,T2", help="the harness's tasks or groups", show_default=False)
]
Limit = Annotated[
    float | None,
    typer.Option(
        help="documents of each of the harness's tasks; below 1 their share", show_default="all"
    ),
]
HarnessArgs = Annotated[
    list[str],
    typer.Option(
        metavar="KEY=VALUE",
        help="a setting of the harness: num_fewshot=5, apply_chat_template=true; may be "
        "given again",
    ),
]
HarnessPython = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="the interpreter of an environment that has the harness",
        show_default="this one",
    ),
]
IncludePath = Annotated[
    Path | None,
    typer.Option(help="a folder of tasks of your own for the harness", show_default=False),
]


def harness_settings(
    kind: str, tasks: str, limit: float | None, python: str, include: Path | None
) -> dict[str, Any]:
    """The settings of the harness that the options name; empty where they name none.

    Raises ConfigError for options that lack the harness, or the tasks.
    """
    given = {
        "tasks": tasks,
        "limit": limit,
        "python": python,
        "include_path": None if include is None else str(include),
    }
    settings = {name: value for name, value in given.items() if value not in ("", None)}
    if not kind:
        for name in settings:
            option = {"python": "harness-python"}.get(name, name.replace("_", "-"))
            raise ConfigError(f"--{option} belongs to a harness: --harness lm_eval")
        return {}
    if not tasks:
        raise ConfigError(f"--harness {kind} needs --tasks")
    return {"kind": kind, **settings}
