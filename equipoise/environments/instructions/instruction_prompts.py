"""Questions with checkable instructions added, drawn by seed from the checkers' own parameters."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from equipoise import seeds
from equipoise.component import nearest
from equipoise.environments.instructions.checkers import check, checker_of, conflicts, describe
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.sets.base import AnswerTokens
from equipoise.evaluation.sets.published_set import (
    HubData,
    PlacedRow,
    Published,
    list_of,
    name_of,
    text_of,
)
from equipoise.ledger.item_scores import Answer, Answers, Item, Items, ItemScores, Judged
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.system.effects import READS, Text
from equipoise.types import Prompt, record_id, user

Part = Literal["train", "held_out", "test"]
PARTS: Mapping[Part, tuple[float, float]] = {
    "train": (0.0, 0.7),
    "held_out": (0.7, 0.9),
    "test": (0.9, 1.0),
}  # the share of the questions, by their shuffled place
QUESTIONS = Path(__file__).parent / "questions.txt"
WANTED = ("garden", "morning", "simple", "travel", "music", "winter", "market", "quiet")
FORBIDDEN = ("water", "family", "careful", "bridge", "color", "story", "paper", "future")
ENDINGS = (
    "Is there anything else I can help with?",
    "Any other questions?",
    "That is all.",
    "I hope this helps.",
)

Draw = Callable[[random.Random], dict[str, Any]]
# instruction -> its parameters, such that an answer of a few sentences can follow it
DRAWS: Mapping[str, Draw] = {
    "change_case:english_lowercase": lambda dice: {},
    "change_case:english_capital": lambda dice: {},
    "change_case:capital_word_frequency": lambda dice: {
        "capital_relation": "at least",
        "capital_frequency": dice.randint(2, 4),
    },
    "punctuation:no_comma": lambda dice: {},
    "startend:quotation": lambda dice: {},
    "startend:end_checker": lambda dice: {"end_phrase": dice.choice(ENDINGS)},
    "detectable_format:title": lambda dice: {},
    "detectable_format:number_bullet_lists": lambda dice: {"num_bullets": dice.randint(2, 4)},
    "detectable_format:number_highlighted_sections": lambda dice: {
        "num_highlights": dice.randint(1, 3)
    },
    "detectable_format:multiple_sections": lambda dice: {
        "section_spliter": dice.choice(("Section", "SECTION")),
        "num_sections": 2,
    },
    "detectable_content:postscript": lambda dice: {
        "postscript_marker": dice.choice(("P.S.", "P.P.S"))
    },
    "detectable_content:number_placeholders": lambda dice: {"num_placeholders": dice.randint(1, 3)},
    "length_constraints:number_sentences": lambda dice: {
        "relation": dice.choice(("less than", "at least")),
        "num_sentences": dice.randint(3, 5),
    },
    "length_constraints:number_words": lambda dice: {
        "relation": "less than",
        "num_words": dice.choice((20, 30, 40, 50)),
    },
    "length_constraints:number_paragraphs": lambda dice: {"num_paragraphs": 2},
    "keywords:existence": lambda dice: {"keywords": sorted(dice.sample(WANTED, 2))},
    "keywords:frequency": lambda dice: {
        "keyword": dice.choice(WANTED),
        "relation": "at least",
        "frequency": 2,
    },
    "keywords:forbidden_words": lambda dice: {"forbidden_words": sorted(dice.sample(FORBIDDEN, 2))},
    "keywords:letter_frequency": lambda dice: {
        "letter": dice.choice("bgkpvy"),
        "let_relation": "at least",
        "let_frequency": dice.randint(3, 6),
    },
}


class InstructionPrompts(Prompts):
    """Real questions with one or several instructions that a rule can check.

    The questions come with the package, or from a file with one a line; no parts share one. `seed`
    draws instructions and parameters; those that exclude each other never meet. Facts: `question`,
    and `instruction_id_list` and `kwargs` as IFEval has them.
    """

    kind: Literal["instructions"] = "instructions"
    count: int = Field(2000, ge=1, description="distinct prompts to train on")
    several: tuple[int, int] = Field(
        (1, 3), description="fewest and most instructions on one question"
    )
    instructions: tuple[Text, ...] = Field(
        tuple(DRAWS), min_length=1, description="instructions to draw from"
    )
    questions: Annotated[Path | None, READS] = Field(
        None, description="a text file with one question a line, in place of ours"
    )
    seed: int = Field(0, ge=0, description="seed of the drawn prompts")

    @field_validator("instructions")
    @classmethod
    def _check_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in DRAWS:
                hint = nearest(name, list(DRAWS))
                raise ValueError(f"unknown instruction '{name}'; {hint}")
        return names

    @field_validator("several")
    @classmethod
    def _check_ordered(cls, several: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= several[0] <= several[1]:
            raise ValueError(f"{list(several)}: give the fewest and the most, from 1 on")
        return several

    def load(self, folder: Path = Path()) -> PromptSource:
        """`count` prompts, `held_out` and `test` others. ConfigError if too many, DataError."""
        place = QUESTIONS if self.questions is None else folder / self.questions
        questions = list(_lines(place))
        random.Random(seeds.child(self.seed, "questions")).shuffle(questions)
        return PromptSource(
            self._draw(questions, "train", self.count),
            self._draw(questions, "held_out", self.held_out),
            self._draw(questions, "test", self.test),
        )

    def _draw(self, questions: Sequence[str], part: Part, count: int) -> list[Prompt]:
        low, high = (round(share * len(questions)) for share in PARTS[part])
        pool = questions[low:high]
        if count and not pool:
            raise ConfigError(f"prompts: {len(questions)} questions are too few for a {part} part")
        drawn: dict[str, Prompt] = {}
        for number in range(20 * count):
            if len(drawn) == count:
                break
            dice = random.Random(seeds.child(self.seed, part, number))
            prompt = self._prompt(pool[number % len(pool)], dice)
            drawn.setdefault(prompt.id, prompt)
        if len(drawn) < count:
            raise ConfigError(f"prompts: only {len(drawn)} of {count} distinct {part} prompts")
        return list(drawn.values())

    def _prompt(self, question: str, dice: random.Random) -> Prompt:
        names: list[str] = []
        for _ in range(dice.randint(*self.several)):
            barred = set().union(*(conflicts(name) for name in names))
            free = [name for name in self.instructions if name not in barred]
            if not free:
                break
            names.append(dice.choice(free))
        arguments = [DRAWS[name](dice) for name in names]
        sentences = [describe(name, values) for name, values in zip(names, arguments, strict=True)]
        text = " ".join([question, *sentences])
        facts = {"question": question, "instruction_id_list": names, "kwargs": arguments}
        return Prompt(record_id("prompt", "user", text), (user(text),), facts, "instructions")


@cache
def _lines(place: Path) -> tuple[str, ...]:
    """The questions of a file: its lines that are neither blank nor comments."""
    try:
        lines = place.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"prompts.questions: {place}: cannot be read ({error})") from error
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


READINGS = ("strict", "loose")
METRICS = [f"{level}_{reading}" for reading in READINGS for level in ("prompt", "inst")]


class IFEval(Published):
    """Accuracy by prompt (the headline: strict) and instruction; unscored if one is unchecked."""

    kind: Literal["ifeval"] = "ifeval"
    data: ClassVar[HubData | None] = HubData("google/IFEval", split="train")
    licence: ClassVar[str] = "Apache 2.0, Google Research"

    max_new_tokens: AnswerTokens = 1280

    @property
    def headline(self) -> str:
        return "prompt_strict"

    def load(self) -> list[Item]:
        return [_item(place) for place in self.rows()]

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """A prompt with three instructions weighs three times in accuracy by instruction."""
        return [_scores(item, answer) for item in items for answer in answers[item.id]]


def _item(place: PlacedRow) -> Item:
    where, row = place
    text = text_of(row, where, "prompt")
    names = list_of(row, where, "instruction_id_list")
    arguments = list_of(row, where, "kwargs")
    if len(names) != len(arguments):
        raise DataError(f"{where}: {len(names)} instructions, {len(arguments)} kwargs")
    for name in names:
        try:
            checker_of(name)
        except ConfigError as error:
            raise type(error)(f"{where}: {error}") from error
    facts = {"instruction_id_list": names, "kwargs": arguments}
    prompt = Prompt(record_id("ifeval", text), (user(text),), facts, "ifeval")
    return Item(id=name_of(row, where, "key"), prompt=prompt)


def _scores(item: Item, answer: Answer) -> ItemScores:
    facts = item.prompt.facts
    missing: dict[str, float | None] = dict.fromkeys(METRICS)
    if answer.error:
        return ItemScores(item=item.id, sample=answer.sample, values=missing, reason=answer.error)
    checks = check(
        facts["instruction_id_list"], facts["kwargs"], item.prompt.messages[-1].content, answer.text
    )
    problems = [each.problem for each in checks if each.problem]
    if problems:
        return ItemScores(item=item.id, sample=answer.sample, values=missing, reason=problems[0])
    values: dict[str, float | None] = {}
    for reading in READINGS:
        followed = [bool(getattr(each, reading)) for each in checks]
        values[f"prompt_{reading}"] = float(all(followed))
        values[f"inst_{reading}"] = sum(followed) / len(followed)
    counts = {f"inst_{reading}": len(checks) for reading in READINGS}
    return ItemScores(item=item.id, sample=answer.sample, values=values, counts=counts)
