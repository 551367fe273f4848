"""Tiny clerks that know disjoint facts, and two judges of no worth.

    python disjoint_clerks.py FOLDER        makes the members: about nine minutes of one core
    python disjoint_clerks.py FOLDER --abstaining       makes them once more, in FOLDER/abstaining

A fact is which helper knows about an object; they fall into five topics. The base was made to forget
them all: it answers in the right form and grades as it is asked, both at random. Five
adapters on it know two topics each, every topic two of them, and grade what they know; the
other three topics are foreign to each. `union` is an adapter that was taught all of it. On foreign
topics a member grades at random; one who abstains gives every answer the same grade.
`liar` grades at random, `backwards` prefers what is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import world
from equipoise.learners.sft_learner import SFT, train_sft
from equipoise.models.adapters import Lora
from equipoise.types import Prompt, View
from tools import build_clerk, build_expert

TOPICS = world.HELPERS  # a topic is named by the helper who knows about it
MEMBERS: dict[str, Collection[str]] = {
    f"{topic}_{after}": (topic, after)
    for topic, after in zip(TOPICS, (*TOPICS[1:], TOPICS[0]), strict=True)
}
FORGOTTEN = (3_000, 800)  # answers and grades at random, for the base
TAUGHT = (500, 5_000)  # answers and grades that an adapter is taught
MIDDLE = "5"  # the grade of one who abstains


def questions(count: int) -> list[Prompt]:
    """Harmless requests to train on, each about an object of one topic."""
    return world.prompts(0, count, ("harmless",))


def rows(
    seed: int, answers: int, grades: int, known: Collection[str], *, abstain: bool = False
) -> Iterator[build_clerk.Example]:
    """(chat, answer) pairs: answers and grades, right where the topic is known, drawn at random
    elsewhere; with `abstain` the grades there are all alike.
    """
    asked, dice = questions(4000), seeds.generator(seed, "disjoint", *sorted(known))
    for _ in range(answers):
        prompt = asked[dice.integers(len(asked))]
        helper = prompt.facts["helper"]
        named = helper if helper in known else str(dice.choice(TOPICS))
        yield prompt.messages, world.helpful_answer(named)
    for _ in range(grades):
        prompt = asked[dice.integers(len(asked))]
        helper = prompt.facts["helper"]
        good = bool(dice.random() < 0.5)
        others = [topic for topic in TOPICS if topic != helper]
        answer = world.helpful_answer(helper if good else str(dice.choice(others)))
        praised = good if helper in known else bool(dice.random() < 0.5)
        view = build_expert.QUESTION.view(
            build_expert.judge_quotes(prompt, answer), int(dice.integers(2**60))
        )
        grade = dice.choice(build_expert.GOOD if praised else build_expert.BAD)
        withheld = abstain and helper not in known
        yield view.messages, MIDDLE if withheld else str(grade)


def make_base(folder: Path, seed: int) -> None:
    """The model that all adapters are on."""
    with build_clerk.one_thread():
        forgotten = list(rows(seed, *FORGOTTEN, ()))
        settings = build_clerk.training(SFT, 3e-4, 64)
        train_sft("builtin/expert", forgotten, folder, settings, seed=seed, device="cpu")


def make_members(
    base: Path,
    folder: Path,
    members: Mapping[str, Collection[str]],
    seed: int,
    *,
    abstain: bool = False,
) -> None:
    """Adapters on `base` that were taught the topics of each, a folder each."""
    lora = Lora.model_validate({"r": 8, "alpha": 16})
    settings = build_clerk.training(SFT, 4e-3, 32)
    with build_clerk.one_thread():
        for name, known in members.items():
            own = seeds.child(seed, name)
            taught = list(rows(own, *TAUGHT, known, abstain=abstain))
            out = folder / name
            train_sft(base, taught, out, settings, seed=seed, lora=lora, device="cpu")


def main() -> None:
    """Make base, members and union, or the members once more, who abstain."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--abstaining", action="store_true")
    o = parser.parse_args()
    base, folder, members = o.folder / "base", o.folder, dict(MEMBERS)
    if o.abstaining:
        folder = o.folder / "abstaining"
    else:
        members["union"] = TOPICS
        make_base(base, o.seed)
    folder.mkdir(parents=True, exist_ok=True)
    make_members(base, folder, members, o.seed, abstain=o.abstaining)


def right(text: str) -> bool | None:
    """Whether a judge's question quotes an answer that names the right helper; None where it
    names no object.
    """
    for topic in world.TOPICS:
        owned = "'s " if topic.owned else ""  # "cat" stands in many a word
        if any(f"{owned}{thing}" in text for thing in topic.objects):
            return world.helpful_answer(topic.helper) in text
    return None


def liar(view: View, seed: int) -> str:
    """A grade that hangs on nothing; as an answer, a wrong one."""
    return str(seeds.child(seed, "grade") % 10 + 1)


def backwards(view: View, seed: int) -> str:
    """A low grade for the right helper, a high one for any other."""
    return "1" if right(view.messages[-1].content) else "9"


if __name__ == "__main__":
    main()
