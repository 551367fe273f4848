"""The thread that owns a local model, and the batches in which its answers grow.

Newly arrived answers are read as one batch, then join the answers that are under way (a
cohort); a round of the loop appends a token to every answer. Adapters of one model
share it: each has cohorts of its own, and a round applies one adapter after the other.
An answer's random numbers are counted by its place in the answer, as the sampler's are,
so that what is served is what the player would have answered at this seed.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.models.sampling_batch import SamplingBatch
from equipoise.models.token_choice import choose
from equipoise.players.shared_base import SharedBase
from equipoise.seeds import uniform
from equipoise.serve.engine import EngineError, Piece
from equipoise.serve.pending_answer import PendingAnswer

MOST_COHORTS = 8
"""Of one adapter, where the model's cache cannot take in rows; later answers wait."""
log = logging.getLogger(__name__)


class Cohort:
    """Answers that grow together, a row of the batch each."""

    def __init__(self, model: object, answers: list[PendingAnswer]) -> None:
        self.answers = answers
        self.batch = SamplingBatch(
            model, [answer.ids for answer in answers], answers[0].pad_id
        )

    def join(self, other: Cohort) -> None:
        """Take in answers whose prompts have been read."""
        self.batch.join(other.batch)
        self.answers += other.answers

    def round(self) -> list[tuple[PendingAnswer, Piece]]:
        """Append a token to every answer, and return the pieces of text that come of it.

        Answers that have finished, or are cancelled, leave.
        """
        token_B = self._next_tokens()
        pieces: list[tuple[PendingAnswer, Piece]] = []
        staying: list[int] = []
        for row, (answer, token) in enumerate(
            zip(self.answers, token_B.tolist(), strict=True)
        ):
            if answer.cancelled:
                continue
            piece = answer.take(token)
            if piece is not None:
                pieces.append((answer, piece))
            if piece is None or piece.finish is None:
                staying.append(row)
        if staying and len(staying) < len(self.answers):
            token_B = token_B[self._keep(staying)]
        self.answers = [self.answers[row] for row in staying]
        if staying:
            self.batch.step(token_B)
        return pieces

    def _keep(self, rows: list[int]) -> torch.Tensor:
        """Drop all other rows of the batch; the rows as a tensor."""
        row_B = torch.tensor(rows, device=self.batch.device)
        self.batch.select(row_B)
        if self.batch.joinable:
            self.batch.trim()
        return row_B

    def _next_tokens(self) -> torch.Tensor:
        """Every answer's next token by its own settings, [B]."""
        device = self.batch.device
        seed_B = np.array([answer.seed for answer in self.answers], np.int64)
        position_B = np.array([answer.position for answer in self.answers])
        number_B = uniform(seed_B, position_B)
        if device.type == "mps":  # has no float64
            number_B = number_B.astype(np.float32)
        dice_B = torch.from_numpy(number_B).to(device)
        token_B = torch.zeros(len(self.answers), dtype=torch.int64, device=device)
        for settings in {answer.settings for answer in self.answers}:
            rows = [
                row
                for row, answer in enumerate(self.answers)
                if answer.settings == settings
            ]
            row_B = torch.tensor(rows, device=device)
            chosen = choose(self.batch.logits_BV[row_B], dice_B[row_B], settings)
            token_B[row_B] = chosen[0]
        return token_B


