"""The records of a benchmark: what is asked, what was answered, what it scored, and the result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import msgspec

from equipoise.answer import answer_of, public_move
from equipoise.ledger.facts import Estimate, read_record
from equipoise.payoffs.intervals import mean_interval, paired_difference
from equipoise.types import Message, Move, Prompt, View, record_id

ASKING = {"model", "models", "judges"}  # settings of judges that ask models


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question of a set.

    `id` is the item's name in its data. `prompt` is the chat, with what judges and rules may know
    in `prompt.facts`. `turns` are further messages of the user, each asked after the answer before
    it. Where there are `choices`, nothing is sampled: the log-probability of each choice after the
    prompt is asked for; where they are `ended`, the end of the player's turn belongs to each.
    `reference` is the answer, one a turn, that a comparing judge sets beside the player's. `group`
    is the part of the set that has a mean of its own, such as a subject.
    """

    id: str
    prompt: Prompt
    turns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    ended: bool = False
    reference: tuple[str, ...] = ()
    group: str = ""

    @property
    def continuations(self) -> list[Continuation]:
        """The texts whose likelihood is asked for, a choice each."""
        chat = self.prompt.messages
        return [Continuation(chat, choice, self.ended) for choice in self.choices]


class Continuation(msgspec.Struct, frozen=True):
    """A text after a chat; `ended`: with the end of the turn."""

    messages: tuple[Message, ...]
    text: str
    ended: bool = False

    @property
    def key(self) -> str:
        """Its name in the ledger."""
        parts = [part for m in self.messages for part in (m.role, m.content)]
        ending = ("ended",) if self.ended else ()
        return record_id("choice", False, *parts, self.text, *ending)


class Likelihood(msgspec.Struct, frozen=True):
    """log p(choice | prompt) in nats, and the choice's tokens."""

    logprob: float
    tokens: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A player's answer to an item: a move for each turn, with what it saw, or the likelihood of
    each choice.
    """

    item: str
    sample: int = 0
    moves: tuple[Move, ...] = ()
    views: tuple[View, ...] = ()
    likelihoods: tuple[Likelihood, ...] = ()

    @property
    def text(self) -> str:
        """The last answer without its thoughts; "" where nothing was sampled."""
        return answer_of(self.moves[-1]).text if self.moves else ""

    @property
    def error(self) -> str:
        """The reason why there is no answer; "" where there is one."""
        for move in map(public_move, self.moves):
            if move.finish == "error":
                return move.error
        return ""


Items: TypeAlias = Sequence[Item]
Answers: TypeAlias = Mapping[str, Sequence[Answer]]
"""Item's id -> its answers, a sample each."""


class JudgeQuestion(msgspec.Struct, frozen=True):
    """A question to a judge: the chat as a prompt, the player's answer to it, and the text beside
    it where the judge compares; `other_error`: why there is none.
    """

    item: str
    sample: int
    turn: int
    prompt: Prompt
    answer: Move
    other: str | None = None
    other_error: str = ""


class Judged(msgspec.Struct, frozen=True):
    """The judge's verdict: its utilities of the player's answer (of a comparison, `score` is the
    probability that it beats the other), or None and the reason.
    """

    question: JudgeQuestion
    utilities: dict[str, float] | None
    reason: str = ""

    @property
    def score(self) -> float | None:
        """The utility `score`, None where there is none."""
        return (self.utilities or {}).get("score")

    def row(
        self,
        metric: str,
        value: float | None,
        groups: Mapping[str, str],
        silent: str = "no score",
        **facts: Any,
    ) -> ItemScores:
        """The answer's values with this one of `metric`; where it is None, the judge's reason, or
        `silent`. `groups`: item -> its group.
        """
        question = self.question
        return ItemScores(
            item=question.item,
            sample=question.sample,
            values={metric: value},
            group=groups[question.item],
            reason="" if value is not None else self.reason or silent,
            facts=facts,
        )


