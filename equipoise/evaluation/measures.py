"""Measurements: a typed record a generation, the quantities in it, and how they are compared and
shown.

A measurement is recorded as the facts of the run's stage `measure`, field by field. Fields that
hold their default value are not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import msgspec

from equipoise.blocks.learning_sections import learning_section
from equipoise.blocks.recorded_sections import MatchCard
from equipoise.blocks.section import Change, Curve, Curves, Headline, Section, Table, number
from equipoise.errors import RunError
from equipoise.games.base import Game
from equipoise.ledger.facts import Estimate, read_record
from equipoise.payoffs.intervals import Interval, difference
from equipoise.types import Judgement, Match, PlayerId, Prompt

Reading: TypeAlias = Estimate | Interval | float | None


def interval_of(reading: Reading) -> Interval | None:
    """A reading with its interval; a plain number has none. None for what is not known."""
    if isinstance(reading, Estimate):
        return reading.interval
    if reading is None or isinstance(reading, Interval):
        return reading
    return Interval(float(reading), math.nan, math.nan, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number that measurements report, declared once: its headline, its change, its curve, its
    cells in tables and its line in trackers are made of this row.

    `read` names a field of the measures, such as "rates.format", or takes the value from them: a
    number, an `Estimate` or an `Interval`, or a mapping from players to such, of which each
    learner's own is shown; where the newest measurement knows older generations too, they are shown
    as it knows them. None is what is not known. `unit` "%" is for shares in [0, 1]; None: "%" where
    all values are such shares.

    `label` is the headline's, in which {title}, {name} (of a learner), {player} (the learner as old
    as it is) and {start} are filled in. `note` stands under headline and curve. `digits` are the
    decimals of a number without an interval. Of more than `MANY` learners `of_many` are headlines:
    the largest (the best where no `label` says otherwise) and the mean. `short` heads a column or
    names a line among others; `key` names the line in trackers. `even` is the value of a comparison
    with the start that says that nothing changed. A headline that shows what that of the quantity
    with the title `same_as` shows is one with it.
    """

    title: str
    read: str | Callable[[Any], Reading | Mapping[str, Any]]
    unit: str | None = ""
    higher_is_better: bool = True
    label: str = ""
    note: str = ""
    digits: int | None = None
    of_many: tuple[Literal["largest", "mean"], ...] = ("largest", "mean")
    short: str = ""
    key: str = ""
    even: float | None = None
    same_as: str = ""
    has_headline: bool = True
    has_change: bool = True
    has_curve: bool = True

    def value(self, measures: Any) -> Reading | Mapping[str, Reading]:
        """The number in a record, or that of each player."""
        read = attrgetter(self.read) if isinstance(self.read, str) else self.read
        return read(measures)

    def values(self, history: History[Any]) -> list[dict[str, Interval]]:
        """Learner -> its value, for every measurement; a value of no learner has the name ""."""
        rows = [self.value(measurement.measures) for measurement in history.measurements]
        values = []
        for measurement, row in zip(history.measurements, rows, strict=True):
            if not isinstance(row, Mapping):
                interval = interval_of(row)
                is_known = interval is not None and not math.isnan(interval.mean)
                readings = {"": interval} if is_known else {}
            else:
                newest = rows[-1] if isinstance(rows[-1], Mapping) else {}
                players = {name: str(measurement.player(name)) for name in history.learners}
                readings = {name: newest.get(p, row.get(p)) for name, p in players.items()}
            intervals = {name: interval_of(reading) for name, reading in readings.items()}
            values.append({name: known for name, known in intervals.items() if known is not None})
        return values

    def unit_of(self, values: Iterable[Mapping[str, Interval]]) -> str:
        """The unit of these values."""
        if self.unit is not None:
            return self.unit
        intervals = [interval for row in values for interval in row.values()]
        bounds = [bound for each in intervals for bound in (each.mean, each.low, each.high)]
        return "%" if all(0 <= bound <= 1 for bound in bounds if math.isfinite(bound)) else ""

    def text(self, interval: Interval, unit: str) -> str:
        """The value to read, with its interval where it has one, and it is not all one number."""
        if interval.low == interval.high == interval.mean == 0:  # a gain that nobody has
            return number(0.0, unit, self.digits)
        if interval.n or math.isfinite(interval.low):
            return interval.text(unit)
        return number(interval.mean, unit, self.digits)

    def cell(self, measures: Any, brief: bool = False) -> str:
        """The value in a table, `brief` without its interval; – where it is not known."""
        value = self.value(measures)
        assert not isinstance(value, Mapping), "a cell holds one number"
        interval = interval_of(value)
        if interval is None or brief:
            return number(interval and interval.mean, self.unit or "", self.digits)
        return self.text(interval, self.unit or "")

    def lines(self, measures: Measures, generation: int) -> Iterator[tuple[str, float]]:
        """(name, mean) for trackers, one for each player of this age."""
        key = self.key or self.title.replace(" ", "_")
        value = self.value(measures)
        for player, reading in (value if isinstance(value, Mapping) else {"": value}).items():
            name, _, age = player.partition("@")
            interval = interval_of(reading)
            if interval is not None and age in ("", str(measures.ages.get(name, generation))):
                yield f"{key}/{name}" if name else key, interval.mean


