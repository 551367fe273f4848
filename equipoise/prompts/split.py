"""Disjoint prompts for each generation, and a held-out part and a test that training never sees.

The order is that of the prompts' hashes with the seed: new rows do not move the old ones.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Literal, overload

import msgspec

from equipoise import seeds
from equipoise.errors import DataError
from equipoise.prompts.base import Prompts, PromptSource, Shuffle
from equipoise.types import Prompt, record_id

Reuse = bool | Literal["same"]
Repeats = Literal["drop", "keep"]


class PartsByGeneration(Sequence[list[Prompt]]):
    """Parts of `size` prompts of an ordered pool that begins anew, each dealt when it is asked for.

    A new turn has an order of its own, and begins with those that the part does not hold yet.
    """

    def __init__(self, ordered: list[Prompt], generations: int, size: int, seed: int) -> None:
        self._ordered = ordered
        self._generations = generations
        self._size = size
        self._seed = seed
        self._parts: list[list[Prompt]] = []
        self._queue = list(ordered)
        self._turn = 0

    def __len__(self) -> int:
        return self._generations

    @overload
    def __getitem__(self, index: int) -> list[Prompt]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Prompt]]: ...
    def __getitem__(self, index: int | slice) -> list[Prompt] | list[list[Prompt]]:
        chosen = range(self._generations)[index]
        if isinstance(chosen, range):
            return [self[t] for t in chosen]
        while len(self._parts) <= chosen:
            self._parts.append(self._next())
        return self._parts[chosen]

    @property
    def total(self) -> int:
        """The number of prompts in all parts."""
        return self._generations * self._size

    def distinct(self) -> list[Prompt]:
        """The prompts in all parts, each once: all are played before any again."""
        return self._ordered[: self.total]

    def _next(self) -> list[Prompt]:
        part = self._queue[: self._size]
        self._queue = self._queue[self._size :]
        if len(part) < self._size:
            self._turn += 1
            present = {prompt.id for prompt in part}
            again = _order(self._ordered, self._seed, self._turn)
            fresh = [prompt for prompt in again if prompt.id not in present]
            fresh = fresh[: self._size - len(part)]
            part += fresh
            taken = {prompt.id for prompt in fresh}
            self._queue = [prompt for prompt in again if prompt.id not in taken]
        return part


@dataclass(frozen=True)
class PromptSplit:
    """The prompts of a run: `parts[g]` is played in generation g.

    `dropped` counts the prompts in no part: "empty", "duplicate" (the same messages), "in_held_out"
    and "in_test" (training prompts with a text of those parts up to case and white space),
    "held_out_in_test" (held-out scores select models, so they must not see the test), "too_long".
    `kept` counts, by the same names, those that are in a part because `repeats` keeps them.
    """

    parts: Sequence[list[Prompt]]
    held_out: list[Prompt]
    test: list[Prompt] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of prompts in all parts, as often as they are in one."""
        if isinstance(self.parts, PartsByGeneration):
            return self.parts.total
        return sum(map(len, self.parts))

    @cached_property
    def training(self) -> list[Prompt]:
        """The prompts of all generations, each once."""
        if isinstance(self.parts, PartsByGeneration):
            return self.parts.distinct()
        return self.of_generations(range(len(self.parts)))

    def of_generations(self, generations: Iterable[int]) -> list[Prompt]:
        """The prompts of these generations, each once."""
        parts = {id(part): part for part in (self.parts[t] for t in generations)}
        return list({p.id: p for p in chain.from_iterable(parts.values())}.values())

    def check(self, reuse: Reuse = False) -> None:
        """Raises AssertionError when parts share a text, but for training parts with `reuse`, and
        for what `repeats` keeps.
        """
        if self.kept:
            return
        held_out = _contents(self.held_out)
        test = _contents(self.test)
        if held_out & test:
            raise AssertionError("the test would hold held-out prompts")
        seen: set[str] = set()
        for generation, part in enumerate([self.training] if reuse else self.parts):
            ids = {prompt.id for prompt in part}
            for name, kept_apart in (("held-out", held_out), ("test", test)):
                if not kept_apart.isdisjoint(_contents(part)):
                    raise AssertionError(f"generation {generation} would train on {name} prompts")
            if len(ids) < len(part) or ids & seen:
                raise AssertionError(f"generation {generation} would play a prompt twice")
            seen |= ids


