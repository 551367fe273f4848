"""Two runs of the assistant's game, prompt by prompt: what either side gets, who
outdoes whom, and at what length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.red_team.measures import plain
from equipoise.errors import RunError
from equipoise.payoffs.intervals import over_seeds
from equipoise.payoffs.pareto import compare, hypervolume
from equipoise.payoffs.welfare import cobb_douglas
from equipoise.run.directory import Run


@dataclass(frozen=True, slots=True)
class Entry:
    """A run's assistant as it was measured at one generation: prompt id -> (user, llm),
    and the lengths.
    """

    name: str
    generation: int
    found: Mapping[str, Any]
    judge: Mapping[str, Any]

    @property
    def points(self) -> Mapping[str, Sequence[float]]:
        """Prompt id -> (user, llm)."""
        return self.found["points"]


def entry(run: Run, name: str, generation: int | None = None) -> Entry:
    """What the run measured at that generation, None for the last one.

    Raises RunError for a run of another game, or where this was not measured.
    """
    if not isinstance(run.config.game, Assistance):
        raise RunError(
            f"{run.folder}: plays the game '{run.config.game.kind}'; this compares runs of 'assistance'"
        )
    measured = {t: found for _, t, _, found, _ in run.ledger.stages("measure")}
    if not measured:
        raise RunError(
            f"{run.folder}: nothing was measured yet; `equipoise resume {run.folder}`"
        )
    t = max(measured) if generation is None else generation
    if t not in measured:
        raise RunError(
            f"{run.folder}: generation {t} was not measured; measured are {', '.join(map(str, measured))}"
        )
    if not measured[t].get("points"):
        raise RunError(
            f"{run.folder}: generation {t} has no prompt with both utilities; it was measured by "
            f"'{run.config.evaluate.kind}', and needs evaluate: assistance with prompts that could be judged"
        )
    judge = run.config.evaluate.judge or run.config.judge_of(_assistant(run))
    return Entry(
        name, t, measured[t], judge.model_dump(mode="json", exclude={"welfare"})
    )


def _assistant(run: Run) -> str:
    roles = run.config.schedule.model_dump().get("roles", {})
    return roles.get(ASSISTANT, run.config.learning[0])


def compared(
    first: Entry,
    second: Entry,
    eps: float = 0.0,
    alpha: float = 0.5,
    reference: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Any]:
    """Both entries on the prompts that both were asked, as plain JSON values.

    `welfare` here is user^α · llm^(1 − α) of a prompt's point, whatever welfare the
    runs were trained on. Differences are first − second, prompt by prompt, with
    Student's t interval over the prompts; lengths are of all prompts of a run. eps,
    alpha: as `payoffs.pareto.compare` has them; reference: the point (user, llm) above
    which areas are counted. Raises RunError where no prompt is in both, ValueError for
    an eps or alpha out of range.
    """
    shared = [prompt for prompt in first.points if prompt in second.points]
    if not shared:
        raise RunError(
            f"{first.name} and {second.name} share no prompt: {len(first.points)} and {len(second.points)} were "
            "measured. Compare runs with the same held-out prompts (the same prompts and seed)"
        )
    first_N2, second_N2 = (
        np.array([one.points[prompt] for prompt in shared], float)
        for one in (first, second)
    )
    told = compare(first_N2, second_N2, eps, alpha)
    sides = [
        {
            **_means(point_N2, alpha),
            **asdict(side),
            "hypervolume": hypervolume(point_N2, np.array(reference, float)),
            **_lengths(one),
        }
        for one, point_N2, side in (
            (first, first_N2, told.first),
            (second, second_N2, told.second),
        )
    ]
    return {
        "runs": [first.name, second.name],
        "generations": [first.generation, second.generation],
        "prompts": {
            "both": len(shared),
            "only_first": len(first.points) - len(shared),
            "only_second": len(second.points) - len(shared),
        },
        "settings": {"eps": eps, "alpha": alpha, "reference": list(reference)},
        "dominance": {
            "first_dominates": told.first_dominates,
            "second_dominates": told.second_dominates,
            "equal": told.equal,
            "incomparable": told.incomparable,
        },
        "ranges": {"user": list(told.range_user), "llm": list(told.range_llm)},
        "first": sides[0],
        "second": sides[1],
        "differences": {
            name: plain(over_seeds(value(first_N2) - value(second_N2)))
            for name, value in _values(alpha).items()
        },
        "notes": _notes(first, second),
    }


def _values(alpha: float) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Name -> a prompt's value, of points [N, 2]."""
    return {
        "user": lambda point_N2: point_N2[:, 0],
        "llm": lambda point_N2: point_N2[:, 1],
        "welfare": lambda point_N2: cobb_douglas(point_N2[:, 0], point_N2[:, 1], alpha),
    }


def _means(point_N2: np.ndarray, alpha: float) -> dict[str, float]:
    return {
        name: float(np.mean(value(point_N2))) for name, value in _values(alpha).items()
    }


def _lengths(one: Entry) -> dict[str, float | None]:
    told = one.found.get("length") or {}
    return {
        name: told.get(name)
        for name in ("tokens", "quality_per_1000_tokens", "response_share")
    }


def _notes(first: Entry, second: Entry) -> list[str]:
    """What a reader of the numbers should know."""
    notes = []
    differ = sorted({*first.judge, *second.judge}, key=str)
    if settings := [
        name for name in differ if first.judge.get(name) != second.judge.get(name)
    ]:
        notes.append(
            f"the two runs were judged by different settings (judge: {', '.join(settings)}), so that a utility may not "
            "mean the same in both"
        )
    if set(first.points) != set(second.points):
        notes.append(
            "tokens, answer score and response share are of all prompts of each run, those of one alone too"
        )
    return notes
