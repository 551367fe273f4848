"""The judge of choices: does <analyze> name an outcome that the written matrix has
nothing better for both than?
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, write_matrix
from equipoise.environments.assistance.tasks.base import Grade, Task
from equipoise.payoffs.pareto import front
from equipoise.types import Prompt

ACTION = re.compile(r"\b(?:[DV]Q_)?(AQ|CQ|DA)\b")


class Frontier(Task):
    """Grades the choice of a whole output: 1 where the chosen cell lies on the matrix's
    Pareto frontier, else ½ where a cell with the same answer (DA, CQ or AQ) does, else
    0.

    The move is all four blocks. An output without a readable matrix is unjudged; one
    whose <analyze> chooses nothing is graded 0. Source: GTAlign (arXiv 2510.08872), the
    reward's second published variant.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)

    kind: Literal["frontier"] = "frontier"
    text: str = Field(
        "frontier", description="the question's template: a file, or a packaged one"
    )
    reference_fact: str | None = Field(
        None, max_length=0, description="the reference is the output's own matrix"
    )

    def rule(self, asked: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """0, ½ or 1 of each (prompt, whole output)."""
        return [graded(text) for _, text in asked]

    def lacking(self, prompt: Prompt, text: str) -> str:
        """Why the output has no frontier; "" where it has one."""
        return (
            ""
            if parse(text).matrix is not None
            else "there is no pay-off matrix that could be read"
        )

    def gold(self, prompt: Prompt, text: str) -> str:
        """The matrix, and the cells on its frontier."""
        matrix = parse(text).matrix
        assert matrix is not None
        return f"{write_matrix(matrix)}\nOn the frontier: {', '.join(on_front(matrix))}"

    def shown(self, prompt: Prompt, text: str, chat: str) -> dict[str, tuple[str, str]]:
        """The request, and of the output what <analyze> holds."""
        return super().shown(prompt, parse(text).analyze or "", chat)


def on_front(matrix: Mapping[str, Cell]) -> tuple[str, ...]:
    """The cells that no other cell beats for one side without losing for the other, in
    their order.
    """
    return tuple(CELLS[n] for n in front([matrix[name] for name in CELLS]))


def graded(output: str) -> float:
    """1, ½ or 0 of an output with a readable matrix, as `Frontier` says."""
    parsed = parse(output)
    assert parsed.matrix is not None
    best = on_front(parsed.matrix)
    named = [parsed.chosen] if parsed.chosen else ACTION.findall(parsed.analyze or "")
    if not named:
        return 0.0
    if named[-1] in best:
        return 1.0
    return 0.5 if named[-1][-2:] in {cell[-2:] for cell in best} else 0.0