class ItemScores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of one answer by metric; None where it could not be scored, and why.

    `counts` says how many values a metric's value is the mean of, where it is more than one: it
    then counts as many times. `facts` are what a set's own summary needs beside the values, such as
    lengths.
    """

    item: str
    sample: int = 0
    values: dict[str, float | None]
    group: str = ""
    reason: str = ""
    counts: dict[str, int] = {}
    facts: dict[str, Any] = {}


class BenchmarkResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A player's scores on a set.

    `name` is what the run calls the set, `benchmark` its kind or a harness's task. `player` is
    `name@generation`. `source` names what measured it, with its version: this package, or a harness
    whose scores were imported. `metrics` are means over the scored answers of `n` items, `headline`
    the one that stands for them; `unscored` answers of `answers` count nowhere. `groups` are means
    of the set's parts. `key` is a hash of the settings and of the items: equal keys are comparable
    item by item. `no_shares` are metrics that have a unit of their own wherever they lie.
    """

    name: str = ""
    benchmark: str
    player: str = ""
    source: str = ""
    part: str = "test"
    headline: str
    metrics: dict[str, Estimate]
    n: int
    answers: int = 0
    unscored: int = 0
    groups: dict[str, dict[str, Estimate]] = {}
    lower_is_better: tuple[str, ...] = ()
    judge: str = ""
    reasons: dict[str, int] = {}
    settings: dict[str, Any] = {}
    note: str = ""
    key: str = ""
    no_shares: tuple[str, ...] = ()

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> BenchmarkResult:
        """The record from the JSON of its stage.

        Raises RunError for one that this version cannot read.
        """
        return read_record(cls, facts, "a benchmark's result")

    def facts(self) -> dict[str, Any]:
        """Plain JSON values for the stage's record."""
        return msgspec.to_builtins(self)

    @property
    def score(self) -> Estimate:
        """The headline metric; unknown where no answer could be scored."""
        return self.metrics.get(self.headline, Estimate(None, None, None, 0))

    @property
    def asks_a_model(self) -> bool:
        """True if a model judged, and no rule."""
        judge = self.settings.get("judge")
        return isinstance(judge, dict) and bool(ASKING & judge.keys())

    def unit(self, metric: str) -> str:
        """ "%" for a share whose interval lies in [0, 1], else ""."""
        return "" if metric in self.no_shares else unit_of(self.metrics[metric])

    def rows(self) -> Iterator[tuple[str, str]]:
        """(metric, what to show of it), the headline first."""
        names = sorted(self.metrics, key=lambda name: name != self.headline)
        for name in names:
            yield name, self.metrics[name].interval.text(self.unit(name))


def unit_of(estimate: Estimate) -> str:
    """ "%" for an estimate whose known bounds lie in [0, 1], else ""."""
    bounds = (estimate.mean, estimate.low, estimate.high)
    shares = all(0 <= bound <= 1 for bound in bounds if bound is not None)
    return "%" if shares and estimate.mean is not None else ""


class AgainstStart(NamedTuple):
    """A result, that of the same player's generation 0 (None for this one itself, and where it was
    not measured on the same items), and by metric the paired difference between the two.
    """

    result: BenchmarkResult
    start: BenchmarkResult | None
    differences: dict[str, Estimate]


def metrics_of(scores: Sequence[ItemScores]) -> list[str]:
    """The names of all metrics, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in scores for name in row.values))


def estimate(scores: Sequence[ItemScores], metric: str) -> Estimate:
    """The mean of a metric over the answers that have it, items counting as clusters.

    Values that all lie in [0, 1] are taken for shares, and so is the interval.
    """
    known = [
        (value, row.item)
        for row in scores
        if (value := row.values.get(metric)) is not None
        for _ in range(row.counts.get(metric, 1))
    ]
    values = [value for value, _ in known]
    return Estimate.of(mean_interval(values, [item for _, item in known]))


def group_means(
    scores: Sequence[ItemScores], metrics: Sequence[str]
) -> dict[str, dict[str, Estimate]]:
    """Group -> metric -> its mean; empty where the items have no groups."""
    rows: dict[str, list[ItemScores]] = defaultdict(list)
    for row in scores:
        if row.group:
            rows[row.group].append(row)
    return {
        group: {metric: estimate(of_group, metric) for metric in metrics}
        for group, of_group in sorted(rows.items())
    }


def paired_differences(
    scores: Sequence[ItemScores], others: Sequence[ItemScores]
) -> dict[str, Estimate]:
    """Metric -> the mean difference, `scores` less `others`, over the items that both have, with
    its interval over these items (`paired_difference`).

    An item's value is the mean over its scored answers; it counts as often as its answers' values
    do.
    """
    differences = {}
    for metric in metrics_of(scores):
        own = values_by_item(scores, metric)
        other = values_by_item(others, metric)
        both = [item for item in own if item in other]
        if not both:
            continue
        values = [own[item] - other[item] for item in both]
        counts = {row.item: row.counts.get(metric, 1) for row in scores}
        weights = [counts[item] for item in both]
        share = all(0 <= value <= 1 for item in both for value in (own[item], other[item]))
        differences[metric] = Estimate.of(paired_difference(values, weights, share=share))
    return differences


def values_by_item(scores: Sequence[ItemScores], metric: str) -> dict[str, float]:
    """Item -> the mean of a metric over its scored answers."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in scores:
        value = row.values.get(metric)
        if value is not None:
            values[row.item].append(value)
    return {item: fmean(of_item) for item, of_item in values.items()}
