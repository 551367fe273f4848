"""A leaderboard: one static page of who beats whom, for people who never train."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.api.rerate import rerate
from equipoise.blocks import league_sections as league
from equipoise.blocks.html import Page, render
from equipoise.blocks.section import Section, Table, number
from equipoise.payoffs.cycles import cycle_share, cyclic_triples
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.regret import largest_gain
from equipoise.payoffs.table import PayoffTable
from equipoise.players.scripted import Recorded
from equipoise.ratings.base import Rating, count_outcomes, table_outcomes
from equipoise.ratings.nash_average import NashAverage, max_entropy_nash
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable

MOST_RESAMPLED = 40  # players up to which the equilibrium is solved anew for resampled matches
MOST_CYCLES = 10
COLUMNS = tuple(
    "player,place,rating,interval,matches,wins,exploitability,by,Nash mass".split(",")  # noqa: SIM905
)


def leaderboard(
    title: str,
    ratings: Sequence[Rating],
    table: PayoffTable,
    kind: str,
    judge: str,
    warning: str = "",
    titles: Mapping[str, str] | None = None,
) -> Page:
    """The page of ratings of this `kind`, best first, and the pay-offs by `judge` behind them.

    `titles`: what players are called, where it is not their name. The equilibrium is that of the
    players who have all met each other; those who met the fewest are left out of it.
    """
    kind, names = kind.replace("_", " "), titles or {}
    table = _ordered(table, [rating.name for rating in ratings], names)
    ratings = [
        replace(rating, name=name) for rating, name in zip(ratings, table.players, strict=True)
    ]
    met = met_by_all(table)
    inside = [table.players[i] for i in met]
    payoff_NN = table.payoff_NN[np.ix_(met, met)]
    mixture = dict(zip(inside, map(float, max_entropy_nash(payoff_NN)), strict=True)) if met else {}
    mass = _mass(table, mixture)
    rows = [_row(i, rating, table, mass) for i, rating in enumerate(ratings)]
    lead = (
        f"By {int(np.triu(table.count_NN, 1).sum()):,} matches that {judge} judged, rated by "
        f"{kind}. A player's exploitability is the pay-off of whoever does best against it, 0 "
        "where nobody beats it; the interval holds for all opponents at once. Its Nash mass is its "
        "share of the mixture that no player beats."
    )
    left_out = ", ".join(name for name in table.players if name not in inside)
    note = f"{left_out} did not meet everybody, and are not in the equilibrium" if left_out else ""
    return Page(
        title,
        f"{len(ratings)} players",
        datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        (
            Section("leaderboard", "Leaderboard", (Table(COLUMNS, tuple(rows)),), lead),
            league.ratings_section(ratings, kind, league.caution(warning)),
            league.payoffs_section(table.players, table.payoff_NN, table.se_NN, table.count_NN),
            league.equilibrium_section(
                mixture=mixture,
                cycle_share=cycle_share(payoff_NN) if len(met) > 1 else None,
                cyclic_triples=cyclic_triples(payoff_NN) if len(met) > 2 else None,
            ),
            _cycles(inside, payoff_NN),
        ),
        tuple(filter(None, (warning, note))),
    )


def _ordered(table: PayoffTable, names: Sequence[str], titles: Mapping[str, str]) -> PayoffTable:
    """The rows of these players, in this order and by their titles."""
    order = [table.players.index(name) for name in names]
    pick = np.ix_(order, order)
    arrays = {name: each[pick] for name, each in vars(table).items() if name.endswith("_NN")}
    return replace(table, players=[titles.get(name, name) for name in names], **arrays)


def _row(
    i: int, rating: Rating, table: PayoffTable, mass: Mapping[str, Interval]
) -> tuple[str, ...]:
    count_N = table.count_NN[i] * (np.arange(len(table.players)) != i)
    wins = float((1 + table.filled(0.0)[i]) @ count_N / (2 * count_N.sum()))
    gap, best = largest_gap(table, i)
    digits = 1 if abs(rating.value) >= 10 else 3
    return (
        rating.name,
        str(i + 1),
        number(rating.value, digits=digits),
        f"{rating.low:.{digits}f} to {rating.high:.{digits}f}",
        f"{int(count_N.sum()):,}",
        number(wins, "%"),
        gap.text(),
        "" if best is None else table.players[best],
        mass[rating.name].percent() if rating.name in mass else "–",
    )


def met_by_all(table: PayoffTable) -> list[int]:
    """The places of players that have all met each other, without those who met the fewest."""
    rest = list(range(len(table.players)))
    while rest:
        missing_N = np.isnan(table.payoff_NN[np.ix_(rest, rest)]).sum(axis=0)
        if not missing_N.any():
            break
        rest.pop(len(rest) - 1 - int(missing_N[::-1].argmax()))
    return rest


def largest_gap(table: PayoffTable, player: int) -> tuple[Interval, int | None]:
    """The most that anybody gains against a player with its interval, and who (None: nobody).

    Of opponents met on two prompts or more; the interval holds for all of them at once.
    """
    met = [j for j in np.flatnonzero(table.clusters_NN[:, player] > 1) if j != player]
    gain, best = largest_gain(
        table.payoff_NN[met, player], table.se_NN[met, player], table.clusters_NN[met, player]
    )
    if best is None:
        return gain, None
    gap = Interval(max(gain.mean, 0.0), max(gain.low, 0.0), max(gain.high, 0.0), gain.n)
    return gap, int(met[best]) if gap.mean > 0 else None


def _mass(table: PayoffTable, mixture: Mapping[str, float]) -> dict[str, Interval]:
    """Each player's share of the equilibrium with the middle 95 % over resampled outcomes."""
    low, high = dict.fromkeys(mixture, np.nan), dict.fromkeys(mixture, np.nan)
    if 1 < len(mixture) <= MOST_RESAMPLED:
        outcomes = [
            each for each in table_outcomes(table) if {each.first, each.second} <= mixture.keys()
        ]
        counts = count_outcomes(outcomes)
        tables_RNN = NashAverage.model_validate({}).resampled(counts, seed=0)
        share_RN = np.array([max_entropy_nash(payoff_NN) for payoff_NN in tables_RNN])
        low_N, high_N = np.quantile(share_RN, [0.025, 0.975], axis=0)
        low |= dict(zip(counts.names, low_N, strict=True))
        high |= dict(zip(counts.names, high_N, strict=True))
    return {
        name: Interval(share, np.minimum(low[name], share), np.maximum(high[name], share), 1)
        for name, share in mixture.items()
    }


