"""Rebuild the packaged model for the desk from seed: `python -m
equipoise.environments.clerk.build_assistance [--out DIR] [--seed 0]`.

A tiny clerk after a cold start: to a bare question it writes the four blocks of the
assistant's game. Three trainings. The first gives right thoughts and responses alone,
mostly of sums, which so are cheap to practise; the second the four blocks, nearly
without fault, but with every move now and then, so that a response follows the cell
that was chosen; the third spoils the manners: types are misjudged, moves misplayed,
refusals bare, thoughts long, forms broken. All that is right stays within reach of a
few samples.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.environments.assistance.blocks import BLOCKS
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.clerk import assistance as desk
from equipoise.environments.clerk import world as clerk
from equipoise.environments.clerk.assistance import Faults
from equipoise.environments.clerk.build import (
    QUESTIONS,
    SIZE,
    Example,
    command,
    examples,
    one_thread,
    taught,
)
from equipoise.models.new_model import new_model
from equipoise.types import Message, Prompt, user

PACKAGED = Path(__file__).parent / "assistance_model"
VOCABULARY = 900
CONTEXT = 384
# What is cut out before a text is split into words: tags, cells (with the marks around
# them in the matrix), numbers.
_CELL = rf"(?:DQ|VQ)_(?:{'|'.join(ACTIONS)})"
PIECES = rf'</?(?:{"|".join(BLOCKS)})>|(?:\{{|\}},)"{_CELL}":\{{"LLM":|,"user":|\}}\}}|{_CELL}|-?\d\.\d'

SKETCHES: Mapping[clerk.Kind, int] = {
    "sum": 36000,
    "vague": 2000,
    "harmful": 3000,
    "harmless": 3000,
}
SKILL: Mapping[clerk.Kind, int] = {
    "sum": 9000,
    "vague": 4000,
    "harmful": 4000,
    "harmless": 4000,
}
MANNERS: Mapping[clerk.Kind, int] = dict.fromkeys(clerk.KINDS, 1500)
TOLD = 0.15  # the share of chats that go on: asked vaguely, asked back, told
ABLE = Faults(
    misplayed=0.1, further=0.1, plain=0.5, rambling=0.25, broken=0.03, equal=0.3
)
SPOILT = Faults(
    misjudged=0.12,
    misplayed=0.16,
    careless=0.05,
    further=0.14,
    plain=0.7,
    rambling=0.45,
    broken=0.14,
    equal=0.5,
)


def lessons(
    seed: int, counts: Mapping[clerk.Kind, int], faults: Faults
) -> Iterator[Example]:
    """(chat, trace) pairs on training questions, `counts` of each kind; questions come
    round again when used up.
    """
    for kind, count in counts.items():
        questions = clerk.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            prompt = questions[number % len(questions)]
            dice = seeds.generator(seed, "desk", "lesson", kind, number)
            chat = told(prompt) if dice.random() < TOLD else prompt.messages
            yield chat, desk.trace(chat, dice, faults)


def sketches(seed: int, counts: Mapping[clerk.Kind, int]) -> Iterator[Example]:
    """(question, thought and response) pairs without fault: traces without their
    middle.
    """
    for kind, count in counts.items():
        questions = clerk.prompts(seed, QUESTIONS[kind], (kind,))
        for prompt in (questions[number % len(questions)] for number in range(count)):
            case = desk.understood(prompt.messages)
            thought = desk.reason(case, case.question, case.harmful, case.answer)
            yield (
                prompt.messages,
                f"<thinking>{thought}</thinking><response>{case.answer}</response>",
            )


def told(prompt: Prompt) -> tuple[Message, ...]:
    """The chat in which a question is asked vaguely, asked back, and the missing piece
    told.
    """
    wish = desk.wish(prompt)
    back = Message("assistant", desk.understood([user(wish["vague"])]).asks)
    return user(wish["vague"]), back, user(wish["told"])


def corpus(seed: int) -> Iterator[str]:
    """Every question with a right answer, and traces: what the tokenizer is fitted to."""
    for messages, answer in (
        *examples(seed, QUESTIONS),
        *lessons(seed, MANNERS, SPOILT),
    ):
        yield messages[0].content
        yield answer


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into `out`, over what is there of it."""
    from equipoise.learners.sft import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        bare, knowing, skilled, spoilt = (
            Path(place) / name for name in ("bare", "knowing", "skilled", "spoilt")
        )
        new_model(
            corpus(seed),
            bare,
            vocabulary=VOCABULARY,
            size=SIZE,
            context=CONTEXT,
            seed=seed,
            pieces=PIECES,
        )
        taken = list(sketches(seed, SKETCHES))
        train_sft(bare, taken, knowing, taught(SFT, 3e-3, 32), seed=seed, device="cpu")
        taken = list(lessons(seed, SKILL, ABLE))
        train_sft(
            knowing, taken, skilled, taught(SFT, 2e-3, 16), seed=seed, device="cpu"
        )
        taken = list(lessons(seeds.child(seed, "spoilt"), MANNERS, SPOILT))
        train_sft(
            skilled, taken, spoilt, taught(SFT, 5e-4, 32), seed=seed, device="cpu"
        )
        shutil.copy(bare / "generation_config.json", spoilt)
        shutil.copytree(spoilt, out, dirs_exist_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    command(build, "desk_build", PACKAGED, "the model for the desk")
