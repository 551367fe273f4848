"""Two runs of the assistant's game, prompt by prompt: utilities, dominance, and length."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from equipoise.blocks.section import finite_or_none
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.errors import RunError
from equipoise.ledger.facts import Estimate
from equipoise.matches.roles import Roles
from equipoise.payoffs import pareto
from equipoise.payoffs.intervals import over_seeds
from equipoise.payoffs.welfare import cobb_douglas
from equipoise.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run's assistant as measured at one generation, and its judge's settings but welfare."""

    name: str
    generation: int
    measures: AssistanceRecord
    judge: Mapping[str, Any]


class SharedPrompts(msgspec.Struct, frozen=True):
    """Number of prompts that both runs measured, or only one of them."""

    both: int
    only_first: int
    only_second: int


class Dominance(msgspec.Struct, frozen=True):
    """Prompts at which either run dominates, or neither; `equal` as in `ParetoComparison`."""

    first_dominates: int
    second_dominates: int
    equal: int
    incomparable: int


class Ranges(msgspec.Struct, frozen=True):
    """(smallest, largest) of each utility, over both runs."""

    user: tuple[float, float]
    llm: tuple[float, float]


class ComparedRun(msgspec.Struct, frozen=True):
    """Means over the shared prompts, `ParetoSummary`, hypervolume; lengths of all its prompts.

    By both runs' fronts: `epsilon_indicator` of it to the other's, mean `scalarisation_regret`,
    `constrained_user` and `constrained_llm`, the best for that side while the other's is held.
    """

    user: float
    llm: float
    welfare: float
    coverage: float
    regret: float
    nash_welfare: float
    cobb_douglas: float
    spread_user: float
    spread_llm: float
    spread: float
    hypervolume: float
    epsilon_indicator: float
    scalarisation_regret: float
    constrained_user: float | None
    constrained_llm: float | None
    tokens: float | None
    quality_per_1000_tokens: float | None
    quality_per_1000_characters: float | None
    response_share: float | None


class Differences(msgspec.Struct, frozen=True):
    """First − second, prompt by prompt."""

    user: Estimate
    llm: Estimate
    welfare: Estimate


class ComparisonSettings(msgspec.Struct, frozen=True):
    """eps, alpha as in `payoffs.pareto.compare`; areas are above the point `reference`."""

    eps: float = 0.0
    alpha: float = 0.5
    reference: tuple[float, float] = (0.0, 0.0)


class Comparison(msgspec.Struct, frozen=True):
    """Two runs on the prompts that both measured, with notes for a reader."""

    runs: tuple[str, str]
    generations: tuple[int, int]
    prompts: SharedPrompts
    settings: ComparisonSettings
    dominance: Dominance
    ranges: Ranges
    first: ComparedRun
    second: ComparedRun
    differences: Differences
    notes: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        return msgspec.json.decode(msgspec.json.encode(self))


def measured_run(run: RunDirectory, name: str, generation: int | None = None) -> MeasuredRun:
    """The measurement at that generation (None: the last). Raises RunError."""
    config = run.config
    folder = run.folder
    if not isinstance(config.game, Assistance):
        raise RunError(
            f"{folder}: plays the game '{config.game.kind}'; this compares runs of 'assistance'"
        )
    facts_of = {t: facts for _, t, _, facts, _ in run.ledger.stages("measure")}
    if not facts_of:
        raise RunError(f"{folder}: nothing was measured yet; `equipoise resume {folder}`")
    t = max(facts_of) if generation is None else generation
    if t not in facts_of:
        raise RunError(
            f"{folder}: generation {t} was not measured; measured are "
            f"{', '.join(map(str, facts_of))}"
        )
    if not facts_of[t].get("points"):
        raise RunError(
            f"{folder}: generation {t} has no prompt with both utilities; it was "
            f"measured by '{config.evaluate.kind}', and needs evaluate: assistance with "
            "prompts that could be judged"
        )
    roles = config.schedule.roles if isinstance(config.schedule, Roles) else {}
    assistant = roles.get(ASSISTANT) or [*config.learning, *config.players][0]
    judge = config.evaluate.judge or config.judge_of(assistant)
    settings = judge.model_dump(mode="json", exclude={"welfare"})
    return MeasuredRun(name, t, AssistanceMeasures.read(facts_of[t]), settings)


