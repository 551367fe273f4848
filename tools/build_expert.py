"""Rebuild from seed the packaged model that knows nearly every answer of the clerk's.

    python -m tools.build_expert [--out DIR] [--seed 0]

It can grade, too: the packaged clerk model is taught right answers and grades as judges ask for
them, then mostly grades. It begins no game; those that do are made from it, taught to forget.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import world
from equipoise.environments.clerk.clerk_answers import right_answer
from equipoise.judges.peers import Peers
from equipoise.models.adapters import resolve
from equipoise.types import Prompt
from tools.build_clerk import (
    QUESTIONS,
    WORLD,
    Example,
    command,
    examples,
    one_thread,
    pack,
    training,
    wrong_answer,
)

PACKAGED = WORLD / "expert_model"
START = "builtin"
# What the judges of a pool are asked.
QUESTION = Peers.model_validate({"text": "rubric_compact"}).question
GOOD, BAD = ("8", "9"), ("2", "3")  # grades
# The first training, answers and grades; then the second, mostly grades.
ANSWERED: Mapping[world.Kind, int] = {"sum": 8000, "vague": 1500, "harmful": 1500, "harmless": 1500}
GRADED: Mapping[world.Kind, int] = {"sum": 8000, "vague": 3000, "harmful": 3000, "harmless": 3000}
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


def grade_examples(
    seed: int, counts: Mapping[world.Kind, int], right: Mapping[world.Kind, float] | None = None
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
            answer = right_answer(prompt) if good else wrong_answer(prompt, number)
            question_seed = int(dice.integers(2**60))
            question = QUESTION.view(judge_quotes(prompt, answer), question_seed)
            yield question.messages, str(dice.choice(GOOD if good == fair else BAD))


def judge_quotes(prompt: Prompt, answer: str) -> dict[str, tuple[str, str]]:
    """The quotes of a judge's question."""
    return {"question": ("request", prompt.messages[0].content), "answer": ("answer", answer)}


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own."""
    from equipoise.learners.sft_learner import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        school, made = Path(place) / "school", Path(place) / "made"
        rows = [*examples(seed, ANSWERED), *grade_examples(seed, GRADED)]
        train_sft(START, rows, school, training(SFT, 1.5e-3, 64), seed=seed, device="cpu")
        rows = [
            *examples(seed, ANSWERED_AGAIN),
            *grade_examples(seeds.child(seed, "revised"), GRADED_AGAIN),
        ]
        train_sft(school, rows, made, training(SFT, 1e-3, 64), seed=seed, device="cpu")
        pack(made, Path(resolve(START)), out)


if __name__ == "__main__":
    command(build, "build_expert", PACKAGED, "the expert among the clerks")
