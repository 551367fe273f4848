"""A local player as an engine: a thread owns the model, and answers join it and leave
it at any step.

Newly arrived rows are read as one batch, then take their places among the rows that are
under way (a cohort); a round of the loop appends a token to every row. Adapters of one
model share it: each has cohorts of its own, and a round puts one adapter after the
other in force. A row's dice are counted by its place in the answer, as the sampler's
are: what is served is what the player would have answered at this seed, and an answer
that goes on from its own beginning goes on as it would have.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.errors import DataError
from equipoise.models.encoding import Encoding, NoRoom
from equipoise.models.resources import Resources
from equipoise.models.sampling_batch import SamplingBatch
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.players.local import Local, SharedBase
from equipoise.seeds import uniform
from equipoise.serve.decoding import Decoder, StopTexts
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused, brief
from equipoise.types import Message

COHORTS = 8  # of one adapter, where the model's cache cannot take in rows; those who come later wait
log = logging.getLogger(__name__)


class LocalEngine:
    """A local player that answers chats, many at once."""

    def __init__(
        self,
        player: Local,
        weights: Path | None = None,
        resources: Resources | None = None,
    ) -> None:
        """Loads the model, unless the shelf has it. Raises ModelError."""
        resources = resources or Resources()
        self._encoding = player.shared_encoding(resources)
        base, self._adapter = player.base(weights, resources)
        # Encoding changes a tokenizer's state for a moment: one at a time, and never on
        # the tokenizer that decodes.
        self._lock = resources.get(("lock", id(self._encoding)), threading.Lock)
        self._decoding = resources.get(
            ("decoding", id(self._encoding)),
            lambda: copy.deepcopy(self._encoding.tokenizer),
        )
        self._worker = resources.get(
            ("worker", id(base)), lambda: ModelThread(base, player.batch_size)
        )
        self._worker.users += 1
        self._ids = lru_cache(256)(self._encoded)

    def count(self, messages: Sequence[Message], prefix: str = "") -> int:
        """How many tokens the prompt has, `prefix` included. Raises Refused."""
        prompt, before = self._ids(tuple(messages), prefix)
        return len(prompt) + len(before)

    async def generate(self, asked: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces. Raises Refused for a chat that the template refuses or
        that leaves no room.
        """
        ids = (asked.messages, asked.prefix)
        # A hand-over to another thread takes longer than a short chat does.
        prompt, before = (
            self._ids(*ids) if brief(*ids) else await asyncio.to_thread(self._ids, *ids)
        )
        room = self._encoding.max_length - len(prompt) - len(before)
        row = PendingAnswer(
            asked,
            [*prompt, *before],
            len(before),
            room,
            self._adapter,
            self._encoding,
            self._decoding,
        )
        self._worker.add(row)
        try:
            while True:
                piece = await row.pieces.get()
                yield piece
                if piece.finish:
                    return
        finally:
            row.cancelled = True

    async def close(self) -> None:
        """End all work. The thread ends with the last engine that shares it."""
        self._worker.users -= 1
        if not self._worker.users:
            await asyncio.to_thread(self._worker.close)

    def _encoded(
        self, messages: tuple[Message, ...], prefix: str
    ) -> tuple[list[int], list[int]]:
        """Ids of the prompt and of the answer's beginning."""
        try:
            with self._lock:
                prompt = self._encoding.prompt_ids(messages)
                before = self._encoding.text_ids(prefix) if prefix else []
        except NoRoom as error:
            raise Refused(str(error), "context_length_exceeded") from error
        except DataError as error:
            raise Refused(str(error)) from error
        if len(prompt) + len(before) >= self._encoding.max_length:
            raise Refused(
                f"a prompt of {len(prompt)} tokens and {len(before)} of the answer's beginning leave no room within "
                f"max_length = {self._encoding.max_length}",
                "context_length_exceeded",
            )
        return prompt, before


