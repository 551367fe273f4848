"""Verbs that write a model: `equipoise sft`, one that is fine-tuned on answers, and `merge`, an
adapter and its base as one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Push, Trust, say, show

if TYPE_CHECKING:
    from equipoise.api.fine_tune import FineTuned
    from equipoise.data.truncation import TooLong


def sft(
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, or builtin")
    ],
    data: Annotated[
        str, typer.Argument(help="rows with answers, in any schema that `equipoise rows` reads")
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples per step")] = 16,
    max_length: Annotated[
        int | None,
        typer.Option(min=2, help="tokens of a row", show_default="the model's, at most 2048"),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(help="of the weights: auto (the model's own), float32, bfloat16 or float16"),
    ] = "auto",
    too_long: Annotated[
        str, typer.Option(help="rows that do not fit: drop, stop, cut_prompt or cut_answer")
    ] = "drop",
    seed: Annotated[int, typer.Option(help="seed of the data's order")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Fine-tune a model on answers.

    Only the tokens of answers are trained on. Weights are trained in 32 bits, and written in the
    precision of the model that was given.
    """
    from equipoise.api.fine_tune import fine_tune
    from equipoise.api.merge_adapter import checked_dtype
    from equipoise.blocks.terminal import Display, show_notes, terminal
    from equipoise.learners.sft_learner import SFT
    from equipoise.prompts.prompt_files import Files
    from equipoise.prompts.shown_row import first_row_notes
    from equipoise.runs import recipe_loader

    given = {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    settings = recipe_loader.component(SFT, {"kind": "sft", **given}, (), "sft")
    with Display(console=terminal(stderr=json), silent=json) as display:
        tuned = fine_tune(
            model,
            data,
            out,
            settings,
            seed=seed,
            max_length=max_length,
            dtype=checked_dtype(dtype),
            too_long=checked_rule(too_long),
            overwrite=overwrite,
            monitor=display,
        )
    for note in first_row_notes(Files.model_validate({"path": data}), "sft"):
        say(f"note: learned as {note}", err=True)
    show_notes(tuned.notes())
    print_tuned(tuned, json)


def print_tuned(tuned: FineTuned, json: bool) -> None:
    """Print the rows that were left out, and the model's folder or what was measured."""
    for reason, places in tuned.left_out.items():
        say(f"left out: {len(places):,} rows: {reason} (the first: {places[0]})", err=True)
    if json:
        counts = {reason: len(places) for reason, places in tuned.left_out.items()}
        facts = {"examples": tuned.examples, "left_out": counts}
        show({"model": str(tuned.model), **tuned.metrics, **facts})
    else:
        say(tuned.model)


def checked_rule(name: str) -> TooLong:
    """The rule for rows that do not fit, by its name. Raises ConfigError for another text."""
    from equipoise.data.truncation import TooLong

    known = get_args(TooLong)
    if name not in known:
        raise ConfigError(f"--too-long {name}: must be one of {', '.join(known)}")
    return cast("TooLong", name)


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
    from equipoise.api.handle import ask_for_trust
    from equipoise.api.merge_adapter import checked_dtype, run_of
    from equipoise.api.merge_adapter import merge as write
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
