"""The thread that owns a local model, and the batches in which its answers grow.

New answers are read as one batch, then join those under way (a cohort); a round appends a token to
every answer. Each adapter has cohorts of its own, taken in turn. Prompts to be scored are read
before, a bounded number of tokens in a round.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.errors import DataError
from equipoise.models.encoding import Encoding
from equipoise.models.grammar import TokenGrammar, allow_next
from equipoise.models.logprobs import Likelihood, ScoredRow, likelihoods, score_rows
from equipoise.models.output_head import AnswerHead
from equipoise.models.shared_base import SharedBase
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling.sampling_batch import SamplingBatch
from equipoise.seeds import uniform
from equipoise.serve.detokenizer import Decoder, StopTexts, TokenTexts
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused, TokenScore

MOST_COHORTS = 8
"""Of one adapter, where the model's cache cannot take in rows; later answers wait."""
TOKENS_ON_CPU, TOKENS = 2048, 16384
"""Of the prompts that are read in one round, padding included; answers under way wait for them."""
NOT_NUMBERS = "the model's logits for this prompt are not numbers"
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
        """The number of answers under way or waiting."""
        return len(self._waiting) + len(self._growing())

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
            self._isolate(self._prompts_to_score(), self._score)
            for answers in self._admit().values():
                self._isolate(answers, self._read)
            for adapter in list(self._cohorts):
                self._grow(adapter)
        unfinished = self._growing() + self._waiting
        _fail(unfinished, "the server is closing")

    def _receive(self) -> bool:
        """Take in new answers, waiting where there is nothing else to do; false at the end."""
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
        """The next waiting answers that show their prompt's scores, on one adapter.

        Those that want no more than a token besides wait no longer.
        """
        wanted = [answer for answer in self._waiting if answer.prompt_wanted]
        together = [answer for answer in wanted if answer.adapter == wanted[0].adapter]
        batch = first_batch(together, self._tokens_at_once)
        over = {id(answer) for answer in batch if answer.left <= 1}
        self._waiting = [a for a in self._waiting if id(a) not in over]
        return batch

    def _score(self, answers: list[PendingAnswer]) -> None:
        with self._lend(answers[0].adapter) as model:
            _deliver(self._scorer.pieces(model, answers))

    def _admit(self) -> dict[Path | None, list[PendingAnswer]]:
        """The waiting answers for which there is room, by adapter, in order; a batch of each."""
        free = self._most - len(self._growing())
        admitted: dict[Path | None, list[PendingAnswer]] = {}
        for answer in self._waiting:
            cohorts = self._cohorts.get(answer.adapter, [])
            full = len(cohorts) >= MOST_COHORTS and not cohorts[0].batch.joinable
            if free > 0 and not full and not answer.prompt_wanted:
                admitted.setdefault(answer.adapter, []).append(answer)
                free -= 1
        for adapter, answers in admitted.items():
            admitted[adapter] = first_batch(answers, self._tokens_at_once)
        taken = {id(answer) for answers in admitted.values() for answer in answers}
        self._waiting = [a for a in self._waiting if id(a) not in taken]
        return admitted

    def _read(self, answers: list[PendingAnswer]) -> None:
        adapter = answers[0].adapter
        with self._lend(adapter) as model:
            cohort = Cohort(model, answers)
        self._cohorts.setdefault(adapter, []).append(cohort)

    @property
    def _tokens_at_once(self) -> int:
        on_cpu = self._base.model.device.type == "cpu"
        return TOKENS_ON_CPU if on_cpu else TOKENS

    def _isolate(
        self, answers: list[PendingAnswer], work: Callable[[list[PendingAnswer]], None]
    ) -> None:
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
            self._waiting = [a for a in self._waiting if a is not answers[0]]
            _fail_wanted(answers, error)

    def _grow(self, adapter: Path | None) -> None:
        """A round of all cohorts of an adapter; where it fails, they end."""
        cohorts = self._cohorts[adapter]
        unfinished: list[Cohort] = []
        answers = [answer for cohort in cohorts for answer in cohort.answers]
        try:
            with self._lend(adapter):
                while len(cohorts) > 1 and cohorts[0].batch.joinable:
                    cohorts[0].join(cohorts.pop())
                for cohort in cohorts:
                    _deliver(cohort.round())
                unfinished = [cohort for cohort in cohorts if cohort.answers]
        except Exception as error:
            log.exception("the model failed on %d answers", len(answers))
            _fail_wanted(answers, error)
        if unfinished:
            self._cohorts[adapter] = unfinished
        else:
            del self._cohorts[adapter]

    def _growing(self) -> list[PendingAnswer]:
        cohorts = [cohort for group in list(self._cohorts.values()) for cohort in group]
        return [answer for cohort in cohorts for answer in cohort.answers]

    def _lend(self, adapter: Path | None) -> AbstractContextManager[Any]:
        return self._base.lend(None if adapter is None else self._base.adapter(adapter))


