"""What is measured in a game of two roles, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import msgspec
import numpy as np

from equipoise.evaluation.measures import Estimate, History, Measures, interval_curve, recorded
from equipoise.evaluation.records import Records
from equipoise.report.elements import Change, Curves, Headline
from equipoise.report.figures import heat_map
from equipoise.report.learning import learning_section
from equipoise.report.section import Figure, Section, label, number
from equipoise.report.selection import shown


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

    players: list[str] = recorded()
    scores: dict[str, Estimate] = recorded()
    roles: dict[str, RoleLeague]

    def gets(self, player: str, other: str) -> Estimate | None:
        """The mean score of the player's answers in its role."""
        for league in self.roles.values():
            if player in league.players and other in league.others:
                row = league.cells[league.players.index(player)]
                return row[league.others.index(other)]
        return None

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        """Each learner's score and win rate in its role beside its start's."""
        for role, league in _leagues(history).items():
            start, newest = league.players[0], league.players[-1]
            others = f"with {_with(league.others)}"
            before = shown(league.scores[start].interval)
            yield Headline(
                f"held-out score of {newest} as {role}",
                shown(league.scores[newest].interval),
                f"{start}: {before}, {others}",
            )
            if newest in league.win_rates:
                yield Headline(
                    f"win rate of {newest} over {start} as {role}",
                    league.win_rates[newest].interval.percent(),
                    f"{others}; a tie counts half; 95 % interval",
                )

    @classmethod
    def changes(cls, history: History[Self]) -> Iterator[Change]:
        """Each learner's score in its role and its start's, with the same players of the other
        role.
        """
        for role, league in _leagues(history).items():
            before = league.scores[league.players[0]].interval
            after = league.scores[league.players[-1]].interval
            bounds = (before.low, before.high, after.low, after.high)
            unit = "%" if all(0 <= bound <= 1 for bound in bounds) else ""
            yield Change(f"held-out score as {role}", before, after, unit)

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        """Scores and win rates over the generations, and each role's cross-play."""
        yield learning_section(_curves(history), alone=False)
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


def _with(others: Sequence[str]) -> str:
    """The players of the other role, to read."""
    return others[0] if len(others) == 1 else f"{others[0]} to {others[-1]}"


def _curves(history: History[RoleMeasures]) -> list[Curves]:
    """A curve for each learner's role: how each generation does with all players of the other role
    that there are now.
    """
    scores, win_rates = [], []
    for role, league in _leagues(history).items():
        name = history.roles[role]
        points = [
            (float(measurement.generation), str(measurement.player(name)))
            for measurement in history.measurements
        ]
        intervals = [(t, league.scores[player].interval) for t, player in points]
        scores.append(interval_curve(f"{name} as {role}", "", intervals))
        wins = [
            (t, league.win_rates[player].interval)
            for t, player in points
            if player in league.win_rates
        ]
        if wins:
            win_rates.append(interval_curve(f"{name} as {role}", "%", wins))
    note = "with every generation of the other role's player that there is now"
    groups = []
    if scores:
        groups.append(Curves("held-out score", "", tuple(scores), note))
    if win_rates:
        groups.append(Curves("win rate over the start", "%", tuple(win_rates), note))
    return groups


def _figure(role: str, league: RoleLeague) -> Figure:
    value_AB = np.array([[estimate.interval.mean for estimate in row] for row in league.cells])
    written = [
        ["" if cell.mean is None else number(cell.mean) for cell in row] for row in league.cells
    ]
    hover = [
        [
            f"{label(own)} with {label(other)}<br><b>{shown(cell.interval)}</b>"
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
