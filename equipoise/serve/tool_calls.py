"""Answers of a form that a client asks for: calls of its tools, JSON by its schema.

A model's chat template shows how it writes a call: between tags (Hermes, Qwen), or as the whole
answer (Llama).
"""

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Self

from equipoise.errors import DataError
from equipoise.models.chat_encoding import Encoding
from equipoise.models.grammar import LIBRARY, WHITESPACE, check_library
from equipoise.serve.detokenizer import StopTexts
from equipoise.serve.engine import CallPart, EngineRequest, Piece
from equipoise.types import Message, user

PROBE = "probe_of_tools"
SEPARATORS = " \t\r\n;,"


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form of a call: JSON within `opening` and `closing`, its arguments under `key`."""

    opening: str
    closing: str
    key: str

    @classmethod
    def of(cls, encoding: Encoding) -> Self:
        """The form of a model's calls. Raises DataError where it has none, or one unknown here."""
        tool = {"type": "function", "function": {"name": PROBE, "parameters": {"type": "object"}}}
        call = {"function": {"name": PROBE, "arguments": '{"place": 1}'}, "type": "function"}
        further = json.dumps({"tool_calls": [{**call, "id": "123456789"}]})
        calling = Message("assistant", "", further)
        question = user("a")
        try:
            knows = PROBE in encoding.render([question], [tool])
            text = encoding.render([question, calling], [tool])
        except DataError:
            knows, text = False, ""
        if not knows:
            raise DataError("this model's chat template knows no tools")
        for opening, closing in (("<tool_call>", "</tool_call>"), ("", "")):
            _, begun, after = text.rpartition(opening or f'{{"name": "{PROBE}"')
            values, _ = json_values(after if opening else begun + after)
            if not begun or opening in encoding.control_tokens or not values:
                continue
            if read_call(values[0], {PROBE}) == (PROBE, '{"place": 1}'):
                key = "arguments" if "arguments" in values[0] else "parameters"
                return cls(opening, closing, key)
        raise DataError("the form in which this model writes calls of tools is not read here")


def read_call(value: Any, names: Collection[str]) -> tuple[str, str] | None:
    """(name, arguments as JSON) of a call of one of these tools; None: it is none."""
    match value:
        case {"name": str(name), "arguments": arguments} if name in names:
            pass
        case {"name": str(name), "parameters": arguments} if name in names:
            pass
        case _:
            return None
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return (name, arguments) if isinstance(arguments, str) else None


def json_values(text: str) -> tuple[list[Any], str]:
    """The JSON values at a text's beginning, and what comes after them."""
    decoder = json.JSONDecoder()
    values = []
    while text := text.lstrip(SEPARATORS):
        try:
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            break
        values.append(value)
        text = text[end:]
    return values, text


class CallReader:
    """Reads an answer's calls out of its text; whatever is no call of a known tool stays text."""

    def __init__(self, form: CallForm, names: Collection[str], *, several: bool) -> None:
        """`several` false: calls after the first are left out."""
        self._form = form
        self._names = names
        self._several = several
        self._until = StopTexts((form.opening,))  # held back: perhaps the beginning of a tag
        self._begun: str | None = None if form.opening else ""  # a call, as far as it has come
        self._space = ""  # that only counts if text follows
        self._calls = 0

    def read(self, piece: Piece) -> Piece:
        """The piece without calls in its text, and the calls that it completes."""
        text, calls = self._add(piece.text)
        if piece.finish in ("stop", "length"):
            rest, more = self._end()
            text = text + rest
            calls = calls + more
        text = self._space + text
        kept = text.rstrip()
        self._space = text[len(kept) :]
        if piece.finish and not self._calls:
            kept += self._space
        finish = "tool_calls" if piece.finish == "stop" and self._calls else piece.finish
        return replace(piece, text=kept, calls=tuple(calls), finish=finish)

    def _add(self, text: str) -> tuple[str, list[CallPart]]:
        out = ""
        calls = []
        while True:
            if self._begun is None:
                shown, opened = self._until.split(text)
                out += shown
                if opened is None:
                    return out, calls
                self._begun = ""
                text = opened
            self._begun += text
            if not self._form.opening:
                if self._begun.lstrip()[:1] in ("", "{"):
                    return out, calls
                # no call begins so: all of it is text, and all that follows
                shown = self._begun
                self._begun = None
                return out + shown, calls
            inner, closed, text = self._begun.partition(self._form.closing)
            if not closed:
                return out, calls
            calls += (own := self._calls_in(inner))
            out += "" if own else self._form.opening + inner + closed
            self._begun = None

    def _end(self) -> tuple[str, list[CallPart]]:
        """The text and the calls that were kept back."""
        if self._begun is None:
            return self._until.end(), []
        begun = self._begun
        self._begun = None
        calls = self._calls_in(begun)
        return ("" if calls else self._form.opening * bool(begun) + begun), calls

    def _calls_in(self, text: str) -> list[CallPart]:
        values, rest = json_values(text)
        read = [read_call(value, self._names) for value in values]
        if rest or None in read:
            return []
        calls = []
        for name, arguments in filter(None, read):
            if self._several or not self._calls:
                calls.append(
                    CallPart(self._calls, f"call_{secrets.token_hex(12)}", name, arguments)
                )
            self._calls += 1
        return calls


# -- grammars


def asked_form(request: EngineRequest) -> str:
    """The field that asks for a form which has to be enforced; "": none does."""
    if request.tools and request.tool_choice != "auto":
        return "tool_choice"
    if any(tool["function"].get("strict") for tool in request.tools):
        return "tools"
    return "response_format" if request.response_format else ""


def lark_grammar(request: EngineRequest, form: CallForm | None) -> str:
    """The grammar of the answers to a request that asks for a form. Raises ConfigError."""
    check_library()
    schema = answer_schema(request.response_format)
    answer = None if schema is None else f"answer: {_json(schema)}"
    if form is None or not request.tools:
        return f"start: answer\n{answer}\n"
    choice = request.tool_choice
    functions = [tool["function"] for tool in request.tools]
    if isinstance(choice, Mapping):
        name = choice["function"]["name"]
        functions = [function for function in functions if function["name"] == name]
    space = "\n" if form.opening else ""
    heads = [
        f'{form.opening}{space}{{"name": {json.dumps(each["name"])}, "{form.key}": '
        for each in functions
    ]
    schemas = [each.get("parameters") or {"type": "object"} for each in functions]
    tail = f"}}{space}{form.closing}"
    ways = [f"call_{n}" for n in range(len(functions))]
    rules: list[str] = []
    for way, head, own in zip(ways, heads, schemas, strict=True):
        rules.append(f"{way}: {json.dumps(head)} {_json(own)} {json.dumps(tail)}")
    if choice == "auto" and answer is None:
        if form.opening:
            StructTag = import_module(LIBRARY).StructTag
            tags = [
                StructTag(trigger=form.opening, begin=head, grammar=_options(schema), end=tail)
                for head, schema in zip(heads, schemas, strict=True)
            ]
            return StructTag.to_grammar(tags, assume_special=False).removeprefix("%llguidance {}")
        ways.append("TEXT")
        rules.append(r"TEXT: /([^{\s](.|\n)*)?/")
    elif choice == "auto":
        ways.append("answer")
        rules.append(answer or "")
    return f"start: {' | '.join(ways)}\n" + "\n".join(rules) + "\n"


def answer_schema(response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The JSON schema that a `response_format` asks for; None: any text."""
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_schema", "json_schema": {"schema": {**schema}}}:
            return schema
    return {"type": "object"}


def _options(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "x-guidance": WHITESPACE}


def _json(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps(_options(schema))}"
