"""Sections on a league of players or generations: who beats whom, the equilibrium, the ratings."""

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.blocks.figures import (
    bars,
    dots,
    group_figure,
    heat_map,
    lines_figure,
    scatter_figure,
)
from equipoise.blocks.section import (
    Curve,
    Curves,
    Figure,
    SampleSize,
    Section,
    Table,
    Tile,
    Tiles,
    finite_or_none,
    label,
    number,
)
from equipoise.payoffs.table import PayoffTable
from equipoise.payoffs.win_rates import win_rates
from equipoise.ratings.base import Rating

MOST_BARS = 12  # members of a mixture up to which each has its bar, even an empty one
MOST_TABLED = 8  # players up to which win rates stand in a table, too
LEAST = 0.001  # share from which on a member of a larger league has one


def payoffs_section(
    players: Sequence[str],
    payoff_NN: np.ndarray,
    se_NN: np.ndarray | None = None,
    count_NN: np.ndarray | None = None,
    clusters_NN: np.ndarray | None = None,
) -> Section:
    """The pay-off table between players or generations, with standard errors and the numbers of
    judged matches where they are known.

    `clusters_NN`: prompts of the matches; where they are known, of few players also win rates with
    intervals.
    """
    n = len(players)
    if n == 0 or not np.isfinite(payoff_NN).any():
        return Section(
            "payoffs", "Who beats whom", reason="no two players have met in judged matches"
        )
    figure = payoff_map(
        "Pay-off of the row's player against the column's",
        (players, players),
        payoff_NN,
        se_NN,
        count_NN,
        "what this player gets",
    )
    lead = (
        "Each cell is the mean pay-off of the row's player when it meets the column's, "
        "± one standard error."
    )
    if se_NN is None or clusters_NN is None or n > MOST_TABLED:
        return Section("payoffs", "Who beats whom", (figure,), lead)
    lead += (
        " Beneath are win rates, (1 + pay-off)/2, with 95 % intervals that hold for all pairs at "
        "once."
    )
    rates = win_rates(payoff_NN, se_NN, clusters_NN)
    rows = []
    for i, player in enumerate(players):
        cells = [rates[i, j].percent() if (i, j) in rates else "" for j in range(n)]
        rows.append((player, *cells))
    table = Table(("", *(f"over {player}" for player in players)), tuple(rows), "Win rates")
    return Section("payoffs", "Who beats whom", (figure, table), lead)


def payoff_map(
    title: str,
    names: tuple[Sequence[str], Sequence[str]],
    payoff_NM: np.ndarray,
    error_NM: np.ndarray | None,
    count_NM: np.ndarray | None = None,
    axis: str = "",
) -> Figure:
    """A heat map of pay-offs between rows and columns, each ± its error where that is known."""
    rows, columns = names
    unknown_NM = np.full(payoff_NM.shape, np.nan)
    error_NM = unknown_NM if error_NM is None else error_NM
    count_NM = unknown_NM if count_NM is None else count_NM
    places = [range(len(columns))] * len(rows)
    written = [
        [_cell(payoff_NM[i, j], error_NM[i, j]) for j in row] for i, row in enumerate(places)
    ]
    hover = [
        [
            f"{label(rows[i])} meets {label(columns[j])}<br>"
            f"<b>{written[i][j] or 'not played'}</b>{_matches(count_NM[i, j])}"
            for j in row
        ]
        for i, row in enumerate(places)
    ]
    return heat_map(title, rows, columns, payoff_NM, written, hover, (axis, "… meets"))


def _cell(value: float, error: float) -> str:
    if finite_or_none(value) is None:
        return ""
    mean = f"{value:+.2f}".replace("-", "−")
    if finite_or_none(error) is None or error == 0:  # of few that agree, no error is known
        return mean
    return f"{mean} ± {error:.2f}"


def _matches(count: float) -> str:
    return "" if finite_or_none(count) is None else f"<br>{int(count)} judged matches"


def equilibrium_section(
    curves: Sequence[Curves] = (),
    mixture: Mapping[str, float] | None = None,
    cycle_share: float | None = None,
    cyclic_triples: float | None = None,
) -> Section:
    """Curves of what can still beat the population, and the mixture that is hardest to beat.

    `cyclic_triples`: None also for a league of two, which has no triple.
    """
    blocks: list[Tiles | Figure] = []
    if finite_or_none(cycle_share) is not None:
        blocks.append(cycle_tiles(cycle_share, cyclic_triples))
    blocks += [group_figure(group) for group in curves if group.curves]
    if mixture:
        blocks.append(mixture_bars(mixture))
    if not blocks:
        return Section("equilibrium", "Equilibrium", reason="no pay-off table to solve")
    lead = (
        "Exploitability is what the best answer to the mixture gains over it; zero at "
        "a Nash equilibrium."
    )
    return Section("equilibrium", "Equilibrium", tuple(blocks), lead)


def cycle_tiles(cycle_share: float | None, cyclic_triples: float | None) -> Tiles:
    """Tiles on how far the league's pay-offs go round in circles."""
    tiles = [
        Tile(
            "cycle share",
            number(cycle_share, "%"),
            "how much of the pay-off no rating can explain: 0 a ladder, 100 % rock–paper–scissors",
        )
    ]
    if finite_or_none(cyclic_triples) is not None:
        note = "share of the triples in which each beats the next: 0 a ladder, coin flips 25 %"
        tiles.append(Tile("cyclic triples", number(cyclic_triples, "%"), note))
    return Tiles(tuple(tiles))


