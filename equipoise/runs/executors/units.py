"""Units of model work, and the place where they are done.

A unit and its result cross as bytes: settings as JSON, records, weights by path. Who does it needs
the same packages and sees the same files.
"""

import json
import sys
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from equipoise.component import Component, import_object, import_path
from equipoise.errors import EquipoiseError, pack_error, unpack_error
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.learners.process_group import read_batch
from equipoise.models.device import return_unused_memory
from equipoise.models.progress import ignore_known_warnings
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player, Scorer, TokenScorer, WordProbabilities, WordReader
from equipoise.players.together import MoveRequest, act_together
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turns, View


class Part(msgspec.Struct, frozen=True):
    """A component by its class, `module:name`, and its settings."""

    kind: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, component: Component) -> Self:
        """The part that `built` turns into this component."""
        return cls(import_path(type(component)), component.settings())

    def built(self) -> Any:
        """The component."""
        return import_object(self.kind).model_validate(self.settings)


class Weighted(msgspec.Struct, frozen=True):
    """A player and the folder of its weights; None: the model's own."""

    player: Part
    weights: str | None

    @property
    def key(self) -> str:
        """Equal for what may share an actor."""
        settings = json.dumps(self.player.settings, sort_keys=True, default=str)
        return f"{self.player.kind} {settings} {self.weights}"


class Act(msgspec.Struct, frozen=True, tag=True):
    """One move a view; the i-th is by `players[by[i]]`."""

    players: list[Weighted]
    by: list[int]
    views: list[View]
    seeds: list[int]


class Logprobs(msgspec.Struct, frozen=True, tag=True):
    """Log-probabilities of answers in their chats."""

    by: Weighted
    chats: list[tuple[Message, ...]]
    texts: list[str | Turns]
    whole: bool
    cut: list[bool]


class TokenSums(msgspec.Struct, frozen=True, tag=True):
    """Log-probabilities of token ids."""

    by: Weighted
    prompts: list[list[int]]
    answers: list[list[int]]


class Beginnings(msgspec.Struct, frozen=True, tag=True):
    """Probabilities of short texts at an answer's start."""

    by: Weighted
    views: list[View]
    texts: list[str]


class JudgeMatches(msgspec.Struct, frozen=True, tag=True):
    """Judgements of matches, by a judge with a model of its own."""

    judge: Part
    game: Part
    seed: int
    matches: list[Match]
    prompts: dict[str, Prompt]


class Learn(msgspec.Struct, frozen=True, tag=True):
    """A training whose batch lies in a folder (`learners.process_group`)."""

    folder: str


class ReleaseAll(msgspec.Struct, frozen=True, tag=True):
    """Nothing that is open is needed any more."""


def act_by_rows(
    actors: Sequence[Actor], by: Sequence[int], views: Sequence[View], seeds: Sequence[int]
) -> list[Move]:
    """One move a view, in order; the i-th by `actors[by[i]]`."""
    rows: dict[int, list[int]] = {}
    for row, player in enumerate(by):
        rows.setdefault(player, []).append(row)
    requests = [
        MoveRequest(actors[player], [views[row] for row in own], [seeds[row] for row in own])
        for player, own in rows.items()
    ]
    moves: dict[int, Move] = {}
    for own, made in zip(rows.values(), act_together(requests), strict=True):
        moves.update(zip(own, made, strict=True))
    return [moves[row] for row in range(len(by))]


METRICS = "metrics.jsonl"  # of a training, in its folder
Unit = Act | Logprobs | TokenSums | Beginnings | JudgeMatches | Learn | ReleaseAll


class Order(msgspec.Struct, frozen=True):
    """A unit as it is sent; resources of earlier epochs go first, modules come from `path`."""

    unit: Unit
    epoch: int
    path: list[str]


