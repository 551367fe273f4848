"""Verbs that write a model: `equipoise sft`, one that is fine-tuned on answers, `warm-start`, the
start that a game needs, `guard`, a classifier of harm, and `merge`, an adapter and its base as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Push, Trust, override, say, show

if TYPE_CHECKING:
    from equipoise.api.fine_tune import FineTuned
    from equipoise.data.truncation import TooLong
    from equipoise.models.adapters import Lora


def sft(
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, or builtin")
    ],
    data: Annotated[
        list[str],
        typer.Argument(
            help="rows with answers, in any schema that `equipoise rows` reads; for several "
            "adapters at once NAME=FILE, each"
        ),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    lora: Annotated[
        str,
        typer.Option(
            help="write an adapter, not the whole model: its rank, or settings such as "
            "'{r: 16, alpha: 32}'",
            show_default="whole weights",
        ),
    ] = "",
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples per step")] = 16,
    max_length: Annotated[
        int | None,
        typer.Option(min=2, help="tokens of a row", show_default="the model's, at most 2048"),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(help="of whole weights: auto (the model's own), float32, bfloat16, float16"),
    ] = "auto",
    too_long: Annotated[
        str, typer.Option(help="rows that do not fit: drop, stop, cut_prompt or cut_answer")
    ] = "drop",
    seed: Annotated[int, typer.Option(help="seed of the data's order, and of adapters")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Fine-tune a model on answers.

    Only the tokens of answers are trained on. Weights are trained in 32 bits, and written in the
    precision of the model that was given. With `--lora` the model stays as it is, and OUT is an
    adapter in PEFT's format; with several NAME=FILE each is an adapter OUT/NAME.
    """
    from equipoise.api.fine_tune import fine_tune, fine_tune_adapters
    from equipoise.api.merge_adapter import checked_dtype
    from equipoise.blocks.terminal import Display, terminal
    from equipoise.learners.sft_learner import SFT
    from equipoise.runs import recipe_loader

    given = {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    adapter = adapter_shape(lora)
    named = named_files(data)
    if named and adapter is None:
        raise ConfigError(
            "several files make several adapters; give --lora RANK, such as --lora 16"
        )
    options: dict[str, Any] = {
        "seed": seed,
        "max_length": max_length,
        "dtype": checked_dtype(dtype),
        "too_long": checked_rule(too_long),
        "overwrite": overwrite,
    }
    settings = recipe_loader.component(SFT, {"kind": "sft", **given}, (), "sft")
    with Display(console=terminal(stderr=json), silent=json) as display:
        options["monitor"] = display
        adapters: dict[str, FineTuned] = {}
        if adapter is not None and named:
            adapters = fine_tune_adapters(model, named, out, settings, lora=adapter, **options)
            made = [(named[name], tuned) for name, tuned in adapters.items()]
        else:
            made = [(data[0], fine_tune(model, data[0], out, settings, lora=adapter, **options))]
    for file, tuned in made:
        print_learned_rows(file, tuned)
    if not json:
        for _, tuned in made:
            say(tuned.model)
    elif adapters:
        show({"adapters": {name: tuned_facts(tuned) for name, tuned in adapters.items()}})
    else:
        show(tuned_facts(made[0][1]))


def adapter_shape(text: str) -> Lora | None:
    """The adapter of a rank or of settings in YAML; None for an empty text. Raises ConfigError."""
    from pydantic import ValidationError

    from equipoise.models.adapters import Lora
    from equipoise.runs.recipe_loader import config_error
    from equipoise.system.yaml_text import parse_yaml

    if not text:
        return None
    given = parse_yaml(text, "--lora")
    if isinstance(given, int):  # alpha = 2 r, as is usual
        given = {"r": given, "alpha": 2.0 * given}
    if not isinstance(given, dict):
        raise ConfigError(
            f"--lora {text}: give the adapter's rank, such as 16, or its settings, such as "
            "'{r: 16, alpha: 32}'"
        )
    try:
        return Lora.model_validate(given)
    except ValidationError as error:
        raise config_error(error, "--lora", {}) from error


def named_files(data: Sequence[str]) -> dict[str, str]:
    """name -> file for NAME=FILE; nothing for one file without a name. Raises ConfigError."""
    if len(data) == 1:
        is_named = Path(data[0].partition("=")[2]).is_file()
        if Path(data[0]).exists() or not is_named:
            return {}
    named: dict[str, str] = {}
    for text in data:
        name, equals, file = text.partition("=")
        if not (equals and file and name.isidentifier()):
            raise ConfigError(
                f"{text}: of several files each is NAME=FILE, such as north=north.jsonl; its "
                "adapter is written into OUT/NAME"
            )
        if name in named:
            raise ConfigError(f"{text}: '{name}' is given twice; each adapter has its own name")
        named[name] = file
    return named


def print_learned_rows(file: str, tuned: FineTuned) -> None:
    """Print how the first rows of a file were learned, and which were left out."""
    from equipoise.blocks.terminal import show_notes
    from equipoise.prompts.prompt_files import Files
    from equipoise.prompts.shown_row import first_row_notes

    for note in first_row_notes(Files.model_validate({"path": file}), "sft"):
        say(f"note: learned as {note}", err=True)
    show_notes(tuned.notes())
    for reason, places in tuned.left_out.items():
        say(f"left out: {len(places):,} rows: {reason} (the first: {places[0]})", err=True)


def tuned_facts(tuned: FineTuned) -> dict[str, Any]:
    """The folder, metrics, examples and rows left out, by reason."""
    counts = {reason: len(places) for reason, places in tuned.left_out.items()}
    facts = {"examples": tuned.examples, "left_out": counts}
    return {"model": str(tuned.model), **tuned.metrics, **facts}


def warm_start(
    kind: Annotated[
        str, typer.Argument(help="the start's kind, such as forms, or a YAML file of its settings")
    ],
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, GGUF file, or builtin")
    ],
    out: Annotated[
        Path, typer.Option(help="the folder in which starts are kept, each under its hash")
    ] = Path("runs/starts"),
    set: Annotated[list[str], override("a setting of the start: training.epochs=2")] = [],  # noqa: B006
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="teach it anew where it is there")
    ] = False,
    json: Json = False,
) -> None:
    """Teach a model what a game needs before it begins.

    Prints the gates that the start has to pass, then its folder, in which each player has an
    adapter. What was taught before is read, not taught again. Where a gate is not met it ends with
    code 2, so that nothing is played.
    """
    from dataclasses import asdict

    from equipoise.api import warm_start as starts
    from equipoise.blocks.terminal import Display, terminal
    from equipoise.runs import recipe_loader

    start = recipe_loader.component(starts.WarmStart, kind, set, "warm-start")
    with Display(console=terminal(stderr=True), silent=json) as display:
        taught = starts.warm_start(start, model, out, overwrite=overwrite, monitor=display)
    if json:
        adapters = {name: str(path) for name, path in taught.adapters.items()}
        gates = [{**asdict(gate), "met": gate.is_met} for gate in taught.gates]
        facts = {"start": str(taught.folder), "adapters": adapters, "gates": gates}
        show({**facts, "seconds": taught.seconds, "was_there": taught.was_there})
    else:
        rows = sum(taught.examples.values())
        verb = "was there already, taught" if taught.was_there else "taught"
        say(f"start {verb} on {rows:,} rows in {taught.seconds:.0f} s", err=True)
        for gate in taught.gates:
            say(f"gate  {gate.text()}", err=True)
    starts.check_gates(taught)
    if not json:
        say(taught.folder)


def guard(
    data: Annotated[
        str, typer.Argument(help="rows with the fact `harmful`, true or false, in any schema")
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the classifier into")],
    base: Annotated[
        str,
        typer.Option(help="an encoder or language model to begin with; minilm: the packaged one"),
    ] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="passes over the rows")] = 2,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    seed: Annotated[int, typer.Option(help="seed of the rows' order and of the rows kept")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Teach a classifier which requests are harmful, and say what it is worth.

    A fifth of the rows is kept back: the card in the folder has the area under the curve on them,
    with its interval. A recipe names the folder: `judge.guard={kind: harm_classifier, model: OUT,
    reads: prompt, unsafe: harmful, refusals_are_safe: true}`.
    """
    from dataclasses import asdict

    from equipoise.api.train_guard import train_guard
    from equipoise.blocks.terminal import Display, terminal

    with Display(console=terminal(stderr=True), silent=json) as display:
        card = train_guard(
            data,
            out,
            base=base,
            epochs=epochs,
            learning_rate=learning_rate,
            seed=seed,
            overwrite=overwrite,
            monitor=display,
        )
    if json:
        show({"model": str(out), **asdict(card)})
    else:
        say(card.text(), err=True)
        say(out)


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
