"""What an evaluation measures: a typed record a generation, and how a run's records are read,
compared and shown.

A measurement is recorded as the facts of the run's stage `measure`, field by field. Fields that
hold their default value are not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from equipoise.errors import RunError
from equipoise.games.base import Game
from equipoise.payoffs.intervals import Interval
from equipoise.report.learning_sections import learning_section
from equipoise.report.recorded_sections import MatchCard
from equipoise.report.section import Change, Curve, Curves, Headline, Section, shown
from equipoise.types import Judgement, Match, PlayerId, Prompt

Record = TypeVar("Record", bound=msgspec.Struct)


def read_record(kind: type[Record], facts: Mapping[str, Any], what: str) -> Record:
    """The record of this kind from the JSON of its stage; `what` names it in a message.

    Raises RunError for one that this version cannot read.
    """
    try:
        return msgspec.convert(facts, kind)
    except msgspec.ValidationError as error:
        raise RunError(
            f"{what} cannot be read as {kind.__name__} ({error}); it was recorded by "
            "another version of equipoise or of the evaluation: read the run with that "
            "one"
        ) from None


MANY = 3  # learners, above which the headlines sum up


class Estimate(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval, as it is recorded: None for what is not known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, interval: Interval) -> Estimate:
        """The interval for the record."""
        return cls(
            _finite(interval.mean), _finite(interval.low), _finite(interval.high), interval.n
        )

    @property
    def interval(self) -> Interval:
        """The interval to compute with: NaN for what is not known."""
        mean, low, high = (
            math.nan if value is None else value for value in (self.mean, self.low, self.high)
        )
        return Interval(mean, low, high, self.n)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def recorded() -> Any:
    """A field of `Measures` declared anew: it has no default value, so that it is always recorded,
    even where it is None or empty.
    """
    return msgspec.field()


class Measures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers about one generation. An evaluation derives its own record from this one.

    A subclass that records one of these fields even where it is None or empty declares it anew:
    `scores: dict[str, Estimate] = recorded()`. The class methods see the whole history, which may
    be empty; a subclass takes it as `History[Self]`.

    What the run itself reads, of whatever evaluation: `ages` (learner -> its own generation; the
    run fills it in), `scores` (player -> its mean held-out score), the watched numbers `score`,
    `best_score`, `win_rate` and `exploitability`, and of the league of all `players` its `payoff`
    table [N, N], the share of its `cyclic_triples`, and its equilibrium `mixture`; where each role
    has a league of its own, `role_mixtures`: role -> its mixture.
    """

    payoff_name: ClassVar[str] = ""
    """What `gets` is called where it is no plain pay-off, such as attack success."""
    card_note: ClassVar[str] = ""
    """What to say above the matches that `card` shows."""

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

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """The record from the JSON of its stage.

        Raises RunError for one that this version cannot read.
        """
        return read_record(cls, facts, "a measurement")

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
        return self.numbers() | means

    def check_beside(self, run: str) -> None:
        """Raises RunError unless the page of a run can show this measurement of another one, named
        `run`, beside its own.
        """
        raise RunError(
            f"{run}: what it measured has no place on another run's page; only runs "
            "of an evaluation that compares runs can be drawn beside each other"
        )

    def gets(self, player: str, other: str) -> Estimate | None:
        """What `player` gets when it meets `other`; None where that was not measured."""
        return None

    @classmethod
    def headlines(cls, history: History[Any]) -> Iterable[Headline]:
        """The numbers that matter, the newest generation against the first."""
        return score_headlines(history)

    @classmethod
    def changes(cls, history: History[Any]) -> Iterable[Change]:
        """What was measured of the first generation and of the newest."""
        return score_changes(history)

    @classmethod
    def sections(cls, history: History[Any], records: Records) -> Iterable[Section]:
        """The sections of the report on what was measured."""
        yield learning_section(score_curves(history), alone=len(history.learners) == 1)

    @classmethod
    def warnings(cls, history: History[Any], records: Records) -> Iterable[str]:
        """What a reader of the page must be told first."""
        return ()

    @classmethod
    def card(
        cls, match: Match, prompt: Prompt, judgements: Sequence[Judgement], history: History[Any]
    ) -> MatchCard | None:
        """How the match browser shows a match; None: like any other match.

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

    def of(self, estimates: Mapping[str, Estimate], name: str) -> Interval | None:
        """The player's own of `estimates` (player -> estimate); None where it has none."""
        estimate = estimates.get(str(self.player(name)))
        return None if estimate is None else estimate.interval


@dataclass(frozen=True, slots=True)
class History(Generic[M]):
    """Everything that was measured of a run, oldest first, and what of its configuration is needed
    to show it.

    `judge` is the name of the judge whose scores are measured; `rating_unit` is what the league is
    rated in; `roles` says which player plays a role, where the schedule does; `beside` are
    measurements of other runs to be shown beside this one's, by their titles.
    """

    learners: tuple[str, ...]
    measurements: tuple[Measurement[M], ...]
    game: Game
    judge: str = ""
    utility: str = "score"
    rating_unit: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Measurement[M]] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[Measurement[M], Measurement[M]] | None:
        """The oldest and the newest measurement; None before there is one."""
        if not self.measurements:
            return None
        return self.measurements[0], self.measurements[-1]

    @property
    def last(self) -> Measurement[M] | None:
        """The newest measurement; None before there is one."""
        return self.measurements[-1] if self.measurements else None


