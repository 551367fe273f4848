"""A local player as an engine, which answers what the player would have at this seed."""

import asyncio
import copy
import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import ConfigError, DataError
from equipoise.models.chat_encoding import Encoding, NoRoom
from equipoise.models.grammar import GrammarCompiler, TokenGrammar
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.detokenizer import ThoughtReader, TokenTexts
from equipoise.serve.engine import EngineRequest, Piece, Refused
from equipoise.serve.model_thread import ModelThread, PendingAnswer
from equipoise.serve.tool_calls import CallForm, CallReader, asked_form, lark_grammar
from equipoise.types import Message

T = TypeVar("T")
ChatIds = tuple[list[int], list[int]]
BRIEF = 4000  # characters, which are tokenised within a millisecond or two
REMEMBERED = 256  # brief chats whose token ids are kept, so that counting costs nothing
REMEMBERED_LONG = 8


class LocalEngine:
    """A local player that answers chats and goes on with texts, many at once."""

    def __init__(
        self, player: Local, weights: Path | None = None, resources: Resources | None = None
    ) -> None:
        """Loads the model, unless it is among the resources. Raises ModelError."""
        resources = resources or Resources()
        self._resources = resources
        self._encoding = player.shared_encoding(resources)
        _ = self._encoding.hidden_tokens  # found out before several threads ask
        base, self._adapter = player.base(weights, resources)
        self._prompts = resources.get(
            ("prompts", id(self._encoding)), lambda: PromptEncoder(self._encoding)
        )
        self._texts = resources.get(
            ("texts", id(self._encoding)),
            lambda: TokenTexts(copy.deepcopy(self._encoding.tokenizer)),
        )
        self._thread = resources.get(
            ("thread", id(base)), lambda: ModelThread(base, player.batch_size)
        )
        self._thread.enter()
        self._vocabulary: int = base.model.get_input_embeddings().weight.shape[0]

    async def count(
        self, messages: Sequence[Message], prefix: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """The number of the prompt's tokens, `prefix` included. Raises Refused."""
        chat = self._prompts.chat_ids(tuple(messages), prefix, written(tools))
        prompt_ids, begun_ids = await chat
        return len(prompt_ids) + len(begun_ids)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces.

        Raises Refused for a chat, a length, token ids, tools or a form that cannot be.
        """
        form = await self._call_form(request)
        if request.prompt_ids is None:
            chat = (request.messages, request.prefix, written(request.tools))
            prompt_ids, begun_ids = await self._prompts.chat_ids(*chat)
        else:
            ids = list(request.prompt_ids or ())
            if not ids:
                raise Refused("the prompt has no tokens", param="prompt")
            self._check_ids(ids, "prompt")
            if len(ids) + min(request.max_tokens, 1) > self._encoding.max_length:
                raise self._prompts.too_long(f"{len(ids)} tokens", "prompt")
            prompt_ids = ids
            begun_ids = []
        if request.echo and request.logprobs is None:
            yield Piece(self._texts.whole(prompt_ids))
        if not request.max_tokens and not (request.echo and request.logprobs is not None):
            yield Piece(finish="length")
            return
        answer = PendingAnswer(
            request, prompt_ids, begun_ids, self._adapter, self._encoding, self._texts
        )
        answer.grammar = await self._grammar(request, form, begun_ids)
        reader = None
        if form is not None and request.tools:
            names = {tool["function"]["name"] for tool in request.tools}
            reader = CallReader(form, names, several=request.several_calls)
        thinks = request.prompt_ids is None and not request.prefix
        marks = self._encoding.marks if thinks else None
        thoughts = None if marks is None else ThoughtReader(marks)
        self._thread.add(answer)
        try:
            while True:
                piece = await answer.pieces.get()
                if thoughts is not None:
                    piece = thoughts.read(piece)
                yield piece if reader is None else reader.read(piece)
                if piece.finish:
                    return
        finally:
            answer.cancelled = True

    @property
    def tokenizer_facts(self) -> dict[str, Any]:
        """The tokenizer's control tokens, the chat template, the longest context."""
        tokenizer = self._encoding.tokenizer
        return {
            "tokenizer_class": type(tokenizer).__name__,
            "bos_token": tokenizer.bos_token,
            "eos_token": tokenizer.eos_token,
            "pad_token": tokenizer.pad_token,
            "unk_token": tokenizer.unk_token,
            "chat_template": self._encoding.template,
            "model_max_length": self._encoding.max_length,
        }

    async def tokenize(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a text, its control tokens as such. Raises Refused for one too long."""
        return await self._prompts.text_ids(text, add_special_tokens)

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of tokens, control tokens shown. Raises Refused for unknown or too many."""
        if len(ids) > self._encoding.max_length:
            raise self._prompts.too_long(f"{len(ids)} tokens", "tokens")
        self._check_ids(ids, "tokens")
        return await asyncio.to_thread(self._texts.whole, ids)

    async def close(self) -> None:
        """End all work. The thread ends with the last engine that shares it."""
        if self._thread.leave():
            await asyncio.to_thread(self._thread.close)

    async def _call_form(self, request: EngineRequest) -> CallForm | None:
        """The form in which the model writes calls, where the chat has any. Raises Refused."""
        if not request.tools and not any(m.further for m in request.messages):
            return None
        key = ("form of calls", id(self._encoding))
        try:
            return await asyncio.to_thread(
                self._resources.get, key, lambda: CallForm.of(self._prompts.spare_encoding())
            )
        except DataError as error:
            field = "tools" if request.tools else "messages"
            raise Refused(str(error), "unsupported_value", field) from error

    async def _grammar(
        self, request: EngineRequest, form: CallForm | None, begun_ids: Sequence[int]
    ) -> TokenGrammar | None:
        """The grammar of the answer, where the request asks for one. Raises Refused."""
        field = asked_form(request)
        if not field:
            return None

        def compile_grammar() -> TokenGrammar:
            grammar = lark_grammar(request, form)
            tokenizer = self._texts.tokenizer
            stop_ids = self._encoding.stop_ids
            compiler = self._resources.get(
                ("grammars", id(self._encoding), self._vocabulary),
                lambda: GrammarCompiler(tokenizer, self._vocabulary, stop_ids),
            )
            return compiler.compile(grammar, begun_ids)

        try:
            return await asyncio.to_thread(compile_grammar)
        except ConfigError as error:
            raise Refused(f"'{field}' {error}", "unsupported_value", field) from error
        except DataError as error:
            raise Refused(f"'{field}': {error}", "invalid_value", field) from error

    def _check_ids(self, ids: Sequence[int], field: str) -> None:
        unknown = next((i for i in ids if not 0 <= i < self._vocabulary), None)
        if unknown is not None:
            raise Refused(
                f"{unknown} is no token of this model: they are 0 to {self._vocabulary - 1}",
                param=field,
            )


class PromptEncoder:
    """An encoding for many requests at once.

    No two threads may use one tokenizer at the same time: long prompts have a copy of their own.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._long_encoding = copy.deepcopy(encoding)
        self._lock = threading.Lock()  # of the first
        self._thread = ThreadPoolExecutor(1, "equipoise-tokenizer")
        self._ids = lru_cache(REMEMBERED)(encoder(self._encoding))
        self._long_ids = lru_cache(REMEMBERED_LONG)(encoder(self._long_encoding))
        # No text of more characters fits: a token has so many at most.
        longest_token = max(map(len, encoding.tokenizer.get_vocab()))
        self._most_characters = encoding.max_length * longest_token

    async def chat_ids(
        self, messages: tuple[Message, ...], prefix: str, tools: str = ""
    ) -> tuple[list[int], list[int]]:
        """Ids of the prompt and of what the answer begins with. Raises Refused.

        `tools`: as in `Encoding.prompt_ids`.
        """
        characters = sum(len(message.content) for message in messages) + len(prefix) + len(tools)
        characters += sum(len(m.further) for m in messages)
        self._check_length(characters, "messages")
        if len(messages) > self._encoding.max_length:
            raise self.too_long(f"{len(messages)} messages", "messages")
        if characters + 100 * len(messages) < BRIEF:
            return await self._at_once(lambda: self._ids(messages, prefix, tools))
        return await self._in_thread(lambda: self._long_ids(messages, prefix, tools))

    async def text_ids(self, text: str, add_special_tokens: bool) -> list[int]:
        """The tokens of a text, its control tokens as such. Raises Refused."""
        self._check_length(len(text), "prompt")

        def encode(encoding: Encoding) -> list[int]:
            return encoding.tokenizer.encode(
                text, add_special_tokens=add_special_tokens, verbose=False
            )

        if len(text) < BRIEF:
            return await self._at_once(lambda: encode(self._encoding))
        return await self._in_thread(lambda: encode(self._long_encoding))

    def spare_encoding(self) -> Encoding:
        """A copy that nothing else uses."""
        with self._lock:
            return copy.deepcopy(self._encoding)

    def too_long(self, size: str, field: str) -> Refused:
        """The refusal of a prompt of this size."""
        return Refused(
            f"a prompt of {size} leaves no room for an answer within max_length = "
            f"{self._encoding.max_length}",
            "context_length_exceeded",
            field,
        )

    async def _at_once(self, work: Callable[[], T]) -> T:
        """`work` here, faster than in a thread; in a thread where another event loop is at it."""

        def when_free() -> T:
            with self._lock:
                return work()

        if not self._lock.acquire(blocking=False):
            return await asyncio.to_thread(when_free)
        try:
            return work()
        finally:
            self._lock.release()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _check_length(self, characters: int, field: str) -> None:
        if characters > self._most_characters:
            raise self.too_long(f"{characters} characters", field)


def written(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(tools, ensure_ascii=False) if tools else ""


def encoder(encoding: Encoding) -> Callable[[tuple[Message, ...], str, str], ChatIds]:
    """(messages, prefix, tools) -> ids of the prompt and of what the answer begins with."""

    def encode(messages: tuple[Message, ...], prefix: str, tools: str) -> ChatIds:
        try:
            prompt_ids = encoding.prompt_ids(messages, tools)
            begun_ids = encoding.text_ids(prefix) if prefix else []
        except NoRoom as error:
            raise Refused(str(error), "context_length_exceeded") from error
        except DataError as error:
            raise Refused(str(error)) from error
        longest = encoding.max_length
        if len(prompt_ids) + len(begun_ids) >= longest:
            raise Refused(
                f"a prompt of {len(prompt_ids)} tokens and {len(begun_ids)} of the "
                f"answer's beginning leave no room within max_length = {longest}",
                "context_length_exceeded",
            )
        return prompt_ids, begun_ids

    return encode