class PendingAnswer:
    """An answer under way: made in the event loop, which waits for `pieces`; taken over
    by the worker's thread.
    """

    def __init__(
        self,
        asked: EngineRequest,
        ids: list[int],
        start: int,
        room: int,
        adapter: Path | None,
        encoding: Encoding,
        tokenizer: object,
    ) -> None:
        """`ids` are all that is there, the last `start` of them the answer's own;
        `room` is for how many more.
        """
        self.ids, self.adapter, self.pad_id, self.stop_ids = (
            ids,
            adapter,
            encoding.pad_id,
            encoding.stop_ids,
        )
        if not -(2**63) <= asked.seed < 2**63:
            raise Refused(
                f"a seed of {asked.seed} does not fit into 64 bits", param="seed"
            )
        self.seed, self.position, self.left = (
            asked.seed,
            start,
            min(asked.max_tokens, room),
        )
        self.choice = SamplingSettings(asked.temperature, asked.top_k, asked.top_p)
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._decoder = Decoder(tokenizer, ids[len(ids) - start :])
        self._stops = StopTexts(asked.stop)
        self._unsaid = 0

    def take(self, token: int) -> Piece | None:
        """What can be said once `token` has come."""
        self.position, self.left, self._unsaid = (
            self.position + 1,
            self.left - 1,
            self._unsaid + 1,
        )
        ended = token in self.stop_ids
        text, stopped = self._stops.add("" if ended else self._decoder.add(token))
        finish = "stop" if ended or stopped else "length" if self.left <= 0 else None
        if finish and not stopped:
            more, stopped = self._stops.add(self._decoder.end())
            text += more if stopped else more + self._stops.end()
            finish = "stop" if stopped else finish
        if not text and not finish:
            return None
        piece, self._unsaid = Piece(text, finish, self._unsaid), 0
        return piece


class Cohort:
    """Rows that grow together."""

    def __init__(self, model: object, rows: list[PendingAnswer]) -> None:
        self.rows = rows
        self.batch = SamplingBatch(model, [row.ids for row in rows], rows[0].pad_id)

    def join(self, other: Cohort) -> None:
        """Take in rows that have been read."""
        self.batch.join(other.batch)
        self.rows += other.rows

    def round(self) -> list[tuple[PendingAnswer, Piece]]:
        """Append a token to every row; what that lets them say. Rows that have
        finished, or are cancelled, leave.
        """
        token_B = self._chosen()
        said: list[tuple[PendingAnswer, Piece]] = []
        stay: list[int] = []
        for n, (row, token) in enumerate(zip(self.rows, token_B.tolist(), strict=True)):
            piece = None if row.cancelled else row.take(token)
            if piece is not None:
                said.append((row, piece))
            if not row.cancelled and (piece is None or piece.finish is None):
                stay.append(n)
        if stay and len(stay) < len(self.rows):
            row_B = torch.tensor(stay, device=self.batch.device)
            self.batch.select(row_B)
            if self.batch.joinable:
                self.batch.trim()
            token_B = token_B[row_B]
        self.rows = [self.rows[n] for n in stay]
        if stay:
            self.batch.step(token_B)
        return said

    def _chosen(self) -> torch.Tensor:
        """Every row's next token, each as it asked for it, [B]."""
        seed_B = np.array([row.seed for row in self.rows], np.int64)
        number_B = uniform(seed_B, np.array([row.position for row in self.rows]))
        device = self.batch.device
        dice_B = torch.from_numpy(
            number_B.astype(np.float32) if device.type == "mps" else number_B
        ).to(device)
        token_B = torch.zeros(len(self.rows), dtype=torch.int64, device=device)
        for choice in {row.choice for row in self.rows}:
            row_B = torch.tensor(
                [n for n, row in enumerate(self.rows) if row.choice == choice],
                device=device,
            )
            token_B[row_B] = choose(self.batch.logits_BV[row_B], dice_B[row_B], choice)[
                0
            ]
        return token_B


