"""From chats to token ids, written once for sampling, scoring and training.

    ids = template(messages) with the opening of the answer's turn
          ++ tokens of the answer ++ the turn's end

Prompt and answer are tokenised separately, so the ids of a scored answer are those that were
sampled. Control tokens in messages or answers are encoded as ordinary text: no text ends its own
turn.
"""

import copy
import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from equipoise.answer import parse_answer
from equipoise.errors import DataError, ModelError, first_line
from equipoise.models.thought_marks import THOUGHT_FIELDS, template_marks
from equipoise.system.interrupts import time_limit
from equipoise.types import Marks, Message, Turns

PLAIN = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize + ':\\n' + message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '' }}{{ '\\n\\n' }}"
    "{% endfor %}"
    "{{ 'Assistant:\\n' if add_generation_prompt else '' }}"
)
# What templates raise; the last two by going too deep, and too far.
TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    RecursionError,
    TimeoutError,
)
CHANNEL = "<|channel|>"
CHANNEL_TOKENS = (CHANNEL, "<|start|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>")
TEMPLATE, TURN = 96, 16
"""About the most tokens that a chat template adds to a chat, and to each turn of it."""
SEAM = 4
"""Further tokens where a text meets its template."""
CLOCK = "strftime_now"
"""The function by which chat templates print the date."""
MARKS = [f"%{mark}" for mark in ("-d", "-m", "-y", "-j", "-H", "-I", "-M", "-S", *"aAbBcdDeF")]
MARKS += [f"%{mark}" for mark in "GHIjmMpRSTuUVwWxXyYZzfh%"]
"""What a format of dates may hold, in C's notation."""
# Stands for a message's text while the template is tested.
_PROBE = "Xyzzy"


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """The ids of a prompt and of its answer, cut to fit; which of the answer's are learned (None:
    all); and the number that the answer needs whole.
    """

    prompt: list[int]
    ids: list[int]
    learned: list[bool] | None
    needed: int


def until_end(ids: list[int], ending: list[int]) -> list[int]:
    """The ids up to the first end of a turn, with it."""
    for place in range(len(ids)):
        if ids[place : place + len(ending)] == ending:
            return ids[: place + len(ending)]
    return ids


class NoRoom(DataError):  # noqa: N818
    """A prompt that leaves no room for an answer."""


