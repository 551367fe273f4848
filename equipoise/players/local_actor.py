"""Language models in this process that are ready to move and to score.

An engine in another process may sample their answers; a model here, loaded when asked, scores them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from equipoise.errors import DataError, ModelError
from equipoise.models.shared_base import short_products
from equipoise.players.base import WordProbabilities
from equipoise.players.local_settings import LocalSettings
from equipoise.players.thinking import BegunAnswer, begun_answers
from equipoise.sampling.engines.base import EngineRow, SampledAnswer
from equipoise.sampling.engines.remote_engine import ProbedEngine
from equipoise.types import Message, Move, Turns, View

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.sequence_scores import NextToken
    from equipoise.models.shared_base import AdaptedModel, LazyModel
    from equipoise.models.token_choice import SamplingSettings


class LocalActor:
    """A local player that is ready to move and to score."""

    def __init__(
        self,
        player: LocalSettings,
        encoding: Encoding,
        model: AdaptedModel | LazyModel,
        unit_rows: int | None = None,
    ) -> None:
        """`unit_rows`: how many rows are scored together at most; None: all of them."""
        self._unit_rows = unit_rows
        self.player = player
        self._encoding = encoding
        self._adapted: AdaptedModel | LazyModel | None = model

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation."""
        return self._encoding.fingerprint

    @property
    def adapted(self) -> AdaptedModel | LazyModel:
        """The model in memory. The actor must be open."""
        assert self._adapted is not None, "the actor is closed"
        return self._adapted

    def with_settings(self, player: LocalSettings) -> LocalActor:
        """The model in memory under other settings of sampling, in this actor's precision."""
        encoding, own = self._adjust(player)
        return LocalActor(own, encoding, self.adapted, self._unit_rows)

    def _adjust(self, player: LocalSettings) -> tuple[Encoding, LocalSettings]:
        same = player.max_length == self.player.max_length
        encoding = self._encoding if same else player.encoding()
        return encoding, player.model_copy(update={"precision": self.player.precision})

    # -- moves

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One answer per view; an error move for a refused chat, no room, or NaN logits."""
        from equipoise.sampling.sampling import sample

        prompts, moves = self.read(views)
        rows = list(prompts.values())
        own_seeds = [seeds[n] for n in prompts]
        if rows:
            with self._model() as model:
                answers = sample(model, rows, own_seeds, self.limits(rows), **self.sampling)
                begun = self._begun(rows, answers, own_seeds)
                rest: list[SampledAnswer] = []
                if begun:
                    rest = sample(
                        model,
                        [each.ids for each in begun],
                        [each.seed for each in begun],
                        [each.limit for each in begun],
                        **self.sampling,
                    )
            if begun:
                answers = self._joined(answers, begun, rest)
            for n, prompt, answer in zip(prompts, rows, answers, strict=True):
                moves[n] = self.move(prompt, answer)
        return [moves[n] for n in range(len(views))]

    def continued(
        self, views: Sequence[View], texts: Sequence[str], seeds: Sequence[int]
    ) -> list[str]:
        """These texts, with which answers to the views begin, and what follows them."""
        from equipoise.sampling.sampling import sample

        prompts = [
            self._encoding.prompt_ids(view.messages) + self._encoding.text_ids(text)
            for view, text in zip(views, texts, strict=True)
        ]
        if not prompts:
            return []
        with self._model() as model:
            answers = sample(model, prompts, list(seeds), self.limits(prompts), **self.sampling)
        return [
            text + self.move(prompt, answer).text
            for text, prompt, answer in zip(texts, prompts, answers, strict=True)
        ]

    def _begun(
        self, prompts: Sequence[list[int]], answers: Sequence[SampledAnswer], dice: Sequence[int]
    ) -> list[BegunAnswer]:
        """The moves whose thoughts reached their limit; none without such a limit."""
        if self.player.thinking_tokens is None:
            return []
        most = self.player.max_new_tokens
        return begun_answers(self._encoding, prompts, answers, dice, most)

    def _joined(
        self,
        answers: Sequence[SampledAnswer],
        begun: Sequence[BegunAnswer],
        rest: Sequence[SampledAnswer],
    ) -> list[SampledAnswer]:
        """The answers, those that were begun with what followed."""
        whole = list(answers)
        closed = [each for each in begun if each.closing]
        prompts = [[*each.prompt, *each.answer.token_ids] for each in closed]
        marks = [each.closing for each in closed]
        logprobs = iter(self.retrace(prompts, marks) if closed else [])
        for each, following in zip(begun, rest, strict=True):
            of_mark = next(logprobs) if each.closing else []
            whole[each.row] = each.joined(following, of_mark)
        return whole

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of `sample` that all answers of this actor share."""
        return {
            "settings": self._settings,
            "stop_ids": self._encoding.stop_ids,
            "pad_id": self._encoding.pad_id,
            "batch_size": self.player.batch_size,
        }

    @property
    def _settings(self) -> SamplingSettings:
        from equipoise.models.token_choice import SamplingSettings

        names = (part.name for part in fields(SamplingSettings))
        return SamplingSettings(**{name: getattr(self.player, name) for name in names})

    @property
    def batch_key(self) -> Hashable:
        """Equal for actors whose answers can grow in one batch, if their model allows it."""
        player = self.player
        return self.encoding, self._settings, player.batch_size, player.precision

    def read(self, views: Sequence[View]) -> tuple[dict[int, list[int]], dict[int, Move]]:
        """The views' token ids by row, and an error move for each that has none."""
        moves: dict[int, Move] = {}
        prompts: dict[int, list[int]] = {}
        known: dict[tuple[Message, ...], list[int]] = {}
        for row, view in enumerate(views):
            try:
                if view.messages not in known:
                    known[view.messages] = self._encoding.prompt_ids(view.messages)
                prompts[row] = known[view.messages]
            except DataError as error:
                moves[row] = Move("", "error", error=str(error))
        return prompts, moves

    def limits(self, prompts: Sequence[list[int]]) -> list[int]:
        """The most tokens of the answer to each prompt; of its thoughts, where they have a limit
        of their own.
        """
        longest = self._encoding.max_length
        most = self.player.thinking_tokens or self.player.max_new_tokens
        return [min(most, longest - len(ids)) for ids in prompts]

    def move(self, prompt: list[int], answer: SampledAnswer) -> Move:
        """The move of an answer to these token ids."""
        if any(map(math.isnan, answer.logprobs)):
            return Move("", "error", error="the model's logits are not numbers")
        uncut = tuple(answer.uncut) if self._settings.cuts else ()
        return Move(
            self._encoding.decode(answer.token_ids),
            "stop" if answer.ended else "length",
            tuple(answer.token_ids),
            tuple(answer.logprobs),
            len(prompt),
            uncut=uncut,
            marks=self._encoding.marks,
            forced=answer.forced,
        )

    # -- scores

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str | Turns],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        """Each answer's sum of log-probabilities under softmax(logits), and its tokens with the
        end.

        Those `cut` have no end. Raises DataError for a chat that cannot be encoded and, with
        `whole`, for an answer that does not fit.
        """
        encoding = self._encoding
        rows: list[tuple[list[int], int]] = []
        learned: list[list[bool] | None] = []
        for n, (chat, text) in enumerate(zip(chats, texts, strict=True)):
            ended = not (cut and cut[n])
            answered = encoding.answered(chat, text, ended)
            start = len(answered.prompt)
            needed = start + answered.needed
            ids = [*answered.prompt, *answered.ids]
            if whole and needed > len(ids):
                raise DataError(
                    f"model '{self.player.model}' needs {needed} tokens for a prompt and answer, "
                    f"but its max_length is {encoding.max_length}; raise it, for a part of an "
                    "answer cannot be compared"
                )
            rows.append((ids, start))
            learned.append(answered.learned)
        return self._score(rows, learned)

    def token_sums(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float]:
        """log p(answer | prompt), in nats, of each answer's token ids, uncut."""
        pairs = zip(prompts, answers, strict=True)
        rows = [([*prompt, *answer], len(prompt)) for prompt, answer in pairs]
        return [total for total, _ in self._score(rows)]

    def _score(
        self, rows: Sequence[tuple[list[int], int]], learned: Sequence[list[bool] | None] = ()
    ) -> list[tuple[float, int]]:
        from equipoise.models.logprobs import answer_logprobs

        size = self._unit_rows or max(1, len(rows))
        scores: list[tuple[float, int]] = []
        with self._model() as model:
            for first in range(0, len(rows), size):
                unit = rows[first : first + size]
                scores += answer_logprobs(
                    model,
                    [ids for ids, _ in unit],
                    [start for _, start in unit],
                    self._encoding.pad_id,
                    batch_size=self.player.batch_size,
                    learned=learned[first : first + size],
                )
        return scores

    def retrace(
        self,
        prompts: Sequence[list[int]],
        answers: Sequence[list[int]],
        temperature: float | None = None,
    ) -> list[list[float]]:
        """The uncut log-probabilities, in nats, of these answers' tokens in sampling."""
        from equipoise.sampling.sampling import retrace

        temperature = temperature or self.player.temperature or 1.0
        with self._model() as model:
            return retrace(model, prompts, answers, temperature, self._encoding.pad_id)

    # -- words

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """The texts of all special tokens of the tokenizer."""
        return self._encoding.control_tokens

    def word_probabilities(
        self, views: Sequence[View], words: Sequence[str]
    ) -> list[WordProbabilities | str]:
        """The chance of each of `words` to begin the answers, by one reading; each word of several
        tokens but the first needs one more.

        "1" counts without "10", where that is another word.
        """
        prompts, errors = self.read(views)
        ids = [self._encoding.text_ids(word) for word in words]
        firsts = {each[0] for each in ids}
        readings: dict[int, WordProbabilities | str] = {
            row: str(move.error) for row, move in errors.items()
        }
        probabilities = self._word_probabilities(list(prompts.values()), ids)
        for row, (of_word, next_token) in zip(prompts, probabilities, strict=True):
            readings[row] = WordProbabilities(
                of_word,
                self._encoding.tokenizer.decode([next_token.likeliest]),
                next_token.likeliest in firsts,
                len(prompts[row]),
            )
        return [readings[row] for row in range(len(views))]

    def _word_probabilities(
        self, prompts: list[list[int]], words: Sequence[list[int]]
    ) -> list[tuple[tuple[float, ...], NextToken]]:
        from equipoise.models.sequence_scores import next_tokens

        if not prompts:
            return []
        firsts = [each[0] for each in words]
        longer = next((ids for ids in words if len(ids) > 1), [])
        pad = self._encoding.pad_id
        size = self.player.batch_size
        with self._model() as model:
            next_of_row = next_tokens(model, prompts, firsts, pad, size, longer)
        columns = []
        for k, word in enumerate(words):
            if len(word) == 1:
                logprobs = [row.logprobs[k] for row in next_of_row]
            elif word == longer:
                logprobs = [row.several for row in next_of_row]
            else:
                logprobs = self.token_sums(prompts, [word] * len(prompts))
            columns.append([math.exp(logprob) for logprob in logprobs])
        rows = zip(*columns, strict=True)
        return [
            (without_continuations(row, words), next_token)
            for row, next_token in zip(rows, next_of_row, strict=True)
        ]

    # -- memory

    def close(self) -> None:
        """Let go of the model; it leaves memory with its last user."""
        self._adapted = None

    @contextmanager
    def _model(self) -> Iterator[Any]:
        adapted = self.adapted
        with self.memory_errors(), adapted.lend() as model, self.autocast(model):
            yield model

    def autocast(self, model: Any) -> AbstractContextManager[Any]:
        """The precision of matrix products."""
        import torch

        if self.player.precision is None:
            return nullcontext()
        short = self.player.precision == "bf16"
        if short and model.device.type == "cpu":
            return short_products(model)
        return torch.autocast(model.device.type, torch.bfloat16, enabled=short)

    @contextmanager
    def memory_errors(self) -> Iterator[None]:
        """Turn want of memory into an error that names the settings."""
        import torch

        try:
            yield
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model '{self.player.model}' ran out of memory with batch_size = "
                f"{self.player.batch_size} and up to {self._encoding.max_length} tokens a "
                f"row; lower one of them: a run that has begun goes on with another batch_size, "
                f"`equipoise resume RUN -s NAME.batch_size=…` ({str(error).splitlines()[0]})"
            ) from error


