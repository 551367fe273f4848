"""The thread that owns a local model: it decodes what the event loops ask for.

Each adapter has a decoder of its own, taken in turn. Prompts whose scores are asked for are read
before, a bounded number of tokens in a round.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from equipoise.errors import DataError
from equipoise.models.chat_encoding import Encoding
from equipoise.models.grammar import allow_next
from equipoise.models.logprobs import Likelihood, ScoredRow, likelihoods, score_rows
from equipoise.models.output_head import AnswerHead
from equipoise.models.shared_base import SharedBase
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling.decode_slots import DecodeRequest, StreamedRequest
from equipoise.sampling.decoder import Decoder
from equipoise.seeds import uniform
from equipoise.serve.detokenizer import Detokenizer, StopTexts, TokenTexts
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused, TokenScore

MOST_DECODERS = 8
"""Of one adapter, where the model's cache cannot take in rows; later answers wait."""
TOKENS_ON_CPU, TOKENS = 2048, 16384
"""Of the prompts that are read in one round, padding included; answers under way wait for them."""
NOT_NUMBERS = "the model's logits for this prompt are not numbers"
Outbox = list[tuple["PendingAnswer", Piece]]
log = logging.getLogger(__name__)


class ModelThread:
    """Does everything that is done with a model."""

    def __init__(self, base: SharedBase, most_answers: int) -> None:
        """At most `most_answers` are generated at once; further ones wait."""
        self._users = 0  # engines that share the thread
        self._base = base
        self._most = most_answers
        self._most_read = TOKENS_ON_CPU if base.model.device.type == "cpu" else TOKENS
        self._inbox: queue.SimpleQueue[PendingAnswer | None] = queue.SimpleQueue()
        self._to_score: list[PendingAnswer] = []
        self._waiting: dict[Path | None, deque[DecodeRequest]] = {}  # by adapter
        self._decoders: dict[Path | None, list[Decoder]] = {}
        self._head: AnswerHead | None = None
        self._outbox: Outbox = []
        self._thread = threading.Thread(target=self._work, name="equipoise-model", daemon=True)
        self._thread.start()

    @property
    def answers(self) -> int:
        """The number of answers under way or waiting."""
        waiting = sum(map(len, self._waiting.values()))
        return len(self._to_score) + waiting + self._growing

    def enter(self) -> None:
        """Note that another engine uses the thread."""
        self._users += 1

    def leave(self) -> bool:
        """Note that an engine is done with the thread; true if it was the last."""
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
            self._score_prompts()
            self._let_in()
            self._grow()
            self._deliver()
        unfinished: list[DecodeRequest] = [*self._to_score]
        for waiting in self._waiting.values():
            unfinished += waiting
        for decoders in self._decoders.values():
            for decoder in decoders:
                unfinished += decoder.slots.requests
        self._fail(unfinished, "the server is closing")
        self._deliver()

    def _receive(self) -> bool:
        """Take in new answers, waiting where there is nothing else to do; false at the end."""
        idle = not (self._to_score or self._decoders or any(self._waiting.values()))
        while True:
            try:
                answer = self._inbox.get(block=idle)
            except queue.Empty:
                self._to_score = [answer for answer in self._to_score if not answer.cancelled]
                return True
            if answer is None:
                return False
            answer.outbox = self._outbox
            if answer.prompt_wanted:
                self._to_score.append(answer)
            else:
                self._waiting.setdefault(answer.adapter_folder, deque()).append(answer)
            idle = False

    # -- prompts

    def _score_prompts(self) -> None:
        """Score the next prompts of one adapter; those whose answer is to go on wait then."""
        if not self._to_score:
            return
        adapter = self._to_score[0].adapter_folder
        together = [answer for answer in self._to_score if answer.adapter_folder == adapter]
        batch = first_batch(together, self._most_read)
        taken = {id(answer) for answer in batch}
        self._to_score = [answer for answer in self._to_score if id(answer) not in taken]
        self._isolate(batch, lambda answers: self._score(adapter, answers))
        for answer in batch:
            if answer.limit > 1 and not answer.cancelled:
                self._waiting.setdefault(adapter, deque()).append(answer)

    def _score(self, adapter: Path | None, answers: Sequence[PendingAnswer]) -> None:
        """Show prompts with their scores, and answers of a single token."""
        self._head = self._head or AnswerHead(self._base.model)
        with self._lend(adapter) as model:
            rows = score_rows(
                model,
                [answer.prompt for answer in answers],
                [answer.likeliest or 0 for answer in answers],
                answers[0].pad_id,
                self._head,
            )
        for answer, row in zip(answers, rows, strict=True):
            if not row.known:
                answer.fail(NOT_NUMBERS)
                continue
            answer.show_prompt(row)
            if answer.limit == 1:  # the whole answer, without reading its prompt again
                logprob_1V = row.next_V[None]
                token_1 = next_token(logprob_1V, answer)
                (likelihood,) = likelihoods(logprob_1V, token_1, [answer.likeliest or 0])
                answer.take(int(token_1), likelihood)

    # -- answers

    def _let_in(self) -> None:
        """Have the decoders read waiting prompts, as far as there is room."""
        for adapter, waiting in self._waiting.items():
            if not waiting:
                continue
            room = self._most - self._growing
            decoders = self._decoders.setdefault(adapter, [])
            decoder = next((decoder for decoder in decoders if decoder.joinable), None)
            if decoder is None and len(decoders) < MOST_DECODERS:
                first: Any = waiting[0]
                decoder = Decoder(
                    self._base.model,
                    waiting,
                    self._most,
                    stop_ids=first.stop_ids,
                    pad_id=first.pad_id,
                    most_read=self._most_read,
                )
                decoders.append(decoder)
            if decoder is not None:
                taken = decoder.take(min(room, decoder.slots.free))
                with self._lend(adapter):
                    self._isolate(taken, decoder.read)
            if not any(map(len, decoders)):
                del self._decoders[adapter]
        # The adapter that was first is the last in the next round.
        adapters = [*self._waiting]
        if adapters:
            self._waiting[adapters[0]] = self._waiting.pop(adapters[0])

    def _grow(self) -> None:
        """Append a token to every answer; where a decoder fails, its answers end."""
        for adapter, decoders in list(self._decoders.items()):
            growing: list[Decoder] = []
            for decoder in decoders:
                try:
                    with self._lend(adapter):
                        decoder.round()
                except Exception as error:
                    requests = decoder.slots.requests
                    log.exception("the model failed on %d answers", len(requests))
                    self._fail_wanted(requests, error)
                    continue
                if len(decoder):
                    growing.append(decoder)
            if growing:
                self._decoders[adapter] = growing
            else:
                del self._decoders[adapter]

    @property
    def _growing(self) -> int:
        return sum(len(decoder) for group in list(self._decoders.values()) for decoder in group)

    def _isolate(self, answers: Sequence[Any], work: Callable[[Sequence[Any]], None]) -> None:
        """`work` on all answers together and, where it fails, on each alone."""
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
            self._fail_wanted(answers, error)

    def _fail_wanted(self, answers: Sequence[DecodeRequest], error: Exception) -> None:
        wanted = [answer for answer in answers if not answer.cancelled]
        self._fail(wanted, f"the model failed ({type(error).__name__})")

    def _fail(self, answers: Sequence[DecodeRequest], message: str) -> None:
        for answer in answers:
            assert isinstance(answer, PendingAnswer), "this thread decodes no others"
            answer.outbox = self._outbox
            answer.fail(message)

    def _deliver(self) -> None:
        """Send the pieces of this round to the event loops that wait for them."""
        by_loop: dict[asyncio.AbstractEventLoop, Outbox] = {}
        for answer, piece in self._outbox:
            by_loop.setdefault(answer.loop, []).append((answer, piece))
        self._outbox.clear()
        for loop, pieces in by_loop.items():
            try:
                loop.call_soon_threadsafe(_put, pieces)
            except RuntimeError:  # the loop is closed: nobody waits any more
                for answer, _ in pieces:
                    answer.cancelled = True

    def _lend(self, adapter: Path | None) -> AbstractContextManager[Any]:
        return self._base.lend(None if adapter is None else self._base.adapter(adapter))