class ModelThread:
    """Does everything that is done with a model."""

    def __init__(self, base: SharedBase, most_answers: int) -> None:
        """At most `most_answers` are generated at once; further ones wait."""
        self._users = 0  # engines that share the thread
        self._base, self._most = base, most_answers
        self._inbox: queue.SimpleQueue[PendingAnswer | None] = queue.SimpleQueue()
        self._waiting: list[PendingAnswer] = []
        self._cohorts: dict[Path | None, list[Cohort]] = {}  # by adapter
        self._thread = threading.Thread(
            target=self._work, name="equipoise-model", daemon=True
        )
        self._thread.start()

    @property
    def answers(self) -> int:
        """How many answers are under way or wait."""
        return len(self._waiting) + len(self._growing())

    def enter(self) -> None:
        """Another engine uses the thread."""
        self._users += 1

    def leave(self) -> bool:
        """An engine is done with the thread; whether it was the last."""
        self._users -= 1
        return not self._users

    def add(self, answer: PendingAnswer) -> None:
        """Take over an answer. Raises EngineError where the thread has ended."""
        if not self._thread.is_alive():
            raise EngineError("the model is closed")
        self._inbox.put(answer)

    def close(self) -> None:
        """End the thread; what is under way ends with an error."""
        self._inbox.put(None)
        self._thread.join()

    @torch.inference_mode()
    def _work(self) -> None:
        while self._receive():
            for adapter, answers in self._admitted().items():
                with self._failing_alone(answers), self._lent(adapter) as model:
                    cohort = Cohort(model, answers)
                    self._cohorts.setdefault(adapter, []).append(cohort)
            for adapter in list(self._cohorts):
                self._grow(adapter)
        unfinished = self._growing() + self._waiting
        _fail(unfinished, "the server is closing")

    def _receive(self) -> bool:
        """Take what has arrived, waiting where there is nothing else to do; whether to go on."""
        wait = not self._cohorts and not self._waiting
        while True:
            try:
                answer = self._inbox.get(block=wait)
            except queue.Empty:
                self._waiting = [a for a in self._waiting if not a.cancelled]
                return True
            if answer is None:
                return False
            self._waiting.append(answer)
            wait = False

    def _admitted(self) -> dict[Path | None, list[PendingAnswer]]:
        """The waiting answers for which there is room, by adapter, in the order in
        which they came.
        """
        free = self._most - len(self._growing())
        admitted: dict[Path | None, list[PendingAnswer]] = {}
        left: list[PendingAnswer] = []
        for answer in self._waiting:
            cohorts = self._cohorts.get(answer.adapter, [])
            full = len(cohorts) >= MOST_COHORTS and not cohorts[0].batch.joinable
            if free <= 0 or full:
                left.append(answer)
            else:
                admitted.setdefault(answer.adapter, []).append(answer)
                free -= 1
        self._waiting = left
        return admitted

    def _grow(self, adapter: Path | None) -> None:
        """A round of all cohorts of an adapter; where it fails, they end."""
        cohorts = self._cohorts[adapter]
        unfinished: list[Cohort] = []
        answers = [answer for cohort in cohorts for answer in cohort.answers]
        with self._failing_alone(answers), self._lent(adapter):
            _unite(cohorts)
            for cohort in cohorts:
                _deliver(cohort.round())
            unfinished = [cohort for cohort in cohorts if cohort.answers]
        if unfinished:
            self._cohorts[adapter] = unfinished
        else:
            del self._cohorts[adapter]

    def _growing(self) -> list[PendingAnswer]:
        """The answers under way."""
        cohorts = [cohort for group in list(self._cohorts.values()) for cohort in group]
        return [answer for cohort in cohorts for answer in cohort.answers]

    def _lent(self, adapter: Path | None) -> AbstractContextManager[Any]:
        return self._base.lend(None if adapter is None else self._base.adapter(adapter))

    @contextmanager
    def _failing_alone(self, answers: list[PendingAnswer]) -> Iterator[None]:
        """A failure of the model ends these answers with an error, and no others."""
        try:
            yield
        except Exception as error:
            log.exception("the model failed on %d answers", len(answers))
            still_wanted = [answer for answer in answers if not answer.cancelled]
            _fail(still_wanted, f"the model failed ({type(error).__name__})")


def _unite(cohorts: list[Cohort]) -> None:
    """Make one cohort of all, where the model's cache allows it."""
    if cohorts[0].batch.joinable:
        while len(cohorts) > 1:
            cohorts[0].join(cohorts.pop())


def _fail(answers: list[PendingAnswer], message: str) -> None:
    """End answers with an error."""
    _deliver([(answer, Piece(finish="error", error=message)) for answer in answers])


def _deliver(pieces: list[tuple[PendingAnswer, Piece]]) -> None:
    """Hand pieces over to the event loops that wait for them."""
    for loop in {answer.loop for answer, _ in pieces}:
        own = [(answer, piece) for answer, piece in pieces if answer.loop is loop]
        try:
            loop.call_soon_threadsafe(_put, own)
        except RuntimeError:  # the loop is closed: nobody waits any more
            for answer, _ in own:
                answer.cancelled = True


def _put(pieces: list[tuple[PendingAnswer, Piece]]) -> None:
    for answer, piece in pieces:
        answer.pieces.put_nowait(piece)
