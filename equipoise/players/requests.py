"""One chat completion from an OpenAI-compatible server, retried until the server
answers or refuses.

Time-outs, broken connections, unreadable answers, 408, 409, 425, 429 and 5xx are
retried, after a pause that is drawn evenly from [0, FIRST_PAUSE · 2ⁿ] after attempt n
(at most LONGEST_PAUSE), so that rows that failed together do not come back together; or
after as long as the server's Retry-After says, and a little more.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
FIRST_PAUSE = 0.5  # seconds
LONGEST_PAUSE = 30.0  # seconds
PATIENCE = 600.0  # seconds: a server that requests a longer wait is not waited for
CONNECTING = 15.0  # seconds until a host that does not answer counts as unreachable
LONGEST_MESSAGE = 300  # characters of a server's message that are repeated in ours
TRANSIENT = {408, 409, 425, 429}  # HTTP statuses below 500 that may pass


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A completion as the server gave it. Token counts are None where it gave none."""

    text: str
    finish: str
    prompt_tokens: int | None
    completion_tokens: int | None
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no completion. `status` is HTTP's, None where the server did not get that far.

    `transient`: another attempt may succeed; `wait`: seconds that the server requests
    before it; `unreachable`: no connection came about. `code` and `field` are the cause
    that the server names.
    """

    message: str
    status: int | None = None
    transient: bool = False
    wait: float | None = None
    unreachable: bool = False
    code: str = ""
    field: str = ""

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.message}" if self.status else self.message


class Connection:
    """The official client, without its own retries and without the settings that it
    takes from the environment by itself.
    """

    def __init__(
        self, base_url: str, key: str | None, *, timeout: float, retries: int
    ) -> None:
        """`timeout` in seconds for each attempt; `retries` is how many attempts follow
        the first.
        """
        self._base_url = base_url
        self._key = key
        self._timeout = timeout
        self._retries = retries
        self._client = self._connected()

    def _connected(self) -> Any:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        key = self._key or "none"
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=key,
            max_retries=0,
            timeout=Timeout(self._timeout, connect=min(self._timeout, CONNECTING)),
            # Requests go to base_url alone, wherever the server would redirect them; so
            # http never leads to TLS, and loading certificates, the slowest part of
            # opening a player, can be left out.
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False, verify=urlsplit(self._base_url).scheme != "http"
            ),
            # Set here so that OPENAI_CUSTOM_HEADERS cannot put another in its place.
            default_headers={"Authorization": f"Bearer {key}"},
        )
        # These come from the environment and are meant for one service; no other host
        # may see them.
        client.organization = client.project = client.admin_api_key = None
        return client

    async def send(
        self, body: Mapping[str, Any], stop: asyncio.Event
    ) -> ServerReply | Failure:
        """The server's completion of `body`, or the last failure.

        Once `stop` is set no further attempt is made.
        """
        return await self.retried(lambda: self._attempt(body), stop)

    async def retried(
        self, attempt: Callable[[], Awaitable[T | Failure]], stop: asyncio.Event
    ) -> T | Failure:
        """The result of `attempt`, or its last failure: a transient one is retried, up
        to `retries` times.
        """
        attempts = 0
        while True:
            result = await attempt()
            attempts += 1
            if not isinstance(result, Failure):
                return result
            if not result.transient or attempts > self._retries:
                return result
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
            pause = random.uniform(0, longest)
            if result.wait is not None:
                pause = result.wait + min(pause, FIRST_PAUSE)
            if pause > PATIENCE or await _set_within(stop, pause):
                return result

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def renew(self) -> None:
        """Go on with fresh connections: the old ones died with their event loop."""
        self._client = self._connected()

    async def _attempt(self, body: Mapping[str, Any]) -> ServerReply | Failure:
        import openai

        create = self._client.chat.completions.with_raw_response.create
        try:
            # The client's own limit is on each part of the exchange; this is on all of it.
            async with asyncio.timeout(self._timeout):
                reply = await create(
                    model=body["model"],
                    messages=body["messages"],
                    extra_body=further_fields(body),
                )
                text = reply.text
        except TimeoutError:
            return self._timed_out()
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.APIConnectionError as error:
            return self._unconnected(error)
        try:
            return read(json.loads(text))
        except ValueError as error:
            message = self._clean(f"not a chat completion ({error}): {text}")
            return Failure(message, transient=True)

    def _timed_out(self) -> Failure:
        return Failure(f"no answer within {self._timeout:g} s", transient=True)

    def _refused(self, error: Any) -> Failure:
        """`error` is an openai.APIStatusError."""
        status, body = error.status_code, error.body
        message = body.get("message") if isinstance(body, dict) else None
        return Failure(
            self._clean(str(message or error.response.text or error.message)),
            status,
            transient=status in TRANSIENT or (status >= 500 and status != 501),
            wait=retry_after(error.response.headers),
            code=str(error.code or ""),
            field=str(error.param or ""),
        )

    def _unconnected(self, error: Any) -> Failure:
        """`error` is an openai.APIConnectionError."""
        import httpx2

        cause = error.__cause__
        unreachable = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        if isinstance(cause, httpx2.TimeoutException) and not unreachable:
            return self._timed_out()
        return Failure(
            self._clean(str(cause or error)) or "broken connection",
            transient=True,
            unreachable=unreachable,
        )

    def _clean(self, message: str) -> str:
        """`message` on one line, short, and without the key, should the server have repeated it."""
        if self._key:
            message = message.replace(self._key, "[key]")
        message = " ".join(message.split())
        if len(message) <= LONGEST_MESSAGE:
            return message
        return f"{message[:LONGEST_MESSAGE]}…"


def further_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request's fields beyond the two that the official client requires."""
    return {
        field: value
        for field, value in body.items()
        if field not in ("model", "messages")
    }


def read(reply: Any) -> ServerReply:
    """The completion in a server's JSON. Reasoning that the server keeps apart stays apart.

    Raises ValueError where it holds none.
    """
    match reply:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            pass
        case {"error": {"message": error}} | {"error": error}:
            raise ValueError(f"the server says: {error}")
        case _:
            raise ValueError("no choice with a message")
    # Where a model declines a schema, OpenAI gives its text as `refusal`; it is the
    # answer.
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise ValueError("the message's content is no text")
    usage = reply.get("usage") or {}
    tokens = (choice.get("logprobs") or {}).get("content") or ()
    return ServerReply(
        text,
        str(choice.get("finish_reason") or "stop"),
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        tuple(float(token["logprob"]) for token in tokens),
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the time that Retry-After names (seconds, or an HTTP date); None
    where it names none.
    """
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
