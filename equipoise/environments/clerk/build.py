"""Rebuild the packaged tiny model from seed: `python -m
equipoise.environments.clerk.build [--out DIR] [--seed 0]`.

Two trainings on the clerk's questions. The first gives right answers only, mostly sums,
and teaches the skills; the second mixes wrong ones in, and spoils the manners: the
model then knows nearly every answer but gives it about every other time, each
question's right and wrong answers both within reach of a few samples. That is a start
that preference learning can improve on; a model that cannot add would need more
teaching, not more games.

One thread and fixed seeds: on one machine and one version of torch two builds give the
same bytes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise import seeds
from equipoise.environments.clerk import world as clerk
from equipoise.models.new_model import Size, new_model
from equipoise.types import Message

if TYPE_CHECKING:
    from equipoise.learners.sft import SFT

PACKAGED = Path(__file__).parent / "model"
SIZE = Size(hidden=128, layers=3, heads=4, feed_forward=384)
VOCABULARY = 600
CONTEXT = 256
QUESTIONS: Mapping[clerk.Kind, int] = {
    "sum": 8000,
    "vague": 1600,
    "harmful": 4000,
    "harmless": 4000,
}
SKILL: Mapping[clerk.Kind, int] = {
    "sum": 40000,
    "vague": 5000,
    "harmful": 3000,
    "harmless": 3000,
}
MANNERS: Mapping[clerk.Kind, int] = dict.fromkeys(clerk.KINDS, 3000)
RIGHT: Mapping[clerk.Kind, float] = {
    "sum": 0.58,
    "vague": 0.55,
    "harmful": 0.53,
    "harmless": 0.55,
}
Example = tuple[tuple[Message, ...], str]


def examples(
    seed: int,
    counts: Mapping[clerk.Kind, int],
    right: Mapping[clerk.Kind, float] | None = None,
) -> Iterator[Example]:
    """(chat, answer) pairs on training questions, `counts` of each kind; questions come
    round again when used up.

    `right` is the share of right answers of each kind; None: all.
    """
    for kind, count in counts.items():
        questions = clerk.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            prompt, turn = questions[number % len(questions)], number // len(questions)
            correct = (
                right is None
                or seeds.generator(seed, "right", prompt.id, turn).random()
                < right[kind]
            )
            yield (
                prompt.messages,
                clerk.best(prompt) if correct else clerk.wrong(prompt, turn),
            )


def corpus(seed: int) -> Iterator[str]:
    """Every question, with its right answer and a wrong one: what the tokenizer is
    fitted to.
    """
    for kind, count in QUESTIONS.items():
        for prompt in clerk.prompts(seed, count, (kind,)):
            yield prompt.messages[0].content
            yield clerk.best(prompt)
            yield clerk.wrong(prompt, 0)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, so that two builds add numbers in the same order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into `out`, over what is there of it."""
    from equipoise.learners.sft import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        bare, skilled, spoiled = (
            Path(place) / name for name in ("bare", "skilled", "spoiled")
        )
        new_model(
            corpus(seed),
            bare,
            vocabulary=VOCABULARY,
            size=SIZE,
            context=CONTEXT,
            seed=seed,
        )
        lessons = list(examples(seed, SKILL))
        train_sft(
            bare, lessons, skilled, taught(SFT, 3e-3, 32), seed=seed, device="cpu"
        )
        lessons = list(examples(seed, MANNERS, RIGHT))
        train_sft(
            skilled, lessons, spoiled, taught(SFT, 5e-4, 64), seed=seed, device="cpu"
        )
        shutil.copy(bare / "generation_config.json", spoiled)
        shutil.copytree(spoiled, out, dirs_exist_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)


def taught(sft: type[SFT], learning_rate: float, batch_size: int) -> SFT:
    """How the built-in models are trained."""
    # Without weight decay the sums are remembered rather than understood, and held-out
    # ones suffer.
    settings = {
        "warmup_ratio": 0.05,
        "weight_decay": 0.1,
        "log_steps": 100,
        "save_steps": 0,
    }
    return sft.model_validate(
        {"learning_rate": learning_rate, "batch_size": batch_size, **settings}
    )


def command(
    build: Callable[[Path, int], None], module: str, packaged: Path, what: str
) -> None:
    """The command line of a module that rebuilds something packaged."""
    parser = argparse.ArgumentParser(
        prog=f"python -m equipoise.worlds.{module}", description=f"Rebuild {what}."
    )
    parser.add_argument(
        "--out", type=Path, default=packaged, help="the folder to write"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of questions, weights, noise and order"
    )
    asked = parser.parse_args()
    build(asked.out, asked.seed)


if __name__ == "__main__":
    command(build, "build", PACKAGED, "the tiny model")
