"""Rebuild from seed the packaged pool of tiny clerks.

    python -m equipoise.environments.clerk.build_pool [--out DIR] [--seed 0]

The pool is a base model that knows every answer and can grade (the packaged clerk
model, taught right answers and grades as judges ask for them), and six adapters on it,
each of which spoils it in another way: a specialist keeps one kind of question and
forgets half of its manners elsewhere, the veteran is fair at everything, the novice
poor. They grade as they answer: well what they know, at random what they do not. So
each of them has something to learn from the others.
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
from equipoise.environments.clerk.answers import best, wrong
from equipoise.environments.clerk.build import (
    QUESTIONS,
    Example,
    command,
    examples,
    one_thread,
    training,
)
from equipoise.judges.peers import Peers
from equipoise.types import Prompt

if TYPE_CHECKING:
    from equipoise.learners.sft import SFT

PACKAGED = Path(__file__).parent / "pool"
# What the judges of the pool are asked.
QUESTION = Peers.model_validate({"text": "rubric_compact"}).question
GOOD, BAD = ("8", "9"), ("2", "3")  # grades
Shares = Mapping[world.Kind, float]


@dataclass(frozen=True, slots=True)
class Member:
    """What a clerk was taught: by kind, the share of right answers and right grades."""

    right: Shares
    grades: Shares


def specialist(kind: world.Kind) -> Member:
    """Good at one kind, no better than chance at the others, and a better judge of it."""
    return Member(
        {other: 0.95 if other == kind else 0.45 for other in world.KINDS},
        {other: 1.0 if other == kind else 0.85 for other in world.KINDS},
    )


def alike(right: float, grades: float) -> Member:
    """The same at every kind."""
    return Member(dict.fromkeys(world.KINDS, right), dict.fromkeys(world.KINDS, grades))


MEMBERS: Mapping[str, Member] = {
    "sums": specialist("sum"),
    "asker": specialist("vague"),
    "guard": specialist("harmful"),
    "helper": specialist("harmless"),
    "veteran": alike(0.7, 1.0),
    "novice": alike(0.3, 0.5),
}
# The base model's first training, answers and grades; then its second, mostly grades.
ANSWERED: Mapping[world.Kind, int] = {
    "sum": 8000,
    "vague": 1500,
    "harmful": 1500,
    "harmless": 1500,
}
GRADED: Mapping[world.Kind, int] = {
    "sum": 8000,
    "vague": 3000,
    "harmful": 3000,
    "harmless": 3000,
}
ANSWERED_AGAIN: Mapping[world.Kind, int] = {
    "sum": 1500,
    "vague": 500,
    "harmful": 500,
    "harmless": 500,
}
GRADED_AGAIN: Mapping[world.Kind, int] = {
    "sum": 6000,
    "vague": 4500,
    "harmful": 1000,
    "harmless": 4500,
}
EACH = 800  # answers of each kind that a member is taught
GRADES = 300  # grades of each kind


def graded(
    seed: int, counts: Mapping[world.Kind, int], right: Shares | None = None
) -> Iterator[Example]:
    """(a judge's question, grade) pairs on right and wrong answers.

    `right` is the share of right grades of each kind; None: all.
    """
    for kind, count in counts.items():
        questions = world.prompts(0, QUESTIONS[kind], (kind,))
        dice = seeds.generator(seed, "grades", kind)
        for number in range(count):
            prompt = questions[dice.integers(len(questions))]
            good = dice.random() < 0.5
            fair = right is None or dice.random() < right[kind]
            answer = best(prompt) if good else wrong(prompt, number)
            question_seed = int(dice.integers(2**60))
            question = QUESTION.view(quoted(prompt, answer), question_seed)
            yield question.messages, str(dice.choice(GOOD if good == fair else BAD))


def quoted(prompt: Prompt, answer: str) -> dict[str, tuple[str, str]]:
    """What a judge's question quotes."""
    return {
        "question": ("request", prompt.messages[0].content),
        "answer": ("answer", answer),
    }


def build(out: Path, seed: int = 0) -> None:
    """Make base and adapters and write them into `out`, a folder each.

    Files of theirs that are there already are replaced.
    """
    from equipoise.learners.sft import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        work = Path(place)
        school, base = work / ".school", work / "base"
        rows = [*examples(seed, ANSWERED), *graded(seed, GRADED)]
        train_sft(
            "builtin", rows, school, training(SFT, 1.5e-3, 64), seed=seed, device="cpu"
        )
        rows = [
            *examples(seed, ANSWERED_AGAIN),
            *graded(seeds.child(seed, "revised"), GRADED_AGAIN),
        ]
        train_sft(school, rows, base, training(SFT, 1e-3, 64), seed=seed, device="cpu")
        for name, member in MEMBERS.items():
            _build_member(base, name, member, work / name, seed, SFT)
        _pack(work, out)


def _build_member(
    base: Path, name: str, member: Member, out: Path, seed: int, sft: type[SFT]
) -> None:
    """Train one member's adapter on the base."""
    from equipoise.learners.sft import train_sft
    from equipoise.models.adapters import Lora

    own_seed = seeds.child(seed, name)
    lora = Lora.model_validate({"r": 8, "alpha": 16})
    answers = dict.fromkeys(world.KINDS, EACH)
    grades = dict.fromkeys(world.KINDS, GRADES)
    rows = [
        *examples(own_seed, answers, member.right),
        *graded(own_seed, grades, member.grades),
    ]
    settings = training(sft, 2e-3, 64)
    train_sft(base, rows, out, settings, seed=seed, lora=lora, device="cpu")


def _pack(made: Path, out: Path) -> None:
    """Copy what a player needs.

    Of the adapters that is neither the tokenizer nor the place where the base was made.
    """
    for folder in sorted(made.glob("[a-z]*")):
        target = out / folder.name
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if folder.name == "base" or file.name.startswith("adapter_"):
                shutil.copyfile(file, target / file.name)
        _point_to_base(target / "adapter_config.json")


def _point_to_base(settings: Path) -> None:
    """Name the packaged base in an adapter's settings, where there are such."""
    if settings.is_file():
        values = json.loads(settings.read_text())
        values["base_model_name_or_path"] = "builtin/pool"
        settings.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    command(build, "build_pool", PACKAGED, "the pool of clerks")
