"""Verbs that write a model: `equipoise new-model`, an untrained one of a corpus; `sft`, one that is
fine-tuned on answers; `merge`, an adapter and its base as one.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Push, Trust, say, show
from equipoise.system.locks import check_place, check_writable

if TYPE_CHECKING:
    from equipoise.models.fresh_model import NewModel

Shrink = Annotated[bool, typer.Option("--shrink", help="fewer tokens where the corpus has no more")]


def new_model(
    corpus: Annotated[
        list[str],
        typer.Option(help="a file or pattern: text, JSONL, JSON or Parquet; may be repeated"),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    size: Annotated[
        str,
        typer.Option(help="tiny (about 1M parameters), small (about 10M) or medium (about 40M)"),
    ] = "tiny",
    vocabulary: Annotated[
        int, typer.Option(help="tokens of the tokenizer, special ones included")
    ] = 3000,
    shrink: Shrink = False,
    context: Annotated[
        int, typer.Option(min=16, help="longest text the model can read, in tokens")
    ] = 512,
    hidden: Annotated[
        int | None, typer.Option(min=2, help="width", show_default="the size's")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="depth", show_default="the size's")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="attention heads", show_default="the size's")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of rows, read this column only; may be repeated")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random weights")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write into a folder that is not empty")
    ] = False,
    json: Json = False,
) -> None:
    """Make a small untrained model and its tokenizer from a corpus."""
    from equipoise.models import fresh_model as model
    from equipoise.models.fresh_model import read_texts

    _check_out(out, overwrite)
    texts = list(read_texts(corpus, column or ()))
    shape = model.resize(size, hidden=hidden, layers=layers, heads=heads)
    made = model.new_model(
        texts, out, vocabulary=vocabulary, size=shape, context=context, seed=seed, shrink=shrink
    )
    if json:
        show(asdict(made))
    else:
        _print(made, len(texts))


def _print(made: NewModel, texts: int) -> None:
    size = f"{made.parameters:,} parameters, {made.vocabulary:,} tokens of vocabulary"
    say(f"{size} in {made.folder}")
    say(f"the corpus: {texts:,} texts, {made.corpus_tokens:,} tokens")


def _check_out(out: Path, overwrite: bool) -> None:
    """Raises ConfigError for what holds something, RunError where nothing can be written."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not overwrite):
        raise ConfigError(
            f"{out}: is not an empty folder; choose another --out, or --overwrite to write into it"
        )
    (check_writable if overwrite else check_place)(out)


def sft(
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, or builtin")
    ],
    data: Annotated[
        str,
        typer.Argument(help="JSONL, JSON or Parquet in TRL's prompt-completion or messages format"),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples per step")] = 16,
    max_length: Annotated[
        int | None,
        typer.Option(min=2, help="tokens of a row", show_default="the model's, at most 2048"),
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the data's order")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Fine-tune a model on answers.

    Only the tokens of answers are trained on.
    """
    from equipoise.api.fine_tune import fine_tune
    from equipoise.blocks.terminal import Display, terminal
    from equipoise.learners.sft_learner import SFT
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
            overwrite=overwrite,
            monitor=display,
        )
    if cut := tuned.metrics["cut_rows"]:
        say(f"{cut} of {tuned.examples} rows were cut to fit; raise --max-length", err=True)
    if json:
        show({"model": str(out), **tuned.metrics, "examples": tuned.examples})
    else:
        say(out)


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
