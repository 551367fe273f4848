"""The report's section on people: how they rank the players, and who agrees with them."""

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.payoffs.intervals import Interval
from equipoise.ratings.base import Rating
from equipoise.report.section import Section, Table, Tile, Tiles, number

MOST_REASONS = 12  # of people's, the newest, that are shown


class JudgeRow(NamedTuple):
    """A judge beside people: the `pairs` in which both preferred an answer, the share of them in
    which it was the same one, the rank correlation, and how a point of the judge's lead changes the
    odds that people prefer an answer.
    """

    judge: str
    pairs: int
    same_winner: Interval | None
    spearman: float | None
    slope: Interval | None
    log_loss: float | None


class ReasonRow(NamedTuple):
    """A vote with its reason: the voter, the players compared, and why."""

    voter: str
    choice: str
    reason: str


def people_section(
    votes: int,
    voters: Sequence[tuple[str, int]],
    ratings: Sequence[Rating],
    judges: Sequence[JudgeRow],
    alpha: float | None,
    left_preferred: float | None,
    both_bad: float,
    reasons: Sequence[ReasonRow],
) -> Section:
    """People's votes on the players' answers, and how far the judges agree with them.

    Args: voters: (name, votes); alpha: Krippendorff's, of people on the same answers;
    left_preferred: share of decided votes for the answer on the left.
    """
    tiles = Tiles(
        (
            Tile("votes", number(votes)),
            Tile("people", number(len(voters))),
            Tile(
                "agreement among people",
                number(alpha, digits=2),
                "Krippendorff's alpha: 1 agree, 0 as by chance",
            ),
            Tile("left preferred", number(left_preferred, "%"), "half is no bias"),
            Tile("both bad", number(both_bad, "%"), "of the votes"),
        )
    )
    blocks: list[Tiles | Table] = [tiles]
    if ratings:
        rows = tuple(_rating_row(rating) for rating in ratings)
        columns = ("player", "rating", "95 % interval")
        blocks.append(Table(columns, rows, "Players, as people rank them"))
    if judges:
        blocks.append(_judges(judges))
    by_name = tuple((name, number(count)) for name, count in voters)
    blocks.append(Table(("voter", "votes"), by_name, "Who voted"))
    if reasons:
        columns = ("voter", "preferred", "reason")
        blocks.append(Table(columns, tuple(reasons), "Why, the newest first", True))
    lead = (
        "People saw two answers to a prompt without knowing whose they were. Bradley–"
        "Terry ratings; a tie, and two bad answers, are half a win of each."
    )
    return Section("people", "People", tuple(blocks), lead)


def _rating_row(rating: Rating) -> tuple[str, str, str]:
    interval = f"{rating.low:.0f} to {rating.high:.0f}"
    return rating.name, f"{rating.value:.0f}", interval


def _judges(judges: Sequence[JudgeRow]) -> Table:
    columns = (
        "judge",
        "pairs both decided",
        "same winner as people",
        "rank correlation",
        "log odds a point of lead",
        "log loss (coin: 0.693)",
    )
    rows = tuple(
        (
            row.judge,
            number(row.pairs),
            "–" if row.same_winner is None else row.same_winner.percent(),
            number(row.spearman, digits=2),
            "–" if row.slope is None else str(row.slope),
            number(row.log_loss, digits=3),
        )
        for row in judges
    )
    return Table(columns, rows, "Judges beside people")
