"""IFEval: prompts with instructions that a rule can check.

Source: Zhou et al. 2023, Instruction-Following Evaluation for Large Language Models,
arXiv:2311.07911: accuracy by prompt (all instructions are followed) and by instruction, each strict
(the answer as it stands) and loose (a first or last line too many, and Markdown's asterisks, are
forgiven).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.instructions.checkers import check, checker_of
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.named_sets.item_scores import Answer, Item, ItemScores, Judged
from equipoise.evaluation.named_sets.published_set import (
    HubData,
    PlacedRow,
    Published,
    list_of,
    name_of,
    text_of,
)
from equipoise.types import Prompt, record_id, user

READINGS = ("strict", "loose")
METRICS = [f"{level}_{reading}" for reading in READINGS for level in ("prompt", "inst")]


class IFEval(Published):
    """Accuracy by prompt (the headline: strict) and instruction; unscored if one is unchecked."""

    kind: Literal["ifeval"] = "ifeval"
    data: ClassVar[HubData | None] = HubData("google/IFEval", split="train")
    licence: ClassVar[str] = "Apache 2.0, Google Research"

    temperature: float | None = Field(
        0.0, ge=0, description="of the player's sampling; the paper samples greedily"
    )
    max_new_tokens: int | None = Field(
        1280, ge=1, description="most tokens of an answer; null: the player's own"
    )

    @property
    def headline(self) -> str:
        return "prompt_strict"

    def load(self) -> list[Item]:
        return [_item(place) for place in self.rows()]

    def score(
        self,
        items: Sequence[Item],
        answers: Mapping[str, Sequence[Answer]],
        judged: Sequence[Judged],
    ) -> list[ItemScores]:
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
    if problems := [each.problem for each in checks if each.problem]:
        return ItemScores(item=item.id, sample=answer.sample, values=missing, reason=problems[0])
    values: dict[str, float | None] = {}
    for reading in READINGS:
        followed = [bool(getattr(each, reading)) for each in checks]
        values[f"prompt_{reading}"] = float(all(followed))
        values[f"inst_{reading}"] = sum(followed) / len(followed)
    counts = {f"inst_{reading}": len(checks) for reading in READINGS}
    return ItemScores(item=item.id, sample=answer.sample, values=values, counts=counts)
