"""A language model in this process that is ready to move and to score."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from equipoise.errors import DataError, ModelError
from equipoise.players.base import WordProbabilities
from equipoise.players.local_settings import LocalSettings
from equipoise.types import Message, Move, View

if TYPE_CHECKING:
    from equipoise.models.encoding import Encoding
    from equipoise.models.next_token import NextToken
    from equipoise.models.samplers.answer import SampledAnswer
    from equipoise.models.sampling_batch import RowAdapters
    from equipoise.models.shared_base import AdaptedModel, OpenedLater


class LocalActor:
    """A local player that is ready to move and to score."""

    def __init__(
        self,
        player: LocalSettings,
        encoding: Encoding,
        model: AdaptedModel | OpenedLater,
        unit_rows: int | None = None,
    ) -> None:
        """`unit_rows`: how many rows are scored together at most; None: all of them."""
        self._unit_rows = unit_rows
        self.player = player
        self._encoding = encoding
        self._adapted: AdaptedModel | OpenedLater | None = model

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation."""
        return self._encoding.fingerprint

    def playing_as(self, player: LocalSettings) -> LocalActor:
        """The model in memory under other settings of sampling."""
        assert self._adapted is not None, "the actor is closed"
        encoding, carrying = self._changed(player)
        return LocalActor(carrying, encoding, self._adapted, self._unit_rows)

    def _changed(self, player: LocalSettings) -> tuple[Encoding, LocalSettings]:
        """The encoding of other settings, and these settings in this precision."""
        same = player.max_length == self.player.max_length
        encoding = self._encoding if same else player.encoding()
        return encoding, player.model_copy(update={"precision": self.player.precision})

    @property
    def adapted(self) -> AdaptedModel | OpenedLater:
        """The model in memory. The actor must be open."""
        assert self._adapted is not None, "the actor is closed"
        return self._adapted

    @property
    def batching(self) -> Hashable:
        """Equal for actors whose answers can grow in one batch, if their model allows it."""
        player = self.player
        cuts = (player.temperature, player.top_k, player.top_p)
        return self.encoding, *cuts, player.batch_size, player.precision

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One sampled answer per view.

        A chat that the template refuses, that leaves no room, or after which the model's logits are
        not numbers gives an error move.
        """
        prompts, moves = self.read(views)
        if prompts:
            with self._model() as model:
                own_seeds = [seeds[row] for row in prompts]
                sampled = self.sampled(model, [*prompts.values()], own_seeds)
            moves.update(zip(prompts, sampled, strict=True))
        return [moves[row] for row in range(len(views))]

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

    def sampled(
        self,
        model: Any,
        prompts: Sequence[list[int]],
        seeds: Sequence[int],
        limits: Sequence[int] | None = None,
        adapters: RowAdapters | None = None,
    ) -> list[Move]:
        """A move for each prompt's token ids, by this actor's settings.

        `limits`: the most tokens of each answer; None: its own. `adapters`: those of the rows,
        where `model` has several in force.
        """
        from equipoise.models.sampling import sample
        from equipoise.models.token_choice import SamplingSettings

        player, encoding = self.player, self._encoding
        settings = SamplingSettings(player.temperature, player.top_k, player.top_p)
        answers = sample(
            model,
            prompts,
            seeds,
            self.limits(prompts) if limits is None else limits,
            settings,
            stop_ids=encoding.stop_ids,
            pad_id=encoding.pad_id,
            batch_size=player.batch_size,
            adapters=adapters,
        )
        return [
            self._answered(ids, answer, settings.cuts)
            for ids, answer in zip(prompts, answers, strict=True)
        ]

    def _answered(self, prompt: list[int], answer: SampledAnswer, cuts: bool) -> Move:
        if any(map(math.isnan, answer.logprobs)):
            return Move("", "error", error="the model's logits are not numbers")
        return Move(
            self._encoding.decode(answer.token_ids),
            "stop" if answer.ended else "length",
            tuple(answer.token_ids),
            tuple(answer.logprobs),
            len(prompt),
            uncut=tuple(answer.uncut) if cuts else (),
        )

    def limits(self, prompts: Sequence[list[int]]) -> list[int]:
        """The most tokens of the answer to each prompt."""
        longest = self._encoding.max_length
        return [min(self.player.max_new_tokens, longest - len(ids)) for ids in prompts]

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        """For each (chat, answer): the sum of the answer's token log-probabilities, and their
        count, the end included unless the answer was `cut`.

        Under softmax(logits), whatever the player samples with. Raises DataError for a chat that
        cannot be encoded and, with `whole`, for an answer that does not fit.
        """
        ended = [not row for row in cut] or [True] * len(texts)
        joined = [
            self._encoding.join(chat, text, end)
            for chat, text, end in zip(chats, texts, ended, strict=True)
        ]
        if whole:
            for (ids, start), text, end in zip(joined, texts, ended, strict=True):
                needed = start + len(self._encoding.answer_ids(text, end))
                if needed > len(ids):
                    raise DataError(self._too_long(needed))
        return self._scored(joined)

    def continuation_logprobs(
        self, contexts: Sequence[str], continuations: Sequence[str]
    ) -> list[tuple[float, int]]:
        """log p(continuation | context), in nats, and its tokens, of plain texts: no chat template,
        no end. Raises DataError for one that does not fit.
        """
        pairs = zip(contexts, continuations, strict=True)
        return self._scored([self._encoding.continue_text(*pair) for pair in pairs])

    def _scored(self, joined: Sequence[tuple[list[int], int]]) -> list[tuple[float, int]]:
        """For each (ids, where the answer starts): its log-probability and tokens."""
        from equipoise.models.logprobs import answer_logprobs

        rows = self._unit_rows or max(1, len(joined))
        scores: list[tuple[float, int]] = []
        with self._model() as model:
            for start in range(0, len(joined), rows):
                unit = joined[start : start + rows]
                scores += answer_logprobs(
                    model,
                    [ids for ids, _ in unit],
                    [begin for _, begin in unit],
                    self._encoding.pad_id,
                    batch_size=self.player.batch_size,
                )
        return scores

    def token_sums(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float]:
        """log p(answer | prompt), in nats, of each answer's token ids, uncut."""
        pairs = zip(prompts, answers, strict=True)
        joined = [([*prompt, *answer], len(prompt)) for prompt, answer in pairs]
        return [total for total, _ in self._scored(joined)]

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """The texts of all special tokens of the tokenizer."""
        return self._encoding.control_tokens

    def word_probabilities(
        self, views: Sequence[View], words: Sequence[str]
    ) -> list[WordProbabilities | str]:
        """How likely each view's answer is to begin with each of `words`, in one reading; words of
        several tokens take one more each.

        A word that another one continues counts without that one: "1" without "10".
        """
        prompts: dict[int, list[int]] = {}
        readings: dict[int, WordProbabilities | str] = {}
        for row, view in enumerate(views):
            try:
                prompts[row] = self._encoding.prompt_ids(view.messages)
            except DataError as error:
                readings[row] = str(error)
        ids = [self._encoding.text_ids(word) for word in words]
        probabilities = self._word_probabilities(list(prompts.values()), ids)
        for row, (of_word, next_token) in zip(prompts, probabilities, strict=True):
            readings[row] = WordProbabilities(
                of_word,
                self._encoding.tokenizer.decode([next_token.likeliest]),
                any(word[0] == next_token.likeliest for word in ids),
                len(prompts[row]),
            )
        return [readings[row] for row in range(len(views))]

    def _word_probabilities(
        self, prompts: list[list[int]], words: Sequence[list[int]]
    ) -> list[tuple[tuple[float, ...], NextToken]]:
        """Of each prompt: the words' probabilities, and its next token."""
        from equipoise.models.next_token import next_tokens

        if not prompts:
            return []
        firsts = [word[0] for word in words]
        pad, size = self._encoding.pad_id, self.player.batch_size
        with self._model() as model:
            next_of_row = next_tokens(model, prompts, firsts, pad, size)
        columns = [
            [math.exp(row.logprobs[k]) for row in next_of_row]
            if len(word) == 1
            else list(map(math.exp, self.token_sums(prompts, [word] * len(prompts))))
            for k, word in enumerate(words)
        ]
        rows = zip(*columns, strict=True)
        return [
            (without_continuations(row, words), next_token)
            for row, next_token in zip(rows, next_of_row, strict=True)
        ]

    def retraced(
        self,
        prompts: Sequence[list[int]],
        answers: Sequence[list[int]],
        temperature: float | None = None,
    ) -> list[list[float]]:
        """What sampling gives each token id of these answers, in nats, uncut, at this temperature
        (None: the player's).
        """
        from equipoise.models.sampling import retraced

        with self._model() as model:
            return retraced(
                model,
                prompts,
                answers,
                temperature or self.player.temperature or 1.0,
                self._encoding.pad_id,
            )

    def products(self, model: Any) -> AbstractContextManager[Any]:
        """The precision of matrix products."""
        import torch

        if self.player.precision is None:
            return nullcontext()
        short = self.player.precision == "bf16"
        return torch.autocast(model.device.type, torch.bfloat16, enabled=short)

    def _too_long(self, needed: int) -> str:
        return (
            f"model '{self.player.model}' needs {needed} tokens for a prompt and "
            f"answer, but its max_length is {self._encoding.max_length}; raise it, "
            "for a part of an answer cannot be compared"
        )

    def close(self) -> None:
        """Let go of the model; it leaves memory with its last user."""
        self._adapted = None

    @contextmanager
    def _model(self) -> Iterator[Any]:
        adapted = self.adapted
        with self.in_memory(), adapted.lend() as model, self.products(model):
            yield model

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Turns want of memory into an error that names the settings."""
        import torch

        try:
            yield
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model '{self.player.model}' ran out of memory with batch_size = "
                f"{self.player.batch_size} and up to {self._encoding.max_length} tokens a "
                f"row; lower one of them ({str(error).splitlines()[0]})"
            ) from error


def without_continuations(
    probabilities: Sequence[float], words: Sequence[list[int]]
) -> tuple[float, ...]:
    """The probability of each word and nothing that continues it to another word."""
    return tuple(
        max(
            0.0,
            probability
            - sum(
                other_probability
                for other_probability, other in zip(probabilities, words, strict=True)
                if len(other) > len(word) and other[: len(word)] == word
            ),
        )
        for probability, word in zip(probabilities, words, strict=True)
    )
