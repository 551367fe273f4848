"""Cross-play between the two roles of a game: every generation of one role's player meets every
generation of the other's.

A player that sat in every seat would answer in a role that it was never trained for, and scores of
different roles would be compared with each other. So each role has a league of its own, and scores
are compared within a role only, with the same players of the other role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, EvaluationPlan, Scores, Workload
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.role_measures import RoleLeague, RoleMeasures
from equipoise.evaluation.scores import best_of, mean_of, mean_score, meetings
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.payoffs.intervals import Interval, win_rate
from equipoise.types import PlayerId

Cells = Mapping[tuple[PlayerId, PlayerId], Scores]
"""(player of the role, player of the other role) -> the scores of the role's answers."""


def has_roles(game: Game) -> bool:
    """Whether the game's seats differ, so that players are measured by role."""
    return len(game.roles) > 1 and not game.symmetric


def check_roles(game: Game, player_of_role: Mapping[str, str], judges: Iterable[Judge]) -> None:
    """Raises ConfigError unless there are two roles, the schedule names a player for each, and
    every judge scores.
    """
    roles = ", ".join(game.roles)
    if len(game.roles) > 2:
        raise ConfigError(
            f"evaluate: 'held_out' measures games of at most two roles; '{game.kind}' "
            f"has {len(game.roles)}: {roles}"
        )
    missing = [role for role in game.roles if role not in player_of_role]
    if missing:
        raise ConfigError(
            f"evaluate: the seats of '{game.kind}' have different roles ({roles}), and "
            f"the schedule names no player for {', '.join(missing)}, so 'held_out' "
            "cannot seat anybody there; set schedule: {kind: roles, roles: {role: "
            "player}}, or evaluate by a measure of the game's own"
        )
    for judge in judges:
        if judge.compares:
            raise ConfigError(
                f"evaluate.judge: '{judge.kind}' compares answers, and in a game of "
                "different roles they are not answers to the same; use a judge that "
                "scores"
            )


def planned_roles(run_plan: EvaluationPlan, samples: int, judge: Judge | None) -> Workload:
    """Every generation of either role's player with every one of the other's."""
    game = run_plan.game
    check_roles(game, run_plan.roles, [judge] if judge else run_plan.judges)
    names = [run_plan.roles[role] for role in game.roles]
    league = run_plan.league
    counts = [sum(player.name == name for player in league) for name in names]
    pairs = counts[0] * counts[1]
    matches = pairs * len(run_plan.held_out) * samples
    moves = sum(sum(game.moves(prompt).values()) for prompt in run_plan.held_out)
    judges = {used.name: used for used in (judge or run_plan.judge_of(name) for name in names)}
    return Workload(
        matches,
        pairs * moves * samples,
        [(used, matches, len(game.seats)) for used in judges.values()],
    )


def measure_roles(arena: Arena, t: int, samples: int, judge: Judge | None) -> RoleMeasures:
    """Scores and win rates in both roles at generation t.

    Args: samples: matches of each two players on each held-out prompt; judge: whose scores count,
    None: in each role those of the judge that teaches its player. Raises ConfigError where the
    schedule does not name the roles' players.
    """
    seated, learners = arena.seated(t), arena.learners(t)
    leagues = {role: _generations(arena, seated[role], learners) for role in arena.game.roles}
    judges = {role: judge or arena.judge_of(seated[role]) for role in arena.game.roles}
    check_roles(arena.game, {role: player.name for role, player in seated.items()}, judges.values())
    cells = {
        role: _cells(arena, t, role, leagues, samples, judges[role]) for role in arena.game.roles
    }
    roles = {role: _role_league(judges[role].name, cells[role]) for role in arena.game.roles}
    scores = {
        str(player): Estimate.of(mean_score(_answers_of(player, cells.values())))
        for player in learners
        if player in seated.values()
    }
    win_rates = {
        role: roles[role].win_rates[str(seated[role])]
        for role in arena.game.roles
        if str(seated[role]) in roles[role].win_rates
    }
    return RoleMeasures(
        players=sorted({str(player) for league in leagues.values() for player in league}),
        scores=scores,
        roles=roles,
        score=mean_of(scores),
        best_score=best_of(scores),
        win_rate=mean_of(win_rates),
    )


def _generations(arena: Arena, player: PlayerId, learners: Sequence[PlayerId]) -> list[PlayerId]:
    """The measured generations of the player, oldest first."""
    return arena.past(player)[::-1] if player in learners else [player]


def _cells(
    arena: Arena,
    t: int,
    role: str,
    leagues: Mapping[str, Sequence[PlayerId]],
    samples: int,
    judge: Judge,
) -> Cells:
    """The scores of the role's answers, of every two players that meet."""
    [other_role] = [name for name in leagues if name != role]
    cells = {}
    for player in leagues[role]:
        for other in leagues[other_role]:
            seated = {role: player, other_role: other}
            lineup = {name: seated[name] for name in leagues}
            cells[player, other] = _scores(arena, t, role, lineup, samples, judge)
    return cells


def _scores(
    arena: Arena, t: int, role: str, lineup: Mapping[str, PlayerId], samples: int, judge: Judge
) -> Scores:
    """Prompt id -> the scores of the role's answers, None where unjudged."""
    prompts = arena.held_out
    label = f"all{f' ×{samples}' if samples > 1 else ''}/{len(prompts)}"
    scores: dict[str, list[float | None]] = {}
    for match, judgement in arena.play(lineup, prompts * samples, judge, t, label):
        for seat in match.seats:
            if arena.game.role(seat) == role:
                score = judgement.score(seat, arena.utility)
                scores.setdefault(match.prompt, []).append(score)
    return scores


def _role_league(judge: str, cells: Cells) -> RoleLeague:
    """What the scores of one role say of its players."""
    players = list(dict.fromkeys(player for player, _ in cells))
    others = list(dict.fromkeys(other for _, other in cells))
    return RoleLeague(
        judge=judge,
        players=[str(player) for player in players],
        others=[str(other) for other in others],
        cells=[
            [Estimate.of(mean_score(cells[player, other])) for other in others]
            for player in players
        ],
        scores={
            str(player): Estimate.of(mean_score(_answers_of(player, [cells]))) for player in players
        },
        win_rates={
            str(player): Estimate.of(_win_rate(player, players[0], others, cells))
            for player in players[1:]
        },
    )


def _answers_of(player: PlayerId, roles: Iterable[Cells]) -> Scores:
    """The scores of all its answers, with whomever, prompt by prompt."""
    scores: dict[str, list[float | None]] = {}
    for cells in roles:
        for (own, _), answers in cells.items():
            for prompt, values in answers.items() if own == player else ():
                scores.setdefault(prompt, []).extend(values)
    return scores


def _win_rate(
    player: PlayerId, start: PlayerId, others: Sequence[PlayerId], cells: Cells
) -> Interval:
    """How often an answer of `player` scores above one of `start` to the same prompt with the same
    player of the other role.
    """
    values: list[float] = []
    prompts: list[str] = []
    for other in others:
        differences, clusters = meetings(cells[player, other], cells[start, other])
        values += differences
        prompts += clusters
    return win_rate(values, prompts)
