"""Model work cut into units, done by workers where there are some, else here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar, cast

from equipoise.judges.base import Judge
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.fine_tuning import FineTuning
from equipoise.learners.launch import LAUNCH
from equipoise.learners.process_group import follow_lines, write_batch
from equipoise.models.adapters import holds_adapter
from equipoise.models.progress import report_progress
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, WordProbabilities, WordReader
from equipoise.players.local import Local
from equipoise.players.together import MoveRequest, act_together, batch_key
from equipoise.runs.executors.units import (
    METRICS,
    Act,
    Beginnings,
    JudgeMatches,
    Learn,
    Logprobs,
    Part,
    TokenSums,
    Unit,
    Weighted,
    act_by_rows,
    cut,
)
from equipoise.runs.executors.worker_pool import WorkerPool, result_of
from equipoise.system.folder import empty_folder
from equipoise.types import Judgement, Match, Message, Move, Prompt, Turns, View

T = TypeVar("T")


class RemoteActor:
    """A local player whose model is with the workers; its tokenizer is here."""

    def __init__(
        self, player: Local, weights: Path | None, resources: Resources, pool: WorkerPool, rows: int
    ) -> None:
        self.player = player
        self._resources = resources
        self._pool = pool
        self._rows = rows
        self._weights = weights
        folder = None if weights is None else str(weights.resolve())
        self.by = Weighted(Part.of(player), folder)

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation."""
        return self.player.shared_encoding(self._resources).fingerprint

    @property
    def batch_key(self) -> Hashable:
        """Equal for players whose answers can grow in one batch."""
        player = self.player
        cuts = (player.temperature, player.top_k, player.top_p, player.min_p, *player.penalties)
        whole = self._weights is not None and not holds_adapter(self._weights, player.lora)
        own = self._weights if whole else None
        loading = (player.model, *player.loading)
        return own, self.encoding, *loading, *cuts, player.batch_size, player.precision

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One move per view."""
        return submit([MoveRequest(self, views, seeds)], self._rows, self._pool)()[0]

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str | Turns],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        """For each (chat, answer): its log-probability in nats, and its tokens."""

        def unit(chats: Any, texts: Any, cut: Any) -> Unit:
            return Logprobs(self.by, chats, texts, whole, cut)

        return self._in_units(unit, chats, texts, cut or [False] * len(texts))

    def token_sums(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float]:
        """log p(answer | prompt), in nats, of token ids."""
        return self._in_units(lambda *part: TokenSums(self.by, *part), prompts, answers)

    def word_probabilities(
        self, views: Sequence[View], texts: Sequence[str]
    ) -> list[WordProbabilities | str]:
        """For each view the probabilities of `texts` to begin the answer, or why there are none."""
        return self._in_units(lambda part: Beginnings(self.by, part, list(texts)), views)

    def _in_units(self, unit: Callable[..., Unit], *columns: Sequence[Any]) -> list[Any]:
        units = [unit(*map(list, part)) for part in cut(self._rows, *columns)]
        return _heard(self._pool.results(units))

    def close(self) -> None:
        """Have the workers release what they have open; nothing is open here."""
        self._pool.release()


def concatenate(parts: Iterable[Sequence[Any]]) -> list[Any]:
    """The parts, one after another."""
    return [value for part in parts for value in part]


def _heard(parts: Iterable[Sequence[T]]) -> list[T]:
    """The workers' results, one after another, told as they come."""
    values: list[T] = []
    for part in parts:
        values += part
        report_progress(len(part))
    return values


def submit(
    requests: Sequence[MoveRequest], rows: int, pool: WorkerPool
) -> Callable[[], list[list[Move]]]:
    """Have workers answer in units of so many rows; the result waits for the moves of each."""
    table = _table(requests)
    players = [cast(RemoteActor, request.actor).by for request in requests]
    units = [_act(players, *part) for part in cut(rows, *table)]
    futures = [pool.submit(unit) for unit in units]

    def moves() -> list[list[Move]]:
        results = map(result_of, units, futures)
        return split_by_request(len(requests), table[0], _heard(results))

    return moves


def answer_here(requests: Sequence[MoveRequest], rows: int) -> list[list[Move]]:
    """The moves of each request to models here, in units of so many rows."""
    table = _table(requests)
    actors = [request.actor for request in requests]
    moves = concatenate(act_by_rows(actors, *part) for part in cut(rows, *table))
    return split_by_request(len(requests), table[0], moves)


def _table(requests: Sequence[MoveRequest]) -> tuple[list[int], list[View], list[int]]:
    by = [n for n, request in enumerate(requests) for _ in request.views]
    views = concatenate(request.views for request in requests)
    return by, views, concatenate(request.seeds for request in requests)


