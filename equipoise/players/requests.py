"""Requests for a chat completion to an OpenAI-compatible server, and their retries.

Time-outs, broken connections, unreadable answers, 408, 409, 425, 429 and 5xx are retried, after a
pause that grows (`http_bounds.pause_after`), or after the server's Retry-After and a little more.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

from equipoise.players.endpoint_settings import SETTING_OF_FIELD, EndpointSettings
from equipoise.players.server_reply import (
    UNSTATED,
    ServerReply,
    UnusableReplyError,
    Usage,
    decode,
    read_reply,
)
from equipoise.system import http_bounds
from equipoise.system.http_bounds import (
    LONGEST_MESSAGE,
    SHORTEST_SECRET,
    brief_message,
    is_transient,
    pause_after,
    without_key,
)

T = TypeVar("T")
PATIENCE = 600.0  # seconds: a server that requests a longer wait is not waited for
NO_SUCH_MODEL = re.compile(
    r"requested|not a valid|invalid model|not exist|not found|no such|unknown model|not available"
)
NO_SUCH_FIELD = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed"
)
FLAGGED = re.compile(r"flagged|moderation|content (?:filter|policy)|safety")
# What to set a setting to so that its field is not sent; null for the others.
NOT_SENT = {"send_seed": "false", "logprobs": "false", "structured": "auto", "stop": "[]"}


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why there is no completion.

    `status` is HTTP's, if any. `transient`: another attempt may succeed; `wait`: seconds before it;
    `unreachable`: no connection came about. `code` and `field`: the server's cause; `usage`: its
    count for an unusable reply.
    """

    message: str
    status: int | None = None
    transient: bool = False
    wait: float | None = None
    unreachable: bool = False
    code: str = ""
    field: str = ""
    usage: Usage = UNSTATED

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.message}" if self.status else self.message

    @property
    def refused(self) -> bool:
        """True if the server said no before it computed anything: no service bills for that."""
        return self.status is not None and self.status < 500 and self.status != 408


