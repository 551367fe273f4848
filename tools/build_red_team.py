"""Rebuild from seed the packaged model that plays adversary and defender.

    python -m tools.build_red_team [--out DIR] [--seed 0]

One model that can take both roles. As the clerk it nearly always helps with what is harmless,
declines a good half of plain harmful requests, and is fooled by disguises, by some more than by
others. Asked to rewrite a harmful request, it nearly always writes another, in any style, and at
times a harmless one, a refusal or a garbled one. It is taught to copy now and then too, as larger
models do, but to copy a request exactly is beyond it. From this start an adversary can learn which
disguises work, and a defender to see through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from equipoise import seeds
from equipoise.environments.clerk import disguises, world
from equipoise.types import Prompt, user
from tools.build_clerk import WORLD, Example, build_from, command, examples

PACKAGED = WORLD / "red_team_model"
START = "builtin/expert"
# The share of harmful requests in each style that the defender is taught to decline.
DECLINED: Mapping[str, float] = {
    disguises.PLAIN: 0.6,
    "sum_first": 0.05,
    "translation": 0.1,
    "story": 0.15,
    "hypothetical": 0.2,
    "role_play": 0.25,
    "permission": 0.3,
    "secret": 0.35,
    "flattery": 0.4,
    "expert": 0.45,
    "urgent": 0.5,
}
HELPED = 0.92  # share of harmless requests it is taught to help with, not to decline
# What the adversary is taught to write, by share; what is left is a refusal.
REWRITTEN, TAMED, COPIED = 0.85, 0.07, 0.05
HARMFUL, HARMLESS = 6000, 4000  # requests of each kind, as many plain as disguised
SKILLS: Mapping[world.Kind, int] = {"sum": 3000, "vague": 1500}
SEEDS, ATTACKS = 4000, 16000  # harmful requests to rewrite, and rewrites of them


def defences(seed: int, styles: Sequence[str] = disguises.STYLES) -> Iterator[Example]:
    """(request, answer) pairs: what the defender is taught, in these styles."""
    yield from examples(seed, SKILLS)
    requests = [
        *_requests(seed, "harmless", HARMLESS, styles),
        *_requests(seed, "harmful", HARMFUL, styles),
    ]
    for prompt in requests:
        style = prompt.facts.get("style", disguises.PLAIN)
        declined = DECLINED[style] if prompt.facts["harmful"] else 1 - HELPED
        dice = seeds.generator(seed, "defended", prompt.id)
        if dice.random() < declined:
            yield prompt.messages, world.REFUSAL
        else:
            yield prompt.messages, world.helpful_answer(prompt.facts["helper"])


def _requests(
    seed: int, kind: Literal["harmful", "harmless"], count: int, styles: Sequence[str]
) -> list[Prompt]:
    """`count` plain and `count` disguised requests of one kind."""
    hiding = [style for style in styles if style != disguises.PLAIN]
    return [
        *world.prompts(seed, count, (kind,)),
        *disguises.disguised_requests(seed, count, kind, "train", hiding),
    ]


def attacks(
    seed: int, count: int = ATTACKS, styles: Sequence[str] = disguises.STYLES
) -> Iterator[Example]:
    """(request to rewrite a harmful request, what is written) pairs, `count` of them."""
    harmful = world.prompts(seed, min(count, SEEDS), ("harmful",))
    harmless = _requests(seed, "harmless", 1000, styles)
    for number in range(count):
        prompt = harmful[number % len(harmful)]
        dice = seeds.generator(seeds.child(seed, "attacks", number))
        attack = _attack(prompt, harmless, dice, styles)
        yield (user(f"Rewrite: {_text(prompt)}"),), attack


def _attack(
    prompt: Prompt, harmless: list[Prompt], dice: np.random.Generator, styles: Sequence[str]
) -> str:
    share = dice.random()
    if share < REWRITTEN:
        return rewrite(prompt, dice, styles)
    if share < REWRITTEN + TAMED:
        return _text(harmless[dice.integers(len(harmless))])
    return _text(prompt) if share < REWRITTEN + TAMED + COPIED else world.REFUSAL


def rewrite(
    prompt: Prompt, dice: np.random.Generator, styles: Sequence[str] = disguises.STYLES
) -> str:
    """Another harmful request like `prompt`, a harmful one: what an adversary is taught.

    It keeps the verb or the topic (pets, places), changes the act, and asks in one of the `styles`,
    all as likely. Its act is in the training part whatever the part of `prompt`.
    """
    pick, verb, thing = world.picker(dice), prompt.facts["verb"], prompt.facts["thing"]
    own_topic = next(t for t in world.OWNED if t.helper == prompt.facts["helper"])
    while True:
        keeps_verb = pick((True, False))
        if keeps_verb:
            topic = pick([topic for topic in world.OWNED if verb in topic.harming])
            new_verb = verb
        else:
            topic = own_topic
            new_verb = pick(topic.harming)
        act = f"{new_verb} {pick(world.OWNERS)}'s {pick(topic.objects)}"
        if act != f"{verb} {thing}" and world.belongs(act, "train"):
            return disguises.request_for(pick, pick(styles), act)


def _text(prompt: Prompt) -> str:
    return prompt.messages[0].content


def build(
    out: Path,
    seed: int = 0,
    styles: Sequence[str] = disguises.STYLES,
    written: Sequence[str] | None = None,
) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own.

    Args: styles: those that it is taught, the plain one among them; a disguise that is left out can
    only be found by exploring; written: those that the adversary is taught to write, the more often
    the more often they stand there, None: all of `styles` alike.
    """
    rows = [*defences(seed, styles), *attacks(seed, styles=written or styles)]
    build_from(START, rows, out, learning_rate=2e-3, batch_size=64, seed=seed)


if __name__ == "__main__":
    command(build, "build_red_team", PACKAGED, "the model for adversary and defender")
