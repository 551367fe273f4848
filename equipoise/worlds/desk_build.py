"""Rebuild the packaged model for the desk from seed: `python -m equipoise.worlds.desk_build [--out DIR] [--seed 0]`.

A tiny clerk after a cold start: to a bare question it writes the four blocks of the assistant's game. Three trainings.
The first gives bare right answers, mostly sums, which are cheap to practise; the second the four blocks, nearly
without fault, but with every move now and then, so that a response follows the cell that was chosen; the third spoils
the manners: types are misjudged, moves misplayed, refusals bare, thoughts long, forms broken. All that is right stays
within reach of a few samples.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.games.four_blocks import ACTIONS, BLOCKS
from equipoise.types import Message, Prompt, user
from equipoise.worlds import clerk, desk
from equipoise.worlds.build import QUESTIONS, SIZE, Example, command, examples, one_thread, taught
from equipoise.worlds.desk import Faults
from equipoise.worlds.new_model import new_model

PACKAGED = Path(__file__).parent / "desk_model"
VOCABULARY = 920
CONTEXT = 384
# What is cut out before a text is split into words: tags, cells (with the marks around them in the matrix), numbers.
_CELL = rf"(?:DQ|VQ)_(?:{'|'.join(ACTIONS)})"
PIECES = rf'</?(?:{"|".join(BLOCKS)})>|(?:\{{|\}},)"{_CELL}":\{{"LLM":|,"user":|\}}\}}|{_CELL}|-?\d\.\d'

BARE: Mapping[clerk.Kind, int] = {"sum": 40000, "vague": 2000, "harmful": 3000, "harmless": 3000}
SKILL: Mapping[clerk.Kind, int] = {"sum": 8000, "vague": 2500, "harmful": 3000, "harmless": 3000}
MANNERS: Mapping[clerk.Kind, int] = dict.fromkeys(clerk.KINDS, 1500)
TOLD = 0.15  # the share of chats that go on: asked vaguely, asked back, told
ABLE = Faults(misplayed=0.15, further=0.15, plain=0.5, equal=0.3)
SPOILT = Faults(
    misjudged=0.12, misplayed=0.16, careless=0.05, further=0.14, plain=0.7, rambling=0.45, broken=0.14, equal=0.5
)


def lessons(seed: int, counts: Mapping[clerk.Kind, int], faults: Faults) -> Iterator[Example]:
    """(chat, trace) pairs on training questions, `counts` of each kind; questions come round again when used up."""
    for kind, count in counts.items():
        questions = clerk.prompts(seed, QUESTIONS[kind], (kind,))
        for number in range(count):
            prompt = questions[number % len(questions)]
            dice = seeds.generator(seed, "desk", "lesson", kind, number)
            chat = told(prompt) if dice.random() < TOLD else prompt.messages
            yield chat, desk.trace(chat, dice, faults)


def told(prompt: Prompt) -> tuple[Message, ...]:
    """The chat in which a question is asked vaguely, asked back, and the missing piece told."""
    wish = desk.wish(prompt)
    back = Message("assistant", desk.understood([user(wish["vague"])]).asks)
    return user(wish["vague"]), back, user(wish["told"])


def corpus(seed: int) -> Iterator[str]:
    """Every question with a right answer, and traces: what the tokenizer is fitted to."""
    for messages, answer in (*examples(seed, QUESTIONS), *lessons(seed, MANNERS, SPOILT)):
        yield messages[0].content
        yield answer


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into `out`, over what is there of it."""
    from equipoise.learners.sft import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        bare, adding, skilled, spoilt = (Path(place) / name for name in ("bare", "adding", "skilled", "spoilt"))
        new_model(corpus(seed), bare, vocabulary=VOCABULARY, size=SIZE, context=CONTEXT, seed=seed, pieces=PIECES)
        train_sft(bare, list(examples(seed, BARE)), adding, taught(SFT, 3e-3, 32), seed=seed, device="cpu")
        train_sft(adding, list(lessons(seed, SKILL, ABLE)), skilled, taught(SFT, 2e-3, 32), seed=seed, device="cpu")
        own = seeds.child(seed, "spoilt")
        train_sft(skilled, list(lessons(own, MANNERS, SPOILT)), spoilt, taught(SFT, 5e-4, 64), seed=seed, device="cpu")
        shutil.copy(bare / "generation_config.json", spoilt)
        shutil.copytree(spoilt, out, dirs_exist_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    command(build, "desk_build", PACKAGED, "the model for the desk")