class Encoding:
    """A tokenizer with a chat template and a limit on length; equal fingerprints mean equal ids."""

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        template: str | Path | None = None,
        template_options: Mapping[str, Any] | None = None,
        stop_ids: Iterable[int] = (),
        *,
        max_prompt: int | None = None,
        date: datetime.date | None = None,
        embeddings: int | None = None,
    ) -> None:
        """`max_length` bounds prompt and answer together, in tokens. Raises ModelError.

        `template`: the path of a Jinja chat template in place of the tokenizer's own (or a plain
        one). `template_options` go to it (`enable_thinking: false` for Qwen3). `stop_ids`: further
        end tokens. `max_prompt`: a longer prompt loses its first tokens (None: it keeps them).
        `date`: the day that a template is given which prints the date (None: today, from now on).
        `embeddings`: the tokens that the model has numbers for (None: as many as there are).
        """
        self.tokenizer = tokenizer
        self.max_prompt = max_prompt
        self.date = date or today()
        self.embeddings = embeddings
        # Texts that are too long are counted here; transformers would print that it is so.
        warning = "sequence-length-is-longer-than-the-specified-maximum"
        getattr(tokenizer, "deprecation_warnings", {})[warning] = True
        self.max_length = max_length
        self.options = dict(template_options or {})
        self.template = _template(tokenizer, template)
        try:
            self._render(("user", "a"))
        except TEMPLATE_ERRORS as error:
            raise ModelError(
                f"the chat template cannot render a user's message: {first_line(error)}"
            ) from error
        self._check_embeddings()
        # Whether a system message is shown, and whether a role may speak twice in a row.
        self._system = self._shows_probe(("system", _PROBE), ("user", "a"))
        self._repeats = self._shows_probe(("user", "a"), ("user", _PROBE))
        self._end_ids = self._turn_end()
        stops = {self._end_ids[-1], *stop_ids, tokenizer.eos_token_id} - {None}
        self.stop_ids: tuple[int, ...] = tuple(sorted(stops))
        pad = tokenizer.pad_token_id
        # Padding is masked, so a token that the model knows serves where its own has no numbers.
        if pad is None or (embeddings is not None and pad >= embeddings):
            pad = self.stop_ids[0]
        self.pad_id: int = pad
        self._own_tokens: dict[tuple[str, ...], float] = {}

    def prompt_ids(self, messages: Sequence[Message], tools: str = "") -> list[int]:
        """The chat, ready for the answer. Raises DataError if refused, NoRoom if too long.

        `tools`: those that the answer may call, as the protocol's JSON.
        """
        return self._with_room(self.whole_prompt_ids(messages, tools), messages)

    def _with_room(self, ids: list[int], messages: Sequence[Message]) -> list[int]:
        """A prompt's ids, cut to `max_prompt`. Raises NoRoom where none is left for an answer."""
        if self.max_prompt is not None:
            ids = ids[-self.max_prompt :]
        if len(ids) >= self.max_length:
            raise NoRoom(
                f"a prompt of {len(ids)} tokens leaves no room for an answer within "
                f"max_length = {self.max_length} (it begins {messages[0].content[:60]!r}); "
                "shorten it or raise max_length"
            )
        return ids

    def whole_prompt_ids(self, messages: Sequence[Message], tools: str = "") -> list[int]:
        """The chat, ready for the answer, of any length. Raises DataError if refused."""
        return self._chat_ids(messages, True, tools)

    def most_prompt_tokens(self, messages: Sequence[Message]) -> float:
        """A bound on the tokens of a chat, from what this template writes around its messages.

        It is infinite where the template refuses such a chat, and where messages hold more than
        their text.
        """
        if not messages or any(message.further for message in messages):
            return math.inf
        roles = tuple(message.role for message in messages)
        if roles not in self._own_tokens:
            try:
                shortest = self.whole_prompt_ids([Message(role, "a") for role in roles])
            except DataError:
                self._own_tokens[roles] = math.inf
            else:
                self._own_tokens[roles] = len(shortest)
        texts = sum(len(message.content.encode()) for message in messages)
        return self._own_tokens[roles] + texts + SEAM * len(messages)

    def fits(self, messages: Sequence[Message], answer: str | Turns, cut: bool = False) -> bool:
        """True if a chat and its answer are read whole. Raises DataError for a refused chat."""
        most = min(self.max_length, self.max_prompt or math.inf)
        if isinstance(answer, str) and at_most_tokens(messages, answer) <= most:
            return True
        whole = self.answered_whole(messages, answer, not cut)
        if self.max_prompt is not None and len(whole.prompt) > self.max_prompt:
            return False
        return len(whole.prompt) + whole.needed <= self.max_length

    def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
        """The text of a chat with tools. Raises DataError where the template refuses it."""
        chat = [_fields(message) for message in messages]
        try:
            with time_limit():
                return self.tokenizer.apply_chat_template(
                    chat,
                    tools=list(tools),
                    chat_template=self.dated_template,
                    tokenize=False,
                    **self.options,
                )
        except TEMPLATE_ERRORS as error:
            raise DataError(f"the chat template takes no tools: {first_line(error)}") from error

    def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """A chat that is over, of any length. Raises DataError where the template refuses it."""
        return self._chat_ids(messages, False)

    def answer_ids(self, text: str, ended: bool = True) -> list[int]:
        """The answer's tokens and, unless it was cut, the end of its turn."""
        return [*self.text_ids(text), *(self._end_ids if ended else ())]

    def text_ids(self, text: str) -> list[int]:
        """The tokens of an answer that is not over; the marks of its thoughts are control tokens
        where they are sampled as such.
        """
        if self.marks is None or not self.mark_tokens:
            return self._plain_ids(text)
        marks = (re.escape(self.marks.opening), re.escape(self.marks.closing))
        ids: list[int] = []
        for part in re.split(f"({'|'.join(marks)})", text):
            if part in (self.marks.opening, self.marks.closing):
                ids += self.mark_ids(part)
            elif part:
                ids += self._plain_ids(part)
        return ids

    def mark_ids(self, mark: str) -> list[int]:
        """The tokens of a mark of thoughts, control tokens included."""
        return self.tokenizer.encode(mark, add_special_tokens=False)

    def _plain_ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def join(
        self, messages: Sequence[Message], text: str, ended: bool = True
    ) -> tuple[list[int], int]:
        """(ids of prompt and answer, where it starts), cut to fit; no end token unless `ended`."""
        prompt = self.prompt_ids(messages)
        return (prompt + self.answer_ids(text, ended))[: self.max_length], len(prompt)

    def answered(
        self, messages: Sequence[Message], answer: str | Turns, ended: bool = True
    ) -> EncodedAnswer:
        """The ids of a chat and its answer, cut to fit. Raises as `prompt_ids` does.

        A chat without messages stands for a text alone, which is learned whole.
        """
        whole = self.answered_whole(messages, answer, ended)
        prompt = self._with_room(whole.prompt, messages) if messages else whole.prompt
        room = self.max_length - len(prompt)
        ids = whole.ids[:room]
        learned = whole.learned
        if learned is not None:
            learned = learned[:room]
            if not any(learned):
                raise NoRoom(
                    f"an answer of several turns has none that is learned within max_length = "
                    f"{self.max_length}; raise it"
                )
        return EncodedAnswer(prompt, ids, learned, whole.needed)

    def answered_whole(
        self, messages: Sequence[Message], answer: str | Turns, ended: bool = True
    ) -> EncodedAnswer:
        """The ids of a chat and its answer, of any length. Raises DataError for a refused chat."""
        if not messages and isinstance(answer, str):
            beginning = self.tokenizer.bos_token_id
            prompt = [self.stop_ids[0] if beginning is None else beginning]
            ids = self.text_ids(answer) + ([self.stop_ids[0]] if ended else [])
            return EncodedAnswer(prompt, ids, None, len(ids))
        prompt = self.whole_prompt_ids(messages)
        if isinstance(answer, str):
            ids = self.answer_ids(answer, ended)
            return EncodedAnswer(prompt, ids, None, len(ids))
        ids, learned = self._turns(messages, answer, ended)
        return EncodedAnswer(prompt, ids, learned, len(ids))

    def _turns(
        self, messages: Sequence[Message], answer: Turns, ended: bool
    ) -> tuple[list[int], list[bool]]:
        """(the ids of an answer's turns, which of them are learned).

        Each of the assistant's turns is encoded as an answer is, and the ids between two of them
        are the template's own. Raises DataError where these cannot be told.
        """
        ids: list[int] = []
        learned: list[bool] = []
        given = answer.messages
        turns = [place for place, message in enumerate(given) if message.role == "assistant"]
        for n, place in enumerate(turns):
            message = given[place]
            is_last = n + 1 == len(turns)
            if message.further:
                opening = self._chat_ids((*messages, *given[:place]), True)
                whole = self._chat_ids((*messages, *given[: place + 1]), False)
                if whole[: len(opening)] != opening:
                    raise DataError("the chat template writes an answer's calls out of its turn")
                own = until_end(whole[len(opening) :], self._end_ids)
            else:
                own = self.answer_ids(message.content, ended or not is_last)
            ids += own
            learned += [answer.learned(place)] * len(own)
            if is_last:
                break
            between = self._between((*messages, *given[:place]), given[place + 1 : turns[n + 1]])
            ids += between
            learned += [False] * len(between)
        return ids, learned

    def _between(self, before: Sequence[Message], others: Sequence[Message]) -> list[int]:
        """The ids between the end of an assistant's turn after `before` and the opening of its
        next, with the messages of `others` in the middle.
        """
        probe = (*before, Message("assistant", _PROBE))
        prompt = self._chat_ids(before, True)
        if not others:
            raise DataError("two answers of the assistant in a row are one turn; join their texts")
        whole = self._chat_ids((*probe, *others), True)
        head = [*prompt, *self.answer_ids(_PROBE)]
        if whole[: len(head)] != head:
            raise DataError(
                "the chat template writes earlier answers in another way than the last one, so "
                "several turns cannot be learned at once; keep the last answer alone"
            )
        return whole[len(head) :]

    def save(self, folder: str | Path, *, dated: bool = False) -> None:
        """Write the tokenizer with this template, by which it was trained.

        `dated`: for a program that is to print this encoding's day, whenever it runs.
        """
        tokenizer = copy.copy(self.tokenizer)
        tokenizer.chat_template = self.dated_template if dated else self.template
        tokenizer.save_pretrained(str(folder))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an answer's tokens, without its end and without control tokens other than
        the marks of its thoughts.
        """
        end = len(ids)
        while end and ids[end - 1] in self.stop_ids:
            end -= 1
        shown = [i for i in ids[:end] if i not in self.hidden_tokens]
        return self.tokenizer.decode(
            shown, skip_special_tokens=not self.mark_tokens, clean_up_tokenization_spaces=False
        )

    @cached_property
    def marks(self) -> Marks | None:
        """The marks of the model's thoughts, by its template; None where it has none."""

        def render(chat: Sequence[Mapping[str, Any]], opening: bool) -> str:
            with time_limit():
                return self.tokenizer.apply_chat_template(
                    list(chat),
                    chat_template=self.dated_template,
                    tokenize=False,
                    add_generation_prompt=opening,
                    **self.options,
                )

        return template_marks(self.template, render, TEMPLATE_ERRORS)

    def reads(self, variables: Sequence[str]) -> bool:
        """True if the template reads one of these variables."""
        return any(re.search(rf"\b{name}\b", self.template) for name in variables)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        added = self.tokenizer.added_tokens_decoder.items()
        special = {i for i, token in added if token.special}
        return frozenset(special | set(self.tokenizer.all_special_ids))

    @cached_property
    def mark_tokens(self) -> frozenset[int]:
        """The control tokens that the marks of thoughts are made of, with those of channels."""
        if self.marks is None:
            return frozenset()
        marks = self.marks.opening + self.marks.closing
        ids = set(self.tokenizer.encode(marks, add_special_tokens=False)) & self.control_ids
        if ids and CHANNEL in marks:
            vocabulary = self.tokenizer.get_vocab()
            ids |= {vocabulary[token] for token in CHANNEL_TOKENS if token in vocabulary}
        return frozenset(ids)

    @cached_property
    def hidden_tokens(self) -> frozenset[int]:
        """The control tokens that an answer's text leaves out, where it shows those of marks."""
        return self.control_ids - self.mark_tokens if self.mark_tokens else frozenset()

    def thought_tokens(self, ids: Sequence[int]) -> int:
        """The number of an answer's first tokens that are thoughts and their marks."""
        text = self.decode(ids)
        answer = parse_answer(text, self.marks)
        if not answer.thoughts or answer.unfinished or not text.endswith(answer.text):
            return len(ids) if answer.unfinished else 0
        start = len(text) - len(answer.text)
        low = 0
        high = len(ids)
        while low < high:
            middle = (low + high) // 2
            if len(self.decode(ids[:middle])) < start:
                low = middle + 1
            else:
                high = middle
        return low

    @cached_property
    def control_tokens(self) -> tuple[str, ...]:
        """The texts of all special tokens, in the order of their numbers."""
        added = sorted(self.tokenizer.added_tokens_decoder.items())
        special = [token.content for _, token in added if token.special]
        return tuple(dict.fromkeys([*special, *self.tokenizer.all_special_tokens]))

    @property
    def prints_date(self) -> bool:
        """True if the template asks for the date, by the one function that transformers gives."""
        return CLOCK in self.template

    @cached_property
    def dated_template(self) -> str:
        """The template as it is filled: one that prints the date has its day in it."""
        return clock_of(self.date) + self.template if self.prints_date else self.template

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what decides token ids: vocabulary, template, options, date, end, lengths."""
        parts = [
            self._rules(),
            self.tokenizer.special_tokens_map,
            self.template,
            self.options,
            self._end_ids,
            self.max_length,
        ]
        if self.prints_date:
            parts.append({"date": self.date.isoformat()})
        if self.max_prompt is not None:
            parts.append({"max_prompt": self.max_prompt})
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _rules(self) -> dict[str, Any]:
        if not self.tokenizer.is_fast:
            return {"class": type(self.tokenizer).__name__, "vocab": self.tokenizer.get_vocab()}
        rules = json.loads(self.tokenizer.backend_tokenizer.to_str())
        passing = ("padding", "truncation")
        return {key: value for key, value in rules.items() if key not in passing}

    def _chat_ids(self, messages: Sequence[Message], opening: bool, tools: str = "") -> list[int]:
        """The template's ids, which end with the opening of an answer's turn or with the chat."""
        given: dict[str, Any] = {}
        if not messages:
            raise DataError("a prompt without messages cannot be answered")
        fields = [_fields(message) for message in messages]
        own_tools = fields[0].pop("tools", None)
        chat = self._fitting([self._parted(each) for each in fields])
        if tools:
            given["tools"] = json.loads(tools)
        elif own_tools:
            given["tools"] = own_tools
        try:
            with time_limit():
                ids = self.tokenizer.apply_chat_template(
                    chat,
                    chat_template=self.dated_template,
                    add_generation_prompt=opening,
                    sanitize_control_tokens=True,
                    return_dict=False,
                    # The caller checks the length, with a clearer message.
                    tokenizer_kwargs={"verbose": False},
                    **given,
                    **self.options,
                )
        except TEMPLATE_ERRORS as error:
            roles = ", ".join(message.role for message in messages)
            raise DataError(
                "the model's chat template refuses a chat with the roles "
                f"{roles}: {first_line(error)}"
            ) from error
        ids = list(ids)
        if self.embeddings is not None and max(ids, default=0) >= self.embeddings:
            raise DataError(
                f"the chat template writes token {max(ids)}, and the model has embeddings for "
                f"{self.embeddings:,}; resize them, or give it the tokenizer that it was trained "
                "with"
            )
        return ids

    def _parted(self, fields: dict[str, Any]) -> dict[str, Any]:
        """An earlier answer with its thoughts apart, for the template to write or to drop."""
        if fields["role"] != "assistant" or self.marks is None:
            return fields
        if self.marks.closing.strip() not in fields["content"]:
            return fields
        marks = Marks(self.marks.opening, self.marks.closing)
        answer = parse_answer(fields["content"], marks)
        if not answer.thoughts or answer.unfinished:
            return fields
        thoughts = "\n\n".join(answer.thoughts)
        return fields | {"content": answer.text} | dict.fromkeys(THOUGHT_FIELDS, thoughts)

    def _render(self, *messages: tuple[str, str]) -> str:
        chat = [{"role": role, "content": content} for role, content in messages]
        return self.tokenizer.apply_chat_template(
            chat, chat_template=self.dated_template, tokenize=False, **self.options
        )

    def _check_embeddings(self) -> None:
        """Raises ModelError for a tokenizer that writes tokens which the model has no numbers for.

        A special token beyond them that neither the template nor an end of turn writes does no
        harm: texts cannot hold it.
        """
        if self.embeddings is None or len(self.tokenizer) <= self.embeddings:
            return
        special = set(self.tokenizer.all_special_ids)
        added = self.tokenizer.added_tokens_decoder
        special |= {i for i, token in added.items() if token.special}
        beyond = {i: text for text, i in self.tokenizer.get_vocab().items() if i >= self.embeddings}
        chat = self._render(("user", "a"), ("assistant", "a"))
        written = set(self.tokenizer.encode(chat)) | {self.tokenizer.eos_token_id}
        needed = sorted(i for i in beyond if i not in special or i in written)
        if needed:
            size = max(beyond) + 1
            raise ModelError(
                f"the tokenizer has {size:,} tokens and the model embeddings for "
                f"{self.embeddings:,}: {beyond[needed[0]]!r} is token {needed[0]}, which it cannot "
                f"read. Resize the model once, model.resize_token_embeddings({size}) and "
                "model.save_pretrained(FOLDER) in transformers, and name that folder; or give it "
                "the tokenizer that it was trained with"
            )

    def _shows_probe(self, *messages: tuple[str, str]) -> bool:
        try:
            return _PROBE in self._render(*messages)
        except TEMPLATE_ERRORS:
            return False

    def _fitting(self, chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The chat as the template takes it: unknown system text to the user; one turn a role."""
        if not self._system and chat[0]["role"] == "system":
            system, *rest = chat
            first = {"role": "user", "content": system["content"]}
            if rest and rest[0]["role"] == "user":
                first = _merge(first, rest[0])
                rest = rest[1:]
            chat = [first, *rest]
        if self._repeats or any(len(message) > 2 for message in chat):
            return chat
        alternating: list[dict[str, Any]] = []
        for message in chat:
            if alternating and alternating[-1]["role"] == message["role"]:
                alternating[-1] = _merge(alternating[-1], message)
            else:
                alternating.append(message)
        return alternating

    def _turn_end(self) -> list[int]:
        """The ids that close an assistant's turn: the template's text up to a control token."""
        try:
            text = self._render(("user", "a"), ("assistant", _PROBE))
        except TEMPLATE_ERRORS as error:
            raise ModelError(
                f"the chat template cannot render an assistant's message: {first_line(error)}"
            ) from error
        _, _, ending = text.rpartition(_PROBE)
        ids = self.tokenizer.encode(ending, add_special_tokens=False)
        added = self.tokenizer.added_tokens_decoder.items()
        control = {i for i, token in added if not token.content.isspace()}
        for n, token in enumerate(ids, 1):
            if token in control:
                return ids[:n]
        if self.tokenizer.eos_token_id is None:
            raise ModelError(
                "neither the chat template nor the tokenizer (eos_token) says how an answer ends"
            )
        return [self.tokenizer.eos_token_id]


