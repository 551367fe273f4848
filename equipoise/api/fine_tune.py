"""Supervised fine-tuning outside a run, to make a model that a run can start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from equipoise.errors import DataError, RunError
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.prompts.prompt_files import Files
from equipoise.runs.monitor import Monitor, Silent, within
from equipoise.system.folder import write_folder
from equipoise.system.locks import check_place
from equipoise.types import Message, Prompt

Example = tuple[Sequence[Message], str]  # a chat, and the answer to learn


@dataclass(frozen=True)
class FineTuned:
    """A fine-tuned model's folder, its number of examples and last line of metrics."""

    model: Path
    examples: int
    metrics: dict[str, float]


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
    overwrite: bool = False,
    monitor: Monitor | None = None,
) -> FineTuned:
    """Train a model on answers into the folder `out`, which appears whole or not at all.

    Args: model: hub id, folder or packaged name; data: examples, or a file of them in TRL's
    prompt-completion or messages format; max_length: tokens of chat and answer, None: the model's,
    at most 2048; overwrite: replace what is in `out`.

    Raises RunError where `out` is not empty or cannot be written, DataError for a row without an
    answer, and what `train_sft` raises.
    """
    check_place(out)
    if out.exists() and any(out.iterdir()) and not overwrite:
        raise RunError(f"{out}: is not empty; use --overwrite, or choose another --out")
    examples = read_examples(data) if isinstance(data, str) else data
    settings = settings or SFT.model_validate({})
    monitor = monitor or Silent()
    steps = settings.steps(len(examples))
    monitor.stage("learn", steps)

    def log(line: dict[str, Any]) -> None:
        shown = ("loss", "tokens_per_second")
        monitor.advance(int(line.get("steps", 0)))
        monitor.numbers(**{name: line[name] for name in shown if name in line})

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
                log=log,
            )
        )

    with within(monitor, steps, steps):
        write_folder(out, write)
    return FineTuned(out, len(examples), metrics)


def read_examples(path: str) -> list[Example]:
    """The chats and answers in a file. Raises DataError for a row without an answer."""
    prompts = Files.model_validate({"path": path}).load().training
    return [(prompt.messages, _completion(prompt, row)) for row, prompt in enumerate(prompts, 1)]


def _completion(prompt: Prompt, row: int) -> str:
    """The answer in a row: a text, or the contents of its messages."""
    completion = prompt.facts.get("completion")
    if isinstance(completion, list):
        completion = "\n".join(message["content"] for message in completion)
    if not isinstance(completion, str) or not completion.strip():
        raise DataError(
            f"row {row} ({prompt.source}): no completion to learn from; "
            "give `completion`, or `messages`"
        )
    return completion
