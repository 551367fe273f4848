"""A leaderboard: one static page of who beats whom, for people who never train."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from equipoise.blocks import league_sections as league
from equipoise.blocks.html import Page
from equipoise.blocks.section import Section, Table, number
from equipoise.payoffs.cycles import circles, cycle_share, cyclic_triples
from equipoise.payoffs.intervals import Interval, difference, level_together
from equipoise.payoffs.regret import gap_text, largest_gap
from equipoise.payoffs.table import PayoffTable, met_by_all
from equipoise.payoffs.told_apart import rank_ranges
from equipoise.ratings.base import Rating, count_outcomes, table_outcomes
from equipoise.ratings.nash_average import NashAverage, max_entropy_nash

MOST_RESAMPLED = 40  # players up to which the equilibrium is solved anew for resampled matches
MOST_CYCLES = 10
COLUMNS = (
    "player",
    "places",
    "rating",
    "interval",
    "prompts",
    "wins",
    "exploitability",
    "by",
    "Nash mass",
)


def leaderboard(
    title: str,
    ratings: Sequence[Rating],
    table: PayoffTable,
    kind: str,
    judge: str,
    warning: str = "",
    titles: Mapping[str, str] | None = None,
    further: Sequence[Section] = (),
) -> Page:
    """The page of ratings of this `kind`, best first, and the pay-offs by `judge` behind them.

    `titles`: what players are called, where it is not their name; `further`: sections below. The
    equilibrium is that of the players who have all met each other; those who met the fewest are
    left out of it.
    """
    kind = kind.replace("_", " ")
    table = table_of(table, [rating.name for rating in ratings], titles or {})
    named = []
    for rating, name in zip(ratings, table.players, strict=True):
        named.append(replace(rating, name=name))
    met = met_by_all(table)
    inside = [table.players[i] for i in met]
    payoff_NN = table.payoff_NN[np.ix_(met, met)]
    mixture: dict[str, float] = {}
    if met:
        weights = max_entropy_nash(payoff_NN).tolist()
        mixture = dict(zip(inside, weights, strict=True))
    mass = nash_mass(table, mixture)
    places = place_ranges(named)
    rows = [board_row(i, rating, table, mass, places[i]) for i, rating in enumerate(named)]
    sections = (
        Section(
            "leaderboard",
            "Leaderboard",
            (Table(COLUMNS, tuple(rows)),),
            board_lead(table, judge, kind),
        ),
        league.ratings_section(named, kind, league.caution(warning)),
        league.payoffs_section(
            table.players, table.payoff_NN, table.se_NN, table.count_NN, table.clusters_NN
        ),
        league.equilibrium_section(
            mixture=mixture,
            cycle_share=cycle_share(payoff_NN) if len(met) > 1 else None,
            cyclic_triples=cyclic_triples(payoff_NN) if len(met) > 2 else None,
        ),
        cycles_section(inside, payoff_NN),
        *further,
    )
    warnings = [warning] if warning else []
    left_out = [name for name in table.players if name not in inside]
    if left_out:
        names = ", ".join(left_out)
        warnings.append(f"{names} did not meet everybody, and are not in the equilibrium")
    now = datetime.datetime.now(datetime.UTC)
    return Page(
        title,
        f"{len(ratings)} players",
        now.strftime("%Y-%m-%d %H:%M UTC"),
        sections,
        tuple(warnings),
    )


def board_lead(table: PayoffTable, judge: str, kind: str) -> str:
    """The sentences on the prompts behind the board, and on its columns."""
    comparisons = int(np.triu(table.count_NN, 1).sum())
    plural = "" if table.prompts == 1 else "s"
    return (
        f"By {table.prompts:,} prompt{plural}, on which {judge} compared answers of two players "
        f"{comparisons:,} times; rated by {kind}. Answers to one prompt count together in every "
        "interval. A player's places are those that its rating leaves open, of all players at "
        "once. Its exploitability is the pay-off of whoever does best against it, 0 where surely "
        "nobody beats it; the interval holds for all opponents at once. Its Nash mass is "
        "its share of the mixture that no player beats."
    )


def table_of(table: PayoffTable, names: Sequence[str], titles: Mapping[str, str]) -> PayoffTable:
    """The rows of these players, in this order and by their titles."""
    order = [table.players.index(name) for name in names]
    pick = np.ix_(order, order)
    return replace(
        table,
        players=[titles.get(name, name) for name in names],
        payoff_NN=table.payoff_NN[pick],
        count_NN=table.count_NN[pick],
        unjudged_NN=table.unjudged_NN[pick],
        clusters_NN=table.clusters_NN[pick],
        se_NN=table.se_NN[pick],
        prompts_N=table.prompts_N[order],
    )


def place_ranges(ratings: Sequence[Rating]) -> list[tuple[int, int]]:
    """Each player's first and last possible place, which hold for all players together."""
    players = len(ratings)
    pairs = max(1, players * (players - 1) // 2)
    joint = NormalDist().inv_cdf(0.5 + level_together(pairs) / 2)
    wider = joint / NormalDist().inv_cdf(0.975)
    intervals = []
    for rating in ratings:
        low = rating.value - wider * (rating.value - rating.low)
        high = rating.value + wider * (rating.high - rating.value)
        intervals.append(Interval(rating.value, low, high, 0))
    low_NN = np.zeros((players, players))
    high_NN = np.zeros((players, players))
    for i, own in enumerate(intervals):
        for j, other in enumerate(intervals):
            lead = difference(other, own)
            low_NN[i, j] = lead.low
            high_NN[i, j] = lead.high
    return rank_ranges(low_NN, high_NN)


def board_row(
    i: int,
    rating: Rating,
    table: PayoffTable,
    mass: Mapping[str, Interval],
    places: tuple[int, int],
) -> tuple[str, ...]:
    """The row of the player at `i`, who may have any of the `places`."""
    first, last = places
    is_other_N = np.arange(len(table.players)) != i
    count_N = table.count_NN[i] * is_other_N
    wins_N = (1 + table.filled(0.0)[i]) / 2
    wins = float(wins_N @ count_N / count_N.sum())
    gap, best = largest_gap(table, i)
    digits = 1 if abs(rating.value) >= 10 else 3
    return (
        rating.name,
        str(first) if first == last else f"{first} to {last}",
        number(rating.value, digits=digits),
        f"{rating.low:.{digits}f} to {rating.high:.{digits}f}",
        f"{int(table.prompts_N[i]):,}",
        number(wins, "%"),
        gap_text(gap),
        "" if best is None else table.players[best],
        mass[rating.name].percent() if rating.name in mass else "–",
    )


def nash_mass(table: PayoffTable, mixture: Mapping[str, float]) -> dict[str, Interval]:
    """Each player's share of the equilibrium with the middle 95 % over resampled outcomes."""
    low = dict.fromkeys(mixture, np.nan)
    high = dict.fromkeys(mixture, np.nan)
    if 1 < len(mixture) <= MOST_RESAMPLED:
        outcomes = []
        for outcome in table_outcomes(table):
            if {outcome.first, outcome.second} <= mixture.keys():
                outcomes.append(outcome)
        counts = count_outcomes(outcomes)
        tables_RNN = NashAverage.model_validate({}).resampled(counts, seed=0)
        share_RN = np.array([max_entropy_nash(payoff_NN) for payoff_NN in tables_RNN])
        low_N, high_N = np.quantile(share_RN, [0.025, 0.975], axis=0)
        low |= dict(zip(counts.names, low_N, strict=True))
        high |= dict(zip(counts.names, high_N, strict=True))
    shares = {}
    for name, share in mixture.items():
        below = np.minimum(low[name], share)
        above = np.maximum(high[name], share)
        shares[name] = Interval(share, below, above, 1)
    return shares


def cycles_section(players: Sequence[str], payoff_NN: np.ndarray) -> Section:
    """The circles of three in which each beats the next, the clearest first."""
    named = []
    for (i, j, k), least in circles(payoff_NN):
        named.append((least, " → ".join(players[n] for n in (i, j, k, i))))
    if not named:
        return Section("cycles", "Cycles", reason="no three players beat each other in a circle")
    rows = [(circle, number(least, digits=2)) for least, circle in sorted(named, reverse=True)]
    table = Table(("each beats the next", "least pay-off"), tuple(rows[:MOST_CYCLES]))
    return Section("cycles", "Cycles", (table,), f"{len(rows):,} circles of three.")
