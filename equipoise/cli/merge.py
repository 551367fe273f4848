"""`equipoise merge RUN/players/NAME/N --to DIR`: an adapter and its base as one whole model."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, Push, Trust, say, show


def merge(
    generation: Annotated[
        Path, typer.Argument(metavar="GENERATION", help="an adapter's folder, RUN/players/NAME/N")
    ],
    to: Annotated[Path, typer.Option(help="the folder to write the whole model into")],
    base: Annotated[
        str,
        typer.Option(
            help="the base model, where it lies elsewhere now: a folder or hub id",
            show_default="the run's",
        ),
    ] = "",
    dtype: Annotated[
        str, typer.Option(help="of the weights: auto (the base's), float32, bfloat16 or float16")
    ] = "auto",
    push: Push = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Merge a generation that is an adapter into its base model.

    The result needs neither PEFT nor the run; tokenizer and model card come along.
    """
    from equipoise.runs.handle import ask_for_trust
    from equipoise.runs.merge_adapter import checked_dtype, run_of
    from equipoise.runs.merge_adapter import merge as write
    from equipoise.system.hugging_face import hub_repository

    kind = checked_dtype(dtype)
    repository = hub_repository(push, "model") if push else None
    trusted = trust or (not base and ask_for_trust(run_of(generation)[0], trust))
    write(generation, to, base=base or None, dtype=kind, trust=trusted)
    address = repository and repository.upload(to)
    if json:
        show({"model": str(to), "pushed": address})
    else:
        say(address or to)
