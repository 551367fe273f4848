"""Scorers of Inspect for tests."""

from inspect_ai.scorer import Score, Target, mean, scorer
from inspect_ai.solver import TaskState


@scorer(metrics=[mean()])
def seen(key: str = "score"):
    """What it was given, as numbers."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(
            value={
                key: float(state.output.completion in target.target),
                "messages": len(state.messages),
                "level": state.metadata["level"],
                "asked": float("?" in state.input_text),
            }
        )

    return score


@scorer(metrics=[mean()])
def odd():
    """Does as the answer says."""

    async def score(state: TaskState, target: Target) -> Score | None:
        match state.output.completion:
            case "none":
                return None
            case "unscored":
                return Score.unscored(reason="refusal", explanation="it would not")
            case "broken":
                raise ValueError("no such thing")
            case "list":
                return Score(value=[1, 0])
            case letter:
                return Score(value=letter)

    return score


def no_scorer():
    """A number."""
    return 4