def first_batch(answers: list[PendingAnswer], most_tokens: int) -> list[PendingAnswer]:
    """The first answers, at least one, of at most so many prompt tokens, padding included."""
    widest = 0
    for count, answer in enumerate(answers):
        widest = max(widest, len(answer.ids))
        if count and widest * (count + 1) > most_tokens:
            return answers[:count]
    return answers


def _fail_wanted(answers: list[PendingAnswer], error: Exception) -> None:
    wanted = [answer for answer in answers if not answer.cancelled]
    _fail(wanted, f"the model failed ({type(error).__name__})")


def _fail(answers: list[PendingAnswer], message: str) -> None:
    _deliver([(answer, Piece(finish="error", error=message)) for answer in answers])


def _deliver(pieces: list[tuple[PendingAnswer, Piece]]) -> None:
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


class Cohort:
    """Answers that grow together, a row of the batch each."""

    def __init__(self, model: object, answers: list[PendingAnswer]) -> None:
        self.answers = answers
        self.batch = SamplingBatch(model, [answer.ids for answer in answers], answers[0].pad_id)

    def join(self, other: Cohort) -> None:
        """Take in answers whose prompts have been read."""
        self.batch.join(other.batch)
        self.answers += other.answers

    def round(self) -> list[tuple[PendingAnswer, Piece]]:
        """Append a token to every answer, and return the text; finished ones leave."""
        token_B = self._next_tokens()
        likelihoods = self._likelihoods(token_B)
        known_B = torch.isfinite(self.batch.logits_BV.amax(-1)).tolist()
        pieces: list[tuple[PendingAnswer, Piece]] = []
        staying: list[int] = []
        for row, (answer, token) in enumerate(zip(self.answers, token_B.tolist(), strict=True)):
            if answer.cancelled:
                continue
            if not known_B[row]:
                pieces.append((answer, Piece(finish="error", error=NOT_NUMBERS)))
                continue
            piece = _take_token(answer, token, likelihoods.get(row))
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
        row_B = torch.tensor(rows, device=self.batch.device)
        self.batch.select(row_B)
        if self.batch.joinable:
            self.batch.trim()
        return row_B

    def _next_tokens(self) -> torch.Tensor:
        token_B = torch.zeros(len(self.answers), dtype=torch.int64, device=self.batch.device)
        for settings in {answer.settings for answer in self.answers}:
            rows = [row for row, answer in enumerate(self.answers) if answer.settings == settings]
            row_B = torch.tensor(rows, device=self.batch.device)
            answers = [self.answers[row] for row in rows]
            token_B[row_B] = next_tokens(self.batch.logits_BV[row_B], answers)
        return token_B

    def _likelihoods(self, token_B: torch.Tensor) -> dict[int, Likelihood]:
        rows = [row for row, answer in enumerate(self.answers) if answer.logprobs is not None]
        if not rows:
            return {}
        row_B = torch.tensor(rows, device=self.batch.device)
        logprob_BV = self.batch.logits_BV[row_B].float().log_softmax(-1)
        wanted = [self.answers[row].logprobs or 0 for row in rows]
        scored = likelihoods(logprob_BV, token_B[row_B], wanted)
        return dict(zip(rows, scored, strict=True))


def next_tokens(logits_BV: torch.Tensor, answers: Sequence[PendingAnswer]) -> torch.Tensor:
    """The next token of answers that are sampled alike, [B], by the sampler's own dice."""
    seed_B = np.array([answer.seed for answer in answers], np.int64)
    position_B = np.array([answer.position for answer in answers])
    number_B = uniform(seed_B, position_B)
    if logits_BV.device.type == "mps":  # has no float64
        number_B = number_B.astype(np.float32)
    dice_B = torch.from_numpy(number_B).to(logits_BV.device)
    settings = answers[0].settings
    written_BT = None
    if settings.penalises:
        rows = [torch.tensor(answer.written, dtype=torch.int64) for answer in answers]
        written_BT = pad_sequence(rows, batch_first=True, padding_value=-1).to(logits_BV.device)
    logits_BV = allow_next(logits_BV, [answer.grammar for answer in answers])
    return choose(logits_BV, dice_B, settings, written_BT)[0]


