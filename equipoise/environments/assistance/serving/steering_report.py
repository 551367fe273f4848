"""What a client may ask to see of an answer: its hidden blocks, and how it was steered."""

from __future__ import annotations

from typing import Any

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import PayoffMatrix
from equipoise.environments.assistance.serving.steering import Steering, SteeringChoice


def steering_report(
    steering: Steering,
    output: str,
    choice: SteeringChoice | None,
    why_none: str,
    *,
    with_faults: bool,
) -> dict[str, Any]:
    """As plain JSON values.

    Args: output: all that the model wrote of its blocks. why_none: why there is no choice; "" where
    none was wanted. with_faults: whether a faulty output is the model's own fault.
    """
    parsed = parse(output)
    return {
        "mode": steering.mode,
        "pricing": steering.pricing.kind,
        "steered": choice is not None,
        "why": _why(steering, choice, why_none),
        "chosen": parsed.chosen if choice is None else choice.cell,
        "written": _plain(parsed.matrix if choice is None else choice.written),
        "edited": None if choice is None else _plain(choice.edited),
        "thinking": parsed.thinking,
        "analyze": parsed.analyze,
        "faults": list(parsed.faults) if with_faults else [],
    }


def _why(steering: Steering, choice: SteeringChoice | None, why_none: str) -> str:
    if choice is None:
        return why_none or "the model's own choice"
    outcomes = "all outcomes"
    if choice.question is not None:
        outcomes = f"the outcomes of {choice.question}"
    return f"the best of {outcomes} by {steering.by_name}"


def _plain(matrix: PayoffMatrix | None) -> dict[str, dict[str, float]] | None:
    """The matrix as the model writes it."""
    if matrix is None:
        return None
    return {name: {"LLM": cell.llm, "user": cell.user} for name, cell in matrix.items()}
