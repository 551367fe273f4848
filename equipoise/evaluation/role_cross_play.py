"""Cross-play between the two roles of a game: every generation of one role's player meets every
generation of the other's.

A player that sat in every seat would answer in a role that it was never trained for, and scores of
different roles would be compared with each other. So each role has a league of its own, and scores
are compared within a role only, with the same players of the other role.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np

from equipoise.blocks.figures import heat_map
from equipoise.blocks.learning_sections import learning_section
from equipoise.blocks.section import Figure, Section, interval_text, label, number
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, EvaluationPlan, JudgedMatch, Scores, Workload
from equipoise.evaluation.league_measures import best_of, mean_of, mean_score, meetings
from equipoise.evaluation.measures import History, Measures, Quantity, Records, curves, no_default
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval, win_rate
from equipoise.types import PlayerId, Turn


class RoleLeague(msgspec.Struct, frozen=True, kw_only=True):
    """One role's players, oldest first, and how they did with every player of the other role.

    `cells` is [own, other]: the mean score of the role's answers by `judge`, and how many were
    judged. `scores` are each player's over all of the other role's, and `win_rates` over the role's
    start, with the same players of the other role.
    """

    judge: str
    players: list[str]
    others: list[str]
    cells: list[list[Estimate]]
    scores: dict[str, Estimate]
    win_rates: dict[str, Estimate]


class RoleMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Each role's league, and the scores of the newest learners over all their roles.

    There is no exploitability and no mixture: what one role gets need not be what the other loses.
    """

    players: list[str] = no_default()
    scores: dict[str, Estimate] = no_default()
    roles: dict[str, RoleLeague]

    def gets(self, player: str, other: str) -> Estimate | None:
        for league in self.roles.values():
            if player in league.players and other in league.others:
                row = league.cells[league.players.index(player)]
                return row[league.others.index(other)]
        return None

    @classmethod
    def rows(cls, history: History[Self]) -> list[Quantity]:
        """Score and win rate in each learner's role, with all players of the other role that there
        are now.
        """
        leagues = _leagues(history)
        scores = [_score_as(role, league) for role, league in leagues.items()]
        win_rates = [_win_rate_as(role, league) for role, league in leagues.items()]
        return [row for rows in zip(scores, win_rates, strict=True) for row in rows]

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        rows = cls.rows(history)
        note = "with every generation of the other role's player that there is now"
        groups = []
        if rows:
            groups.append(curves(history, *rows[::2], title="held-out score", unit="", note=note))
            groups.append(curves(history, *rows[1::2], title="win rate over the start", note=note))
        yield learning_section(groups)
        title = "Cross-play of the roles"
        if history.last is None:
            reason = "no two players have met in judged matches"
            yield Section("roles", title, reason=reason)
            return
        figures = tuple(
            _figure(role, league) for role, league in history.last.measures.roles.items()
        )
        lead = (
            "Each cell is the mean score of the row's player in its role when it plays "
            "with the column's, on held-out prompts."
        )
        yield Section("roles", title, figures, lead)


def _leagues(history: History[RoleMeasures]) -> dict[str, RoleLeague]:
    """The roles of the learners as they were measured last."""
    if history.last is None:
        return {}
    return {
        role: league
        for role, league in history.last.measures.roles.items()
        if history.roles.get(role) in history.learners
    }


def _score_as(role: str, league: RoleLeague) -> Quantity:
    return Quantity(
        title=f"held-out score as {role}",
        read=lambda measures: measures.roles[role].scores,
        unit=None,
        label=f"held-out score of {{player}} as {role}",
        note=_with(league.others),
        short=f"{{name}} as {role}",
    )


def _win_rate_as(role: str, league: RoleLeague) -> Quantity:
    return Quantity(
        title=f"win rate over the start as {role}",
        read=lambda measures: measures.roles[role].win_rates,
        unit="%",
        label=f"win rate of {{player}} over {{start}} as {role}",
        note=f"{_with(league.others)}; a tie counts half; 95 % interval",
        short=f"{{name}} as {role}",
        even=0.5,
        has_change=False,
    )


def _with(others: Sequence[str]) -> str:
    """The players of the other role, to read."""
    return f"with {others[0]}" if len(others) == 1 else f"with {others[0]} to {others[-1]}"


def _figure(role: str, league: RoleLeague) -> Figure:
    value_AB = np.array([[estimate.interval.mean for estimate in row] for row in league.cells])
    written = [
        ["" if cell.mean is None else number(cell.mean) for cell in row] for row in league.cells
    ]
    hover = [
        [
            f"{label(own)} with {label(other)}<br><b>{interval_text(cell.interval)}</b>"
            f"<br>{number(cell.n)} judged answers"
            for other, cell in zip(league.others, row, strict=True)
        ]
        for own, row in zip(league.players, league.cells, strict=True)
    ]
    return heat_map(
        f"Score as {role}, oldest first",
        league.players,
        league.others,
        value_AB,
        written,
        hover,
        (role, "… plays with"),
        around_zero=bool(np.nanmin(value_AB, initial=0.0) < 0),
    )


Cells = Mapping[tuple[PlayerId, PlayerId], Scores]
"""(player of the role, player of the other role) -> the scores of the role's answers."""


def has_roles(game: Game) -> bool:
    """True if the game's seats differ, so that players are measured by role."""
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
    seated, learners = arena.players_by_role(t), arena.learners(t)
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
    scores: dict[str, list[float | None]] = {}
    for match, judgement in _meetings(arena, t, lineup, samples, judge):
        for seat in match.seats:
            if arena.game.role(seat) == role:
                score = judgement.score(seat, arena.utility)
                scores.setdefault(match.prompt, []).append(score)
    return scores


def _meetings(
    arena: Arena, t: int, lineup: Mapping[str, PlayerId], samples: int, judge: Judge
) -> list[JudgedMatch]:
    """The matches of these players on the held-out prompts, `samples` on each."""
    prompts = arena.held_out
    label = f"all{f' ×{samples}' if samples > 1 else ''}/{len(prompts)}"
    return arena.play(lineup, prompts * samples, judge, t, label)


def role_scores(arena: Arena, t: int, player: PlayerId, samples: int, judge: Judge) -> Scores:
    """Prompt id -> a judge's scores of a player's answers in its role, beside generation t."""
    lineup = arena.players_by_role(t)
    (role,) = (role for role, seated in lineup.items() if seated == player)
    return _scores(arena, t, role, lineup, samples, judge)


def role_turns(
    arena: Arena, t: int, player: PlayerId, samples: int, judge: Judge
) -> dict[str, list[Turn]]:
    """Prompt id -> the last moves of a player in its role, beside generation t."""
    lineup = arena.players_by_role(t)
    turns: dict[str, list[Turn]] = {}
    for match, _ in _meetings(arena, t, lineup, samples, judge):
        for seat, turn in match.last_turns().items():
            if match.seats[seat] == player:
                turns.setdefault(match.prompt, []).append(turn)
    return turns


def _role_league(judge: str, cells: Cells) -> RoleLeague:
    """The league of one role, from its scores."""
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
    """The share of answers of `player` that score above one of `start` to the same prompt with the
    same player of the other role.
    """
    values: list[float] = []
    prompts: list[str] = []
    for other in others:
        differences, clusters = meetings(cells[player, other], cells[start, other])
        values += differences
        prompts += clusters
    return win_rate(values, prompts)