def _take_token(answer: PendingAnswer, token: int, likelihood: Likelihood | None) -> Piece | None:
    """The piece that a token completes; where it cannot be decoded, the answer's end."""
    try:
        return answer.take(token, likelihood)
    except DataError as error:  # of its grammar
        return Piece(finish="error", error=f"the answer cannot go on in its form: {error}")
    except Exception as error:
        log.exception("token %d could not be decoded", token)
        message = f"the answer cannot be decoded ({type(error).__name__})"
        return Piece(finish="error", error=message)


class PendingAnswer:
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
        self.ids = [*prompt_ids, *begun_ids]
        self.adapter = adapter
        self.pad_id, self.stop_ids = encoding.pad_id, encoding.stop_ids
        self.seed = request.seed
        self.position = len(begun_ids)  # of the next token in the answer
        self.left = min(request.max_tokens, encoding.max_length - len(self.ids))
        self.settings = SamplingSettings(
            request.temperature,
            request.top_k,
            request.top_p,
            request.repetition_penalty,
            request.min_p,
            request.presence_penalty,
            request.frequency_penalty,
        )
        self.written = list(begun_ids)  # the answer's tokens so far
        self.grammar: TokenGrammar | None = None  # that it follows
        self.logprobs = request.logprobs  # how many likely tokens beside each
        self.prompt_wanted = request.echo and request.logprobs is not None
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._texts = texts
        self._decoder = Decoder(texts.tokenizer, begun_ids)
        self._stops = StopTexts(request.stop)
        self._unreported = 0  # tokens since the last piece
        self._scores: list[TokenScore] = []  # theirs

    def show_prompt(self, row: ScoredRow) -> Piece:
        """The piece that shows the prompt's scores; the last where no answer is wanted."""
        self.prompt_wanted = False
        scores = [TokenScore(self._texts.of(self.ids[0]), None)]
        for token, likelihood in zip(self.ids[1:], row.tokens, strict=True):
            scores.append(self._score(token, likelihood))
        finish = None if self.left else "length"
        return Piece(self._texts.whole(self.ids), finish, scores=tuple(scores))

    def take(self, token: int, likelihood: Likelihood | None = None) -> Piece | None:
        """Append a token; the piece of text that it completes, if it does."""
        if likelihood is not None:
            self._scores.append(self._score(token, likelihood))
        self.position += 1
        self.left -= 1
        self._unreported += 1
        self.written.append(token)
        ended = token in self.stop_ids
        whole = self.grammar is not None and not ended and self.grammar.take(token)
        text, stopped = self._stops.add("" if ended else self._decoder.add(token))
        finish = "stop" if ended or stopped or whole else "length" if self.left <= 0 else None
        if finish and not stopped:
            rest, stopped = self._stops.add(self._decoder.end())
            text += rest if stopped else rest + self._stops.end()
            finish = "stop" if stopped else finish
        if not text and not finish:
            return None
        piece = Piece(text, finish, self._unreported, scores=tuple(self._scores))
        self._unreported, self._scores = 0, []
        return piece

    def _score(self, token: int, likelihood: Likelihood) -> TokenScore:
        top = tuple((self._texts.of(other), value) for other, value in likelihood.top)
        return TokenScore(self._texts.of(token), likelihood.logprob, top)


class PromptScorer:
    """Reads prompts and shows them with their scores."""

    def __init__(self, model: Any) -> None:
        """`model` is a transformers causal language model, whose adapters may change."""
        self._model = model
        self._head: AnswerHead | None = None

    def pieces(
        self, model: Any, batch: Sequence[PendingAnswer]
    ) -> list[tuple[PendingAnswer, Piece]]:
        """The prompts with their scores, and answers of a single token. Raises ModelError."""
        self._head = self._head or AnswerHead(self._model)
        rows = score_rows(
            model,
            [answer.ids for answer in batch],
            [answer.logprobs or 0 for answer in batch],
            batch[0].pad_id,
            self._head,
        )
        pieces: list[tuple[PendingAnswer, Piece]] = []
        for answer, row in zip(batch, rows, strict=True):
            if not row.known:
                answer.cancelled = True
                pieces.append((answer, Piece(finish="error", error=NOT_NUMBERS)))
                continue
            pieces.append((answer, answer.show_prompt(row)))
            if answer.left == 1:  # the whole answer, without reading its prompt again
                logprob_1V = row.next_V[None]
                token_1 = next_tokens(logprob_1V, [answer])
                (likelihood,) = likelihoods(logprob_1V, token_1, [answer.logprobs or 0])
                piece = answer.take(int(token_1), likelihood)
                assert piece is not None and piece.finish, "it has no token left"
                pieces.append((answer, piece))
        return pieces
