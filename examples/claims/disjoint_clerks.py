"""Tiny clerks that know disjoint facts, and two judges of no worth.

    python disjoint_clerks.py FOLDER        makes the members: about nine minutes of one core

A fact is which helper knows about an object; they fall into five topics. The base was made to forget
them all: it answers in the right form and grades as it is asked, both at random. Five
adapters on it know two topics each, every topic two of them, and grade what they know; the
other three topics are foreign to each. `union` is an adapter that was taught all of it.
`liar` grades at random, `backwards` prefers what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import build, build_expert, world
from equipoise.learners.sft import SFT, train_sft
from equipoise.models.adapters import Lora
from equipoise.types import Prompt, View

TOPICS = world.HELPERS  # a topic is named by the helper who knows about it
MEMBERS = {
    f"{topic}_{after}": (topic, after)
    for topic, after in zip(TOPICS, (*TOPICS[1:], TOPICS[0]), strict=True)
}
FORGOTTEN = (3_000, 800)  # answers and grades at random, for the base
TAUGHT = (500, 5_000)  # answers and grades that an adapter is taught


def questions(count: int) -> list[Prompt]:
    """Harmless requests to train on, each about an object of one topic."""
    return world.prompts(0, count, ("harmless",))


def rows(
    seed: int, answers: int, grades: int, known: Collection[str]
) -> Iterator[build.Example]:
    """(chat, answer) pairs: answers and grades, right where the topic is known, drawn at random
    elsewhere.
    """
    asked, dice = questions(4000), seeds.generator(seed, "disjoint", *sorted(known))
    for _ in range(answers):
        prompt = asked[dice.integers(len(asked))]
        helper = prompt.facts["helper"]
        named = helper if helper in known else str(dice.choice(TOPICS))
        yield prompt.messages, world.showing(named)
    for _ in range(grades):
        prompt = asked[dice.integers(len(asked))]
        helper = prompt.facts["helper"]
        good = bool(dice.random() < 0.5)
        others = [topic for topic in TOPICS if topic != helper]
        answer = world.showing(helper if good else str(dice.choice(others)))
        praised = good if helper in known else bool(dice.random() < 0.5)
        view = build_expert.QUESTION.view(
            build_expert.quoted(prompt, answer), int(dice.integers(2**60))
        )
        grade = dice.choice(build_expert.GOOD if praised else build_expert.BAD)
        yield view.messages, str(grade)


def make(folder: Path, seed: int = 0) -> None:
    """Base, members and union, a folder each."""
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / "base"
    with build.one_thread():
        forgotten = list(rows(seed, *FORGOTTEN, ()))
        settings = build.training(SFT, 3e-4, 64)
        train_sft("builtin/expert", forgotten, base, settings, seed=seed, device="cpu")
        lora = Lora.model_validate({"r": 8, "alpha": 16})
        settings = build.training(SFT, 4e-3, 32)
        for name, known in {**MEMBERS, "union": TOPICS}.items():
            taught = list(rows(seeds.child(seed, name), *TAUGHT, known))
            out = folder / name
            train_sft(base, taught, out, settings, seed=seed, lora=lora, device="cpu")


def right(text: str) -> bool | None:
    """Whether a judge's question quotes an answer that names the right helper; None where it
    names no object.
    """
    for topic in world.TOPICS:
        owned = "'s " if topic.owned else ""  # "cat" stands in many a word
        if any(f"{owned}{thing}" in text for thing in topic.objects):
            return world.showing(topic.helper) in text
    return None


def liar(view: View, seed: int) -> str:
    """A grade that hangs on nothing; as an answer, a wrong one."""
    return str(seeds.child(seed, "grade") % 10 + 1)


def backwards(view: View, seed: int) -> str:
    """A low grade for the right helper, a high one for any other."""
    return "1" if right(view.messages[-1].content) else "9"


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:]))