class ModelThread:
    """The thread that owns a model. Everything that is done with the model is done
    here.
    """

    def __init__(self, base: SharedBase, rows: int) -> None:
        """`rows`: how many answers are made at once; further ones wait."""
        self.users = 0
        self._base, self._most = base, rows
        self._inbox: queue.SimpleQueue[PendingAnswer | None] = queue.SimpleQueue()
        self._waiting: list[PendingAnswer] = []
        self._cohorts: dict[Path | None, list[Cohort]] = {}
        self._thread = threading.Thread(
            target=self._work, name="equipoise-model", daemon=True
        )
        self._thread.start()

    @property
    def rows(self) -> int:
        """How many answers are under way, those that wait included."""
        return len(self._waiting) + sum(
            len(c.rows) for group in list(self._cohorts.values()) for c in list(group)
        )

    def add(self, row: PendingAnswer) -> None:
        """Take over a row. Raises EngineError where the thread has ended."""
        if not self._thread.is_alive():
            raise EngineError("the model is closed")
        self._inbox.put(row)

    def close(self) -> None:
        """End the thread; what is under way ends with an error."""
        self._inbox.put(None)
        self._thread.join()

    @torch.inference_mode()
    def _work(self) -> None:
        while self._receive():
            for adapter, rows in self._admitted().items():
                with self._answered_for(rows), self._lent(adapter) as model:
                    self._cohorts.setdefault(adapter, []).append(Cohort(model, rows))
            for adapter, group in list(self._cohorts.items()):
                with (
                    self._answered_for(
                        [row for cohort in group for row in cohort.rows]
                    ) as sound,
                    self._lent(adapter),
                ):
                    _unite(group)
                    for cohort in group:
                        _say(cohort.round())
                    sound.append(True)
                group[:] = [cohort for cohort in group if cohort.rows] if sound else []
                if not group:
                    del self._cohorts[adapter]
        rows = [
            row
            for group in self._cohorts.values()
            for cohort in group
            for row in cohort.rows
        ]
        _say(
            [
                (row, Piece(finish="error", error="the server is closing"))
                for row in rows + self._waiting
            ]
        )

    def _receive(self) -> bool:
        """Take what has come, waiting where there is nothing else to do; whether to go
        on.
        """
        wait = not self._cohorts and not self._waiting
        while True:
            try:
                row = self._inbox.get(block=wait)
            except queue.Empty:
                self._waiting = [row for row in self._waiting if not row.cancelled]
                return True
            if row is None:
                return False
            self._waiting.append(row)
            wait = False

    def _admitted(self) -> dict[Path | None, list[PendingAnswer]]:
        """Those who wait and find a place, by adapter, in the order in which they came."""
        free = self._most - sum(
            len(cohort.rows) for group in self._cohorts.values() for cohort in group
        )
        found: dict[Path | None, list[PendingAnswer]] = {}
        left: list[PendingAnswer] = []
        for row in self._waiting:
            group = self._cohorts.get(row.adapter, [])
            full = len(group) >= COHORTS and not group[0].batch.joinable
            if free <= 0 or full:
                left.append(row)
            else:
                found.setdefault(row.adapter, []).append(row)
                free -= 1
        self._waiting = left
        return found

    def _lent(self, adapter: Path | None) -> AbstractContextManager[Any]:
        return self._base.lend(None if adapter is None else self._base.adapter(adapter))

    @contextmanager
    def _answered_for(self, rows: list[PendingAnswer]) -> Iterator[list[bool]]:
        """A failure of the model ends the rows that it befell with an error, and no
        others; what is given is a list.
        """
        try:
            yield []
        except Exception as error:
            log.exception("the model failed on %d answers", len(rows))
            words = f"the model failed ({type(error).__name__})"
            _say(
                [
                    (row, Piece(finish="error", error=words))
                    for row in rows
                    if not row.cancelled
                ]
            )


def _unite(group: list[Cohort]) -> None:
    """Make one cohort of all, where the model's cache allows it."""
    if group[0].batch.joinable:
        while len(group) > 1:
            group[0].join(group.pop())


def _say(said: list[tuple[PendingAnswer, Piece]]) -> None:
    """Hand pieces over to the event loops that wait for them."""
    for loop in {row.loop for row, _ in said}:
        part = [(row, piece) for row, piece in said if row.loop is loop]
        try:
            loop.call_soon_threadsafe(_deliver, part)
        except RuntimeError:  # the loop is closed: nobody waits any more
            for row, _ in part:
                row.cancelled = True


def _deliver(part: list[tuple[PendingAnswer, Piece]]) -> None:
    for row, piece in part:
        row.pieces.put_nowait(piece)