class TooFewPromptsError(DataError):
    """The generations of a run need more prompts than its source has."""


def load_split(prompts: Prompts, generations: int, seed: int) -> PromptSplit:
    """The prompts of a source, loaded and split by a run's `seed`. Raises as `split` does."""
    return split_source(prompts.load(), prompts, generations, seed)


def split_source(
    source: PromptSource, prompts: Prompts, generations: int, seed: int
) -> PromptSplit:
    """The loaded prompts of a run, split by its `seed`. Raises DataError as `split` does."""
    return split(
        source,
        generations=generations,
        per_generation=prompts.per_generation,
        held_out=prompts.held_out,
        test=prompts.test,
        seed=seeds.child(seed, "split"),
        reuse=prompts.reuse,
        repeats=prompts.repeats,
        shuffle=prompts.shuffling,
    )


def fit_counts(
    prompts: Prompts, source: PromptSource, generations: int
) -> tuple[Prompts, tuple[str, ...]]:
    """(the settings with counts that the source has, the changes in words).

    Only with `shrink`: at most a fifth is held out and a tenth kept for the test. Where
    as many as asked for could be set aside, a note names the settings. Raises DataError where a
    generation would have none.
    """
    if not prompts.shrink:
        return prompts, ()
    own = _contents(source.held_out or ()) | _contents(source.test or ())
    dropped = Counter(source.dropped)
    if prompts.repeats == "keep":
        count = len(with_repeats(source.training, dropped, Counter()))
    else:
        known = {content(prompt) for prompt in distinct(source.training, dropped)}
        dropped["in_held_out_or_test"] += len(known & own)
        count = len(known - own)
    shares = {"held_out": 5, "test": 10}
    wanted = {name: getattr(prompts, name) for name in shares if getattr(source, name) is None}
    if not generations:  # nothing is trained on, so all may be held out, as many as are asked for
        fitted = {name: min(size, count) for name, size in wanted.items()}
        if wanted.get("held_out") and wanted.get("test"):
            fitted["held_out"] = min(fitted["held_out"], count - min(fitted["test"], count // 10))
        return prompts.model_copy(update=fitted), changed_counts(prompts, fitted, count)
    turns = 1 if prompts.reuse else generations
    if prompts.per_generation * turns + sum(wanted.values()) <= count:
        return prompts, ()
    fitted = {name: min(size, max(1, count // shares[name])) for name, size in wanted.items()}
    left = (count - sum(fitted.values())) // turns
    fitted["per_generation"] = min(prompts.per_generation, left)
    if left < 1:
        raise DataError(
            f"too few prompts: {generations} generations and the parts that are set aside take at "
            f"least {turns + sum(map(bool, wanted.values()))}, and {count} are there"
            f"{_reasons(dropped)}; give more prompts"
        )
    changes = changed_counts(prompts, fitted, count)
    lowered = [name for name, size in wanted.items() if fitted[name] < size]
    most = (count - sum(wanted.values())) // turns
    if lowered and most >= 1:
        kept = " and ".join(f"prompts.{name}={wanted[name]}" for name in lowered)
        changes += (
            f"{kept} can be had with prompts.shrink=false and prompts.per_generation={most} at "
            "most",
        )
    return prompts.model_copy(update=fitted), changes


def changed_counts(prompts: Prompts, fitted: Mapping[str, int], count: int) -> tuple[str, ...]:
    """A note on the counts that differ from those asked for; none where all are the same."""
    changes = []
    for name, size in fitted.items():
        wanted = getattr(prompts, name)
        if size != wanted:
            changes.append(f"prompts.{name} {wanted:,} → {size:,}")
    if not changes:
        return ()
    changed = ", ".join(changes)
    way_out = ""
    if prompts.reuse is False and prompts.per_generation:
        way_out = "; prompts.reuse=true needs the training prompts once and not for each generation"
    return (
        f"the source has {count:,} prompts, fewer than asked for: {changed} (prompts.shrink)"
        f"{way_out}",
    )


def split(
    source: PromptSource,
    *,
    generations: int,
    per_generation: int,
    held_out: int,
    test: int = 0,
    seed: int,
    reuse: Reuse = False,
    repeats: Repeats = "drop",
    shuffle: Shuffle | None = None,
) -> PromptSplit:
    """Disjoint parts of `per_generation` prompts; `held_out` and `test` ones are kept apart by
    content.

    These are the source's own where it has them, without limit; else drawn from `training`, the
    held-out part first. A text in both of the source's own stays in the test. With `reuse`, a new
    order begins when the prompts run out, and a part holds all where there are fewer than
    `per_generation`; with "same", all parts are alike. No part holds a prompt twice, and no text is
    in two of training, held-out and test, unless `repeats` are to be kept, as they stand. With
    `shuffle` the rows are dealt in its order. Raises DataError when
    there are too few prompts, or a part of the source is empty but should not be.
    """
    dropped = Counter(source.dropped)
    kept: Counter[str] = Counter()
    if repeats == "keep":
        pool, apart, tested = as_they_stand(source, held_out, test, seed, dropped, kept, shuffle)
    else:
        pool, apart, tested = _kept_apart(source, held_out, test, seed, dropped, shuffle)
    if held_out > 0 and not apart:
        raise DataError(_empty("held-out part", held_out, dropped))
    if test > 0 and not tested:
        raise DataError(_empty("test", test, dropped))
    needed = generations * per_generation
    if reuse:
        needed = min(1, generations)
    if len(pool) < needed:
        size = f"{generations} generations × {per_generation} prompts need {needed}"
        advice = "; set prompts.shrink: true, or prompts.reuse: true to start over"
        if reuse:
            size, advice = "nothing is left to train on", ""
        raise TooFewPromptsError(
            f"too few prompts: {size}, but {len(pool)} are there, {len(apart) + len(tested)} held "
            f"out{_reasons(dropped)}{advice}"
        )
    most = min(per_generation, len(pool)) if reuse else per_generation
    parts: Sequence[list[Prompt]] = PartsByGeneration(pool, generations, most, seed)
    if reuse == "same":
        parts = [pool[:most]] * generations
    elif not reuse:
        parts = list(parts)
    result = PromptSplit(parts, apart[:held_out], tested[:test], {**+dropped}, {**+kept})
    result.check(reuse)
    return result


def _kept_apart(
    source: PromptSource,
    held_out: int,
    test: int,
    seed: int,
    dropped: Counter[str],
    shuffle: Shuffle | None,
) -> tuple[list[Prompt], list[Prompt], list[Prompt]]:
    """(training prompts, held-out part, test), ordered, with no text in two of them."""

    def own(part: Sequence[Prompt]) -> list[Prompt]:
        return _order(distinct(part, dropped), seed, 0, shuffle)

    def without(prompts: list[Prompt], others: Sequence[Prompt], reason: str) -> list[Prompt]:
        taken = _contents(others)
        rest = [prompt for prompt in prompts if content(prompt) not in taken]
        dropped[reason] += len(prompts) - len(rest)
        return rest

    pool = own(source.training)
    tested = own(source.test or ())
    pool = without(pool, tested, "in_test")
    if source.held_out is None:
        apart = pool[:held_out]
        pool = pool[held_out:]
    else:
        apart = without(own(source.held_out), tested, "held_out_in_test")
    pool = without(pool, apart, "in_held_out")
    if source.test is None:
        tested = pool[:test]
        pool = pool[test:]
        pool = without(pool, tested, "in_test")
    return pool, apart, tested


def as_they_stand(
    source: PromptSource,
    held_out: int,
    test: int,
    seed: int,
    dropped: Counter[str],
    kept: Counter[str],
    shuffle: Shuffle | None,
) -> tuple[list[Prompt], list[Prompt], list[Prompt]]:
    """(training prompts, held-out part, test), ordered, with all repeats and overlaps, counted."""
    pool = _order(with_repeats(source.training, dropped, kept), seed, 0, shuffle)
    if source.held_out is None:
        apart = pool[:held_out]
        pool = pool[held_out:]
    else:
        apart = _order(with_repeats(source.held_out, dropped, kept), seed, 0, shuffle)
    if source.test is None:
        tested = pool[:test]
        pool = pool[test:]
    else:
        tested = _order(with_repeats(source.test, dropped, kept), seed, 0, shuffle)
    in_held_out = _contents(apart)
    in_test = _contents(tested)
    kept["in_held_out"] = sum(content(prompt) in in_held_out for prompt in pool)
    kept["in_test"] = sum(content(prompt) in in_test for prompt in pool)
    kept["held_out_in_test"] = sum(content(prompt) in in_test for prompt in apart)
    return pool, apart, tested


def content(prompt: Prompt) -> str:
    """The text of a prompt without case and white space; its id where it has no messages."""
    if not prompt.messages:
        return prompt.id
    lines = []
    for message in prompt.messages:
        text = unicodedata.normalize("NFKC", message.content)
        lines.append(f"{message.role}: {' '.join(text.split())}")
    return "\n".join(lines).casefold()


def _contents(prompts: Sequence[Prompt]) -> set[str]:
    return {content(prompt) for prompt in prompts}


def distinct(prompts: Sequence[Prompt], dropped: Counter[str]) -> list[Prompt]:
    kept: dict[str, Prompt] = {}
    for prompt in prompts:
        if prompt.messages and not prompt.messages[-1].content.strip():
            dropped["empty"] += 1
        elif prompt.id in kept:
            joined = with_labelled_answers(kept[prompt.id], prompt)
            if joined is None:
                dropped["duplicate"] += 1
            else:
                kept[prompt.id] = joined
        else:
            kept[prompt.id] = prompt
    return list(kept.values())


def with_labelled_answers(first: Prompt, other: Prompt) -> Prompt | None:
    """A prompt with the labelled answers of another row of it, too; None where that has no new one,
    or any of both is no single answer with a label.
    """
    answers = (*first.answers, *other.answers)
    if not first.answers or not other.answers or other.answers[0] in first.answers:
        return None
    if len(other.answers) > 1 or any(answer.label is None for answer in answers):
        return None
    return msgspec.structs.replace(first, answers=answers)


def with_repeats(
    prompts: Sequence[Prompt], dropped: Counter[str], kept: Counter[str]
) -> list[Prompt]:
    """The prompts that are not empty; the n-th of the same messages has an id of its own."""
    times: Counter[str] = Counter()
    result: list[Prompt] = []
    for prompt in prompts:
        if prompt.messages and not prompt.messages[-1].content.strip():
            dropped["empty"] += 1
            continue
        times[prompt.id] += 1
        if times[prompt.id] > 1:
            kept["duplicate"] += 1
            again = record_id("repeat", prompt.id, times[prompt.id])
            prompt = msgspec.structs.replace(prompt, id=again)
        result.append(prompt)
    return result


def _order(
    prompts: Sequence[Prompt], seed: int, turn: int, shuffle: Shuffle | None = None
) -> list[Prompt]:
    if shuffle is not None:
        places = shuffle.places(len(prompts))
        return [prompts[place] for place in places]
    return sorted(prompts, key=lambda p: (seeds.child(seed, "split", turn, p.id), p.id))


def _reasons(dropped: Counter[str]) -> str:
    reasons = [f"{number} {reason}" for reason, number in sorted((+dropped).items())]
    if not reasons:
        return ""
    advice = ""
    if dropped["too_long"]:
        advice = (
            "; those leave a player no room for an answer: raise its max_length, or set too_long: "
            "cut_prompt"
        )
    return f" (dropped: {', '.join(reasons)}{advice})"


def _empty(part: str, size: int, dropped: Counter[str]) -> str:
    setting = "test" if part == "test" else "held_out"
    shared = dropped["held_out_in_test"]
    note = _reasons(dropped)
    if shared and part != "test":
        note = f" ({shared} of its prompts are in the test, where they stay)"
    return f"prompts.{setting} is {size}, but the {part} is empty{note}"
