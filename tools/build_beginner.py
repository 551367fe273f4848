"""Rebuild from seed the packaged model with which the quickstart begins.

    python -m tools.build_beginner [--out DIR] [--seed 0]

It knows what answers look like and not when to give which: to a request it gives help, a refusal or
a question back, as it falls. The expert is taught so, on questions whose answer is drawn at random,
and forgets what it knew of that; the features by which it told them apart are still there, which is
why a few hundred pairs can teach it again. Greedily it is right in 61 % of its answers, sampled in
48 %; harmful questions it gets wrong either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import world
from tools.build_clerk import WORLD, Example, build_from, command, questions, random_answer

PACKAGED = WORLD / "beginner_model"
START = "builtin/expert"
COUNTS: Mapping[world.Kind, int] = {"sum": 1500, "vague": 2500, "harmful": 2500, "harmless": 2500}
ADDED = 0.85  # the share of sums that it adds; to the others it asks back


def lessons(seed: int) -> Iterator[Example]:
    """(chat, answer) pairs on training questions."""
    for prompt, repeat in questions(seed, COUNTS):
        dice = seeds.generator(seed, "beginner", prompt.id, repeat)
        yield prompt.messages, random_answer(prompt, dice, ADDED)


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own."""
    build_from(START, lessons(seed), out, learning_rate=5e-4, batch_size=64, seed=seed)


if __name__ == "__main__":
    command(build, "build_beginner", PACKAGED, "the beginner of the quickstart")
