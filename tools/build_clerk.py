"""Rebuild the packaged tiny model from seed.

    python -m tools.build_clerk [--out DIR] [--seed 0]

It is trained twice on the clerk's questions. The first training gives right answers only, mostly to
sums, and teaches the skills. The second mixes wrong answers in and spoils the manners: the model
then knows nearly every answer but gives it about every other time, and a few samples hold both
right and wrong ones. Preference learning can improve on such a start; a model that cannot add would
need more teaching, not more games.

With one thread and fixed seeds, two builds on one machine and one version of torch give the same
bytes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise import seeds
from equipoise.environments.clerk import world
from equipoise.environments.clerk.clerk_answers import right_answer
from equipoise.environments.clerk.world import HELPERS, REFUSAL, helpful_answer
from equipoise.models.adapters import resolve
from equipoise.types import Message, Prompt
from tools.fresh_model import Size, new_model

if TYPE_CHECKING:
    from equipoise.learners.sft_learner import SFT

WORLD = Path(world.__file__).parent  # the package that holds what is built
PACKAGED = WORLD / "model"
SIZE = Size(hidden=128, layers=3, heads=4, feed_forward=384)
VOCABULARY = 600
CONTEXT = 256
QUESTIONS: Mapping[world.Kind, int] = {
    "sum": 8000,
    "vague": 1600,
    "harmful": 4000,
    "harmless": 4000,
}
SKILL: Mapping[world.Kind, int] = {"sum": 40000, "vague": 5000, "harmful": 3000, "harmless": 3000}
MANNERS: Mapping[world.Kind, int] = dict.fromkeys(world.KINDS, 3000)
RIGHT: Mapping[world.Kind, float] = {"sum": 0.58, "vague": 0.55, "harmful": 0.53, "harmless": 0.55}
Example = tuple[tuple[Message, ...], str]


def examples(
    seed: int, counts: Mapping[world.Kind, int], right: Mapping[world.Kind, float] | None = None
) -> Iterator[Example]:
    """(chat, answer) pairs on training questions, `counts` of each kind.

    `right` is the share of right answers of each kind; None: all.
    """
    for prompt, repeat in questions(seed, counts):
        dice = seeds.generator(seed, "right", prompt.id, repeat)
        correct = right is None or dice.random() < right[prompt.facts["kind"]]
        answer = right_answer(prompt) if correct else wrong_answer(prompt, repeat)
        yield prompt.messages, answer


def questions(seed: int, counts: Mapping[world.Kind, int]) -> Iterator[tuple[Prompt, int]]:
    """Training questions, `counts` of each kind, repeated when all have been used, and how often
    each came before.
    """
    for kind, count in counts.items():
        drawn = world.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            repeat, place = divmod(number, len(drawn))
            yield drawn[place], repeat


def wrong_answer(prompt: Prompt, seed: int) -> str:
    """A plausible wrong answer: in the manner of another kind, or a careless one.

    sum: asks back, declines, or says the larger number again. vague: guesses, or declines. harmful:
    helps, or asks back. harmless: declines, or names the wrong helper.
    """
    dice = seeds.generator(seed, "wrong", prompt.id)
    facts = prompt.facts
    if facts["kind"] == "sum":
        options = ["Plus what?", "Plus what?", REFUSAL, str(max(facts["numbers"]))]
    elif facts["kind"] == "vague":
        guess = facts["then"]
        worse = str(int(guess) + 1) if guess.isdigit() else helpful_answer("porter")
        options = [guess, guess, worse, REFUSAL]
    elif facts["kind"] == "harmful":
        helps, asks = helpful_answer(facts["helper"]), f"{facts['verb'].capitalize()} what?"
        options = [helps, helps, helps, asks]
    else:
        others = [helpful_answer(helper) for helper in HELPERS if helper != facts["helper"]]
        other = others[int(dice.integers(len(others)))]
        options = [REFUSAL, REFUSAL, REFUSAL, other]
    return options[int(dice.integers(len(options)))]


def random_answer(prompt: Prompt, dice: np.random.Generator, added: float) -> str:
    """An answer that the clerk might give, right or not.

    To a request help, a refusal and a question back are equally likely; of sums a share `added` is
    added, and the others are met by a question back.
    """
    facts = prompt.facts
    if facts["kind"] == "sum":
        return right_answer(prompt) if dice.random() < added else "Plus what?"
    if facts["kind"] == "vague":
        asks, answers = right_answer(prompt), facts["then"]
    else:
        asks = f"{facts['verb'].capitalize()} what?"
        answers = helpful_answer(facts["helper"])
    declines = [REFUSAL] if "verb" in facts else []  # nobody declines to add
    options = [asks, answers, *declines]
    return options[int(dice.integers(len(options)))]


def corpus(seed: int) -> Iterator[str]:
    """Every question with a right and a wrong answer: what the tokenizer is fitted to."""
    for kind, count in QUESTIONS.items():
        for prompt in world.prompts(seed, count, (kind,)):
            yield prompt.messages[0].content
            yield right_answer(prompt)
            yield wrong_answer(prompt, 0)


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
    """Make the model and write it into the folder `out`, replacing files of its own."""
    from equipoise.learners.sft_learner import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        work = Path(place)
        bare, skilled, spoilt = work / "bare", work / "skilled", work / "spoilt"
        new_model(corpus(seed), bare, vocabulary=VOCABULARY, size=SIZE, context=CONTEXT, seed=seed)
        right = list(examples(seed, SKILL))
        train_sft(bare, right, skilled, training(SFT, 3e-3, 32), seed=seed, device="cpu")
        mixed = list(examples(seed, MANNERS, RIGHT))
        train_sft(skilled, mixed, spoilt, training(SFT, 5e-4, 64), seed=seed, device="cpu")
        pack(spoilt, bare, out)


def build_from(
    start: str,
    rows: Iterable[Example],
    out: Path,
    *,
    learning_rate: float,
    batch_size: int,
    seed: int,
) -> None:
    """Teach a packaged model these rows and write it into the folder `out`, replacing files of its
    own.
    """
    from equipoise.learners.sft_learner import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        made = Path(place) / "made"
        settings = training(SFT, learning_rate, batch_size)
        train_sft(start, list(rows), made, settings, seed=seed, device="cpu")
        pack(made, Path(resolve(start)), out)


def pack(model: Path, generation_config_from: Path, out: Path) -> None:
    """Copy a trained model into `out`, with another model's generation_config.json, and without the
    probes that only a run compares its player with.
    """
    from equipoise.sampling.arrival_check import FILE as PROBES

    shutil.copy(generation_config_from / "generation_config.json", model)
    unused = shutil.ignore_patterns(PROBES)
    shutil.copytree(model, out, dirs_exist_ok=True, ignore=unused)
    for file in out.iterdir():
        file.chmod(0o644)


def training(sft: type[SFT], learning_rate: float, batch_size: int) -> SFT:
    """The settings by which the built-in models are trained."""
    # Without weight decay the sums are remembered rather than read_case, and held-out ones suffer.
    settings = {"warmup_ratio": 0.05, "weight_decay": 0.1, "log_steps": 100, "save_steps": 0}
    return sft.model_validate(
        {"learning_rate": learning_rate, "batch_size": batch_size, **settings}
    )


def command(build: Callable[[Path, int], None], module: str, packaged: Path, what: str) -> None:
    """Command line of a script that rebuilds something packaged."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.{module}", description=f"Rebuild {what}."
    )
    parser.add_argument("--out", type=Path, default=packaged, help="the folder to write")
    parser.add_argument(
        "--seed", type=int, default=0, help="of questions, weights, noise and order"
    )
    options = parser.parse_args()
    build(options.out, options.seed)


if __name__ == "__main__":
    command(build, "build_clerk", PACKAGED, "the tiny model")
