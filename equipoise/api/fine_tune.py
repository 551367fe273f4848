"""Supervised fine-tuning outside a run, to make models or adapters that a run can start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from equipoise.data.truncation import TooLong
from equipoise.errors import ConfigError, RunError
from equipoise.learners.sft_learner import SFT, Example, read_examples, train_sft
from equipoise.models.adapters import Lora
from equipoise.models.loading import Dtype
from equipoise.models.resources import Resources
from equipoise.runs.monitor import Monitor, Silent, within
from equipoise.system.folder import write_folder
from equipoise.system.locks import check_place


@dataclass(frozen=True)
class FineTuned:
    """A fine-tuned model's folder, its number of examples and last line of metrics.

    `left_out`: reason -> the places of rows that nothing was learned from.
    """

    model: Path
    examples: int
    metrics: dict[str, float]
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def notes(self) -> tuple[str, ...]:
        """Rows that were left out or cut, in words; none where all was learned whole."""
        made = (("left out", "dropped_rows"), ("cut to fit", "cut_rows"))
        counted = [(how, int(self.metrics.get(name, 0))) for how, name in made]
        return tuple(
            f"{count:,} of {self.examples:,} rows are too long and were {how}; raise max_length, "
            "or say what is to become of them (too_long: stop, drop, cut_prompt, cut_answer)"
            for how, count in counted
            if count
        )


def fine_tune(
    model: str,
    data: str | Sequence[Example],
    out: Path,
    settings: SFT | None = None,
    *,
    seed: int = 0,
    max_length: int | None = None,
    template: str | None = None,
    template_options: Mapping[str, Any] = MappingProxyType({}),
    lora: Lora | None = None,
    dtype: Dtype = "auto",
    too_long: TooLong = "drop",
    overwrite: bool = False,
    resources: Resources | None = None,
    monitor: Monitor | None = None,
) -> FineTuned:
    """Train a model on answers into the folder `out`, which appears whole or not at all.

    Args: model: hub id, folder or packaged name; data: examples, or a file of them in any schema
    that `equipoise rows` reads; max_length: tokens of chat and answer, None: the model's, at most
    2048; lora: write a PEFT adapter of this shape, not the whole model; dtype: of whole weights as
    they are written, auto: the model's own; too_long: what becomes of rows that do not fit;
    overwrite: replace what is in `out`; resources: the models that are open in this process.

    Raises RunError where `out` is not empty or cannot be written, DataError for a row without an
    answer, ConfigError for an adapter with a `dtype`, and what `train_sft` raises.
    """
    check_free(out, overwrite)
    check_adapter_dtype(lora, dtype)
    left_out: dict[str, list[str]] = {}
    if isinstance(data, str):
        examples, left_out = read_examples(data)
    else:
        examples = list(data)
    settings = settings or SFT.model_validate({})
    monitor = monitor or Silent()
    steps = settings.steps(len(examples))
    monitor.stage("learn", steps)

    metrics: dict[str, float] = {}

    def write(draft: Path) -> None:
        metrics.update(
            train_sft(
                model,
                examples,
                draft,
                settings,
                seed=seed,
                max_length=max_length,
                template=template,
                template_options=template_options,
                lora=lora,
                dtype=dtype,
                too_long=too_long,
                resources=resources,
                log=partial(show_prompt, monitor),
            )
        )

    with within(monitor, steps, steps):
        write_folder(out, write, begun=False)  # after the training, at its end
    return FineTuned(out, len(examples), metrics, left_out)


def fine_tune_adapters(
    model: str,
    data: Mapping[str, str | Sequence[Example]],
    out: Path,
    settings: SFT | None = None,
    *,
    lora: Lora,
    overwrite: bool = False,
    **options: Any,
) -> dict[str, FineTuned]:
    """Train an adapter for each name in `data`, one after the other, on one base in memory.

    The adapter of a name is written into `out`/name. Each is drawn and ordered by the same seed, so
    that they differ by their rows alone. `options` are those of `fine_tune`. Raises as `fine_tune`,
    before anything is trained where a folder is not free or a file has no answer.
    """
    for name in data:
        check_free(out / name, overwrite)
    read: dict[str, tuple[Sequence[Example], dict[str, list[str]]]] = {}
    for name, rows in data.items():
        read[name] = read_examples(rows) if isinstance(rows, str) else (rows, {})
    resources = Resources()
    tuned: dict[str, FineTuned] = {}
    for name, (examples, left_out) in read.items():
        made = fine_tune(
            model,
            examples,
            out / name,
            settings,
            lora=lora,
            overwrite=overwrite,
            resources=resources,
            **options,
        )
        tuned[name] = replace(made, left_out=left_out)
    return tuned


def check_free(out: Path, overwrite: bool) -> None:
    """Raises RunError for a folder that cannot be made, or that holds what may not be replaced.

    `overwrite` replaces a model or an adapter, and no folder of anything else.
    """
    check_place(out)
    if not out.exists() or not any(out.iterdir()):
        return
    if not overwrite:
        raise RunError(f"{out}: is not empty; use --overwrite, or choose another --out")
    if not any((out / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise RunError(
            f"{out}: holds neither a model (config.json) nor an adapter (adapter_config.json), so "
            "--overwrite leaves it as it is; choose another --out"
        )


def check_adapter_dtype(lora: Lora | None, dtype: Dtype) -> None:
    """Raises ConfigError where an adapter is asked for in a precision."""
    if lora is not None and dtype != "auto":
        raise ConfigError(
            f"--dtype {dtype}: an adapter is written in float32, whatever its base; leave it out"
        )


def show_prompt(monitor: Monitor, line: dict[str, Any]) -> None:
    """Show a line of metrics."""
    shown = ("loss", "tokens_per_second")
    monitor.advance(int(line.get("steps", 0)))
    monitor.numbers(**{name: line[name] for name in shown if name in line})
