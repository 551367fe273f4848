"""A server's JSON read into a completion: nothing in it is taken on trust.

A text loses its lone surrogates; a count of tokens is a whole number that a call can take, or is
not stated; an unknown end is no end. What cannot be an answer is an UnusableReplyError, with the
server's count: it may have been paid for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equipoise.players.sent_messages import written_calls
from equipoise.system.http_bounds import without_surrogates

LARGEST_COUNT = 10_000_000  # tokens; no call takes more, whatever a server says
COMPLETE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}
CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}
WITHHELD = "content_filter"
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""The fields of a message in which servers give thoughts."""
KINDS = ("thinking", "reasoning")
"""The types of parts that hold thoughts."""
LOWEST = -1e9  # nats; a token of less is none that was sampled
ROUNDING = 1e-3  # nats above 0 that a log-probability may lie, as floats are rounded


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the server counts; None where it gives no count, or an impossible one."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def stated(self) -> bool:
        """True if both counts are there."""
        return None not in (self.prompt_tokens, self.completion_tokens)


UNSTATED = Usage()


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A completion as the server gave it.

    finish: stop, length or content_filter. thoughts: those that it gave apart from the text.
    """

    text: str
    finish: str
    usage: Usage = UNSTATED
    logprobs: tuple[float, ...] = ()
    thoughts: str = ""


class UnusableReplyError(ValueError):
    """A reply that holds no answer; `usage` is what the server counts for it."""

    def __init__(self, message: str, usage: Usage = UNSTATED) -> None:
        super().__init__(message)
        self.usage = usage


def decode(body: bytes) -> Any:
    """The JSON in a reply's body. Raises UnusableReplyError."""
    text = body.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except RecursionError:
        raise UnusableReplyError("its JSON is nested too deeply") from None
    except ValueError as error:
        raise UnusableReplyError(str(error)) from None


def read_reply(reply: Any, *, logprobs: bool = False) -> ServerReply:
    """The completion in a server's JSON, with `logprobs` if asked. Raises UnusableReplyError."""
    usage = read_usage(reply.get("usage")) if isinstance(reply, Mapping) else UNSTATED
    match reply:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            pass
        case {"error": {"message": error}} | {"error": error} if error:
            raise UnusableReplyError(f"the server says: {brief(error)}", usage)
        case _:
            raise UnusableReplyError("no choice with a message", usage)
    finish = read_finish(choice.get("finish_reason"))
    if finish is None:
        end = brief(choice.get("finish_reason"))
        raise UnusableReplyError(f"the server ended the answer by '{end}'", usage)
    try:
        text = read_text(message)
        thoughts = read_thoughts(message)
        given = read_logprobs(choice.get("logprobs")) if logprobs else ()
    except ValueError as error:
        raise UnusableReplyError(str(error), usage) from None
    return ServerReply(text, finish, usage, given, thoughts)


def read_finish(reason: Any) -> str | None:
    """The end of an answer: stop (also without a reason), length, content_filter, None: broken."""
    if not isinstance(reason, str):
        return "stop" if reason is None else None
    name = reason.casefold()
    if name in COMPLETE or not name:
        return "stop"
    if name in CUT:
        return "length"
    return WITHHELD if name == WITHHELD else None


def read_text(message: Mapping[str, Any]) -> str:
    """A message's text, from one string or a list of parts; "" where it has none.

    OpenAI's `refusal` is an answer, and so are calls, which are written out behind the text; parts
    such as thoughts are left out. Raises ValueError otherwise.
    """
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        if len(parts) < len(content):
            raise ValueError("the message's content has parts that are no objects")
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text part of the message's content holds no text")
        content = "".join(map(str, texts))
    if not isinstance(content, str):
        raise ValueError("the message's content is no text")
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        content = "\n".join(filter(None, (content, written_calls(calls))))
    return without_surrogates(content)


def read_thoughts(message: Mapping[str, Any]) -> str:
    """A message's thoughts where the server gives them apart, by any of their names; "" for none.

    They are a text, or a list of parts with texts, and may be parts of the content.
    """
    for name in THOUGHTS:
        thoughts = _texts(message.get(name))
        if thoughts:
            return without_surrogates(thoughts)
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    thinking = [part for part in parts if isinstance(part, Mapping) and part.get("type") in KINDS]
    texts = [_texts(part.get(str(part["type"])) or part.get("text")) for part in thinking]
    return without_surrogates("\n\n".join(filter(None, texts)))


def _texts(value: Any) -> str:
    if isinstance(value, list):
        texts = [part.get("text") for part in value if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


def read_usage(usage: Any) -> Usage:
    """The counts that a server gives, of any shape."""
    if not isinstance(usage, Mapping):
        return UNSTATED
    return Usage(read_count(usage.get("prompt_tokens")), read_count(usage.get("completion_tokens")))


def read_count(value: Any) -> int | None:
    """A count of tokens; None for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= LARGEST_COUNT or value != int(value):
        return None
    return int(value)


def read_logprobs(logprobs: Any) -> tuple[float, ...]:
    """The log-probabilities of an answer's tokens, in nats, if any. Raises ValueError."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    if tokens is None:
        return ()
    if not isinstance(tokens, list):
        raise ValueError("the log-probabilities are no list")
    return tuple(map(read_logprob, tokens))


def read_logprob(token: Any) -> float:
    """The log-probability of one token. Raises ValueError."""
    value = token.get("logprob") if isinstance(token, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("the log-probability of a token is no number")
    if LOWEST <= value <= ROUNDING:
        return min(float(value), 0.0)
    raise ValueError(f"the log-probability {brief(value)} of a token cannot be")


def brief(value: Any) -> str:
    """A value of the server's, in few characters."""
    try:
        return str(value)[:200]
    except RecursionError:  # as deep as its JSON may be, but not twice
        return "nested values"