def first_batch(answers: list[PendingAnswer], most_tokens: int) -> list[PendingAnswer]:
    """The first answers, at least one, of at most so many prompt tokens, padding included."""
    widest = 0
    for count, answer in enumerate(answers):
        widest = max(widest, len(answer.prompt))
        if count and widest * (count + 1) > most_tokens:
            return answers[:count]
    return answers


def next_token(logprob_1V: torch.Tensor, answer: DecodeRequest) -> torch.Tensor:
    """The first token of an answer, [1], by its own dice."""
    number_1 = uniform(np.array([answer.seed], np.int64), len(answer.begun))
    if logprob_1V.device.type == "mps":  # has no float64
        number_1 = number_1.astype(np.float32)
    written_1T = None
    if answer.settings.penalises:
        begun = [*answer.begun] or [-1]
        written_1T = torch.tensor([begun], device=logprob_1V.device)
    allowed_1V = allow_next(logprob_1V, [answer.grammar])
    dice_1 = torch.from_numpy(number_1).to(logprob_1V.device)
    return choose(allowed_1V, dice_1, answer.settings, written_1T)[0]


def _put(pieces: Outbox) -> None:
    for answer, piece in pieces:
        answer.pieces.put_nowait(piece)


class PendingAnswer(StreamedRequest):
    """An answer whose `pieces` wait in the event loop, and which grows in the model's thread."""

    def __init__(
        self,
        request: EngineRequest,
        prompt_ids: Sequence[int],
        begun_ids: Sequence[int],
        adapter: Path | None,
        encoding: Encoding,
        texts: TokenTexts,
    ) -> None:
        """`begun_ids`: the answer's beginning; `texts` decode. Refused beyond 64-bit seeds."""
        if not -(2**63) <= request.seed < 2**63:
            raise Refused(f"a seed of {request.seed} does not fit into 64 bits", param="seed")
        prompt = [*prompt_ids, *begun_ids]
        super().__init__(
            prompt,
            request.seed,
            min(request.max_tokens, encoding.max_length - len(prompt)),
            SamplingSettings(
                request.temperature,
                request.top_k,
                request.top_p,
                request.repetition_penalty,
                request.min_p,
                request.presence_penalty,
                request.frequency_penalty,
            ),
            begun=tuple(begun_ids),
            likeliest=request.logprobs,
        )
        self.adapter_folder = adapter
        self.pad_id = encoding.pad_id
        self.stop_ids = encoding.stop_ids
        self.prompt_wanted = request.echo and request.logprobs is not None
        self.loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self.outbox: Outbox = []  # the thread's
        self._texts = texts
        self._detokenizer = Detokenizer(texts.tokenizer, begun_ids, encoding.hidden_tokens)
        self._stops = StopTexts(request.stop)
        self._left = self.limit
        self._unreported = 0  # tokens since the last piece
        self._scores: list[TokenScore] = []  # theirs

    def fail(self, message: str) -> None:
        """End the answer with an error."""
        self.cancelled = True
        self.outbox.append((self, Piece(finish="error", error=message)))

    def show_prompt(self, row: ScoredRow) -> None:
        """Send the prompt with its scores; that is all where no answer is wanted."""
        scores = [TokenScore(self._texts.of(self.prompt[0]), None)]
        for token, likelihood in zip(self.prompt[1:], row.tokens, strict=True):
            scores.append(self._score(token, likelihood))
        finish = None if self.limit else "length"
        piece = Piece(self._texts.whole(self.prompt), finish, scores=tuple(scores))
        self.outbox.append((self, piece))

    def take(self, token: int | None, likelihood: Likelihood | None) -> bool:
        """Send the text that a token completes, if it does; true where the answer ends."""
        if token is None:
            self.fail(NOT_NUMBERS)
            return True
        try:
            piece = self._piece(token, likelihood)
        except DataError as error:  # of its grammar
            self.fail(f"the answer cannot go on in its form: {error}")
            return True
        except Exception as error:
            log.exception("token %d could not be decoded", token)
            self.fail(f"the answer cannot be decoded ({type(error).__name__})")
            return True
        if piece is None:
            return False
        self.outbox.append((self, piece))
        return piece.finish is not None

    def _piece(self, token: int, likelihood: Likelihood | None) -> Piece | None:
        if likelihood is not None:
            self._scores.append(self._score(token, likelihood))
        self._left -= 1
        self._unreported += 1
        ended = token in self.stop_ids
        whole = self.grammar is not None and not ended and self.grammar.take(token)
        new = "" if ended else self._detokenizer.add(token)
        text, stopped = self._stops.add(new)
        finish = None
        if ended or stopped or whole:
            finish = "stop"
        elif self._left <= 0:
            finish = "length"
        if finish and not stopped:
            rest, stopped = self._stops.add(self._detokenizer.end())
            text += rest
            if stopped:
                finish = "stop"
            else:
                text += self._stops.end()
        if not text and not finish:
            return None
        piece = Piece(text, finish, self._unreported, scores=tuple(self._scores))
        self._unreported = 0
        self._scores = []
        return piece

    def _score(self, token: int, likelihood: Likelihood) -> TokenScore:
        top = tuple((self._texts.of(other), value) for other, value in likelihood.top)
        return TokenScore(self._texts.of(token), likelihood.logprob, top)
