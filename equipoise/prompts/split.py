"""One disjoint part of the prompts for each generation; a held-out part and a test that
training never sees.

The order is each prompt's own hash with the seed, so that the same prompts in another
order are split alike and new rows do not move the old ones.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from equipoise import seeds
from equipoise.errors import DataError
from equipoise.prompts.base import Prompts, Source
from equipoise.types import Prompt


@dataclass(frozen=True)
class Split:
    """`parts[g]` is played in generation g. `dropped` counts prompts by why they are in
    no part:

    "empty" (nothing is asked), "duplicate" (the same messages again), "in_held_out"
    (training prompts whose text is that of a held-out one but for case and white
    space), "in_test" (training prompts, likewise), "held_out_in_test" (prompts of the
    source's own held-out part that are in its own test: held-out scores choose, so they
    must not know the test).
    """

    parts: list[list[Prompt]]
    held_out: list[Prompt]
    test: list[Prompt] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def duplicates(self) -> int:
        """How many prompts were dropped because the source had them already."""
        return self.dropped.get("duplicate", 0)

    def check(self, reuse: bool = False) -> None:
        """Raises AssertionError when two parts share a text (unless `reuse`, of
        training), or one holds it twice.
        """
        held_out, test = _contents(self.held_out), _contents(self.test)
        if held_out & test:
            raise AssertionError("the test would hold held-out prompts")
        seen: set[str] = set()
        for generation, part in enumerate(self.parts):
            ids = {prompt.id for prompt in part}
            for name, kept_apart in (("held-out", held_out), ("test", test)):
                if not kept_apart.isdisjoint(_contents(part)):
                    raise AssertionError(
                        f"generation {generation} would train on {name} prompts"
                    )
            if len(ids) < len(part) or (ids & seen and not reuse):
                raise AssertionError(
                    f"generation {generation} would play a prompt twice"
                )
            seen |= ids


def dealt(prompts: Prompts, generations: int, seed: int) -> Split:
    """The parts of a run's prompts, read and split; `seed` is the run's. Raises
    DataError as `split` does.
    """
    return split(
        prompts.load(),
        generations=generations,
        per_generation=prompts.per_generation,
        held_out=prompts.held_out,
        test=prompts.test,
        seed=seeds.child(seed, "split"),
        reuse=prompts.reuse,
    )


def split(
    source: Source,
    *,
    generations: int,
    per_generation: int,
    held_out: int,
    test: int = 0,
    seed: int,
    reuse: bool = False,
) -> Split:
    """Disjoint parts of `per_generation` prompts; at most `held_out` and `test` prompts
    kept apart by content.

    The held-out part and the test are the source's own where it has them, and all of
    those are kept out of training; else they are drawn from `training`, the held-out
    part first. A text in both of the source's own parts stays in the test. With
    `reuse`, a new order begins when the prompts run out; no part holds a prompt twice.
    Raises DataError when there are too few prompts, or none to hold out or to test on
    though some are asked for.
    """
    dropped: Counter[str] = Counter()
    pool, apart, tested = _kept_apart(source, held_out, test, seed, dropped)
    for name, asked, found in (
        ("held-out part", held_out, apart),
        ("test", test, tested),
    ):
        if asked > 0 and not found:
            raise DataError(_empty(name, asked, dropped))
    kept_apart = len(apart) + len(tested)
    needed = per_generation if reuse else generations * per_generation
    if len(pool) < needed:
        raise DataError(
            _too_few(
                len(pool),
                needed,
                generations,
                per_generation,
                kept_apart,
                dropped,
                reuse,
            )
        )
    parts = _parts(pool, generations, per_generation, seed)
    result = Split(parts, apart[:held_out], tested[:test], {**+dropped})
    result.check(reuse)
    return result


def _kept_apart(
    source: Source, held_out: int, test: int, seed: int, dropped: Counter[str]
) -> tuple[list[Prompt], list[Prompt], list[Prompt]]:
    """(prompts to train on, held-out part, test), ordered, no text in two of them; own
    parts are whole.
    """

    def own(part: Sequence[Prompt]) -> list[Prompt]:
        return _order(_distinct(part, dropped), seed, 0)

    def without(
        prompts: list[Prompt], others: Sequence[Prompt], why: str
    ) -> list[Prompt]:
        taken = _contents(others)
        left = [prompt for prompt in prompts if content(prompt) not in taken]
        dropped[why] += len(prompts) - len(left)
        return left

    pool, tested = own(source.training), own(source.test or ())
    pool = without(pool, tested, "in_test")
    if source.held_out is None:
        apart, pool = pool[:held_out], pool[held_out:]
    else:
        apart = without(own(source.held_out), tested, "held_out_in_test")
    pool = without(pool, apart, "in_held_out")
    if source.test is None:
        tested, pool = pool[:test], pool[test:]
        pool = without(pool, tested, "in_test")
    return pool, apart, tested


def content(prompt: Prompt) -> str:
    """What makes two prompts the same text: roles and words without case and white
    space; the id where all is blank.
    """
    words = [
        f"{m.role}: {' '.join(unicodedata.normalize('NFKC', m.content).split())}"
        for m in prompt.messages
    ]
    return "\n".join(words).casefold() if prompt.messages else prompt.id


def _contents(prompts: Sequence[Prompt]) -> set[str]:
    return {content(prompt) for prompt in prompts}


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
    return sorted(
        prompts,
        key=lambda prompt: (seeds.child(seed, "split", turn, prompt.id), prompt.id),
    )


def _parts(
    ordered: list[Prompt], generations: int, per_generation: int, seed: int
) -> list[list[Prompt]]:
    """Deal the prompts out; when they run out, the next turn begins with those that
    this part does not hold yet.
    """
    parts: list[list[Prompt]] = []
    queue, turn = list(ordered), 0
    for _ in range(generations):
        part, queue = queue[:per_generation], queue[per_generation:]
        if len(part) < per_generation:
            turn += 1
            has = {prompt.id for prompt in part}
            again = _order(ordered, seed, turn)
            fresh = [prompt for prompt in again if prompt.id not in has][
                : per_generation - len(part)
            ]
            part += fresh
            taken = {prompt.id for prompt in fresh}
            queue = [prompt for prompt in again if prompt.id not in taken]
        parts.append(part)
    return parts


def _empty(part: str, asked: int, dropped: Counter[str]) -> str:
    shared = dropped["held_out_in_test"]
    why = (
        f" ({shared} of its prompts are in the test, where they stay)"
        if shared and part != "test"
        else ""
    )
    name = "test" if part == "test" else "held_out"
    return (
        f"prompts.{name}: {asked} prompts are asked for, but the {part} is empty{why}"
    )


def _too_few(
    there: int,
    needed: int,
    generations: int,
    per_generation: int,
    kept_apart: int,
    dropped: Counter[str],
    reuse: bool,
) -> str:
    why = ", ".join(f"{count} {reason}" for reason, count in sorted((+dropped).items()))
    wanted = (
        f"{per_generation} prompts a generation"
        if reuse
        else f"{generations} generations × {per_generation} prompts"
    )
    advice = "lower prompts.per_generation" + (
        "" if reuse else ", or set prompts.reuse: true to start over"
    )
    return (
        f"too few prompts: {wanted} need {needed}, but {there} are there (held out: {kept_apart}"
        + (f"; dropped: {why}" if why else "")
        + f"); {advice}"
    )
