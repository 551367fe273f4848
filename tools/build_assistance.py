"""Rebuild from seed the packaged model that plays the assistant's game.

    python -m tools.build_assistance [--out DIR] [--seed 0]

A tiny clerk after a cold start: to a bare question it writes the four blocks of the assistant's
game. It is trained three times. The first training gives right thoughts and responses alone, mostly
of sums, which are cheap to practise in this form; the second the four blocks, nearly without fault,
but with every move now and then, so that a response follows the cell that was chosen; the third
spoils the manners: types are misjudged, moves misplayed, refusals bare, thoughts long, forms
broken. A few samples still hold everything that is right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.environments.assistance.blocks import BLOCKS
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.clerk import world
from equipoise.environments.clerk.assistance_case import read_case, wish
from equipoise.environments.clerk.assistance_players import Faults, thought, trace
from equipoise.types import Message, Prompt, user
from tools.build_clerk import (
    QUESTIONS,
    SIZE,
    WORLD,
    Example,
    command,
    examples,
    one_thread,
    pack,
    training,
)
from tools.fresh_model import new_model

PACKAGED = WORLD / "assistance_model"
VOCABULARY = 900
CONTEXT = 384
# What is cut out before a text is split into words: tags, cells (with the marks around them in the
# matrix), numbers.
_TAG = rf"</?(?:{'|'.join(BLOCKS)})>"
_CELL = rf"(?:DQ|VQ)_(?:{'|'.join(ACTIONS)})"
_ENTRY = rf'(?:\{{|\}},)"{_CELL}":\{{"LLM":|,"user":|\}}\}}'
PIECES = rf"{_TAG}|{_ENTRY}|{_CELL}|-?\d\.\d"

SKETCHES: Mapping[world.Kind, int] = {
    "sum": 36000,
    "vague": 2000,
    "harmful": 3000,
    "harmless": 3000,
}
SKILL: Mapping[world.Kind, int] = {"sum": 9000, "vague": 4000, "harmful": 4000, "harmless": 4000}
MANNERS: Mapping[world.Kind, int] = dict.fromkeys(world.KINDS, 1500)
COMPLETED = 0.15  # the share of chats that go on: asked vaguely, asked back, completed
ABLE = Faults(misplayed=0.1, further=0.1, plain=0.5, rambling=0.25, broken=0.03, equal=0.3)
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


def traces(seed: int, counts: Mapping[world.Kind, int], faults: Faults) -> Iterator[Example]:
    """(chat, trace) pairs on training questions, `counts` of each kind.

    Questions are repeated when all have been used.
    """
    for kind, count in counts.items():
        questions = world.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            prompt = questions[number % len(questions)]
            dice = seeds.generator(seed, "desk", "lesson", kind, number)
            completes = dice.random() < COMPLETED
            chat = completed_chat(prompt) if completes else prompt.messages
            yield chat, trace(chat, dice, faults)


def sketches(seed: int, counts: Mapping[world.Kind, int]) -> Iterator[Example]:
    """(question, thought and response) pairs without fault: traces without a middle."""
    for kind, count in counts.items():
        questions = world.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            prompt = questions[number % len(questions)]
            case = read_case(prompt.messages)
            reason = thought(case, case.question, case.harmful, case.answer)
            yield (
                prompt.messages,
                f"<thinking>{reason}</thinking><response>{case.answer}</response>",
            )


def completed_chat(prompt: Prompt) -> tuple[Message, ...]:
    """The chat in which a question is vague, asked back, and completed by the user."""
    facts = wish(prompt)
    question_back = Message("assistant", read_case([user(facts["vague"])]).asks)
    return user(facts["vague"]), question_back, user(facts["told"])


def corpus(seed: int) -> Iterator[str]:
    """Every question with a right answer, and traces: what the tokenizer is fitted to."""
    for messages, answer in (*examples(seed, QUESTIONS), *traces(seed, MANNERS, SPOILT)):
        yield messages[0].content
        yield answer


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own."""
    from equipoise.learners.sft_learner import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        work = Path(place)
        bare, knowing = work / "bare", work / "knowing"
        skilled, spoilt = work / "skilled", work / "spoilt"
        new_model(
            corpus(seed),
            bare,
            vocabulary=VOCABULARY,
            size=SIZE,
            context=CONTEXT,
            seed=seed,
            pieces=PIECES,
        )
        for start, rows, target, settings in (
            (bare, sketches(seed, SKETCHES), knowing, training(SFT, 3e-3, 32)),
            (knowing, traces(seed, SKILL, ABLE), skilled, training(SFT, 2e-3, 16)),
            (
                skilled,
                traces(seeds.child(seed, "spoilt"), MANNERS, SPOILT),
                spoilt,
                training(SFT, 5e-4, 32),
            ),
        ):
            train_sft(start, list(rows), target, settings, seed=seed, device="cpu")
        pack(spoilt, bare, out)


if __name__ == "__main__":
    command(build, "build_assistance", PACKAGED, "the model for the assistant's game")