class Connection:
    """The official client, without its own retries and its settings from the environment."""

    def __init__(self, player: EndpointSettings) -> None:
        """Raises ConfigError when the key is not set."""
        self._player = player
        self._key = player.key()
        self._timeout = player.timeout
        self._retries = player.retries
        self.renew()

    def renew(self) -> None:
        """Go on with fresh connections: those of an event loop die with it."""
        urls = (self._player.base_url, *self._player.replicas)
        self._clients = [self._connect(url) for url in urls]

    def _connect(self, url: str) -> Any:
        from openai import AsyncOpenAI

        from equipoise.system.http_client import BoundedClient

        player = self._player
        key = self._key or "none"
        http_client = BoundedClient(url, longest=player.longest_reply, timeout=player.timeout)
        client = AsyncOpenAI(
            base_url=url,
            api_key=key,
            max_retries=0,
            timeout=http_client.timeout,
            http_client=http_client,
            # Set here so that OPENAI_CUSTOM_HEADERS cannot put another in its place.
            default_headers={"Authorization": f"Bearer {key}"},
        )
        # These come from the environment and are meant for one service; no other host may see them.
        client.organization = client.project = client.admin_api_key = None
        return client

    async def retry(
        self, attempt: Callable[[], Awaitable[T | Failure]], stop: asyncio.Event
    ) -> T | Failure:
        """`attempt`'s result or last failure; transient ones get `retries`, until `stop` is set."""
        for attempts in count(1):
            result = await attempt()
            if not isinstance(result, Failure):
                return result
            if not result.transient or attempts > self._retries:
                return result
            pause = pause_after(attempts)
            if result.wait is not None:
                pause = result.wait + min(pause, http_bounds.FIRST_PAUSE)
            if pause > PATIENCE or await set_within(stop, pause):
                return result
        raise AssertionError("the attempts have no end")

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.close()

    async def send(self, body: Mapping[str, Any], place: int) -> ServerReply | Failure:
        """The completion of `body` by the pool's server at `place`, of one request: no retry."""
        import openai

        create = self._clients[place % len(self._clients)].chat.completions.with_raw_response.create
        required = {"model": body["model"], "messages": body["messages"]}
        others = {field: value for field, value in body.items() if field not in required}
        try:
            # The client's own limit is on each part of the exchange; this is on all of it.
            async with asyncio.timeout(self._timeout):
                reply = await create(**required, extra_body=others)
                content = reply.content
        except (TimeoutError, openai.APIStatusError, openai.APIConnectionError) as error:
            return self._failure(error)
        try:
            reply = read_reply(decode(content), logprobs=self._player.logprobs)
        except UnusableReplyError as error:
            beginning = content[: 2 * LONGEST_MESSAGE].decode("utf-8", "replace")
            message = self._clean(f"not a chat completion ({error}): {beginning}")
            return Failure(message, transient=True, usage=error.usage)
        if self._key is None or len(self._key) < SHORTEST_SECRET:
            return reply
        # The text goes to files; no answer has such a key by chance.
        return replace(reply, text=without_key(reply.text, self._key))

    async def models(self, place: int = 0) -> list[str] | Failure:
        """The names of the models that the pool's server at `place` lists; one request."""
        import openai

        try:
            async with asyncio.timeout(min(self._timeout, http_bounds.CONNECTING)):
                cards = await self._clients[place].models.list()
                return [str(card.id) for card in cards.data]
        except (TimeoutError, openai.APIStatusError, openai.APIConnectionError) as error:
            return self._failure(error)
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            return Failure(self._clean(f"not a list of models: {error}"))

    def _failure(self, error: Exception) -> Failure:
        import openai

        if isinstance(error, TimeoutError):
            return self._time_out()
        if isinstance(error, openai.APIStatusError):
            return self._refusal(error)
        return self._lost_connection(error)

    def _time_out(self) -> Failure:
        return Failure(f"no answer within {self._timeout:g} s", transient=True)

    def _refusal(self, error: Any) -> Failure:
        status = error.status_code
        body = error.body
        message = body.get("message") if isinstance(body, dict) else None
        return Failure(
            self._clean(str(message or error.response.text or error.message)),
            status,
            transient=is_transient(status),
            wait=http_bounds.retry_after(error.response.headers),
            code=str(error.code or ""),
            field=str(error.param or ""),
        )

    def _lost_connection(self, error: Any) -> Failure:
        import httpx2

        from equipoise.system.http_client import ReplyTooLongError, is_unreachable

        cause = error.__cause__
        if isinstance(cause, ReplyTooLongError):
            return Failure(str(cause))
        unreachable = is_unreachable(cause)
        if isinstance(cause, httpx2.TimeoutException) and not unreachable:
            return self._time_out()
        return Failure(
            self._clean(str(cause or error)) or "broken connection",
            transient=True,
            unreachable=unreachable,
        )

    def _clean(self, message: str) -> str:
        return brief_message(message, self._key)


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """True if the event is set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def configuration_fault(player: EndpointSettings, failure: Failure) -> str | None:
    """The change that a failure of every request calls for; None for a failure of this one."""
    message = failure.message
    match failure:
        case Failure(unreachable=True):
            return f"cannot be reached ({message}); is the server running, and is base_url right?"
        case Failure(status=403) if FLAGGED.search(message.lower()):
            return None  # of this text, and not of the key
        case Failure(status=401 | 403):
            named = player.api_key_env
            key = f"the variable {named}" if named else "api_key_env: none is named"
            return f"the server refuses the key ({failure}); check {key}"
        case Failure(status=402) | Failure(code="insufficient_quota"):
            return f"the account has no credit left ({failure})"
        case Failure(status=404):
            return f"no model '{player.model}' there, or base_url lacks its /v1 ({failure})"
        case Failure(status=400 | 422) if model_is_unknown(player, message):
            return f"no model '{player.model}' there ({failure})"
    field = unknown_field(player, failure)
    if field is None:
        return None
    return f"the server does not take '{field}' ({message}); {remedy(player, field)}"


def remedy(player: EndpointSettings, field: str) -> str:
    if field in player.extra_body:
        return "leave it out of extra_body"
    if field.startswith("max_"):
        return "choose the other max_tokens_field"
    setting = SETTING_OF_FIELD[field]
    return f"set {setting}: {NOT_SENT.get(setting, 'null')}"


def model_is_unknown(player: EndpointSettings, message: str) -> bool:
    name = re.escape(player.model)
    named = re.search(rf"""['"`]{name}['"`]|\b{name} is not a valid model""", message)
    return named is not None and NO_SUCH_MODEL.search(message.lower()) is not None


def unknown_field(player: EndpointSettings, failure: Failure) -> str | None:
    """The field of ours that the server does not know, if it is that."""
    cause = f"{failure.code} {failure.message}".lower()
    if failure.status not in (400, 422) or not NO_SUCH_FIELD.search(cause):
        return None
    sent = [*SETTING_OF_FIELD, *player.extra_body]
    ours = [field for field in sent if field != "model"]
    if failure.field in ours:
        return failure.field
    for field in ours:
        if re.search(rf"\b{re.escape(field)}\b", failure.message):
            return field
    return None