def today() -> datetime.date:
    """The day that it is."""
    return datetime.date.today()


def clock_of(day: datetime.date) -> str:
    """A template's own function for the date, in place of transformers', which tells today's."""
    now = datetime.datetime.combine(day, datetime.time())
    steps = "".join(f" | replace('{mark}', '{now.strftime(mark)}')" for mark in MARKS)
    # What comes behind it stays as it is, a first line end too.
    return f"{{% macro {CLOCK}(format) -%}}{{{{ format{steps} }}}}{{%- endmacro %}}{{{{ '' }}}}"


def at_most_tokens(messages: Sequence[Message], answer: str = "") -> int:
    """A bound on the tokens of a chat and its answer: no token has less than a byte."""
    texts = [*(message.content for message in messages), answer]
    return sum(len(text.encode()) for text in texts) + TEMPLATE + TURN * len(texts)


def _fields(message: Message) -> dict[str, Any]:
    """The message as templates take it; the arguments of calls as objects."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if not message.further:
        return fields
    fields |= json.loads(message.further)
    for call in fields.get("tool_calls", ()):
        try:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        except (ValueError, RecursionError):
            continue  # as the model wrote them
    return fields


def _merge(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {**second, "content": f"{first['content']}\n\n{second['content']}"}


def _template(tokenizer: Any, path: str | Path | None) -> str:
    if path is not None:
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"cannot read the chat template {path}: {error}") from error
    if tokenizer.chat_template:
        return tokenizer.get_chat_template()
    begins = tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    return ("{{ bos_token }}" if begins else "") + PLAIN
