"""Held-out measures: the score of every generation, its win rate over the start, and the league's
equilibrium.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import ClassVar, Literal

import msgspec
import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, Workload
from equipoise.evaluation.last_test import Criterion, SelectionRecord
from equipoise.evaluation.league_measures import (
    LeagueMeasures,
    league_measures,
    mean_score,
    meetings,
)
from equipoise.evaluation.measures import Measures
from equipoise.evaluation.role_cross_play import (
    RoleMeasures,
    check_roles,
    has_roles,
    measure_roles,
    planned_roles,
)
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval, win_rate
from equipoise.payoffs.regret import (
    deviation_gains,
    exploitability_gains,
    largest_gap,
    maximum_interval,
)
from equipoise.payoffs.table import PayoffTable, cross_play, cross_play_by_prompt, tally
from equipoise.types import PlayerId


class HeldOut(Evaluation):
    """Everyone answers the held-out prompts; answers to the same prompt are compared by their
    scores.

    A judge that compares is asked about every two members' answers instead: the i-th of one beside
    the i-th of the other. The league is every generation of every learner so far, and the players
    that do not learn. A learner's gap is what the best member of the league gains against it, by
    the learner's own judge: max_i payoff[i, learner], in [0, 1]; `exploitability` is the largest
    gap. The pay-off table shown is by the first learner's judge. Of judges that score, this best
    reply and what the learner itself would gain by playing as any of the league does against the
    mixture that it faces have intervals that allow for the maximum. Maxima over the
    league are lower bounds: eq 9's is over all policies, and has −τ·KL (exactly, for tabular
    players: `finite`).

    In a game whose seats have different roles nobody sits in every seat. The schedule says which
    player has which of the two roles; each role has a league of all its player's measured
    generations, and every one of them plays the held-out prompts with every one of the other
    role's, `samples` matches on each prompt. A player's score is the mean over its role's answers
    with all of them. Its win rate over the role's start compares answers to the same prompt with
    the same player of the other role. There is no exploitability, no mixture, no rating and no last
    test, because what one role gets need not be what the other loses. Such a game needs a schedule
    that names a player for each role, and judges that score.
    """

    kind: Literal["held_out"] = "held_out"
    selects: ClassVar[bool] = True
    measures: ClassVar[type[Measures]] = LeagueMeasures
    samples: int = Field(
        4,
        ge=1,
        description="answers to each held-out prompt; in a game of different roles,"
        " matches of each two players on it",
    )

    plays: ClassVar[bool] = True

    def measures_in(self, game: Game) -> type[Measures]:
        return RoleMeasures if has_roles(game) else self.measures

    def meets_the_past(self, game: Game) -> bool:
        """True if the game's seats differ; else recorded answers are compared."""
        return has_roles(game)

    def solves(self, game: Game) -> bool:
        return not has_roles(game)

    def reads(self, game: Game) -> tuple[str, ...]:
        return () if has_roles(game) else super().reads(game)

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raises ConfigError for a game of different roles that cannot be measured by role, or in
        which a last test is asked for.
        """
        if not has_roles(game):
            return
        check_roles(game, player_of_role, [self.judge] if self.judge else judges)
        if self.measures is not LeagueMeasures:
            raise ConfigError(
                f"evaluate: '{self.kind}' adds to LeagueMeasures, but a game of roles has "
                "RoleMeasures; override measures_in and measure for these"
            )
        if tests:
            raise ConfigError(
                "prompts.test: 'held_out' chooses no player to test in a game of "
                "different roles; set prompts.test: 0"
            )

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Each of the league plays alone, an answer a seat; a judge that compares is shown every
        two of them instead.

        The last test is played by the best and by the best start, who may be the same.
        """
        if has_roles(run_plan.game):
            return planned_roles(run_plan, self.samples, self.judge)
        league, seats = len(run_plan.league), len(run_plan.game.seats)
        rounds = -(-self.samples // seats)
        matches = (league * len(run_plan.held_out) + 2 * len(run_plan.test)) * rounds
        meetings = len(run_plan.held_out) * self.samples * league * (league - 1) // 2
        judges = [self.judge] if self.judge else run_plan.judges
        if not any(judge.compares for judge in judges):
            meetings = 0
        judged = []
        for judge in judges:
            judged.append((judge, meetings, 2) if judge.compares else (judge, matches, seats))
        tested = 2 * len(run_plan.test) * rounds * seats
        moves_of = {player.name: tested for player in run_plan.league}
        for player in run_plan.league:
            moves_of[player.name] += len(run_plan.held_out) * rounds * seats
        return Workload(matches, matches * seats, judged, moves_of, meetings)

    def measure(self, arena: Arena, t: int) -> LeagueMeasures | RoleMeasures:
        """Score and win rate of each learner at generation t, and the pay-off table of the league;
        in a game of different roles, cross-play between these.
        """
        if has_roles(arena.game):
            return measure_roles(arena, t, self.samples, self.judge)
        newest = arena.learners(t) or arena.others()
        league = self.league(arena, t)
        judges = {player: self.judge or arena.judge_of(player) for player in newest}
        by_name = {judge.name: judge for judge in judges.values()}
        tables = {name: self._cross_play(arena, league, judge) for name, judge in by_name.items()}
        scoring = {player: judge for player, judge in judges.items() if not judge.compares}
        best_replies, deviations = self._gains(arena, t, league, scoring)
        for player, judge in judges.items():
            if judge.compares:
                table = tables[judge.name]
                gap, _ = largest_gap(table, table.players.index(str(player)))
                best_replies[str(player)] = Estimate.of(gap)
        return league_measures(
            arena,
            judges,
            {player: tables[judge.name] for player, judge in judges.items()},
            scores={
                str(player): Estimate.of(mean_score(arena.scores(player, self.samples, judge)))
                for player, judge in scoring.items()
            },
            win_rates={
                str(player): Estimate.of(self._win_rate(arena, player, judge))
                for player, judge in judges.items()
                if t > 0
            },
            best_reply_gains=best_replies,
            deviation_gains=deviations,
        )

    def _gains(
        self, arena: Arena, t: int, league: Sequence[PlayerId], judges: Mapping[PlayerId, Judge]
    ) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
        """Exploitability and the best deviation of each learner, with intervals for a maximum."""
        best_replies: dict[str, Estimate] = {}
        deviations: dict[str, Estimate] = {}
        for player, judge in judges.items():
            payoff_PNN = cross_play_by_prompt(
                {str(p): arena.scores(p, self.samples, judge) for p in league}
            )
            i = league.index(player)
            replies = maximum_interval(exploitability_gains(payoff_PNN, i), own=i)
            best_replies[str(player)] = Estimate.of(replies)
            opponents = arena.opponent_weights(player, t)
            weight_N = np.array([opponents.get(other, 0.0) for other in league])
            if weight_N.sum() > 0:
                gains_PN = deviation_gains(payoff_PNN, i, weight_N / weight_N.sum())
                deviations[str(player)] = Estimate.of(maximum_interval(gains_PN, own=i, bound=2.0))
        return best_replies, deviations

    def league(self, arena: Arena, t: int) -> list[PlayerId]:
        """Every generation up to t of every learner, and the players that do not learn."""
        generations = [old for player in arena.learners(t) for old in reversed(arena.past(player))]
        return generations + arena.others()

    def table(self, arena: Arena, t: int) -> PayoffTable:
        """The league's pay-offs at generation t, by the first learner's judge.

        Raises ConfigError for a game whose seats have different roles.
        """
        if has_roles(arena.game):
            raise ConfigError(
                f"the players of '{arena.game.kind}' have different roles, and so no "
                "pay-off table in common; they are measured by role"
            )
        measured = arena.learners(t) or arena.others()
        judge = self.judge or arena.judge_of(measured[0])
        return self._cross_play(arena, self.league(arena, t), judge)

    def _cross_play(self, arena: Arena, league: Sequence[PlayerId], judge: Judge) -> PayoffTable:
        if not judge.compares:
            return cross_play(
                {str(player): arena.scores(player, self.samples, judge) for player in league}
            )
        results = (
            result
            for first, second in combinations(sorted(league), 2)
            for result in arena.meetings(first, second, self.samples, judge)
        )
        return tally(results, [str(player) for player in league])

    def _win_rate(self, arena: Arena, player: PlayerId, judge: Judge) -> Interval:
        """The share of answers that beat those of the player's own start."""
        start = arena.past(player)[-1]
        if not judge.compares:
            own = arena.scores(player, self.samples, judge)
            other = arena.scores(start, self.samples, judge)
            return win_rate(*meetings(own, other))
        results = arena.meetings(start, player, self.samples, judge)
        judged = [(-result.value, result.cluster) for result in results if result.value is not None]
        return win_rate([value for value, _ in judged], [prompt for _, prompt in judged])

    def select(self, arena: Arena, t: int, criterion: Criterion | None = None) -> SelectionRecord:
        """The best (player, generation) by the criterion, None: by held-out score, and its score on
        the test prompts beside the best start's, where there are some.

        Raises ConfigError for a judge that compares, since it scores nobody alone.
        """
        measured = arena.learners(t) or arena.others()
        judge = self.judge or arena.judge_of(measured[0])
        if judge.compares and (criterion is None or arena.test):
            raise ConfigError(
                f"prompts.test: judge '{judge.kind}' only compares; evaluate.judge must "
                "be one that scores"
            )
        if criterion is None:
            league = self.league(arena, t)
            held_out = {p: arena.scores(p, self.samples, judge) for p in league}
            criterion = Criterion({p: mean_score(s) for p, s in held_out.items()})
        record = SelectionRecord.of(criterion)
        if not arena.test:
            return record
        chosen, start = criterion.chosen, criterion.start
        tested = {
            player: arena.scores(player, self.samples, judge, "test") for player in (start, chosen)
        }
        return msgspec.structs.replace(
            record,
            test={
                str(player): Estimate.of(mean_score(scores)) for player, scores in tested.items()
            },
            win_rate=Estimate.of(win_rate(*meetings(tested[chosen], tested[start]))),
        )
