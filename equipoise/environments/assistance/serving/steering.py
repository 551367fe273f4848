"""How a model's written game is steered: the matrix is edited, and an outcome chosen that the
answer goes on with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from equipoise import seeds
from equipoise.component import Settings
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    QUESTION_TYPES,
    Cell,
    PayoffMatrix,
    action_of,
    write_matrix,
)
from equipoise.environments.assistance.serving.pricing import Pricing
from equipoise.environments.assistance.serving.selection import check_choice, selection
from equipoise.environments.assistance.written_game import pareto
from equipoise.payoffs.welfare import Welfare
from equipoise.template import Template

PAYOFF, PAYOFF_END = "<payoff>", "</payoff>"
UNSTEERED = ("strip", "off")  # modes
# Of a number that is reckoned with; its inverse is the smallest that is not 0.
LARGEST = 1e6
INSTRUCTIONS = {
    "DA": "answer directly, and ask nothing.",
    "CQ": "ask the one question that tells most, and say nothing else.",
    "AQ": "answer briefly, then ask exactly one follow-up question.",
}
_MENTIONS = {
    "DQ": re.compile(r"\bDQ\b|\bdetailed\b", re.IGNORECASE),
    "VQ": re.compile(r"\bVQ\b|\bvague\b", re.IGNORECASE),
}
_GAP = re.compile(r"</thinking>(\s*)<payoff>")


@dataclass(frozen=True, slots=True)
class SteeringChoice:
    """An edited matrix and the outcome chosen from it; `question` is the type that it was chosen
    for, None: either.

    `shown` is the edited matrix as the model is shown it.
    """

    written: PayoffMatrix
    edited: PayoffMatrix
    shown: PayoffMatrix
    question: str | None
    cell: str


class Steering(Settings):
    """How a model's written game is changed, and what is made of it."""

    pricing: Pricing = Field(
        default_factory=lambda: Pricing.build("none"),
        description="who pays what for which move; none: nobody pays",
    )
    by: str | Welfare = Field(
        "welfare",
        description="how the outcome is chosen: welfare, sum, product, "
        "product_released, nash, stackelberg, bargaining, or a welfare, by kind or "
        "with its settings",
    )
    mode: Literal["prefix", "reask", "strip", "off"] = Field(
        "prefix",
        description="prefix: the answer goes on from the edited matrix; reask: the "
        "model is asked anew, the edited matrix and the outcome in its prompt; strip: "
        "the model chooses by itself, its hidden blocks are taken away; off: the "
        "model's text as it comes, for a model that writes no blocks",
    )
    question: Literal["any", "written", "DQ", "VQ"] = Field(
        "any",
        description="the outcomes to choose from: all six, those of the type of "
        "question that the model's thinking names (all six where it names none or "
        "both), or those of one type",
    )
    level: bool = Field(
        False,
        description="show the model the edited matrix with each side's largest pay-off "
        "as it was: the constant changes no equilibrium and no front, and keeps the "
        "numbers among those that the model knows",
    )
    text: str = Field(
        "none",
        description="what the model is asked for its blocks with: a template of the game, or none",
    )
    lead: str = Field(
        "Front: {front}. Choose {cell}.",
        description="with prefix: what <analyze> begins with; {cell} is the outcome, "
        "{front} the edited matrix's front",
    )
    again: str = Field(
        "reask", description="with reask: what the model is asked; a template's file, or reask"
    )
    unreadable: Literal["unsteered", "error"] = Field(
        "unsteered", description="where there is no matrix to read: go on without steering, or fail"
    )
    unopened: Literal["whole", "error"] = Field(
        "whole",
        description="where <response> is never opened: answer with what was written "
        "outside the blocks, or fail",
    )

    @field_validator("lead")
    @classmethod
    def _names_the_cell(cls, lead: str) -> str:
        if "{cell}" not in lead:
            raise ValueError("must name the outcome: write {cell} into it")
        return lead

    @field_validator("by")
    @classmethod
    def _is_known(cls, by: str | Welfare) -> str | Welfare:
        check_choice(by)
        return by

    def check(self) -> None:
        """Raises DataError for a template that cannot be read or filled."""
        self.first_prompt("a question")
        self.second_prompt("a question", dict.fromkeys(CELLS, Cell(0, 0)), CELLS[0])

    def first_prompt(self, question: str) -> str:
        """What the model is shown in place of the user's last message."""
        return self._game.instruction(question)

    def second_prompt(self, question: str, edited: PayoffMatrix, cell: str) -> str:
        """The same where the outcome has been chosen and the model is asked anew."""
        return self._again.render(
            question=question,
            matrix=write_matrix(edited),
            cell=cell,
            move=INSTRUCTIONS[action_of(cell)],
        )

    @property
    def name(self) -> str:
        """The pricing's kind, or the mode where nothing is steered."""
        return self.mode if self.mode in UNSTEERED else self.pricing.kind

    @property
    def by_name(self) -> str:
        """The name of the way in which the outcome is chosen."""
        return self.by if isinstance(self.by, str) else self.by.kind

    def choose(
        self, written: PayoffMatrix, thinking: str | None, seed: int
    ) -> SteeringChoice | None:
        """The outcome for a matrix, ties drawn by `seed`; None where a pay-off is too large to be
        reckoned with.
        """
        values = np.array(list(written.values()), float)
        if np.abs(values).max() > LARGEST:
            return None
        edited = self.pricing.edit(written)
        question = self._question_type(thinking or "")
        dice = seeds.generator(seed, "steering")
        cell = selection(edited, self.by, dice, question)
        shown = _levelled(edited, written) if self.level else edited
        return SteeringChoice(written, edited, shown, question, cell)

    def continued(self, output: str, choice: SteeringChoice) -> str:
        """`output`, which breaks off in its matrix, with the edited one and the beginning of what
        follows from it.
        """
        best = ", ".join(pareto(choice.edited, choice.question))
        lead = self.lead.replace("{front}", best).replace("{cell}", choice.cell)
        before, tag, _ = output.partition(PAYOFF)
        own_gap = _GAP.search(output)  # the model's own way of setting blocks apart
        gap = own_gap[1] if own_gap else ""
        matrix = write_matrix(choice.shown)
        return f"{before}{tag}{matrix}{PAYOFF_END}{gap}<analyze>{lead}"

    def _question_type(self, thinking: str) -> str | None:
        """The type of question whose outcomes may be chosen; None: either."""
        if self.question in QUESTION_TYPES:
            return self.question
        mentioned = [name for name, pattern in _MENTIONS.items() if pattern.search(thinking)]
        if self.question == "written" and len(mentioned) == 1:
            return mentioned[0]
        return None

    @cached_property
    def _game(self) -> Assistance:
        return Assistance.model_validate({"text": self.text})

    @cached_property
    def _again(self) -> Template:
        return Template(
            self.again,
            "equipoise.environments.assistance.serving",
            "steering.again",
            ("question", "move"),
            ("question", "matrix", "cell", "move"),
        )


def _levelled(edited: PayoffMatrix, written: PayoffMatrix) -> PayoffMatrix:
    """`edited`, each side's pay-offs shifted so that the largest is as in `written`."""
    edited_N2 = np.array([edited[name] for name in CELLS])
    written_N2 = np.array([written[name] for name in CELLS])
    level_N2 = edited_N2 + written_N2.max(axis=0) - edited_N2.max(axis=0)
    return {
        name: Cell(user, llm) for name, (user, llm) in zip(CELLS, level_N2.tolist(), strict=True)
    }
