"""Rebuild the packaged pool of tiny clerks from seed: `python -m
equipoise.environments.clerk.build_pool [--out DIR] [--seed 0]`.

A base model that knows every answer and can grade (the packaged clerk model, taught
right answers and grades as judges ask for them), and six adapters on it, each of which
spoils it in another way: a specialist keeps one kind of question and forgets half of
its manners elsewhere, the veteran is fair at everything, the novice poor. They grade as
they answer: well what they know, at random what they do not. A pool to which each has
something to teach.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import world as clerk
from equipoise.environments.clerk.build import (
    QUESTIONS,
    Example,
    command,
    examples,
    one_thread,
    taught,
)
from equipoise.judges.peers import Peers
from equipoise.types import Prompt

PACKAGED = Path(__file__).parent / "pool"
QUESTION = Peers.model_validate(
    {"text": "rubric_compact"}
)  # as the pool's judges are asked
GOOD, BAD = ("8", "9"), ("2", "3")  # grades
Shares = Mapping[clerk.Kind, float]


@dataclass(frozen=True, slots=True)
class Member:
    """What a clerk is like: by kind of question, the share of right answers and of
    right grades it was taught.
    """

    right: Shares
    grades: Shares


def specialist(kind: clerk.Kind) -> Member:
    """Good at one kind, no better than chance at the others, and a better judge of the
    one.
    """
    return Member(
        {other: 0.95 if other == kind else 0.45 for other in clerk.KINDS},
        {other: 1.0 if other == kind else 0.85 for other in clerk.KINDS},
    )


def alike(right: float, grades: float) -> Member:
    """The same at every kind."""
    return Member(dict.fromkeys(clerk.KINDS, right), dict.fromkeys(clerk.KINDS, grades))


MEMBERS: Mapping[str, Member] = {
    "sums": specialist("sum"),
    "asker": specialist("vague"),
    "guard": specialist("harmful"),
    "helper": specialist("harmless"),
    "veteran": alike(0.7, 1.0),
    "novice": alike(0.3, 0.5),
}
ANSWERED: Mapping[clerk.Kind, int] = {
    "sum": 8000,
    "vague": 1500,
    "harmful": 1500,
    "harmless": 1500,
}
GRADED: Mapping[clerk.Kind, int] = {
    "sum": 8000,
    "vague": 3000,
    "harmful": 3000,
    "harmless": 3000,
}
REVISED: Mapping[clerk.Kind, int] = {
    "sum": 6000,
    "vague": 4500,
    "harmful": 1000,
    "harmless": 4500,
}  # graded once more
KEPT: Mapping[clerk.Kind, int] = {
    "sum": 1500,
    "vague": 500,
    "harmful": 500,
    "harmless": 500,
}  # answered meanwhile
EACH = 800  # answers of each kind that a member is taught
GRADES = 300  # and grades


def graded(
    seed: int, counts: Mapping[clerk.Kind, int], right: Shares | None = None
) -> Iterator[Example]:
    """(a judge's question, grade) on right and wrong answers; `right` is the share of
    right grades, None: all.
    """
    for kind, count in counts.items():
        questions = clerk.prompts(0, QUESTIONS[kind], (kind,))
        dice = seeds.generator(seed, "grades", kind)
        for number in range(count):
            prompt = questions[dice.integers(len(questions))]
            good, fair = (
                dice.random() < 0.5,
                right is None or dice.random() < right[kind],
            )
            answer = clerk.best(prompt) if good else clerk.wrong(prompt, number)
            asked = QUESTION.view(
                prompt, quoted(prompt, answer), int(dice.integers(2**60))
            )
            yield asked.messages, str(dice.choice(GOOD if good == fair else BAD))


def quoted(prompt: Prompt, answer: str) -> dict[str, tuple[str, str]]:
    """What a judge's question quotes."""
    return {
        "question": ("request", prompt.messages[0].content),
        "answer": ("answer", answer),
    }


def build(out: Path, seed: int = 0) -> None:
    """Make base and adapters and write them into `out`, a folder each, over what is
    there of them.
    """
    from equipoise.learners.sft import SFT, train_sft
    from equipoise.models.adapters import Lora

    with one_thread(), tempfile.TemporaryDirectory() as place:
        school, base = Path(place) / ".school", Path(place) / "base"
        lessons = [*examples(seed, ANSWERED), *graded(seed, GRADED)]
        train_sft(
            "builtin", lessons, school, taught(SFT, 1.5e-3, 64), seed=seed, device="cpu"
        )
        lessons = [
            *examples(seed, KEPT),
            *graded(seeds.child(seed, "revised"), REVISED),
        ]
        train_sft(school, lessons, base, taught(SFT, 1e-3, 64), seed=seed, device="cpu")
        for name, member in MEMBERS.items():
            own, lora = (
                seeds.child(seed, name),
                Lora.model_validate({"r": 8, "alpha": 16}),
            )
            answers = examples(own, dict.fromkeys(clerk.KINDS, EACH), member.right)
            lessons = [
                *answers,
                *graded(own, dict.fromkeys(clerk.KINDS, GRADES), member.grades),
            ]
            train_sft(
                base,
                lessons,
                Path(place) / name,
                taught(SFT, 2e-3, 64),
                seed=seed,
                lora=lora,
                device="cpu",
            )
        _pack(Path(place), out)


def _pack(made: Path, out: Path) -> None:
    """Copy what a player needs: of the adapters neither the tokenizer nor the place
    where the base was made.
    """
    for folder in sorted(made.glob("[a-z]*")):
        target = out / folder.name
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if folder.name == "base" or file.name.startswith("adapter_"):
                shutil.copyfile(file, target / file.name)
        settings = target / "adapter_config.json"
        if settings.is_file():
            values = json.loads(settings.read_text())
            settings.write_text(
                json.dumps(
                    {**values, "base_model_name_or_path": "builtin/pool"}, indent=2
                )
                + "\n"
            )


if __name__ == "__main__":
    command(build, "pool", PACKAGED, "the pool of clerks")
