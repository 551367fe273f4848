"""Steering of a written game: the matrix is edited, and the answer goes on with an outcome."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from equipoise import seeds
from equipoise.component import Settings, nearest
from equipoise.environments.assistance import written_game
from equipoise.environments.assistance.game import PACKAGE, Assistance
from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    QUESTION_TYPES,
    Cell,
    PayoffMatrix,
    action_of,
    write_matrix,
)
from equipoise.environments.assistance.pricing import Pricing
from equipoise.environments.assistance.written_game import pareto
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Welfare
from equipoise.question_template import Template

PAYOFF, PAYOFF_END = "<payoff>", "</payoff>"
UNSTEERED = ("strip", "off")  # modes
BY = ("welfare", "sum", "product", "product_released", "nash", "stackelberg", "bargaining")
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
    """An edited matrix, as `shown`, and the outcome chosen for this type of `question`."""

    written: PayoffMatrix
    edited: PayoffMatrix
    shown: PayoffMatrix
    question: str | None
    cell: str


class Steering(Settings):
    """Edits to a model's written game, and the use that is made of it."""

    pricing: Pricing = Field(
        default_factory=lambda: Pricing.build("none"),
        description="prices of the moves; none: nobody pays",
    )
    by: str | Welfare = Field(
        "welfare",
        description="choice of the outcome: welfare, sum, product, product_released, nash, "
        "stackelberg, bargaining, or a welfare, by kind or with its settings",
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
        description="the outcomes to choose from: all six, those of the type of question that the "
        "model's thinking names (all six where it names none or both), or those of one type",
    )
    level: bool = Field(
        False,
        description="show the model the edited matrix with each side's largest pay-off "
        "as it was: the constant changes no equilibrium and no front, and keeps the "
        "numbers among those that the model knows",
    )
    text: str = Field(
        "none", description="the instruction to write blocks: a template of the game, or none"
    )
    lead: str = Field(
        "Front: {front}. Choose {cell}.",
        description="with prefix: the beginning of <analyze>; {cell} is the outcome, "
        "{front} the edited matrix's front",
    )
    again: str = Field(
        "reask", description="with reask: the instruction; a template's file, or reask"
    )
    unreadable: Literal["unsteered", "error"] = Field(
        "unsteered", description="without a readable matrix: go on without steering, or fail"
    )
    unopened: Literal["whole", "error"] = Field(
        "whole",
        description="if <response> is never opened: answer with the text outside the blocks, or "
        "fail",
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
        """Raise DataError for a template that cannot be read or filled."""
        self.first_prompt("a question")
        self.second_prompt("a question", dict.fromkeys(CELLS, Cell(0, 0)), CELLS[0])

    def first_prompt(self, question: str) -> str:
        """The text that the model is shown in place of the user's last message."""
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

    def choose(
        self, written: PayoffMatrix, thinking: str | None, seed: int
    ) -> SteeringChoice | None:
        """The outcome for a matrix, ties by `seed`; None where pay-offs are too large."""
        values = np.array(list(written.values()), float)
        if np.abs(values).max() > LARGEST:
            return None
        edited = self.pricing.edit(written)
        question = self._question_type(thinking or "")
        dice = seeds.generator(seed, "steering")
        cell = select_outcome(edited, self.by, dice, question)
        shown = _level(edited, written) if self.level else edited
        return SteeringChoice(written, edited, shown, question, cell)

    def continuation(self, output: str, choice: SteeringChoice) -> str:
        """`output`, which breaks off in its matrix, with the edited one and what follows."""
        best = ", ".join(pareto(choice.edited, choice.question))
        lead = self.lead.replace("{front}", best).replace("{cell}", choice.cell)
        before, tag, _ = output.partition(PAYOFF)
        own_gap = _GAP.search(output)  # the model's own way of setting blocks apart
        gap = own_gap[1] if own_gap else ""
        matrix = write_matrix(choice.shown)
        return f"{before}{tag}{matrix}{PAYOFF_END}{gap}<analyze>{lead}"

    def _question_type(self, thinking: str) -> str | None:
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
        known = ("question", "matrix", "cell", "move")
        return Template(self.again, PACKAGE, "steering.again", ("question", "move"), known)


def _level(edited: PayoffMatrix, written: PayoffMatrix) -> PayoffMatrix:
    """`edited`, each side's pay-offs shifted so that the largest is as in `written`."""
    edited_N2 = np.array([edited[name] for name in CELLS])
    written_N2 = np.array([written[name] for name in CELLS])
    level_N2 = edited_N2 + written_N2.max(axis=0) - edited_N2.max(axis=0)
    return {
        name: Cell(user, llm) for name, (user, llm) in zip(CELLS, level_N2.tolist(), strict=True)
    }


def check_choice(by: str | Welfare) -> None:
    """Raise ConfigError unless outcomes can be chosen `by` this."""
    known = (*BY, *Welfare.KINDS)
    if isinstance(by, str) and by not in known:
        raise ConfigError(f"unknown choice '{by:.40}'; {nearest(by, list(known))}")


def select_outcome(
    matrix: PayoffMatrix, by: str | Welfare, dice: np.random.Generator, question: str | None = None
) -> str:
    """The cell of `matrix` to go on with.

    welfare (Cobb–Douglas), a welfare's kind or a `Welfare`: the largest, of equals the largest sum
    sum               the largest sum, of equals the user's best
    product           the largest product among cells good for both; without any, the largest sum
    product_released  the largest product whatever the signs, as published; ties at random
    nash              an equilibrium: of pure ones that of the largest sum; without any, drawn from
                      a mixed one
    stackelberg       where the assistant, who leads, would end up
    bargaining        the Nash bargaining solution; without an agreement, the largest sum

    question: "DQ" or "VQ" where the question has been asked, so that three cells are left (nash and
    stackelberg are the assistant's best reply then); None: all six. dice: for ties and mixtures.
    Raises ConfigError for another `by` or `question`.
    """
    names = written_game.outcomes(question)
    if not names:
        raise ConfigError(f"question: must be DQ, VQ or none; it is {question!r:.40}")
    try:
        check_choice(by)
    except ConfigError as error:
        raise ConfigError(f"by: {error}") from error
    match by:
        case "sum":
            return written_game.largest_sum(matrix, question)
        case "product":
            return written_game.largest_product(matrix, question)
        case "product_released":
            tied = largest_products(matrix, question)
            return tied[int(dice.integers(len(tied)))]
        case "nash":
            return equilibrium(matrix, question, dice)
        case "stackelberg":
            return written_game.stackelberg_outcome(matrix, question)
        case "bargaining":
            agreement = written_game.bargaining_outcome(matrix, question)
            return agreement or written_game.largest_sum(matrix, question)
    kind = "cobb_douglas" if by == "welfare" else by
    welfare = kind if isinstance(kind, Welfare) else Welfare.build(kind)
    user_N, llm_N = np.array([matrix[name] for name in names], float).T
    value_N = np.round(welfare.value(user_N, llm_N), written_game.DIGITS)
    tied = [names[n] for n in np.flatnonzero(value_N == value_N.max())]
    return max(tied, key=lambda name: written_game.precedence(matrix, name))


def largest_products(matrix: PayoffMatrix, question: str | None = None) -> tuple[str, ...]:
    """The cells of the largest user · LLM, whatever the signs: two negatives make a large one."""
    products = {
        name: matrix[name].user * matrix[name].llm for name in written_game.outcomes(question)
    }
    most = max(products.values())
    return tuple(name for name, product in products.items() if product == most)


def equilibrium(matrix: PayoffMatrix, question: str | None, dice: np.random.Generator) -> str:
    cells = written_game.nash(matrix, question)
    if cells:
        return max(cells, key=lambda name: written_game.precedence(matrix, name))
    strategies = written_game.mixed_equilibria(matrix)[0]
    # The outcomes in order: by type of question, then by action.
    chance_N = np.outer(strategies.row_A, strategies.column_M).ravel()
    drawn = dice.choice(len(chance_N), p=chance_N / chance_N.sum())
    return written_game.outcomes()[int(drawn)]
