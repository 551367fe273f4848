"""The evaluation of the assistant: held-out prompts, and earlier generations beside it."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.environments.assistance import measured_answers as answered
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.assistance.gtalign_tasks import PUBLISHED
from equipoise.environments.assistance.judge import AssistanceJudge
from equipoise.environments.assistance.measured_answers import (
    MeasuredAnswer,
    measured_answers,
    written_games,
)
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.environments.assistance.payoff_matrix import Cell
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, JudgedMatch, Workload
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.payoffs.pareto import compare, front, hypervolume
from equipoise.types import PlayerId

Points = Mapping[str, Cell]  # prompt id -> (user, llm)


class AssistanceEvaluation(Evaluation):
    """Measures the assistant of the game `assistance`; the schedule says who plays it."""

    kind: Literal["assistance"] = "assistance"
    measures: ClassVar = AssistanceMeasures
    plays: ClassVar[bool] = True
    measured_role: ClassVar[str] = ASSISTANT
    samples: int = Field(1, ge=1, description="answers to each held-out prompt")
    temperature: float | None = Field(
        None,
        ge=0,
        description="of the players' sampling in the measurement; 0: greedy; null: their own",
    )

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        name = run_plan.roles.get(ASSISTANT, "")
        assistants = [player for player in run_plan.league if player.name == name]
        games = len(assistants) * self.samples
        matches = games * len(run_plan.held_out)
        moves = sum(sum(run_plan.game.moves(prompt).values()) for prompt in run_plan.held_out)
        judge = self.judge or run_plan.judge_of(name)
        seats = len(run_plan.game.seats)
        return Workload(matches, games * moves, [(judge, matches, seats)])

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

    def measure(self, arena: Arena, t: int) -> AssistanceMeasures:
        """Generation t on the held-out prompts."""
        roles = dict(arena.players_by_role(t))
        game = arena.game
        assert isinstance(game, Assistance)
        assistant = roles[ASSISTANT]
        judged = self._played(arena, roles, t)
        answers = _answers(arena, game, judged)
        points = answered.points(answers)
        point_N2 = _matrix(points)
        welfare = answered.mean(answers, "score")
        beaten = self._beaten(arena, roles, points, t)
        judge = self._judge(arena, assistant)
        as_released = isinstance(judge, AssistanceJudge) and judge.variant in PUBLISHED
        unjudged = 1 - len(answers) / len(judged) if judged else None
        return AssistanceMeasures(
            players=[str(player) for player in roles.values()],
            scores={str(assistant): welfare},
            score=welfare.mean,
            exploitability=max(beaten.values(), default=None),
            welfare=welfare,
            utilities=answered.utilities(answers),
            rates=answered.rates(answers),
            right=answered.right_actions(answers),
            actions=answered.actions(answers),
            length=answered.lengths(answers),
            written=written_games(answers),
            sources=answered.sources(answers, as_released),
            correlations=answered.correlated(answers),
            points=points,
            front=[list(points)[n] for n in front(point_N2)] if points else [],
            hypervolume=hypervolume(point_N2, np.zeros(2)) if points else None,
            unjudged=unjudged,
            beaten=beaten,
        )

    def _played(self, arena: Arena, roles: Mapping[str, PlayerId], t: int) -> list[JudgedMatch]:
        judge = self._judge(arena, roles[ASSISTANT])
        repeats = f" ×{self.samples}" if self.samples > 1 else ""
        label = f"all{repeats}/{len(arena.held_out)}"
        prompts = arena.held_out * self.samples
        return arena.play(roles, prompts, judge, t, label, self.temperature)

    def _judge(self, arena: Arena, assistant: PlayerId) -> Judge:
        return self.judge or arena.judge_of(assistant)

    def _beaten(
        self, arena: Arena, roles: Mapping[str, PlayerId], points: Points, t: int
    ) -> dict[str, float]:
        """Earlier generation -> share of prompts where it dominates; empty beside other learners.

        An older assistant met an older user there, so that the two did not play the same game.
        """
        game = arena.game
        assistant = roles[ASSISTANT]
        assert isinstance(game, Assistance)
        others = {player for role, player in roles.items() if role != ASSISTANT}
        if not others <= set(arena.others()):
            return {}
        beaten: dict[str, float] = {}
        for older in arena.past(assistant)[1:]:
            judged = self._played(arena, {**roles, ASSISTANT: older}, t)
            before = answered.points(_answers(arena, game, judged))
            shared = [prompt for prompt in points if prompt in before]
            if shared:
                dominance = compare(_matrix(before, shared), _matrix(points, shared))
                beaten[str(older)] = dominance.first_dominates / len(shared)
        return beaten


def _answers(arena: Arena, game: Assistance, judged: list[JudgedMatch]) -> list[MeasuredAnswer]:
    prompts = {prompt.id: prompt for prompt in arena.held_out}
    return measured_answers(judged, prompts, game)


def _matrix(points: Points, prompts: list[str] | None = None) -> np.ndarray:
    """[N, 2]: (user, llm) of all prompts, or of these."""
    names = list(points) if prompts is None else prompts
    return np.array([points[name] for name in names], float)
