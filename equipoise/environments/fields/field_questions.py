"""Four fields of short questions that a rule answers: sums, orders, initials, sorts of things."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise import seeds
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Prompt, record_id, user

WORDS = Path(__file__).parent / "words.txt"
Part = Literal["school", "training", "held_out", "test"]
PARTS: tuple[Part, ...] = ("school", "training", "held_out", "test")
SHARES = (4, 3, 2, 1)  # of ten: of all questions, those of each part
DRAWS = 200  # of a question, before a part counts as used up


@dataclass(frozen=True)
class Item:
    """A question, its answer, and an answer that is wrong in a likely way."""

    question: str
    answer: str
    wrong: str


def sums(dice: random.Random) -> Item:
    """A sum of two numbers of two digits."""
    first, second = dice.randint(11, 79), dice.randint(11, 79)
    right = first + second
    wrong = right + dice.choice((-20, -10, -2, -1, 1, 2, 10, 20))
    return Item(f"What is {first} + {second}?", str(right), str(wrong))


def reverse(dice: random.Random) -> Item:
    """Three words, the last one first."""
    three = drawn(dice, 3)
    right = three[::-1]
    others = [three, [three[1], three[2], three[0]], [three[2], three[0], three[1]]]
    others += [right[:2], [right[0], right[1], right[1]]]
    return Item(f"Reverse the order: {listed(three)}.", listed(right), listed(dice.choice(others)))


def initials(dice: random.Random) -> Item:
    """The first letters of three words."""
    three = drawn(dice, 3)
    right = [each[0] for each in three]
    others = [[each[-1] for each in three], right[:2], three]
    place = dice.randrange(3)
    others += 3 * [[*right[:place], other_letter(dice, right[place]), *right[place + 1 :]]]
    return Item(
        f"What are the first letters of: {listed(three)}?",
        listed(right),
        listed(dice.choice(others)),
    )


def sorts(dice: random.Random) -> Item:
    """The sort of three things."""
    by_sort = things()
    sort, other = dice.sample(list(by_sort), 2)
    return Item(
        f"What sort of thing are these: {listed(dice.sample(by_sort[sort], 3))}?", sort, other
    )


FIELDS: Mapping[str, Callable[[random.Random], Item]] = {
    "sums": sums,
    "reverse": reverse,
    "initials": initials,
    "sorts": sorts,
}
FieldName = Literal["sums", "reverse", "initials", "sorts"]


class FieldQuestions(Prompts):
    """Short questions of four fields, as many of each; no parts share a question.

    Facts: `field` and `answer`. A fourth part, `school`, is kept for the members' warm start.
    """

    kind: Literal["field_questions"] = "field_questions"
    count: int = Field(400, ge=1, le=2000, description="questions to train on, of all fields")
    fields: tuple[FieldName, ...] = Field(
        tuple(FIELDS),  # type: ignore[arg-type]
        min_length=1,
        description="the fields of which questions are asked",
    )
    seed: int = Field(0, ge=0, description="seed of the draw")

    def load(self, folder: Path = Path()) -> PromptSource:
        return PromptSource(
            self.drawn("training", self.count),
            self.drawn("held_out", self.held_out),
            self.drawn("test", self.test),
        )

    def drawn(self, part: Part, count: int) -> list[Prompt]:
        """`count` questions of a part, the fields in turn."""
        each = {
            field: iter(items(field, part, -(-count // len(self.fields)), self.seed))
            for field in self.fields
        }
        order = (self.fields[place % len(self.fields)] for place in range(count))
        return [prompt_of(field, next(each[field])) for field in order]


def prompt_of(field: str, item: Item) -> Prompt:
    """An item as a prompt with its facts."""
    facts = {"field": field, "answer": item.answer}
    name = record_id("prompt", field, item.question)
    return Prompt(name, (user(item.question),), facts, "field_questions")


def items(field: str, part: Part, count: int, seed: int = 0) -> list[Item]:
    """Different items of a field's part. Raises ValueError where it has fewer."""
    dice = random.Random(seeds.child(seed, "fields", field, part))
    different: dict[str, Item] = {}
    for _ in range(DRAWS + 20 * count):
        item = FIELDS[field](dice)
        if part_of(item.question) == part:
            different.setdefault(item.question, item)
        if len(different) == count:
            return list(different.values())
    raise ValueError(f"{field}: its part {part} has only some {len(different)} questions")


def part_of(question: str) -> Part:
    """The part to which a question belongs, by a hash of its text."""
    place = hashlib.blake2b(question.encode(), digest_size=4).digest()[0] % sum(SHARES)
    for part, share in zip(PARTS, SHARES, strict=True):
        if place < share:
            return part
        place -= share
    raise AssertionError(question)


def drawn(dice: random.Random, count: int) -> list[str]:
    """Words that begin and end differently."""
    while True:
        sample = dice.sample([thing for sort in things().values() for thing in sort], count)
        if len({thing[0] for thing in sample}) == count:
            return sample


def other_letter(dice: random.Random, letter: str) -> str:
    """A small letter that is another one."""
    return dice.choice([other for other in "abcdefghiklmnoprstuw" if other != letter])


def listed(parts: list[str]) -> str:
    """Words with commas between them."""
    return ", ".join(parts)


@cache
def things() -> dict[str, list[str]]:
    """Sort -> everyday words of it."""
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {sort: members.split() for sort, _, members in rows}
