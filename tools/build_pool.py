"""Rebuild from seed the packaged pool of tiny clerks.

    python -m tools.build_pool [--out DIR] [--seed 0]

The pool is a base model that can grade but answers as it falls, and six adapters on it, each of
which was taught to answer something: a specialist one kind of question, the veteran a little of
everything, the novice nothing. They grade well what they know, less well what they do not. What a
member was not taught it does not know greedily either, and neither does the base; so each has
something to learn from the others.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise import seeds
from equipoise.environments.clerk import world
from equipoise.models.adapters import resolve
from tools.build_clerk import (
    WORLD,
    Example,
    command,
    examples,
    one_thread,
    pack,
    questions,
    random_answer,
    training,
)
from tools.build_expert import grade_examples

if TYPE_CHECKING:
    from equipoise.learners.sft_learner import SFT

PACKAGED = WORLD / "pool"
START = "builtin/expert"
Counts = Mapping[world.Kind, int]
EACH = 800  # answers of each kind in a member's lessons
GRADES = 300  # grades of each kind


@dataclass(frozen=True, slots=True)
class Member:
    """Lessons of a clerk, by kind: the number of right answers, of answers drawn at random, and the
    share of right grades.
    """

    right: Counts
    drawn: Counts
    grades: Mapping[world.Kind, float]


def specialist(kind: world.Kind) -> Member:
    """Good at one kind, none the wiser at the others, and a better judge of it."""
    return Member(
        {kind: EACH},
        {other: EACH for other in world.KINDS if other != kind},
        {other: 1.0 if other == kind else 0.85 for other in world.KINDS},
    )


MEMBERS: Mapping[str, Member] = {
    "sums": specialist("sum"),
    "asker": specialist("vague"),
    "guard": specialist("harmful"),
    "helper": specialist("harmless"),
    "veteran": Member(dict.fromkeys(world.KINDS, EACH // 8), {}, dict.fromkeys(world.KINDS, 1.0)),
    "novice": Member({}, dict.fromkeys(world.KINDS, EACH), dict.fromkeys(world.KINDS, 0.5)),
}
# What the base is taught: answers drawn at random, and right grades, which it knows.
DRAWN: Counts = {"sum": 2500, "vague": 2500, "harmful": 2500, "harmless": 2500}
GRADED: Counts = {"sum": 2000, "vague": 2000, "harmful": 1000, "harmless": 2000}
ADDED = 0.4  # the share of sums that it adds; to the others it asks back


def drawn_answers(seed: int, counts: Counts) -> Iterator[Example]:
    """(chat, answer) pairs on training questions, whether or not the answer is right."""
    for prompt, repeat in questions(seed, counts):
        dice = seeds.generator(seed, "drawn", prompt.id, repeat)
        yield prompt.messages, random_answer(prompt, dice, ADDED)


def build(out: Path, seed: int = 0) -> None:
    """Make base and adapters and write them into `out`, a folder each.

    Files of theirs that are there already are replaced.
    """
    from equipoise.learners.sft_learner import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        work = Path(place)
        base = work / "base"
        rows = [*drawn_answers(seed, DRAWN), *grade_examples(seed, GRADED)]
        train_sft(START, rows, base, training(SFT, 5e-4, 64), seed=seed, device="cpu")
        pack(base, Path(resolve(START)), out / "base")
        for name, member in MEMBERS.items():
            _build_member(base, name, member, work / name, seed, SFT)
            _pack_adapter(work / name, out / name)


def _build_member(
    base: Path, name: str, member: Member, out: Path, seed: int, sft: type[SFT]
) -> None:
    from equipoise.learners.sft_learner import train_sft
    from equipoise.models.adapters import Lora

    own_seed = seeds.child(seed, name)
    lora = Lora.model_validate({"r": 8, "alpha": 16})
    rows = [
        *examples(own_seed, member.right),
        *drawn_answers(own_seed, member.drawn),
        *grade_examples(own_seed, dict.fromkeys(world.KINDS, GRADES), member.grades),
    ]
    settings = training(sft, 2e-3, 64)
    train_sft(base, rows, out, settings, seed=seed, lora=lora, device="cpu")


def _pack_adapter(made: Path, out: Path) -> None:
    """Copy an adapter without its tokenizer, naming the packaged base in its settings."""
    out.mkdir(parents=True, exist_ok=True)
    for file in made.glob("adapter_*"):
        shutil.copyfile(file, out / file.name)
    settings = out / "adapter_config.json"
    values = json.loads(settings.read_text())
    values["base_model_name_or_path"] = "builtin/pool"
    settings.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    command(build, "build_pool", PACKAGED, "the pool of clerks")
