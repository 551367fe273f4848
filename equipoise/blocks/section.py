"""The parts of a report's section: tiles, figures, tables, curves, match cards and plain text.

A section with a `reason` and no blocks is named at the end of the page as left out, and why. Text
goes into blocks as it is; the page escapes it. Only what goes into a figure's own labels must pass
through `label`, because a figure reads bold and line breaks there.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from equipoise.errors import clean
from equipoise.payoffs.intervals import Interval


def label(text: object, limit: int = 48) -> str:
    """`text` for a figure's label or hover: one line, its middle cut beyond `limit`, no markup for
    the figure.
    """
    line = " ".join(clean(str(text)).split())
    if len(line) > limit:
        line = f"{line[: limit - 16]}…{line[-15:]}"  # the end is kept: there stands the generation
    return html.escape(line, quote=False).replace("$", "&#36;")


def finite_or_none(value: float | None) -> float | None:
    """The number for JSON, None when it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def number(value: float | None, unit: str = "", digits: int | None = None) -> str:
    """A number to read, four figures of it unless `digits` says how many decimals; `–` when
    missing.

    Unit "%" takes a share.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "%":
        return f"{100 * value:.1f} %"
    if digits is None and (isinstance(value, Integral) or abs(value) >= 1000):
        digits = 0
    text = f"{value:.4g}" if digits is None else f"{value:,.{digits}f}"
    return f"{text} {unit}".rstrip()


def interval_text(interval: Interval | None) -> str:
    """The interval to read: in percent where it can be a share."""
    if interval is None:
        return "–"
    is_share = interval.low >= 0 and interval.high <= 1
    return interval.percent() if is_share else str(interval)


@dataclass(frozen=True, slots=True)
class Tile:
    """One big number with a label and a note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A row of big numbers."""

    kind: ClassVar[str] = "tiles"
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text. Columns after the first are aligned right unless `prose`."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as plain data in plotly's words, with a table of its numbers.

    Colours are theme tokens: "@blue", "@ink" …, "@blue/0.2" with opacity; the page fills them in
    for light and dark. `wide` gives it the page's whole width.
    """

    kind: ClassVar[str] = "figure"
    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    note: str = ""
    height: int = 300
    wide: bool = False
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """Matches to browse; `total` is how many the run holds, of which `rows` are a sample.

    `folded` is what stands in their place until a reader asks for them; `source` says what they are
    a choice of; `by` is what their badges tell, where not the run's parts.
    """

    kind: ClassVar[str] = "cards"
    rows: Sequence[Mapping[str, Any]]
    total: int
    folded: str = ""
    source: str = ""
    by: str = "Split"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text shown as it is, folded under `title`."""

    kind: ClassVar[str] = "verbatim"
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of the page; `name` is its anchor.

    Without blocks, `reason` says why it is left out.
    """

    name: str
    title: str
    blocks: tuple[Tiles | Table | Figure | Cards | Verbatim, ...] = ()
    lead: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """One number that matters, ready to read: `held-out score`, `86.1 % (83.0 to
    88.9)`, `from 52.3 % at the start`.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure before and after, None or NaN where unknown; `unit` "%" for shares."""

    name: str
    before: Interval | None
    after: Interval | None
    unit: str = "%"
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Curve:
    """A measure over generations.

    `low` and `high` are empty where there is no interval; NaN leaves a gap.
    """

    name: str
    unit: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curves:
    """The same measure of several players, a curve each."""

    name: str
    unit: str
    curves: tuple[Curve, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A measure over optimizer steps; `boundaries` are the steps at which a generation's training
    began, in order.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    boundaries: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleSize:
    """The number of matches `read` of the `total` that a run holds."""

    read: int = 0
    total: int = 0

    @property
    def is_partial(self) -> bool:
        """True if some matches were not read."""
        return self.read < self.total

    def note(self) -> str:
        """A note beside numbers of the sample; empty where it is the whole run."""
        if not self.is_partial:
            return ""
        return f" From a random sample of {self.read:,} of the run's {self.total:,} matches."