def _cycles(players: Sequence[str], payoff_NN: np.ndarray) -> Section:
    """The circles of three in which each beats the next, the clearest first."""
    circles = []
    for i, j in np.argwhere(payoff_NN > 0):
        for k in np.flatnonzero((payoff_NN[j] > 0) & (payoff_NN[:, i] > 0)):
            if i < min(j, k):
                least = min(payoff_NN[i, j], payoff_NN[j, k], payoff_NN[k, i])
                names = [players[int(n)] for n in (i, j, k, i)]
                circles.append((least, " → ".join(names)))
    rows = tuple((circle, number(least, digits=2)) for least, circle in sorted(circles)[::-1])
    if not rows:
        return Section("cycles", "Cycles", reason="no three players beat each other in a circle")
    table = Table(("each beats the next", "least pay-off"), rows[:MOST_CYCLES])
    return Section("cycles", "Cycles", (table,), f"{len(rows):,} circles of three.")


def write_leaderboard(folder: Path, out: Path | None = None, judge: str = "") -> Path:
    """Write the leaderboard of a run's players, by the judge of that name; "": the run's own.

    `out`: None: leaderboard.html in the run's folder. Raises what `rerate` raises, and RunError
    where the file cannot be written.
    """
    path = folder / "leaderboard.html" if out is None else out
    check_writable(path.parent)
    with RunDirectory.read(folder) as run:
        rerating, config = rerate(run, judge=judge), run.config
    titles = {name: p.model for name, p in config.players.items() if isinstance(p, Recorded)}
    page = leaderboard(
        config.name,
        rerating.ratings[-1],
        rerating.table,
        rerating.kind,
        judge or config.measuring_judge.name,
        rerating.warning,
        titles,
    )
    write_text(path, render(page))
    return path
