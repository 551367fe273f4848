"""What can be known to fail before a named set is measured: its data, and its judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.records import Item
from equipoise.judges.base import JudgeContext
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.runs.config import RunConfig
from equipoise.types import PlayerId

Sets = Mapping[str, Benchmark]
Items = Mapping[str, Sequence[Item]]


def check_sets(config: RunConfig, sets: Sets) -> Items:
    """The items of each set, by its name.

    Raises DataError or ConfigError with everything that keeps the sets from being measured, one
    fault a line.
    """
    items: dict[str, list[Item]] = {}
    unreadable = []
    for name, benchmark in sets.items():
        try:
            items[name] = benchmark.items()
        except DataError as error:
            unreadable.append(f"{name}: {error}")
    if unreadable:
        raise DataError("\n".join(unreadable))
    if faults := list(faults_of_sets(config, sets, items)):
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return items


def faults_of_sets(config: RunConfig, sets: Sets, items: Items) -> Iterator[str]:
    """What keeps these sets from being measured in such a run, one message each."""
    pool = [PlayerId(name) for name in config.players]
    for name, benchmark in sets.items():
        game = benchmark.game_played
        context = JudgeContext(game, 0, pool, {}, Resources(), _nobody_answers)
        for fault in benchmark.faults(items[name], context):
            yield f"{name}: {fault}"
        for place, player in players_in(benchmark.judge, "judge"):
            for fault in player.faults():
                yield f"{name}.{place}: {fault}"


def players_in(part: Any, place: str) -> Iterator[tuple[str, Player]]:
    """(place, player) of every player in a part's settings, at whatever depth."""
    if isinstance(part, Player):
        yield place, part
    if isinstance(part, BaseModel):
        part = {name: getattr(part, name) for name in type(part).model_fields}
    if isinstance(part, list | tuple):
        part = {str(number): inner for number, inner in enumerate(part)}
    if isinstance(part, Mapping):
        for name, inner in part.items():
            yield from players_in(inner, f"{place}.{name}".lstrip("."))


def _nobody_answers(player: Any) -> Any:
    raise AssertionError("nobody is asked anything before the sets are checked")