def compare_runs(
    first: MeasuredRun, second: MeasuredRun, settings: ComparisonSettings | None = None
) -> Comparison:
    """Both runs on the prompts that both were asked.

    `welfare` here is user^α · llm^(1 − α) of a prompt's point, whatever the runs were trained on.
    Differences have Student's t interval over the prompts. Raises RunError where no prompt is in
    both, ValueError for an eps or alpha out of range.
    """
    settings = settings or ComparisonSettings()
    points = first.measures.points
    others = second.measures.points
    first_N2, second_N2 = shared_points(first, second)
    shared = len(first_N2)
    result = pareto.compare(first_N2, second_N2, settings.eps, settings.alpha)
    user_N, llm_N = (first_N2 - second_N2).T
    welfare_N = _welfare(first_N2, settings.alpha) - _welfare(second_N2, settings.alpha)
    differences = Differences(
        user=Estimate.of(over_seeds(user_N)),
        llm=Estimate.of(over_seeds(llm_N)),
        welfare=Estimate.of(over_seeds(welfare_N)),
    )
    return Comparison(
        runs=(first.name, second.name),
        generations=(first.generation, second.generation),
        prompts=SharedPrompts(shared, len(points) - shared, len(others) - shared),
        settings=settings,
        dominance=Dominance(
            result.first_dominates, result.second_dominates, result.equal, result.incomparable
        ),
        ranges=Ranges(result.range_user, result.range_llm),
        first=_side(first, first_N2, second_N2, result.first, settings),
        second=_side(second, second_N2, first_N2, result.second, settings),
        differences=differences,
        notes=tuple(_notes(first, second)),
    )


def shared_points(first: MeasuredRun, second: MeasuredRun) -> tuple[np.ndarray, np.ndarray]:
    """Both runs' (user, llm) utilities [N, 2] of the prompts that both measured.

    Raises RunError where there is none.
    """
    points = first.measures.points
    others = second.measures.points
    shared = [prompt for prompt in points if prompt in others]
    if not shared:
        raise RunError(
            f"{first.name} and {second.name} share no prompt: {len(points)} and "
            f"{len(others)} were measured. Compare runs with the same held-out prompts "
            "(the same prompts and seed)"
        )
    first_N2 = np.array([points[prompt] for prompt in shared], float)
    second_N2 = np.array([others[prompt] for prompt in shared], float)
    return first_N2, second_N2


def _side(
    run: MeasuredRun,
    point_N2: np.ndarray,
    other_N2: np.ndarray,
    side: pareto.ParetoSummary,
    settings: ComparisonSettings,
) -> ComparedRun:
    user, llm = point_N2.mean(axis=0).tolist()
    both_M2 = np.concatenate([point_N2, other_N2])
    own_F2, others_F2 = (points[pareto.front(points)] for points in (point_N2, other_N2))
    length = run.measures.length
    return ComparedRun(
        user=user,
        llm=llm,
        welfare=float(np.mean(_welfare(point_N2, settings.alpha))),
        **asdict(side),
        hypervolume=pareto.hypervolume(point_N2, np.array(settings.reference, float)),
        epsilon_indicator=pareto.epsilon_indicator(own_F2, others_F2),
        scalarisation_regret=pareto.scalarisation_regret(own_F2, both_M2).mean,
        constrained_user=finite_or_none(pareto.constrained_area(own_F2, both_M2, "llm")),
        constrained_llm=finite_or_none(pareto.constrained_area(own_F2, both_M2, "user")),
        tokens=length.tokens,
        quality_per_1000_tokens=length.quality_per_1000_tokens,
        quality_per_1000_characters=length.quality_per_1000_characters,
        response_share=length.response_share,
    )


def _welfare(point_N2: np.ndarray, alpha: float) -> np.ndarray:
    return cobb_douglas(point_N2[:, 0], point_N2[:, 1], alpha)


def _notes(first: MeasuredRun, second: MeasuredRun) -> Iterable[str]:
    names = sorted({*first.judge, *second.judge})
    differing = [name for name in names if first.judge.get(name) != second.judge.get(name)]
    if differing:
        yield (
            "the two runs were judged by different settings (judge: "
            f"{', '.join(differing)}), so that a utility may not mean the same in both"
        )
    if set(first.measures.points) != set(second.measures.points):
        yield (
            "tokens, answer score and response share are of all prompts of each run, "
            "those of one alone too"
        )
