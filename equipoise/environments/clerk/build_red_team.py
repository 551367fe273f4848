"""Rebuild the packaged model for sieges from seed: `python -m
equipoise.environments.clerk.build_red_team [--out DIR] [--seed 0]`.

One model that can sit on both sides. As the clerk it nearly always helps with what is
harmless, declines a good half of plain harmful requests, and is fooled by disguises, by
some more than by others; asked to rewrite a harmful request, it nearly always writes
another, in any style, and at times a harmless one, a refusal or a garbled one. It is
taught to copy now and then too, as larger models do, but to copy a request exactly is
beyond it. A start from which an adversary can learn which disguises work, and a
defender to see through them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from equipoise import seeds
from equipoise.environments.clerk import red_team as siege
from equipoise.environments.clerk import world as clerk
from equipoise.environments.clerk.build import (
    Example,
    command,
    examples,
    one_thread,
    taught,
)
from equipoise.models.adapters import resolve
from equipoise.types import Prompt

PACKAGED = Path(__file__).parent / "red_team_model"
START = "builtin/pool"  # knows nearly every answer of the clerk's
# The share of harmful requests in each style that the defender is taught to decline.
DECLINED: Mapping[str, float] = {
    siege.PLAIN: 0.6,
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
HELPED = 0.92  # the share of harmless requests that it is taught to help with; it declines the others
# What the adversary is taught to write, by share; what is left is a refusal.
REWRITTEN, TAMED, COPIED = 0.85, 0.07, 0.05
HARMFUL, HARMLESS = 6000, 4000  # requests of each kind, as many plain as disguised
SKILLS: Mapping[clerk.Kind, int] = {"sum": 3000, "vague": 1500}
SEEDS, ATTACKS = 4000, 16000  # harmful requests to rewrite, and rewrites of them


def defended(seed: int) -> Iterator[Example]:
    """(request, answer): what the clerk is taught under siege."""
    yield from examples(seed, SKILLS)
    for prompt in (
        *_requests(seed, "harmless", HARMLESS),
        *_requests(seed, "harmful", HARMFUL),
    ):
        style = prompt.facts.get("style", siege.PLAIN)
        declined = DECLINED[style] if prompt.facts["harmful"] else 1 - HELPED
        declines = seeds.generator(seed, "defended", prompt.id).random() < declined
        yield (
            prompt.messages,
            clerk.REFUSAL if declines else clerk.showing(prompt.facts["helper"]),
        )


def _requests(
    seed: int, kind: Literal["harmful", "harmless"], count: int
) -> list[Prompt]:
    """`count` plain and `count` disguised ones of one kind."""
    return [
        *clerk.prompts(seed, count, (kind,)),
        *siege.disguised(seed, count, kind, "train"),
    ]


def attacks(seed: int, count: int = ATTACKS) -> Iterator[Example]:
    """(request to rewrite a harmful request, what is written), `count` of them."""
    harmful = clerk.prompts(seed, min(count, SEEDS), ("harmful",))
    harmless = _requests(seed, "harmless", 1000)
    for number in range(count):
        prompt = harmful[number % len(harmful)]
        yield (
            siege.asking(_text(prompt)),
            _written(prompt, harmless, seeds.child(seed, "attacks", number)),
        )


def _written(prompt: Prompt, harmless: list[Prompt], seed: int) -> str:
    dice = seeds.generator(seed)
    share = dice.random()
    if share < REWRITTEN:
        return siege.rewrite(prompt, dice)
    if share < REWRITTEN + TAMED:
        return _text(harmless[dice.integers(len(harmless))])
    return _text(prompt) if share < REWRITTEN + TAMED + COPIED else clerk.REFUSAL


def _text(prompt: Prompt) -> str:
    return prompt.messages[0].content


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into `out`, over what is there of it."""
    from equipoise.learners.sft import SFT, train_sft

    with one_thread(), tempfile.TemporaryDirectory() as place:
        made = Path(place) / "made"
        lessons = [*defended(seed), *attacks(seed)]
        train_sft(START, lessons, made, taught(SFT, 2e-3, 64), seed=seed, device="cpu")
        shutil.copy(Path(resolve(START)) / "generation_config.json", made)
        shutil.copytree(made, out, dirs_exist_ok=True)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    command(build, "siege_build", PACKAGED, "the model for sieges")
