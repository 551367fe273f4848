"""The game of choosing a player: every measured generation meets every other in the seats of the
game, and the solver says how a mixture over them would play it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError, NoSignal
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, JudgedMatch, Workload
from equipoise.evaluation.measures import Measures
from equipoise.evaluation.meta_measures import ANYBODY, MetaGameMeasures
from equipoise.games.base import Bimatrix, Game
from equipoise.judges.base import Judge
from equipoise.payoffs.intervals import mean_interval
from equipoise.solvers.exploitability import exploitability, role_gains, role_values
from equipoise.types import PlayerId, Prompt

NOTHING = np.array(None, dtype=object)
Leagues = Mapping[str, Sequence[PlayerId]]
"""role -> its players, oldest first; one league of all has the role `ANYBODY`."""


@dataclass(frozen=True)
class Tables:
    """role -> its pay-off tensor, an axis for each role (of one league: its own and the other's),
    half the width of their 95 % intervals, NaN where not known, and the judged matches.
    """

    payoffs: Mapping[str, np.ndarray]
    half_widths: Mapping[str, np.ndarray]
    judged: Mapping[str, np.ndarray]


class MetaGame(Evaluation):
    """The league's pay-offs when its members meet in the seats of the game, and its mixture at
    equilibrium by the run's solver.

    Where the schedule gives each role a player, each role has a league of its own: all measured
    generations of its player. Else there is one league of everybody, whose members take both seats
    of a game of two seats in turn, and a pay-off is the mean over both. Only cells of members that
    are new are played; the others are in the ledger. In a finite game of two seats the pay-offs of
    tabular players are exact, and so is how exploitable the mixture is in the game itself.
    """

    kind: Literal["meta_game"] = "meta_game"
    measures: ClassVar[type[Measures]] = MetaGameMeasures
    samples: int = Field(
        1,
        ge=1,
        description="matches of each profile on each held-out prompt, where they are played",
    )
    exact: bool | None = Field(
        None,
        description="read pay-offs off the players' probabilities of moves; null: in a "
        "finite game of two seats",
    )

    def solves(self, game: Game) -> bool:
        """True."""
        return True

    def reads(self, game: Game) -> tuple[str, ...]:
        return ("solver",)

    def meets_the_past(self, game: Game) -> bool:
        """True: a new member meets all earlier ones."""
        return True

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raises ConfigError for a game whose seats cannot be filled so, and for a judge that does
        not score.
        """
        missing = [role for role in game.roles if role not in player_of_role]
        if player_of_role and missing:
            raise ConfigError(
                f"evaluate: 'meta_game' needs a player for every role of '{game.kind}'; "
                f"the schedule names none for {', '.join(missing)}"
            )
        if not player_of_role and len(game.seats) != 2:
            raise ConfigError(
                f"evaluate: 'meta_game' of one league needs a game of two seats, and "
                f"'{game.kind}' has {len(game.seats)}; give each role a player "
                "(schedule.roles)"
            )
        if not player_of_role and len(game.roles) != 2:
            raise ConfigError(
                f"evaluate: 'meta_game' cannot tell the seats of '{game.kind}' apart; "
                "use evaluate: held_out, which compares answers"
            )
        if self.exact and game.bimatrix() is None:
            raise ConfigError(f"evaluate.exact: '{game.kind}' is no finite game of two seats")
        for judge in [self.judge] if self.judge else judges:
            if judge.compares:
                raise ConfigError(
                    f"evaluate.judge: '{judge.kind}' compares answers; 'meta_game' needs "
                    "one that scores"
                )

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Every profile of members, once.

        Raises ConfigError where there is nothing to play.
        """
        game = run_plan.game
        if self._reads(game):
            return Workload()
        _check_held_out(run_plan.held_out)
        league = run_plan.league
        counts = [
            sum(player.name == name for player in league)
            for name in map(run_plan.roles.get, game.roles)
        ]
        profiles = int(np.prod(counts)) if run_plan.roles else len(league) ** 2
        rounds = profiles * self.samples
        matches = rounds * len(run_plan.held_out)
        moves = sum(sum(game.moves(p).values()) for p in run_plan.held_out)
        judge = self.judge or run_plan.judges[0]
        return Workload(matches, rounds * moves, [(judge, matches, len(game.seats))])

    def measure(self, arena: Arena, t: int) -> MetaGameMeasures:
        """The table of all members measured up to generation t, and its solution.

        Raises ConfigError for players whose pay-offs can be neither read nor played.
        """
        leagues = _leagues(arena, t)
        rules = arena.game.bimatrix() if self._reads(arena.game) else None
        if rules is None:
            _check_held_out(arena.held_out)
            return _solve(arena, leagues, self._played(arena, t, leagues), None)
        policies = _policies(arena, leagues, rules)
        return _solve(arena, leagues, _exact(leagues, policies, rules), policies)

    def _reads(self, game: Game) -> bool:
        """True if pay-offs are read off probabilities."""
        return game.bimatrix() is not None if self.exact is None else self.exact

    def _played(self, arena: Arena, t: int, leagues: Leagues) -> Tables:
        judge = self.judge or arena.judge_of((arena.learners(t) or arena.others())[0])
        prompts = arena.held_out * self.samples
        label = f"all{f' ×{self.samples}' if self.samples > 1 else ''}/{len(arena.held_out)}"

        def play(lineup: Mapping[str, PlayerId]) -> list[JudgedMatch]:
            return arena.play(lineup, prompts, judge, t, label)

        roles = arena.game.roles
        cells: dict[tuple[str, tuple[int, ...]], list[JudgedMatch]] = {}
        if ANYBODY not in leagues:
            members = [leagues[role] for role in roles]
            for profile in np.ndindex(*map(len, members)):
                lineup = {r: m[i] for r, m, i in zip(roles, members, profile, strict=True)}
                matches = play(lineup)
                cells |= {(role, profile): matches for role in roles}
            return _tally(arena, cells, {r: tuple(map(len, members)) for r in roles})
        league = leagues[ANYBODY]
        for i, j in product(range(len(league)), repeat=2):
            matches = play(dict(zip(roles, (league[i], league[j]), strict=True)))
            if i != j:
                matches = [*matches, *play(dict(zip(roles, (league[j], league[i]), strict=True)))]
            cells[str(league[i]), (i, j)] = matches
        return _one_league(arena, cells, len(league))


def _check_held_out(prompts: Sequence[Prompt]) -> None:
    if not prompts:
        raise ConfigError("prompts.held_out: is 0, so evaluate: meta_game has nothing to measure")


def _leagues(arena: Arena, t: int) -> Leagues:
    """Each role's league, or one league of everybody."""
    learners = arena.learners(t)
    if not arena.player_of_role:
        grown = [old for new in learners for old in reversed(arena.past(new))]
        return {ANYBODY: [*grown, *arena.others()]}
    seated = arena.players_by_role(t)
    return {
        role: arena.past(seated[role])[::-1] if seated[role] in learners else [seated[role]]
        for role in arena.game.roles
    }


# -- played


def _tally(
    arena: Arena,
    cells: Mapping[tuple[str, tuple[int, ...]], list[JudgedMatch]],
    shapes: Mapping[str, tuple[int, ...]],
) -> Tables:
    """Means over the seats of each role."""
    tables = Tables(*({r: np.zeros(s) for r, s in shapes.items()} for _ in range(3)))
    for (role, profile), matches in cells.items():
        seats = (
            [seat for seat in match.seats if arena.game.role(seat) == role] for match, _ in matches
        )
        _fill(arena, tables, (role, profile), matches, seats)
    return tables


def _one_league(
    arena: Arena, cells: Mapping[tuple[str, tuple[int, ...]], list[JudgedMatch]], size: int
) -> Tables:
    """Means over the seats that the first of two members had."""
    tables = Tables(*({ANYBODY: np.zeros((size, size))} for _ in range(3)))
    for (name, profile), matches in cells.items():
        seats = (
            [seat for seat, player in match.seats.items() if str(player) == name]
            for match, _ in matches
        )
        _fill(arena, tables, (ANYBODY, profile), matches, seats)
    return tables


def _fill(
    arena: Arena,
    tables: Tables,
    cell: tuple[str, tuple[int, ...]],
    matches: Sequence[JudgedMatch],
    seats: Iterable[Sequence[str]],
) -> None:
    """One cell: the mean over these seats of the matches.

    Raises NoSignal where none of them was judged.
    """
    values: list[float] = []
    prompts: list[str] = []
    for (match, judgement), own in zip(matches, seats, strict=True):
        scores = [judgement.score(seat, arena.utility) for seat in own]
        known = [score for score in scores if score is not None]
        values += known
        prompts += [match.prompt] * len(known)
    role, profile = cell
    if not values:
        players = ", ".join(map(str, matches[0][0].seats.values())) if matches else ""
        raise NoSignal(
            f"evaluate: no match of {players} was judged, so the table of the league has a hole"
        )
    mean = mean_interval(values, prompts)
    tables.payoffs[role][profile] = mean.mean
    tables.half_widths[role][profile] = (mean.high - mean.low) / 2
    tables.judged[role][profile] = mean.n


# -- exact


def _policies(arena: Arena, leagues: Leagues, rules: Bimatrix) -> Mapping[str, np.ndarray]:
    """role -> its members' probabilities of moves, [N, A]."""
    first, second = rules.actions
    if ANYBODY in leagues:
        if len(first) != len(second):
            raise ConfigError(
                "evaluate: 'meta_game' of one league needs seats with the same moves; "
                "give each role a player (schedule.roles)"
            )
        moves = {ANYBODY: first}
    else:
        moves = dict(zip(arena.game.roles, rules.actions, strict=True))
    return {
        role: np.array([arena.probabilities(p, moves[role]) for p in members])
        for role, members in leagues.items()
    }


def _exact(leagues: Leagues, policies: Mapping[str, np.ndarray], rules: Bimatrix) -> Tables:
    if ANYBODY in leagues:
        own_NA = policies[ANYBODY]
        payoffs = {ANYBODY: own_NA @ symmetrised(rules) @ own_NA.T}
    else:
        (first, first_NA), (second, second_NM) = policies.items()
        payoffs = {
            first: first_NA @ rules.first_AM @ second_NM.T,
            second: first_NA @ rules.second_AM @ second_NM.T,
        }
    nothing = {role: np.zeros_like(payoff) for role, payoff in payoffs.items()}
    return Tables(payoffs, nothing, nothing)


def symmetrised(rules: Bimatrix) -> np.ndarray:
    """[A, A]: the pay-off of a move against a move, each seat taken half of the time."""
    return (rules.first_AM + rules.second_AM.T) / 2


# -- solved


def _solve(
    arena: Arena, leagues: Leagues, tables: Tables, policies: Mapping[str, np.ndarray] | None
) -> MetaGameMeasures:
    one_league = ANYBODY in leagues
    payoffs = tables.payoffs
    if one_league:
        payoff_NN = payoffs[ANYBODY]
        mixtures = {ANYBODY: arena.solver.solve(payoff_NN)}
        both = [payoff_NN, payoff_NN.T], [mixtures[ANYBODY]] * 2
    else:
        solved = arena.solver.solve_roles(list(payoffs.values()))
        mixtures = dict(zip(payoffs, solved, strict=True))
        both = list(payoffs.values()), solved
    values = dict(zip(leagues, role_values(*both).tolist(), strict=False))
    gains = dict(zip(leagues, role_gains(*both).tolist(), strict=False))
    by_role = {
        role: {
            str(player): float(weight)
            for player, weight in zip(leagues[role], mixture, strict=True)
        }
        for role, mixture in mixtures.items()
    }
    actual = _mean_policies(mixtures, policies)
    members = {role: list(map(str, league)) for role, league in leagues.items()}
    return MetaGameMeasures(
        players=[name for league in members.values() for name in league],
        members=members,
        payoffs={role: tensor.tolist() for role, tensor in payoffs.items()},
        half_widths={} if policies else _plain(tables.half_widths),
        judged={} if policies else _plain(tables.judged),
        payoff=payoffs[ANYBODY].tolist() if one_league else [],
        mixture=by_role[ANYBODY] if one_league else {},
        role_mixtures={} if one_league else by_role,
        values=values,
        gains=gains,
        policies={role: policy.tolist() for role, policy in actual.items()},
        exploitability=_exploitability(arena.game, actual) if policies else None,
    )


def _plain(tensors: Mapping[str, np.ndarray]) -> dict[str, list]:
    """As JSON: None for what is not known."""
    return {
        role: np.where(np.isfinite(tensor), tensor.astype(object), NOTHING).tolist()
        for role, tensor in tensors.items()
    }


def _mean_policies(
    mixtures: Mapping[str, np.ndarray], policies: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """role -> the probabilities of moves under its mixture; empty where they are not known."""
    known = policies or {}
    return {role: mixtures[role] @ policy_NA for role, policy_NA in known.items()}


def _exploitability(game: Game, policies: Mapping[str, np.ndarray]) -> float:
    """The gain of best replies in the game itself."""
    rules = game.bimatrix()
    assert rules is not None, "its players' policies were read"
    if ANYBODY in policies:
        return exploitability(symmetrised(rules), policies[ANYBODY])
    sides = [rules.first_AM, rules.second_AM]
    return float(role_gains(sides, list(policies.values())).sum())