def without_continuations(
    probabilities: Sequence[float], words: Sequence[list[int]]
) -> tuple[float, ...]:
    """The probability of each word and nothing that continues it to another word."""
    alone = []
    for probability, word in zip(probabilities, words, strict=True):
        continued = sum(
            other_probability
            for other_probability, other in zip(probabilities, words, strict=True)
            if len(other) > len(word) and other[: len(word)] == word
        )
        alone.append(max(0.0, probability - continued))
    return tuple(alone)


class EngineActor(LocalActor):
    """A local player that an engine in another process samples, by token ids."""

    def __init__(
        self,
        player: LocalSettings,
        encoding: Encoding,
        model: AdaptedModel | LazyModel,
        engine: ProbedEngine,
    ) -> None:
        """`model` is the same model here."""
        super().__init__(player, encoding, model)
        self._engine = engine

    def with_settings(self, player: LocalSettings) -> EngineActor:
        encoding, own = self._adjust(player)
        return EngineActor(own, encoding, self.adapted, self._engine)

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One answer or error move per view. ModelError if the engine fails or disagrees."""
        return self.submit(views, seeds)()

    def submit(self, views: Sequence[View], seeds: Sequence[int]) -> Callable[[], list[Move]]:
        """Send the rows; the function returned waits for the moves."""
        prompts, moves = self.read(views)
        limits = self.limits(list(prompts.values()))
        rows = {
            n: EngineRow(prompt, seeds[n], limit, views[n].schema)
            for (n, prompt), limit in zip(prompts.items(), limits, strict=True)
        }
        retraces = (self.retrace, self.retrace_base)
        exact = self.player.has_exact_products
        pending = self._engine.submit(list(rows.values()), self._settings, *retraces, exact)

        def wait() -> list[Move]:
            answers = self._engine.engine.wait(pending)
            prompts_here = [row.prompt for row in rows.values()]
            begun = self._begun(prompts_here, answers, [row.seed for row in rows.values()])
            if begun:
                further = [EngineRow(each.ids, each.seed, each.limit, None) for each in begun]
                resumed = self._engine.submit(further, self._settings, *retraces, exact)
                answers = self._joined(answers, begun, self._engine.engine.wait(resumed))
            for (n, row), answer in zip(rows.items(), answers, strict=True):
                moves[n] = self.move(row.prompt, answer)
            return [moves[n] for n in range(len(views))]

        return wait

    def retrace_base(
        self, prompts: Sequence[list[int]], answers: Sequence[list[int]], temperature: float
    ) -> list[list[float]]:
        """As `retrace`, by the model without an adapter."""
        bare = LocalActor(self.player, self._encoding, self.adapted.bare())
        return bare.retrace(prompts, answers, temperature)

    def sampler_facts(self) -> dict[str, Any]:
        """The engine that answered, and its distance from the model here."""
        return self._engine.facts()

    def sleep(self) -> None:
        """Let the engine free its memory, where the settings say so, while a learner trains."""
        self._engine.engine.sleep()

    def close(self) -> None:
        super().close()
        self.sleep()