class Done(msgspec.Struct, frozen=True):
    """A unit's result, or the class of `errors`, if ours, and the message of its failure."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str = ""
    kind: str = ""

    def value(self, kind: Any) -> Any:
        """The result, read as `kind`; raises the error that there was."""
        if self.kind:
            raise unpack_error(self.kind, self.error)
        if self.error:
            raise EquipoiseError(f"a worker failed:\n{self.error}")
        return msgspec.msgpack.decode(self.result, type=kind)


class UnitRunner:
    """Does units, and keeps open what they opened for the next of the same epoch."""

    def __init__(self) -> None:
        ignore_known_warnings()  # in a process of its own
        self._resources = Resources()
        self._actors: dict[str, Actor] = {}
        self._epoch = 0

    def is_started(self) -> bool:
        """Answer at once, so that the driver knows that it has started."""
        return True

    def do(self, order: bytes) -> bytes:
        """The result of an encoded `Order`, as an encoded `Done`."""
        try:
            return msgspec.msgpack.encode(Done(msgspec.Raw(self._do(order))))
        except Exception as error:  # noqa: BLE001  (raised by the driver)
            return msgspec.msgpack.encode(failure(error))

    def _do(self, encoded: bytes) -> bytes:
        order = msgspec.msgpack.decode(encoded, type=Order)
        sys.path.extend(entry for entry in order.path if entry not in sys.path)
        if order.epoch != self._epoch:
            self._release_all()
            self._epoch = order.epoch
        return msgspec.msgpack.encode(self._result(order.unit))

    def _result(self, unit: Unit) -> Any:
        match unit:
            case Act():
                actors = [self._actor(player) for player in unit.players]
                return act_by_rows(actors, unit.by, unit.views, unit.seeds)
            case Logprobs():
                scorer = cast(Scorer, self._actor(unit.by))
                passed = {"cut": unit.cut} if any(unit.cut) else {}
                return scorer.logprobs(unit.chats, unit.texts, whole=unit.whole, **passed)
            case TokenSums():
                scorer = cast(TokenScorer, self._actor(unit.by))
                return scorer.token_sums(unit.prompts, unit.answers)
            case Beginnings():
                reader = cast(WordReader, self._actor(unit.by))
                return reader.word_probabilities(unit.views, unit.texts)
            case JudgeMatches():
                return self._judge(unit)
            case Learn():
                return self._learn(Path(unit.folder))
            case ReleaseAll():
                return self._release_all()

    def _actor(self, by: Weighted) -> Actor:
        if by.key not in self._actors:
            player: Player = by.player.built()
            weights = None if by.weights is None else Path(by.weights)
            self._actors[by.key] = player.open(weights, self._resources)
        return self._actors[by.key]

    def _judge(self, unit: JudgeMatches) -> list[Judgement]:
        judge: Judge = unit.judge.built()
        context = JudgeContext(
            game=cast(Game, unit.game.built()),
            seed=unit.seed,
            pool=(),
            ratings={},
            resources=self._resources,
            actor=_nobody,
        )
        return judge.at(context).checked_judgements(unit.matches, unit.prompts)

    def _learn(self, folder: Path) -> dict[str, float]:
        """Learn the batch in `folder`; its lines of metrics go into a file there."""
        with open(folder / METRICS, "w", encoding="utf-8") as metrics:

            def log(line: dict[str, Any]) -> None:
                metrics.write(json.dumps(line) + "\n")
                metrics.flush()

            learner, batch = read_batch(folder, log, self._resources)
            shared = learner.shared_key(batch.player)
            self._release_all(() if shared is None else (shared,))
            return learner.learn(batch)

    def _release_all(self, keep: Collection[Hashable] = ()) -> None:
        for actor in self._actors.values():
            actor.close()
        self._actors.clear()
        self._resources.clear(keep)
        return_unused_memory()


def _nobody(player: Player | PlayerId) -> Actor:
    raise AssertionError(f"a worker's judge asks no player, and asked {player}")


def failure(error: Exception) -> Done:
    """The answer to a unit that failed."""
    kind, message = pack_error(error)
    return Done(kind=kind, error=message)


RESULTS: Mapping[type, Any] = {
    Act: list[Move],
    Logprobs: list[tuple[float, int]],
    TokenSums: list[float],
    Beginnings: list[WordProbabilities | str],
    JudgeMatches: list[Judgement],
    Learn: dict[str, Any],
}
"""What a unit's result is read as."""


def cut(rows: int, *columns: Sequence[Any]) -> list[list[Sequence[Any]]]:
    """The columns of a table, `rows` rows at a time; an empty table is one empty piece."""
    count = len(columns[0])
    starts = range(0, max(count, 1), rows)
    return [[column[start : start + rows] for column in columns] for start in starts]
