"""Held-out measures: the score of every generation, its win rate over the start, and the league's equilibrium."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from equipoise.evaluate.base import Arena, Evaluation, Scores
from equipoise.evaluate.statistics import Interval, mean_interval, win_rate
from equipoise.payoffs.cycles import cycle_share, cyclic_triples
from equipoise.payoffs.preference import cross_play, meeting
from equipoise.payoffs.table import Table
from equipoise.ratings.outcomes import outcomes
from equipoise.solvers.exploitability import exploitability


class HeldOut(Evaluation):
    """Everyone answers the held-out prompts; answers to the same prompt are compared by their scores.

    The league is every generation of every learner so far, and the players that do not learn. `exploitability` is
    what the best member of the league gains against the newest generation: max_i payoff[i, newest], in [0, 1].
    """

    kind: Literal["held_out"] = "held_out"
    samples: int = Field(4, ge=1, description="answers to each held-out prompt")

    def matches(self, held_out: int, seats: int) -> int:
        """One match holds an answer a seat."""
        return held_out * -(-self.samples // seats)

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """Score and win rate of each learner at generation t, and the pay-off table of the league."""
        newest = arena.learners(t)
        league = [old for player in newest for old in reversed(arena.past(player))] + arena.others()
        scores = {str(player): arena.held_out(player, self.samples) for player in league}
        table = cross_play(scores)
        payoff_NN = table.complete()
        mixture_N = arena.solver.solve(payoff_NN)
        gaps = {str(p): exploitability(payoff_NN, np.eye(len(league))[league.index(p)]) for p in newest}
        facts: dict[str, Any] = {
            "players": [str(player) for player in league],
            "payoff": payoff_NN.tolist(),
            "se": [[None if np.isnan(se) else float(se) for se in row] for row in table.se_NN],
            "count": table.count_NN.tolist(),
            "mixture": {str(p): float(w) for p, w in zip(league, mixture_N, strict=True)},
            "gap": gaps,
            "exploitability": max(gaps.values()),
            "cycle_share": float(cycle_share(payoff_NN)),
            "cyclic_triples": float(cyclic_triples(payoff_NN)),
            "ratings": self._ratings(arena, table),
            "scores": {},
            "win_rates": {},
        }
        for player in newest:
            score = _score(scores[str(player)])
            facts["scores"][str(player)] = _plain(score)
            facts.setdefault("score", score.mean)
            if t > 0:
                start = str(arena.past(player)[-1])
                wins = win_rate(*_meetings(scores[str(player)], scores[start]))
                facts["win_rates"][str(player)] = _plain(wins)
                facts.setdefault("win_rate", wins.mean)
        return facts

    def _ratings(self, arena: Arena, table: Table) -> list[dict[str, Any]]:
        rated = arena.ratings.rate(outcomes(table)) if len(table.players) > 1 else []
        return [{"name": r.name, "value": r.value, "low": r.low, "high": r.high} for r in rated]


def _score(scores: Scores) -> Interval:
    """The mean score of the judged answers, prompts counting as clusters."""
    rows = [(prompt, score) for prompt, found in scores.items() for score in found if score is not None]
    return mean_interval([score for _, score in rows], [prompt for prompt, _ in rows])


def _meetings(first: Scores, second: Scores) -> tuple[list[float], list[str]]:
    """Every judged answer of `first` against every one of `second` on the same prompt: values, and their prompts."""
    rows = [(meeting(a, b), prompt) for prompt in first for a in first[prompt] for b in second[prompt]]
    judged = [(value, prompt) for value, prompt in rows if value is not None]
    return [value for value, _ in judged], [prompt for _, prompt in judged]


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}
