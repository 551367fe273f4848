"""The league of a game of many turns: everybody plays everybody, in every seat."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.environments.text_games.game import TextGame
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, Workload
from equipoise.evaluation.league_measures import LeagueMeasures, league_measures
from equipoise.evaluation.measures import Measures
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import win_rate
from equipoise.payoffs.table import Meeting, tally
from equipoise.types import PlayerId


class GameLeague(Evaluation):
    """Every two members play the held-out deals through all seats, one of them in a single one.

    The league is every measured generation of every learner, and the players that do not learn. A
    match counts 1 for the player that was paid more (than several seats' mean), ½ where both were
    paid alike; a learner's gap is what the best member wins against it, P(win) − P(loss).
    """

    kind: Literal["game_league"] = "game_league"
    plays: ClassVar[bool] = True
    measures: ClassVar[type[Measures]] = LeagueMeasures
    samples: int = Field(1, ge=1, description="matches of every two on each held-out deal and seat")

    def meets_the_past(self, game: Game) -> bool:
        return True

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raise ConfigError for a game without opponents, or seats of different players."""
        if not isinstance(game, TextGame) or game.players < 2:
            raise ConfigError(
                "evaluate: 'game_league' needs a game of open_spiel or textarena with "
                "two seats or more; a game of one seat is measured by held_out"
            )
        if len(set(player_of_role.values())) > 1:
            raise ConfigError(
                "evaluate: 'game_league' seats everybody everywhere, and the schedule "
                "gives the seats to different players"
            )

    def solves(self, game: Game) -> bool:
        return True

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        league = len(run_plan.league)
        game = run_plan.game
        pairs = league * (league - 1) // 2
        each = len(run_plan.held_out) * self.samples * _seatings(len(game.seats))
        moves = sum(sum(game.moves(prompt).values()) for prompt in run_plan.held_out)
        judges = [self.judge] if self.judge else run_plan.judges[:1]
        return Workload(
            pairs * each,
            pairs * moves * self.samples * _seatings(len(game.seats)),
            [(judge, pairs * each, len(game.seats)) for judge in judges],
        )

    def measure(self, arena: Arena, t: int) -> LeagueMeasures:
        """The league's pay-offs at generation t, win rates over the start, mixture and ratings."""
        newest = arena.learners(t) or arena.others()
        league: list[PlayerId] = []
        for player in arena.learners(t):
            league.extend(reversed(arena.past(player)))
        league += arena.others()
        judge = self.judge or arena.judge_of(newest[0])
        results = []
        for first, second in combinations(league, 2):
            results.extend(self._meetings(arena, t, first, second, judge))
        table = tally(results, [str(player) for player in league])
        win_rates = {
            str(player): _win_rate(results, str(player), str(arena.past(player)[-1]))
            for player in arena.learners(t)
            if player.generation
        }
        judges = dict.fromkeys(newest, judge)
        tables = dict.fromkeys(newest, table)
        return league_measures(arena, judges, tables, scores={}, win_rates=win_rates)

    def _meetings(
        self, arena: Arena, t: int, first: PlayerId, second: PlayerId, judge: Judge
    ) -> Iterator[Meeting]:
        seats = arena.game.seats
        alone = [(first, second)]
        if len(seats) != 2:
            alone.append((second, first))
        prompts = arena.held_out * self.samples
        label = f"league ×{self.samples}/{len(arena.held_out)}"
        for single, many in alone:
            for seat in seats:
                roles = dict.fromkeys(seats, many) | {seat: single}
                for match, judgement in arena.play(roles, prompts, judge, t, label):
                    scores = judgement.by_seat(arena.utility)
                    value = None
                    if scores.keys() == set(seats):
                        others = [scores[other] for other in seats if other != seat]
                        value = float(np.sign(scores[seat] - fmean(others)))
                        value = value if single == first else -value
                    yield Meeting(str(first), str(second), value, match.prompt)


def _seatings(seats: int) -> int:
    """Number of ways in which two players share the seats, one of them in a single one."""
    return 2 if seats == 2 else 2 * seats


def _win_rate(results: Sequence[Meeting], player: str, start: str) -> Estimate:
    values = []
    prompts = []
    for result in results:
        if {result.first, result.second} == {player, start} and result.value is not None:
            values.append(result.value if result.first == player else -result.value)
            prompts.append(result.cluster)
    return Estimate.of(win_rate(values, prompts))
