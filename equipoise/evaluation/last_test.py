"""The last test: the criterion, the player chosen by it, and its scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from equipoise.blocks.section import Headline, Section, Table, Tile, Tiles, interval_text
from equipoise.ledger.facts import Estimate, read_record
from equipoise.payoffs.intervals import Interval
from equipoise.types import PlayerId


@dataclass(frozen=True)
class Criterion:
    """The scores by which a player is chosen, of those that may be chosen.

    `name` is the set that they are scores on; "" for the held-out score.
    """

    scores: Mapping[PlayerId, Interval]
    name: str = ""
    lower_is_better: bool = False

    def best(self, among: Iterable[PlayerId]) -> PlayerId:
        """The best of these players; ties go to the older generation, unknown scores last."""
        sign = -1 if self.lower_is_better else 1

        def rank(player: PlayerId) -> tuple[bool, float, int]:
            mean = self.scores[player].mean
            known = not math.isnan(mean)
            return known, sign * mean if known else 0.0, -player.generation

        return max(among, key=rank)

    @property
    def chosen(self) -> PlayerId:
        """The best of all."""
        return self.best(self.scores)

    @property
    def start(self) -> PlayerId:
        """The best of those that never learned."""
        return self.best(player for player in self.scores if player.generation == 0)


class SelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The player chosen by its score on `by` ("" for the held-out prompts), the best start, and
    both on the test; `held_out` are the scores that chose. Without test prompts `test` is empty.
    """

    chosen: str
    start: str
    held_out: dict[str, Estimate]
    test: dict[str, Estimate] = {}
    win_rate: Estimate | None = None
    by: str = ""

    @classmethod
    def of(cls, criterion: Criterion) -> SelectionRecord:
        """The choice by a criterion, before any test."""
        chosen, start = criterion.chosen, criterion.start
        return cls(
            chosen=str(chosen),
            start=str(start),
            held_out={
                str(player): Estimate.of(criterion.scores[player])
                for player in dict.fromkeys((start, chosen))
            },
            by=criterion.name,
        )

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> SelectionRecord:
        """The record from the JSON of its stage.

        Raises RunError for one that this version cannot read.
        """
        return read_record(cls, facts, "the last test")

    def facts(self) -> dict[str, Any]:
        """Plain JSON values for the stage's record."""
        return msgspec.to_builtins(self)

    def headlines(self) -> Iterator[Headline]:
        """The test score of the chosen player; where there is no test, the score that chose it."""
        by = f"{self.by}, a dev set" if self.by else "held-out prompts"
        if self.chosen not in self.test:
            score = self.held_out[self.chosen].interval
            yield Headline(
                f"chosen: {self.chosen}", interval_text(score), f"the best on {by}; not tested"
            )
            return
        score, start = self.test[self.chosen].interval, self.test[self.start].interval
        note = f"the best on {by}, tested once; {self.start}: {interval_text(start)}"
        yield Headline(f"test score of {self.chosen}", interval_text(score), note)


def _text(estimate: Estimate | None) -> str:
    return interval_text(estimate and estimate.interval)


def selection_section(selection: SelectionRecord) -> Section:
    """The player that was chosen, and how it does on prompts that chose nothing."""
    chosen, start = selection.chosen, selection.start
    score = f"score on {selection.by}" if selection.by else "held-out score"
    rate = selection.win_rate
    wins = "–" if rate is None else rate.interval.percent()
    tiles = [Tile("chosen", chosen, f"by its {score}, of all generations of all players")]
    lead = f"The {score} chose, so it flatters the chosen player"
    if selection.test:
        lead += "; the test was set aside and is used once."
        tiles.append(
            Tile(
                "its test score",
                _text(selection.test.get(chosen)),
                f"{start}: {_text(selection.test.get(start))}",
            )
        )
    else:
        lead += "; no test prompts were set aside (prompts.test)."
    if chosen == start:
        lead += f" No later generation has a better {score} than the best start."
    elif selection.test:
        note = "on the test, a tie counts half; 95 % interval"
        tiles.append(Tile(f"wins over {start}", wins, note))
    rows = tuple(
        (name, _text(selection.held_out.get(name)), _text(selection.test.get(name)))
        for name in dict.fromkeys((chosen, start))
    )
    table = Table(("player", score, "test score"), rows)
    return Section("selection", "Selection", (Tiles(tuple(tiles)), table), lead)