def score_changes(history: History[M]) -> list[Change]:
    """The held-out score of every learner, at the start and now."""
    if history.ends is None:
        return []
    first, last = history.ends
    changes = []
    for name in history.learners:
        before = first.of(first.measures.scores, name)
        after = last.of(last.measures.scores, name)
        if before is None or after is None:
            continue
        bounds = (before.low, before.high, after.low, after.high)
        unit = "%" if all(0 <= bound <= 1 for bound in bounds) else ""
        whose = f" of {name}" if len(history.learners) > 1 else ""
        changes.append(Change(f"held-out score{whose}", before, after, unit))
    return changes


def score_headlines(history: History[M]) -> list[Headline]:
    """The held-out score of every learner; of many learners the best and the mean."""
    if len(history.learners) > MANY:
        lines = [best_score(history), mean_score(history)]
    else:
        lines = [score_headline(history, name) for name in history.learners]
    return [line for line in lines if line is not None]


def score_headline(history: History[M], name: str) -> Headline | None:
    """The held-out score of one learner, now and at the start."""
    if history.ends is None:
        return None
    first, last = history.ends
    score = last.of(last.measures.scores, name)
    before = first.of(first.measures.scores, name)
    if score is None or before is None:
        return None
    return Headline(
        f"held-out score of {last.player(name)}",
        shown(score),
        f"{first.player(name)}: {shown(before)}",
    )


def best_score(history: History[M]) -> Headline | None:
    """The learner with the best held-out score, now and at the start."""
    if history.ends is None:
        return None
    first, last = history.ends
    scores = {name: last.of(last.measures.scores, name) for name in history.learners}
    known = {name: score for name, score in scores.items() if score is not None}
    if not known:
        return None
    best = max(known, key=lambda name: known[name].mean)
    before = first.of(first.measures.scores, best)
    note = "" if before is None else f"{first.player(best)}: {shown(before)}"
    return Headline(f"best held-out score, {last.player(best)}", shown(known[best]), note)


def mean_score(history: History[M]) -> Headline | None:
    """The mean held-out score of all learners, now and at the start."""
    if history.ends is None:
        return None
    first, last = history.ends
    before = means(first, first.measures.scores, history.learners)
    after = means(last, last.measures.scores, history.learners)
    if not after:
        return None
    shares = all(0 <= mean <= 1 for mean in (*before, *after))
    start = f"; at the start {mean_text(before, shares)}" if before else ""
    note = f"of {len(after)} learners{start}"
    return Headline("mean held-out score", mean_text(after, shares), note)


def means(
    measurement: Measurement[M], estimates: Mapping[str, Estimate], learners: Sequence[str]
) -> list[float]:
    """The means of those learners that have one among `estimates`."""
    intervals = (measurement.of(estimates, name) for name in learners)
    return [interval.mean for interval in intervals if interval is not None]


def mean_text(values: Sequence[float], shares: bool) -> str:
    """The mean of `values` to read, in percent where they are shares."""
    mean = math.fsum(values) / len(values)
    return f"{100 * mean:.1f} %" if shares else f"{mean:.4g}"


def score_curves(history: History[M]) -> list[Curves]:
    """Every learner's held-out score over the generations, in one group."""
    scores = [measurement.measures.scores for measurement in history.measurements]
    return estimate_curves(history, scores, "held-out score")


def estimate_curves(
    history: History[M], estimates: Sequence[Mapping[str, Estimate]], title: str
) -> list[Curves]:
    """A curve for every learner of what each measurement says of it, `estimates` having an entry
    for each measurement; no group where there is nothing.
    """
    points: dict[str, list[tuple[float, Interval]]] = {}
    for measurement, by_player in zip(history.measurements, estimates, strict=True):
        for name in history.learners:
            interval = measurement.of(by_player, name)
            if interval is not None:
                point = (float(measurement.generation), interval)
                points.setdefault(name, []).append(point)
    if not points:
        return []
    every = [interval.mean for line in points.values() for _, interval in line]
    unit = "%" if all(0 <= mean <= 1 for mean in every) else ""
    curves = [
        interval_curve(name, unit, points[name]) for name in history.learners if name in points
    ]
    return [Curves(title, unit, tuple(curves))]


def interval_curve(
    name: str, unit: str, points: Sequence[tuple[float, Interval]], note: str = ""
) -> Curve:
    """A curve through (generation, interval)."""
    intervals = [interval for _, interval in points]
    return Curve(
        name,
        unit,
        tuple(generation for generation, _ in points),
        tuple(interval.mean for interval in intervals),
        tuple(interval.low for interval in intervals),
        tuple(interval.high for interval in intervals),
        note,
    )


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
        """How many matches of the run each of these stands for."""
        return self.total / len(self.matches) if self.matches else 1.0


@dataclass(frozen=True, slots=True)
class Records:
    """The run's finished stages in order, a sample of its matches, and their prompts by id."""

    stages: Sequence[StageRecord] = ()
    sample: Sample = field(default_factory=Sample)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
