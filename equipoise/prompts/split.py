"""One disjoint part of the prompts for each generation, and a held-out part that training never sees.

The order is each prompt's own hash with the seed, so that the same prompts in another order are split alike and new
rows do not move the old ones.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from equipoise import seeds
from equipoise.errors import DataError
from equipoise.types import Prompt


@dataclass(frozen=True)
class Split:
    """`parts[g]` is played in generation g. `dropped` counts prompts by why they are in no part:

    "empty" (nothing is asked), "duplicate" (the same messages again), "in_held_out" (training prompts whose text is
    that of a held-out one but for case and white space).
    """

    parts: list[list[Prompt]]
    held_out: list[Prompt]
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def duplicates(self) -> int:
        """How many prompts were dropped because the source had them already."""
        return self.dropped.get("duplicate", 0)

    def check(self, reuse: bool = False) -> None:
        """Raises AssertionError when a part holds a held-out text, a prompt twice, or (unless `reuse`) another's."""
        kept_apart = {content(prompt) for prompt in self.held_out}
        seen: set[str] = set()
        for generation, part in enumerate(self.parts):
            ids = {prompt.id for prompt in part}
            if any(content(prompt) in kept_apart for prompt in part):
                raise AssertionError(f"generation {generation} would train on held-out prompts")
            if len(ids) < len(part) or (ids & seen and not reuse):
                raise AssertionError(f"generation {generation} would play a prompt twice")
            seen |= ids


def split(
    training: Sequence[Prompt],
    own_held_out: Sequence[Prompt] | None,
    *,
    generations: int,
    per_generation: int,
    held_out: int,
    seed: int,
    reuse: bool = False,
) -> Split:
    """Disjoint parts of `per_generation` prompts, and at most `held_out` prompts kept apart by content.

    The held-out part is drawn from `own_held_out` where the source has one, else from `training`. With `reuse`, a new
    order begins when the prompts run out; no part holds a prompt twice. Raises DataError when there are too few
    prompts, or none to hold out though `held_out` > 0.
    """
    dropped: Counter[str] = Counter()
    pool = _order(_distinct(training, dropped), seed, 0)
    if own_held_out is None:
        own, pool = pool[:held_out], pool[held_out:]
    else:
        own = _order(_distinct(own_held_out, dropped), seed, 0)
    if held_out > 0 and not own:
        raise DataError(f"held_out: {held_out} prompts are to be held out, but the held-out part is empty")
    kept_apart = {content(prompt) for prompt in own}
    left = [prompt for prompt in pool if content(prompt) not in kept_apart]
    dropped["in_held_out"] += len(pool) - len(left)
    needed = per_generation if reuse else generations * per_generation
    if len(left) < needed:
        raise DataError(_too_few(len(left), needed, generations, per_generation, len(own), dropped, reuse))
    result = Split(_parts(left, generations, per_generation, seed), own[:held_out], {**+dropped})
    result.check(reuse)
    return result


def content(prompt: Prompt) -> str:
    """What makes two prompts the same text: roles and words without case and white space; the id where all is blank."""
    words = [f"{m.role}: {' '.join(unicodedata.normalize('NFKC', m.content).split())}" for m in prompt.messages]
    return "\n".join(words).casefold() if prompt.messages else prompt.id


def _distinct(prompts: Sequence[Prompt], dropped: Counter[str]) -> list[Prompt]:
    kept: dict[str, Prompt] = {}
    for prompt in prompts:
        if prompt.messages and not prompt.messages[-1].content.strip():
            dropped["empty"] += 1
        elif prompt.id in kept:
            dropped["duplicate"] += 1
        else:
            kept[prompt.id] = prompt
    return list(kept.values())


def _order(prompts: Sequence[Prompt], seed: int, turn: int) -> list[Prompt]:
    return sorted(prompts, key=lambda prompt: (seeds.child(seed, "split", turn, prompt.id), prompt.id))


def _parts(ordered: list[Prompt], generations: int, per_generation: int, seed: int) -> list[list[Prompt]]:
    """Deal the prompts out; when they run out, the next turn begins with those that this part does not hold yet."""
    parts: list[list[Prompt]] = []
    queue, turn = list(ordered), 0
    for _ in range(generations):
        part, queue = queue[:per_generation], queue[per_generation:]
        if len(part) < per_generation:
            turn += 1
            has = {prompt.id for prompt in part}
            again = _order(ordered, seed, turn)
            fresh = [prompt for prompt in again if prompt.id not in has][: per_generation - len(part)]
            part += fresh
            taken = {prompt.id for prompt in fresh}
            queue = [prompt for prompt in again if prompt.id not in taken]
        parts.append(part)
    return parts


def _too_few(
    there: int, needed: int, generations: int, per_generation: int, held_out: int, dropped: Counter[str], reuse: bool
) -> str:
    why = ", ".join(f"{count} {reason}" for reason, count in sorted((+dropped).items()))
    wanted = (
        f"{per_generation} prompts a generation" if reuse else f"{generations} generations × {per_generation} prompts"
    )
    advice = "lower prompts.per_generation" + ("" if reuse else ", or set prompts.reuse: true to start over")
    return (
        f"too few prompts: {wanted} need {needed}, but {there} are there (held out: {held_out}"
        + (f"; dropped: {why}" if why else "")
        + f"); {advice}"
    )