def split_by_request(count: int, by: Sequence[int], moves: Sequence[Move]) -> list[list[Move]]:
    made: list[list[Move]] = [[] for _ in range(count)]
    for n, move in zip(by, moves, strict=True):
        made[n].append(move)
    return made


def _act(
    players: Sequence[Weighted], by: Sequence[int], views: Sequence[View], seeds: Sequence[int]
) -> Act:
    """The unit of these rows, with the players of these rows alone."""
    own = list(dict.fromkeys(by))
    places = [own.index(player) for player in by]
    return Act([players[n] for n in own], places, list(views), list(seeds))


class Dispatcher:
    """Hands the run's model work to the workers, or does it here."""

    def __init__(self, pool: WorkerPool | None, rows: int) -> None:
        """`rows` is the size of a unit."""
        self.pool = pool
        self.rows = rows

    def open(self, player: Any, weights: Path | None, resources: Resources) -> Actor:
        """The actor of a player: its model is with the workers, if there are any and it has one."""
        if self.pool is None or not isinstance(player, Local):
            return player.open(weights, resources)
        if player.sampler.is_remote:
            return player.open(weights, resources)
        return RemoteActor(player, weights, resources, self.pool, self.rows)

    def act(self, requests: Sequence[MoveRequest]) -> list[list[Move]]:
        """The moves of each request, in order; players that can share a batch may share a unit."""
        remote: dict[Hashable, list[int]] = {}
        here: dict[Hashable, list[int]] = {}
        for n, request in enumerate(requests):
            actor = request.actor
            if isinstance(actor, RemoteActor):
                remote.setdefault(actor.batch_key, []).append(n)
            else:
                here.setdefault(batch_key(actor), []).append(n)

        def of(places: Sequence[int]) -> list[MoveRequest]:
            return [requests[n] for n in places]

        under_way = [
            (group, submit(of(group), self.rows, cast(WorkerPool, self.pool)))
            for group in remote.values()
        ]
        made: dict[int, list[Move]] = {}
        whole = here.pop(None, [])
        for group in here.values():
            if sum(len(requests[n].views) for n in group) <= self.rows:
                whole += group
            else:
                made.update(zip(group, answer_here(of(group), self.rows), strict=True))
        made.update(zip(whole, act_together(of(whole)), strict=True))
        for group, moves in under_way:
            made.update(zip(group, moves(), strict=True))
        return [made[n] for n in range(len(requests))]

    def read_words(
        self, reader: WordReader, views: Sequence[View], texts: Sequence[str]
    ) -> list[WordProbabilities | str]:
        """How likely words are to begin a player's answers, in the same units here and there."""
        if isinstance(reader, RemoteActor):
            return reader.word_probabilities(views, texts)
        parts = cut(self.rows, views)
        return concatenate(reader.word_probabilities(part, texts) for (part,) in parts)

    def judge(
        self, judge: Judge, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """The judgements of these matches; by workers where the judge has a model of its own."""
        if not judge.in_units:
            return judge.checked_judgements(matches, prompts)
        parts = [part for (part,) in cut(self.rows, matches)]
        if self.pool is None:
            return concatenate(judge.checked_judgements(part, prompts) for part in parts)
        context = judge.judge_context
        of_judge = Part.of(judge)
        game = Part.of(context.game)
        units: list[JudgeMatches] = []
        for part in parts:
            of_part = {match.prompt: prompts[match.prompt] for match in part}
            units.append(JudgeMatches(of_judge, game, context.seed, list(part), of_part))
        made: list[Judgement] = []
        for unit, results in zip(units, self.pool.results(units), strict=True):
            made += results
            report_progress(sum(len(match.seats) for match in unit.matches))
        return made

    def trains(self, trainer: Learner) -> bool:
        """Return True if workers train with it: it needs only its batch and no processes."""
        if self.pool is None or not isinstance(trainer, FineTuning):
            return False
        return trainer.launch is None and trainer.needs in ("pairs", "answers")

    def learn(self, trainer: Learner, batch: TrainingBatch) -> RemoteTraining:
        """Have a worker train."""
        assert self.pool is not None
        folder = (batch.scratch / LAUNCH).resolve()
        empty_folder(folder)
        write_batch(folder, trainer, batch)
        unit = Learn(str(folder))
        return RemoteTraining(unit, self.pool.submit(unit))


class RemoteTraining:
    """A training that a worker was given."""

    def __init__(self, unit: Learn, future: Future[bytes]) -> None:
        self._unit = unit
        self._future = future

    def result(self, log: Callable[[dict[str, Any]], None]) -> dict[str, float]:
        """Wait for the summary, handing on lines of metrics. Raises what the worker raised."""
        follow_lines(self._has_ended, Path(self._unit.folder) / METRICS, log)
        return result_of(self._unit, self._future)

    def _has_ended(self, seconds: float) -> bool:
        return bool(wait([self._future], seconds).done)