SCORE = Quantity(title="held-out score", read="scores", unit=None, key="score")


def no_default() -> Any:
    """A field of `Measures` declared anew, to be recorded even where it is None or empty."""
    return msgspec.field()


class Measures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers about one generation. An evaluation derives its own record from this one.

    A subclass that records one of these fields even where it is None or empty declares it anew:
    `scores: dict[str, Estimate] = no_default()`. The class methods see the whole history, which may
    be empty; a subclass takes it as `History[Self]`.

    What the run itself reads, of whatever evaluation: `ages` (learner -> its own generation; the
    run fills it in), `scores` (player -> its mean held-out score), the watched numbers `score`,
    `best_score`, `win_rate` and `exploitability`, and of the league of all `players` its `payoff`
    table [N, N], the share of its `cyclic_triples`, and its equilibrium `mixture`; where each role
    has a league of its own, `role_mixtures`: role -> its mixture. `added`: what the run's further
    `measures` say, name of the measure -> player -> number.
    """

    payoff_name: ClassVar[str] = ""
    """What `gets` is called where it is no plain pay-off, such as attack success."""
    card_note: ClassVar[str] = ""
    """What to say above the matches that `card` shows."""

    quantities: ClassVar[tuple[Quantity, ...]] = (SCORE,)
    """The numbers that are shown, a row each."""

    ages: dict[str, int] = {}
    players: list[str] = []
    scores: dict[str, Estimate] = {}
    score: float | None = None
    best_score: float | None = None
    win_rate: float | None = None
    exploitability: float | None = None
    payoff: list[list[float]] = []
    mixture: dict[str, float] = {}
    role_mixtures: dict[str, dict[str, float]] = {}
    cyclic_triples: float | None = None
    added: dict[str, dict[str, Estimate]] = {}

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """The record from the JSON of its stage.

        Raises RunError for one that this version cannot read.
        """
        return read_record(cls, facts, "a measurement")

    @classmethod
    def taken_names(cls) -> set[str]:
        """The names of its numbers on pages, in tables and in trackers, as trackers write them."""
        rows = [name for row in cls.quantities for name in (row.title, row.key) if name]
        names = ("generation", "player", "name", "judge", *cls.__struct_fields__, *rows)
        return {name.lower().replace(" ", "_") for name in names}

    def with_added(self, added: Mapping[str, Mapping[str, Estimate]]) -> Self:
        """The record with the numbers of further measures."""
        return msgspec.structs.replace(self, added={name: dict(row) for name, row in added.items()})

    def facts(self, ages: Mapping[str, int]) -> dict[str, Any]:
        """Plain JSON values for the stage's record, with the learners' ages."""
        return msgspec.to_builtins(msgspec.structs.replace(self, ages=dict(ages)))

    def numbers(self) -> dict[str, int | float]:
        """Every field that is a number, by its name."""
        values = msgspec.structs.asdict(self)
        return {name: value for name, value in values.items() if isinstance(value, int | float)}

    def watched(self) -> dict[str, float]:
        """The numbers to watch while a run is under way, as far as they are known."""
        names = ("win_rate", "exploitability", "score", "best_score")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def all_numbers(self) -> dict[str, int | float]:
        """Every field that is a number, and the mean of every field that was measured with an
        interval.
        """
        values = msgspec.structs.asdict(self)
        means = {
            name: value.mean
            for name, value in values.items()
            if isinstance(value, Estimate) and value.mean is not None
        }
        added = {
            f"{name}/{player}": estimate.mean
            for name, row in self.added.items()
            for player, estimate in row.items()
            if estimate.mean is not None
        }
        return self.numbers() | means | added

    def tracked(self, generation: int, added: Sequence[Quantity] = ()) -> dict[str, float]:
        """The lines for trackers: every quantity, the run's further measures `added` among them,
        and every field that is a number.
        """
        rows = [row.lines(self, generation) for row in (*self.quantities, *added)]
        return {name: value for row in rows for name, value in row} | self.numbers()

    def check_beside(self, run: str) -> None:
        """Raises RunError unless the page of a run can show this measurement of another one, named
        `run`, beside its own.
        """
        raise RunError(
            f"{run}: what it measured has no place on another run's page; only runs "
            "of an evaluation that compares runs can be drawn beside each other"
        )

    def gets(self, player: str, other: str) -> Estimate | None:
        """The pay-off of `player` when it meets `other`; None where that was not measured."""
        return None

    @classmethod
    def rows(cls, history: History[Any]) -> Sequence[Quantity]:
        """The quantities of this run, where more than the class has to be known."""
        return cls.quantities

    @classmethod
    def headlines(cls, history: History[Any]) -> Iterable[Headline]:
        """The numbers that matter, the newest generation against the first."""
        return headlines(history, cls.rows(history))

    @classmethod
    def changes(cls, history: History[Any]) -> Iterable[Change]:
        """Everything measured of the first generation and of the newest."""
        return changes(history, cls.rows(history))

    @classmethod
    def sections(cls, history: History[Any], records: Records) -> Iterable[Section]:
        """The sections of the report on what was measured."""
        yield measured_section(history, cls.rows(history))

    @classmethod
    def warnings(cls, history: History[Any], records: Records) -> Iterable[str]:
        """Warnings that a reader of the page must see first."""
        return ()

    @classmethod
    def card(
        cls, match: Match, prompt: Prompt, judgements: Sequence[Judgement], history: History[Any]
    ) -> MatchCard | None:
        """The card of a match in the match browser; None: like any other match.

        `judgements` are all of this match, that of the judge that matters first.
        """
        return None


M = TypeVar("M", bound=Measures, covariant=True)


@dataclass(frozen=True, slots=True)
class Measurement(Generic[M]):
    """The measures of one generation."""

    generation: int
    measures: M

    def player(self, name: str) -> PlayerId:
        """The player as old as it was when this was measured."""
        return PlayerId(name, self.measures.ages.get(name, self.generation))


@dataclass(frozen=True, slots=True)
class History(Generic[M]):
    """Everything that was measured of a run, oldest first, and what of its configuration is needed
    to show it.

    `learners` are the players that are measured, which `learn` or, where nobody does, only play;
    `judge` is the name of the judge whose scores are measured; `rating_unit` is what the league is
    rated in; `roles` says which player plays a role, where the schedule does; `beside` are
    measurements of other runs to be shown beside this one's, by their titles; `kind` is the
    record of a measurement, and `added` are the rows of the run's further measures.
    """

    learners: tuple[str, ...]
    measurements: tuple[Measurement[M], ...]
    game: Game
    judge: str = ""
    utility: str = "score"
    rating_unit: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Measurement[M]] = field(default_factory=dict)
    kind: type[Measures] = Measures
    added: tuple[Quantity, ...] = ()
    learn: bool = True

    def rows(self) -> list[Quantity]:
        """Every quantity of the run: those of its evaluation, then its further measures."""
        return [*self.kind.rows(self), *self.added]

    def headlines(self) -> list[Headline]:
        """The numbers that matter, the newest generation against the first."""
        return [*self.kind.headlines(self), *headlines(self, self.added)]

    def changes(self) -> list[Change]:
        """Everything measured of the first generation and of the newest."""
        return [*self.kind.changes(self), *changes(self, self.added)]

    def sections(self, records: Records) -> list[Section]:
        """The sections of the report on what was measured."""
        sections = list(self.kind.sections(self, records))
        if self.added:
            sections.insert(1, measured_section(self, self.added, "measures", "Further measures"))
        return sections

    @property
    def has_course(self) -> bool:
        """True where there is a course over generations to show: somebody learns, or several
        generations were measured.
        """
        return self.learn or len(self.measurements) > 1

    @property
    def ends(self) -> tuple[Measurement[M], ...]:
        """The oldest and the newest measurement, once where they are one; perhaps none."""
        return self.measurements[:1] + self.measurements[1:][-1:]

    @property
    def last(self) -> Measurement[M] | None:
        """The newest measurement; None before there is one."""
        return self.measurements[-1] if self.measurements else None


# -- a quantity shown


def measured_section(
    history: History[Any],
    quantities: Iterable[Quantity],
    anchor: str = "learning",
    title: str = "Learning",
) -> Section:
    """Figures of quantities over the generations; where nobody learns, a table of the players."""
    if history.has_course:
        groups = [curves(history, row) for row in quantities if row.has_curve]
        return learning_section(groups, anchor, title)
    title = "What was measured" if anchor == "learning" else title
    anchor = "measured" if anchor == "learning" else anchor
    if history.last is None:
        return Section(anchor, title, reason="nothing has been evaluated yet")
    if len(history.learners) <= MANY:
        return Section(anchor, title, reason="the headline has every player's numbers")
    columns: dict[str, dict[str, str]] = {}
    for quantity in quantities:
        values = quantity.values(history)[-1]
        unit = quantity.unit_of([values])
        if values and not quantity.same_as:
            columns[quantity.title] = {
                name: quantity.text(value, unit) for name, value in values.items()
            }
    rows = []
    for name in history.learners:
        cells = [column.get(name, "–") for column in columns.values()]
        rows.append((name, *cells))
    table = Table(("player", *columns), tuple(rows))
    return Section(anchor, title, (table,), "Each player's numbers, with 95 % intervals.")


MANY = 3  # learners, above which the headlines sum up
EXACTLY = 1e-9  # difference from which on exact numbers differ


def headlines(history: History[Any], quantities: Iterable[Quantity]) -> Iterator[Headline]:
    """The newest value of every quantity beside that at the start, for each learner that has one;
    of many learners a summary.
    """
    if not history.measurements:
        return
    first, last = history.measurements[0], history.measurements[-1]
    shown_rows = [quantity for quantity in quantities if quantity.has_headline]
    ends = replace(history, measurements=history.ends)
    newest = {quantity.title: quantity.values(ends)[-1] for quantity in shown_rows}
    for quantity in shown_rows:
        # a unit that is not declared depends on all values
        values = quantity.values(history if quantity.unit is None else ends)
        unit = quantity.unit_of(values)
        before, after = values[0], values[-1]
        if after == newest.get(quantity.same_as):
            continue
        also = [row.title for row in shown_rows if row.same_as == quantity.title]
        also = [title for title in also if newest[title] == after and len(after) <= MANY]
        default = "{title} of {player}" if "" not in after else "{title}"
        shown = after
        if len(after) > MANY:
            shown = _largest(quantity, after)
            default = "best {title}, {player}"
        for name, interval in shown.items():
            label = quantity.label or default
            player = str(last.player(name)) if history.learn else name
            start = first.player(name)
            notes = [quantity.note, *(f"the {title} is the same" for title in also)]
            if name in before and last is not first:
                text = quantity.text(before[name], unit)
                notes.append(f"{start}: {text}" if "{player}" in label else f"{text} at the start")
            label = label.format(title=quantity.title, name=name, player=player, start=start)
            yield Headline(label, quantity.text(interval, unit), "; ".join(filter(None, notes)))
        if len(after) > MANY and "mean" in quantity.of_many:
            yield _mean_headline(quantity, before, after, unit)


def _largest(quantity: Quantity, after: Mapping[str, Interval]) -> dict[str, Interval]:
    """The learner with the largest value, where `of_many` names it."""
    if "largest" not in quantity.of_many:
        return {}
    name = max(after, key=lambda name: after[name].mean)
    return {name: after[name]}


def _mean_headline(
    quantity: Quantity, before: Mapping[str, Interval], after: Mapping[str, Interval], unit: str
) -> Headline:
    now, start = (
        number(fmean(interval.mean for interval in values.values()), unit) if values else ""
        for values in (after, before)
    )
    notes = [f"of {len(after)} learners", f"at the start {start}" if start else ""]
    return Headline(f"mean {quantity.title}", now, "; ".join(filter(None, notes)))


def changes(history: History[Any], quantities: Iterable[Quantity]) -> Iterator[Change]:
    """Every quantity at the start and now, for each learner that has one."""
    for quantity in quantities:
        if history.last is None or not quantity.has_change:
            continue
        values = quantity.values(history)
        first, last = values[0], values[-1]
        unit = quantity.unit_of([first, last])
        for name, after in last.items():
            title = quantity.title if len(last) == 1 else f"{quantity.title} of {name}"
            yield Change(title, first.get(name), after, unit, quantity.higher_is_better)


def changes_told(history: History[Any], quantities: Iterable[Quantity]) -> list[bool]:
    """For each quantity of each learner, True if its change from the start is told from none.

    That is: the 95 % interval of the change leaves out 0. Numbers without intervals are looked at
    where there are no others, as in finite games, where any difference is a change.
    """
    sampled, exact = [], []
    for quantity in quantities:
        if len(history.measurements) < 2 or not (quantity.has_headline or quantity.has_change):
            continue
        first, *_, last = quantity.values(history)
        for name, after in last.items():
            even = quantity.even
            before = first.get(name) if even is None else Interval(even, even, even, after.n)
            if before is None:
                continue
            change = difference(before, after)
            if math.isfinite(change.high - change.low):
                sampled.append(change.low > 0 or change.high < 0)
            else:
                exact.append(abs(change.mean) > EXACTLY)
    return sampled or exact


def curves(
    history: History[Any],
    quantity: Quantity,
    *others: Quantity,
    title: str = "",
    unit: str | None = None,
    note: str = "",
) -> Curves:
    """Quantities over the generations, in one figure: a line for each, or for each learner.

    Under a `title` a line is called by its quantity's `short` name, in which {name} is filled in;
    without one the figure has the quantity's own, and lines are called by their learners. There may
    be no line.
    """
    lines = []
    for each in (quantity, *others):
        values = each.values(history)
        unit = each.unit_of(values) if unit is None else unit
        for name in dict.fromkeys(name for row in values for name in row):
            short = (each.short if title else "") or name
            points = [
                (float(measurement.generation), row[name])
                for measurement, row in zip(history.measurements, values, strict=True)
                if name in row
            ]
            lines.append(interval_curve(short.format(name=name), unit, points))
    return Curves(title or quantity.title, unit or "", tuple(lines), note or quantity.note)


def interval_curve(name: str, unit: str, points: Sequence[tuple[float, Interval]]) -> Curve:
    """A curve through (x, interval), with a band where one of them has a width."""
    x = tuple(at for at, _ in points)
    mean, low, high = (
        tuple(getattr(interval, part) for _, interval in points) for part in ("mean", "low", "high")
    )
    if not any(map(math.isfinite, low)):
        return Curve(name, unit, x, mean)
    return Curve(name, unit, x, mean, low, high)


# -- what else of a run measures may show


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A finished stage: its key, and what it recorded; `stage` is its kind: "episodes", "learn",
    "turn" …
    """

    key: str
    generation: int
    stage: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Matches drawn at random, with all judgements of them; `total` is how many matches the run
    holds.
    """

    matches: Sequence[Match] = ()
    judgements: Sequence[Judgement] = ()
    total: int = 0

    @property
    def scale(self) -> float:
        """The number of matches of the run that each of these stands for."""
        return self.total / len(self.matches) if self.matches else 1.0


@dataclass(frozen=True, slots=True)
class Records:
    """The run's finished stages in order, a sample of its matches, and their prompts by id."""

    stages: Sequence[StageRecord] = ()
    sample: Sample = field(default_factory=Sample)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
