"""Held-out measures: the score of every generation, its win rate over the start, and
the league's equilibrium.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.evaluate.base import Arena, Evaluation, EvaluationPlan, Scores, Workload
from equipoise.judges.base import Judge
from equipoise.payoffs.cycles import cycle_share, cyclic_triples
from equipoise.payoffs.intervals import Interval, mean_interval, win_rate
from equipoise.payoffs.preference import cross_play, meeting
from equipoise.payoffs.table import PayoffTable, tally
from equipoise.ratings.outcomes import outcomes
from equipoise.solvers.exploitability import exploitability
from equipoise.types import PlayerId


class HeldOut(Evaluation):
    """Everyone answers the held-out prompts; answers to the same prompt are compared by
    their scores.

    A judge that compares is asked about every two members' answers instead: the i-th of
    one beside the i-th of the other. The league is every generation of every learner so
    far, and the players that do not learn. A learner's gap is what the best member of
    the league gains against it, by the learner's own judge: max_i payoff[i, learner],
    in [0, 1]; `exploitability` is the largest gap. The pay-off table shown is by the
    first learner's judge.
    """

    kind: Literal["held_out"] = "held_out"
    selects: ClassVar[bool] = True
    samples: int = Field(4, ge=1, description="answers to each held-out prompt")

    plays: ClassVar[bool] = True

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Each of the league plays alone, an answer a seat; a judge that compares is
        shown every two of them instead.

        The last test is played by the best and by the best start, who may be one.
        """
        league, seats = len(run_plan.league), len(run_plan.game.seats)
        rounds = -(-self.samples // seats)
        matches = (league * len(run_plan.held_out) + 2 * len(run_plan.test)) * rounds
        meetings = len(run_plan.held_out) * self.samples * league * (league - 1) // 2
        judges = [self.judge] if self.judge else run_plan.judges
        shown = [
            (judge, *((meetings, 2) if judge.compares else (matches, seats)))
            for judge in judges
        ]
        return Workload(matches, matches * seats, shown)

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """Score and win rate of each learner at generation t, and the pay-off table of
        the league.
        """
        newest, league = arena.learners(t), self.league(arena, t)
        judges = {player: self.judge or arena.judge_of(player) for player in newest}
        tables = {
            name: self._met(arena, league, judge)
            for name, judge in {j.name: j for j in judges.values()}.items()
        }
        table = tables[judges[newest[0]].name]
        payoff_NN = table.complete()
        mixture_N = arena.solver.solve(payoff_NN)
        gaps = {
            str(player): exploitability(
                tables[judge.name].complete(), np.eye(len(league))[league.index(player)]
            )
            for player, judge in judges.items()
        }
        facts: dict[str, Any] = {
            "players": [str(player) for player in league],
            "judges": {str(player): judge.name for player, judge in judges.items()},
            "payoff": payoff_NN.tolist(),
            "se": [
                [None if np.isnan(se) else float(se) for se in row]
                for row in table.se_NN
            ],
            "count": table.count_NN.tolist(),
            "mixture": {
                str(p): float(w) for p, w in zip(league, mixture_N, strict=True)
            },
            "gap": gaps,
            "exploitability": max(gaps.values()),
            "cycle_share": float(cycle_share(payoff_NN)),
            "cyclic_triples": float(cyclic_triples(payoff_NN)),
            "ratings": self._ratings(arena, table),
            "scores": {},
            "win_rates": {},
        }
        for player, judge in judges.items():
            start = arena.past(player)[-1]
            if not judge.compares:
                facts["scores"][str(player)] = _plain(
                    _score(arena.scores(player, self.samples, judge))
                )
            if t > 0:
                facts["win_rates"][str(player)] = _plain(
                    self._win_rate(arena, player, start, judge)
                )
        for name, found in (
            ("score", facts["scores"]),
            ("win_rate", facts["win_rates"]),
        ):
            if found:
                facts[name] = fmean(interval["mean"] for interval in found.values())
                facts[f"best_{name}"] = max(
                    interval["mean"] for interval in found.values()
                )
        return facts

    def league(self, arena: Arena, t: int) -> list[PlayerId]:
        """Every generation up to t of every learner, and the players that do not learn."""
        return [
            old for player in arena.learners(t) for old in reversed(arena.past(player))
        ] + arena.others()

    def table(self, arena: Arena, t: int) -> PayoffTable:
        """The league's pay-offs at generation t, by the first learner's judge."""
        return self._met(
            arena,
            self.league(arena, t),
            self.judge or arena.judge_of(arena.learners(t)[0]),
        )

    def _met(
        self, arena: Arena, league: Sequence[PlayerId], judge: Judge
    ) -> PayoffTable:
        if not judge.compares:
            return cross_play(
                {
                    str(player): arena.scores(player, self.samples, judge)
                    for player in league
                }
            )
        names = [str(player) for player in league]
        return tally(
            (
                meeting
                for first, second in combinations(sorted(league), 2)
                for meeting in arena.meetings(first, second, self.samples, judge)
            ),
            names,
        )

    def _win_rate(
        self, arena: Arena, player: PlayerId, start: PlayerId, judge: Judge
    ) -> Interval:
        if judge.compares:
            met = arena.meetings(start, player, self.samples, judge)
            rows = [
                ((1 - value) / 2, prompt)
                for _, _, value, prompt in met
                if value is not None
            ]
            return mean_interval(
                [value for value, _ in rows], [prompt for _, prompt in rows]
            )
        own, other = (arena.scores(who, self.samples, judge) for who in (player, start))
        return win_rate(*_meetings(own, other))

    def select(self, arena: Arena, t: int) -> dict[str, Any]:
        """The best (player, generation) by held-out score, and its score on the test
        prompts beside the best start's.

        Ties go to the older generation. Raises ConfigError for a judge that compares,
        since it scores nobody alone.
        """
        judge = self.judge or arena.judge_of(arena.learners(t)[0])
        if judge.compares:
            raise ConfigError(
                f"prompts.test: judge '{judge.kind}' only compares; evaluate.judge must be one that scores"
            )
        league = self.league(arena, t)
        held_out = {
            player: _score(arena.scores(player, self.samples, judge))
            for player in league
        }

        def best(players: Iterable[PlayerId]) -> PlayerId:
            return max(
                players, key=lambda player: (held_out[player].mean, -player.generation)
            )

        chosen, start = (
            best(league),
            best(player for player in league if player.generation == 0),
        )
        tested = {
            player: arena.scores(player, self.samples, judge, "test")
            for player in {start, chosen}
        }
        return {
            "chosen": str(chosen),
            "start": str(start),
            "held_out": {str(player): _plain(held_out[player]) for player in tested},
            "test": {
                str(player): _plain(_score(found)) for player, found in tested.items()
            },
            "win_rate": _plain(win_rate(*_meetings(tested[chosen], tested[start]))),
        }

    def _ratings(self, arena: Arena, table: PayoffTable) -> list[dict[str, Any]]:
        rated = arena.ratings.rate(outcomes(table)) if len(table.players) > 1 else []
        return [
            {"name": r.name, "value": r.value, "low": r.low, "high": r.high}
            for r in rated
        ]


def _score(scores: Scores) -> Interval:
    """The mean score of the judged answers, prompts counting as clusters."""
    rows = [
        (prompt, score)
        for prompt, found in scores.items()
        for score in found
        if score is not None
    ]
    return mean_interval([score for _, score in rows], [prompt for prompt, _ in rows])


def _meetings(first: Scores, second: Scores) -> tuple[list[float], list[str]]:
    """Every judged answer of `first` against every one of `second` on the same prompt:
    values, and their prompts.
    """
    rows = [
        (meeting(a, b), prompt)
        for prompt in first
        for a in first[prompt]
        for b in second[prompt]
    ]
    judged = [(value, prompt) for value, prompt in rows if value is not None]
    return [value for value, _ in judged], [prompt for _, prompt in judged]


def _plain(interval: Interval) -> dict[str, float]:
    return {
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
    }