def mixture_bars(mixture: Mapping[str, float]) -> Figure:
    """Bars of the equilibrium's weights."""
    note = (
        "the weights at which no member of the population does better against the "
        "mixture than the mixture itself"
    )
    weights = list(mixture.items())
    if len(weights) > MOST_BARS:
        large = [(name, weight) for name, weight in weights if weight >= LEAST]
        left_out = len(weights) - len(large)
        note += f"; {left_out} members with less than {number(LEAST, '%')} are left out"
        weights = large
    return bars("Equilibrium mixture", weights, note)


def ratings_section(ratings: Sequence[Rating], unit: str = "", caution: str = "") -> Section:
    """One number a player; `caution` is what to say where ratings mislead."""
    if not ratings:
        return Section("ratings", "Ratings", reason="no duels to rate")
    figure = dots("Rating with 95 % interval", ratings, unit)
    lead = (
        "A rating puts everyone on one ladder; where preferences cycle, read the "
        "pay-off table instead."
    )
    return Section("ratings", "Ratings", (figure,), lead + caution)


def caution(cyclic_warning: str) -> str:
    """A sentence to put beside ratings where the league's pay-offs go round in circles."""
    if not cyclic_warning:
        return ""
    return f" Beware: {cyclic_warning}; read who beats whom instead."


def training_ratings_section(curves: Sequence[Curve], unit: str = "", caution: str = "") -> Section:
    """Every player's rating after each generation's matches; `caution` is what to say where ratings
    mislead.
    """
    title = "Ratings in training"
    if not curves:
        return Section("standing", title, reason="no rating of the training matches is recorded")
    figure = lines_figure("Rating after the matches of each generation", curves, "generation", unit)
    lead = (
        f"How the players compare in training, by {unit or 'rating'} with 95 % "
        "intervals. Ratings of different generations compare players with one "
        f"another, not a player with its own past.{caution}"
    )
    return Section("standing", title, (figure,), lead)


def standing_against_score_section(
    clouds: Sequence[Curve],
    correlations: Sequence[tuple[int, int, float | None]],
    unit: str = "",
    score_unit: str = "",
) -> Section:
    """Ratings in training against held-out scores, by which the rating that weighs judges and
    chooses opponents can be checked (SPARTA, arXiv 2506.04721, Fig. 5).

    clouds: a player's ratings over its scores, generation by generation. correlations: (generation,
    players, Spearman's ρ between them, None where it is not defined).
    """
    title = f"{(unit or 'rating').capitalize()} against performance"
    if not clouds:
        return Section(
            "standing-score", title, reason="no generation has both ratings and held-out scores"
        )
    axis = unit or "rating"
    figure = scatter_figure(
        f"{axis.capitalize()} and held-out score", clouds, "held-out score", axis, score_unit
    )
    rows = tuple(
        (number(t), number(n), number(rho, digits=2), f"±{min(1.0, 1.96 / (n - 1) ** 0.5):.2f}")
        for t, n, rho in correlations
        if n > 1
    )
    table = Table(("generation", "players", "rank correlation", "by chance, 95 %"), rows)
    lead = (
        "A point is a player in one generation: its score on held-out prompts, and its "
        f"{axis} after that generation's matches. The correlation is Spearman's, between the "
        "players of one generation."
    )
    return Section("standing-score", title, (figure, table), lead)


def match_ups_section(table: PayoffTable | None, judge: str, sample: SampleSize) -> Section:
    """Training matches between each two players, and who won, by the scores of `judge`."""
    if table is None:
        return Section(
            "match-ups", "Match-ups", reason="no two players have met in training matches"
        )
    n = len(table.players)
    met_NN = table.count_NN + table.unjudged_NN
    written = [
        [
            "" if i == j else _match_up(float(table.payoff_NN[i, j]), int(met_NN[i, j]))
            for j in range(n)
        ]
        for i in range(n)
    ]
    hover = [[_hover(table, i, j, int(met_NN[i, j])) for j in range(n)] for i in range(n)]
    value_NN = np.where(np.eye(n, dtype=bool), np.nan, table.payoff_NN)
    figure = heat_map(
        "Pay-off in training (matches)",
        table.players,
        table.players,
        value_NN,
        written,
        hover,
        ("what this player got", "… from meeting"),
    )
    lead = (
        "Over all generations: +1 for a win, 0 for a tie, −1 for a loss, by the scores "
        f"of judge {judge}; in parentheses in how many matches the two met. Matches of "
        f"a player with itself are left out.{sample.note()}"
    )
    return Section("match-ups", "Match-ups", (figure,), lead)


def _hover(table: PayoffTable, i: int, j: int, met: int) -> str:
    row, column = table.players[i], table.players[j]
    payoff = _payoff(table.payoff_NN[i, j], table.se_NN[i, j])
    unjudged = number(int(table.unjudged_NN[i, j]))
    return (
        f"{label(row)} met {label(column)}<br>{payoff}"
        f"<br>in {number(met)} matches, {unjudged} of them not judged"
    )


def _payoff(value: float, se: float) -> str:
    if finite_or_none(value) is None:
        return "<b>no judged meeting</b>"
    error = "" if finite_or_none(se) is None else f" ± {se:.2f}"
    return f"<b>{_signed(value)}</b>{error}"


def _match_up(value: float, met: int) -> str:
    return f"{_signed(value)} ({met:,})" if met else ""


def _signed(value: float) -> str:
    return "–" if finite_or_none(value) is None else f"{value:+.2f}".replace("-", "−")
