"""The numbers that matter of an assistant, at the start and now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from equipoise.environments.assistance.measure_readers import Reader, exact, interval_text, known
from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.evaluation.measures import History
from equipoise.payoffs.intervals import Interval
from equipoise.report.section import Change, Headline


@dataclass(frozen=True, slots=True)
class ShownMeasure:
    """A number of a measurement with its title; unit "%" for shares."""

    title: str
    unit: str
    higher_is_better: bool
    read: Reader


def tokens(record: AssistanceRecord) -> Interval | None:
    """Tokens of an answer."""
    return exact(record.length.tokens, len(record.points))


def quality_per_token(record: AssistanceRecord) -> Interval | None:
    """Quality to the model for a thousand tokens."""
    return exact(record.length.quality_per_1000_tokens, len(record.points))


def response_share(record: AssistanceRecord) -> Interval | None:
    """The response's share of an answer's characters."""
    return exact(record.length.response_share, len(record.points))


MEASURES = (
    ShownMeasure("welfare", "", True, lambda record: known(record.welfare)),
    ShownMeasure("utility to the user", "", True, lambda record: known(record.utilities.user)),
    ShownMeasure("utility to the model", "", True, lambda record: known(record.utilities.llm)),
    ShownMeasure("right moves", "%", True, lambda record: known(record.right)),
    ShownMeasure("well-formed answers", "%", True, lambda record: known(record.rates.format)),
    ShownMeasure("tokens of an answer", "", False, tokens),
    ShownMeasure("answer score per 1000 tokens", "", True, quality_per_token),
    ShownMeasure("response's share of the answer", "%", True, response_share),
)


def changes(history: History[AssistanceRecord]) -> Iterator[Change]:
    """Every measure that is known now, at the start and now."""
    if not history.measurements:
        return
    first = history.measurements[0].measures
    last = history.measurements[-1].measures
    for measure in MEASURES:
        after = measure.read(last)
        if after is not None:
            yield Change(
                measure.title, measure.read(first), after, measure.unit, measure.higher_is_better
            )


def headlines(history: History[AssistanceRecord]) -> Iterator[Headline]:
    """The same, ready to read."""
    for change in changes(history):
        assert change.after is not None
        note = ""
        if change.before is not None:
            note = f"{interval_text(change.before, change.unit)} at the start"
        yield Headline(change.name, interval_text(change.after, change.unit), note)
