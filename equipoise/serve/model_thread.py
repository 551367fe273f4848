"""The thread that owns a local model, and the batches in which its answers grow.

Newly arrived answers are read as one batch, then join the answers that are under way (a cohort); a
round of the loop appends a token to every answer. Adapters of one model share it: each has cohorts
of its own, and a round applies one adapter after the other. Prompts whose own tokens are to be
scored are read before, a bounded number of tokens in a round, so that other answers go on
meanwhile.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch

from equipoise.models.shared_base import SharedBase
from equipoise.serve.cohort import Cohort
from equipoise.serve.engine import EngineError, Piece
from equipoise.serve.pending_answer import PendingAnswer
from equipoise.serve.prompt_scoring import PromptScorer

MOST_COHORTS = 8
"""Of one adapter, where the model's cache cannot take in rows; later answers wait."""
TOKENS_ON_CPU, TOKENS = 2048, 16384
"""Of the prompts that are read in one round, padding included: what answers under way
wait for.
"""
log = logging.getLogger(__name__)


class ModelThread:
    """Does everything that is done with a model."""

    def __init__(self, base: SharedBase, most_answers: int) -> None:
        """At most `most_answers` are generated at once; further ones wait."""
        self._users = 0  # engines that share the thread
        self._base, self._most = base, most_answers
        self._inbox: queue.SimpleQueue[PendingAnswer | None] = queue.SimpleQueue()
        self._waiting: list[PendingAnswer] = []
        self._cohorts: dict[Path | None, list[Cohort]] = {}  # by adapter
        self._scorer = PromptScorer(base.model)
        self._thread = threading.Thread(target=self._work, name="equipoise-model", daemon=True)
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
            self._isolate(self._prompts_to_score(), self._score)
            for answers in self._admitted().values():
                self._isolate(answers, self._read)
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

    def _prompts_to_score(self) -> list[PendingAnswer]:
        """The first waiting answers that are to show their prompt with its scores: so many as are
        read together, on one adapter. Those that want no more than a token besides wait no longer.
        """
        wanted = [answer for answer in self._waiting if answer.prompt_wanted]
        together = [answer for answer in wanted if answer.adapter == wanted[0].adapter]
        batch = first_read(together, self._tokens_at_once)
        over = {id(answer) for answer in batch if answer.left <= 1}
        self._waiting = [a for a in self._waiting if id(a) not in over]
        return batch

    def _score(self, answers: list[PendingAnswer]) -> None:
        with self._lent(answers[0].adapter) as model:
            _deliver(self._scorer.pieces(model, answers))

    def _admitted(self) -> dict[Path | None, list[PendingAnswer]]:
        """The waiting answers for which there is room, by adapter, in the order in which they came;
        of each adapter's so many as are read together.
        """
        free = self._most - len(self._growing())
        admitted: dict[Path | None, list[PendingAnswer]] = {}
        for answer in self._waiting:
            cohorts = self._cohorts.get(answer.adapter, [])
            full = len(cohorts) >= MOST_COHORTS and not cohorts[0].batch.joinable
            if free > 0 and not full and not answer.prompt_wanted:
                admitted.setdefault(answer.adapter, []).append(answer)
                free -= 1
        for adapter, answers in admitted.items():
            admitted[adapter] = first_read(answers, self._tokens_at_once)
        taken = {id(answer) for answers in admitted.values() for answer in answers}
        self._waiting = [a for a in self._waiting if id(a) not in taken]
        return admitted

    def _read(self, answers: list[PendingAnswer]) -> None:
        """Read the prompts of answers on one adapter, which then grow as a cohort."""
        adapter = answers[0].adapter
        with self._lent(adapter) as model:
            cohort = Cohort(model, answers)
        self._cohorts.setdefault(adapter, []).append(cohort)

    @property
    def _tokens_at_once(self) -> int:
        on_cpu = self._base.model.device.type == "cpu"
        return TOKENS_ON_CPU if on_cpu else TOKENS

    def _isolate(
        self, answers: list[PendingAnswer], work: Callable[[list[PendingAnswer]], None]
    ) -> None:
        """`work` on all answers together and, where it fails, on each alone, so that only those end
        with an error that cannot be helped.
        """
        if not answers:
            return
        try:
            work(answers)
        except Exception as error:
            if len(answers) > 1:
                for answer in answers:
                    self._isolate([answer], work)
                return
            log.exception("the model failed on an answer")
            self._waiting = [a for a in self._waiting if a is not answers[0]]
            _fail_wanted(answers, error)

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
            _fail_wanted(answers, error)


def first_read(answers: list[PendingAnswer], most_tokens: int) -> list[PendingAnswer]:
    """The first answers, at least one, whose prompts are read as one batch: so many tokens at most,
    padding included.
    """
    widest = 0
    for count, answer in enumerate(answers):
        widest = max(widest, len(answer.ids))
        if count and widest * (count + 1) > most_tokens:
            return answers[:count]
    return answers


def _unite(cohorts: list[Cohort]) -> None:
    """Make one cohort of all, where the model's cache allows it."""
    if cohorts[0].batch.joinable:
        while len(cohorts) > 1:
            cohorts[0].join(cohorts.pop())


def _fail_wanted(answers: list[PendingAnswer], error: Exception) -> None:
    """End answers that clients still wait for."""
    wanted = [answer for answer in answers if not answer.cancelled]
    _fail(wanted, f"the model failed ({type(error).__name__})")


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
