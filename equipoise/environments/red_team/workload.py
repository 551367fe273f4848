"""What the evaluation of adversary and defender takes in a run, known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from equipoise.environments.red_team.game import ADVERSARY, DEFENDER
from equipoise.environments.red_team.seed_prompts import harmful
from equipoise.evaluation.base import EvaluationPlan, Workload
from equipoise.judges.base import Judge
from equipoise.types import PlayerId

Meetings = dict[tuple[str, str], int]


def workload(
    run_plan: EvaluationPlan, crossplay: int, transfer: Sequence[str], judge: Judge | None
) -> Workload:
    """Every defender alone, on harmful and on harmless prompts; every two that meet.

    `crossplay`: prompts of a meeting of two generations; `transfer`: players that are attacked
    besides; `judge`: None for the defender's.
    """
    game = run_plan.game
    attacked = [prompt for prompt in run_plan.held_out if harmful(prompt)]
    defenders = {
        player
        for roster in run_plan.rosters
        if (player := player_of(DEFENDER, roster, run_plan)) is not None
    }
    seats = sum(game.role(seat) == DEFENDER for seat in game.seats)
    alone = len(defenders) * len(run_plan.held_out)
    meetings = _meetings(run_plan, len(attacked), crossplay, transfer)
    # moves_until[n]: the moves of a meeting on the first n prompts.
    moves_until = [0, *accumulate(sum(game.moves(p).values()) for p in attacked)]
    matches = alone + sum(meetings.values())
    moves = alone * seats + sum(moves_until[count] for count in meetings.values())
    judge = judge or run_plan.judge_of(run_plan.roles.get(DEFENDER, ""))
    return Workload(matches, moves, [(judge, matches, len(game.seats))])


def player_of(role: str, roster: Sequence[PlayerId], run_plan: EvaluationPlan) -> PlayerId | None:
    """The player of the roster, or the player that does not learn, with this role."""
    name = run_plan.roles.get(role)
    everyone = [*roster, *run_plan.others]
    return next((player for player in everyone if player.name == name), None)


def _meetings(
    run_plan: EvaluationPlan, prompts: int, crossplay: int, transfer: Sequence[str]
) -> Meetings:
    """(adversary, defender) -> the first so many harmful prompts that they meet on.

    `prompts` is how many there are.
    """
    most = min(crossplay, prompts)
    meetings: Meetings = {}
    adversaries: dict[PlayerId, None] = {}
    defenders: dict[PlayerId, None] = {}
    for roster in run_plan.rosters:
        adversary = player_of(ADVERSARY, roster, run_plan)
        defender = player_of(DEFENDER, roster, run_plan)
        if adversary is None or defender is None:
            continue
        adversaries[adversary] = defenders[defender] = None
        if crossplay:
            for a in adversaries:
                for d in defenders:
                    meetings.setdefault((str(a), str(d)), most)
        for name in transfer:
            meetings[str(adversary), f"{name}@0"] = most
        meetings[str(adversary), str(defender)] = prompts
    return meetings
