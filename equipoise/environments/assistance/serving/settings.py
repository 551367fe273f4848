"""How a steered model's written game is changed, what is made of it, and what clients
may ask of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from pydantic import Field, ValidationError, field_validator

from equipoise import seeds
from equipoise.component import Settings, nearest
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.payoff_matrix import (
    CELLS,
    QUESTION_TYPES,
    Cell,
    PayoffMatrix,
    write_matrix,
)
from equipoise.environments.assistance.serving.pricing import BY, Pricing, selection
from equipoise.environments.assistance.written_game import pareto
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Welfare
from equipoise.serve.engine import Refused
from equipoise.template import Template

PAYOFF, PAID = "<payoff>", "</payoff>"
FIELD = "steering"  # of a request
UNSTEERED = ("strip", "off")  # modes
LARGEST = (
    1e6  # of a number that is reckoned with, and its inverse the smallest that is not 0
)
MAY_SAY = ("pricing", "by", "question", "mode", "level")
MOVES = {
    "DA": "answer directly, and ask nothing.",
    "CQ": "ask the one question that tells most, and say nothing else.",
    "AQ": "answer briefly, then ask exactly one follow-up question.",
}
_NAMED = {
    "DQ": re.compile(r"\bDQ\b|\bdetailed\b", re.IGNORECASE),
    "VQ": re.compile(r"\bVQ\b|\bvague\b", re.IGNORECASE),
}
_GAP = re.compile(r"</thinking>(\s*)<payoff>")


class Steering(Settings):
    """How a model's written game is changed, and what is made of it."""

    pricing: Pricing = Field(
        default_factory=lambda: Pricing.build("none"),
        description="who pays what for which move; none: nobody pays",
    )
    by: str | Welfare = Field(
        "welfare",
        description="how the outcome is chosen: welfare, sum, product, product_released, nash, stackelberg, "
        "bargaining, or a welfare, by kind or with its settings",
    )
    mode: Literal["prefix", "reask", "strip", "off"] = Field(
        "prefix",
        description="prefix: the answer goes on from the edited matrix; reask: the model is asked anew, the edited "
        "matrix and the outcome in its prompt; strip: the model chooses by itself, its hidden blocks are taken away; "
        "off: the model's text as it comes, for a model that writes no blocks",
    )
    question: Literal["any", "written", "DQ", "VQ"] = Field(
        "any",
        description="the outcomes to choose from: all six, those of the type of question that the model's thinking "
        "names (all six where it names none or both), or those of one type",
    )
    level: bool = Field(
        False,
        description="show the model the edited matrix with each side's largest pay-off as it was: the constant changes "
        "no equilibrium and no front, and keeps the numbers among those that the model knows",
    )
    text: str = Field(
        "none",
        description="what the model is asked for its blocks with: a template of the game, or none",
    )
    lead: str = Field(
        "Front: {front}. Choose {cell}.",
        description="with prefix: what <analyze> begins with; {cell} is the outcome, {front} the edited matrix's front",
    )
    again: str = Field(
        "reask",
        description="with reask: what the model is asked; a template's file, or reask",
    )
    unreadable: Literal["unsteered", "error"] = Field(
        "unsteered",
        description="where there is no matrix to read: go on without steering, or fail",
    )
    unopened: Literal["whole", "error"] = Field(
        "whole",
        description="where <response> is never opened: answer with what was written outside the blocks, or fail",
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
        if isinstance(by, str) and by not in (*BY, *Welfare.KINDS):
            raise ValueError(
                f"unknown choice '{by:.40}'; {nearest(by, [*BY, *Welfare.KINDS])}"
            )
        return by

    def check(self) -> None:
        """Raises DataError for a template that cannot be read or filled."""
        self.asked("a question")
        self.asked_anew("a question", dict.fromkeys(CELLS, Cell(0, 0)), CELLS[0])

    def asked(self, question: str) -> str:
        """What the model is shown in place of the user's last message."""
        return self._game.asked(question)

    def asked_anew(self, question: str, edited: PayoffMatrix, cell: str) -> str:
        """The same, where the outcome has been chosen."""
        return self._again.render(
            question=question,
            matrix=write_matrix(edited),
            cell=cell,
            move=MOVES[cell[3:]],
        )

    @property
    def name(self) -> str:
        """The pricing's kind, or the mode where nothing is steered."""
        return self.mode if self.mode in UNSTEERED else self.pricing.kind

    def chosen(
        self, written: PayoffMatrix, thinking: str | None, seed: int
    ) -> Choice | None:
        """The outcome for a matrix, ties drawn by `seed`; None where a pay-off is too
        large to be reckoned with.
        """
        if any(abs(value) > LARGEST for cell in written.values() for value in cell):
            return None
        edited = self.pricing.edit(written)
        question = self._asked_type(thinking or "")
        dice = seeds.generator(seed, "steering")
        cell = selection(edited, self.by, dice, question)
        return Choice(
            written,
            edited,
            _levelled(edited, written) if self.level else edited,
            question,
            cell,
        )

    def begun(self, output: str, choice: Choice) -> str:
        """`output`, which breaks off in its matrix, with the edited one and the
        beginning of what follows from it.
        """
        best = ", ".join(pareto(choice.edited, choice.question))
        lead = self.lead.replace("{front}", best).replace("{cell}", choice.cell)
        before, tag, _ = output.partition(PAYOFF)
        gap = _GAP.search(output)  # the model's own way of setting blocks apart
        return f"{before}{tag}{write_matrix(choice.shown)}{PAID}{gap[1] if gap else ''}<analyze>{lead}"

    def _asked_type(self, thinking: str) -> str | None:
        if self.question in QUESTION_TYPES:
            return self.question
        named = [name for name, word in _NAMED.items() if word.search(thinking)]
        return named[0] if self.question == "written" and len(named) == 1 else None

    @cached_property
    def _game(self) -> Assistance:
        return Assistance.model_validate({"text": self.text})

    @cached_property
    def _again(self) -> Template:
        known = ("question", "matrix", "cell", "move")
        return Template(
            self.again,
            "equipoise.environments.assistance.serving",
            "steering.again",
            ("question", "move"),
            known,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """An edited matrix and the outcome chosen from it; `question` is the type that it
    was chosen for, None: either.

    `shown` is the edited matrix as the model is shown it.
    """

    written: PayoffMatrix
    edited: PayoffMatrix
    shown: PayoffMatrix
    question: str | None
    cell: str


def _levelled(edited: PayoffMatrix, written: PayoffMatrix) -> PayoffMatrix:
    """`edited`, each side's pay-offs shifted so that the largest is as in `written`."""
    edited_N2, written_N2 = (
        np.array([matrix[name] for name in CELLS]) for matrix in (edited, written)
    )
    edited_N2 = edited_N2 + written_N2.max(axis=0) - edited_N2.max(axis=0)
    return {
        name: Cell(*map(float, cell))
        for name, cell in zip(CELLS, edited_N2, strict=True)
    }


def wished(value: Any, base: Steering) -> Steering:
    """The steering that a client asks for, by a pricing's name, `strip`, `off`, a
    pricing, or settings of `MAY_SAY`.

    What it leaves out is as in `base`. It can name no file and no part of its own.
    Raises Refused.
    """
    kinds = sorted(Pricing.KINDS)
    if value in UNSTEERED:
        said: dict[str, Any] = {"mode": value}
    elif isinstance(value, str):
        if value not in kinds:
            raise Refused(
                f"steering: unknown name '{value:.40}'; {nearest(value, [*kinds, *UNSTEERED])}",
                param=FIELD,
            )
        said = {"pricing": value}
    elif isinstance(value, Mapping):
        said = {"pricing": value} if "kind" in value else dict(value)
    else:
        raise Refused(
            "steering: must be a name, a pricing, or an object of settings", param=FIELD
        )
    foreign = [str(key) for key in said if key not in MAY_SAY]
    if foreign:
        raise Refused(
            f"steering: '{foreign[0]:.40}' is not for clients to set; {nearest(foreign[0], list(MAY_SAY))}",
            param=FIELD,
        )
    _refuse_strange(said)
    if "mode" not in said and base.mode in UNSTEERED:
        said["mode"] = "prefix"
    try:
        return Steering.model_validate({**dict(base), **said})
    except ValidationError as error:
        raise Refused(f"steering.{_fault(error)}", param=FIELD) from error


def chosen(text: str, base: Steering) -> Steering:
    """The steering of the option --steering: a name, a YAML file or YAML text. Raises
    ConfigError.
    """
    try:
        if text.endswith((".yaml", ".yml")):
            values = yaml.safe_load(Path(text).read_text(encoding="utf-8"))
        elif "{" in text:
            values = yaml.safe_load(text)
        else:
            return wished(text, base)
        if not isinstance(values, dict):
            raise ConfigError(
                f"--steering {text}: must be a mapping of settings, such as {{pricing: subscription}}"
            )
        return Steering.model_validate({**dict(base), "mode": "prefix", **values})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, Refused) as error:
        raise ConfigError(f"--steering {text}: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"--steering {text}: {_fault(error)}") from error


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    return " ".join(
        ": ".join([".".join(map(str, first["loc"])), first["msg"]]).split()
    )[:300]


def _refuse_strange(value: Any) -> None:
    """A kind with a colon would import what it names, which only the configuration may;
    nor can numbers be vast.
    """
    if isinstance(value, str) and ":" in value:
        raise Refused(f"steering: unknown kind '{value:.40}'", param=FIELD)
    if (
        isinstance(value, int | float)
        and value
        and not 1 / LARGEST <= abs(value) <= LARGEST
    ):
        raise Refused(
            "steering: a number is too large or too small to be reckoned with",
            param=FIELD,
        )
    for part in (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list)
        else ()
    ):
        _refuse_strange(part)
