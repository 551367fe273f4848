"""One chat completion from an OpenAI-compatible server, asked for again until the
server answers or will not.

Time-outs, broken connections, unreadable answers, 408, 409, 425, 429 and 5xx are asked
again, after a pause that is drawn evenly from [0, FIRST_PAUSE · 2ⁿ] after attempt n (at
most LONGEST_PAUSE), so that rows that failed together do not come back together; or
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
PATIENCE = 600.0  # seconds: a server that asks for a longer wait is taken at its word, and not waited for
CONNECTING = (
    15.0  # seconds until a host that does not answer at all counts as unreachable
)
WORDS = 300  # characters of what a server says that are repeated in messages
PASSING = {408, 409, 425, 429}


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion as the server gave it. Token counts are None where it did not say."""

    text: str
    finish: str
    prompt_tokens: int | None
    completion_tokens: int | None
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer. `status` is HTTP's, None where the server did not get
    that far.

    `passing`: another attempt may fare better; `wait`: seconds that the server asks for
    before it; `unreachable`: no connection came about. `code` and `field` are what the
    server names as the cause.
    """

    words: str
    status: int | None = None
    passing: bool = False
    wait: float | None = None
    unreachable: bool = False
    code: str = ""
    field: str = ""


class Connection:
    """The official client, without its own retries and without what it takes from the
    environment unasked.
    """

    def __init__(
        self, base_url: str, key: str | None, *, timeout: float, retries: int
    ) -> None:
        """`timeout` in seconds for each attempt; `retries` is how many attempts follow
        the first.
        """
        self._base_url, self._key, self._timeout, self._retries = (
            base_url,
            key,
            timeout,
            retries,
        )
        self._client = self._connected()

    def _connected(self) -> Any:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        key = self._key or "none"
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=key,
            max_retries=0,
            timeout=Timeout(self._timeout, connect=min(self._timeout, CONNECTING)),
            # What is asked goes to base_url alone, wherever the server would redirect
            # it; so with http, TLS never
            # comes into it, and loading certificates would be the slowest part of
            # opening a player.
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False, verify=urlsplit(self._base_url).scheme != "http"
            ),
            default_headers={
                "Authorization": f"Bearer {key}"
            },  # so that OPENAI_CUSTOM_HEADERS cannot put another
        )
        # These come from the environment and are meant for one service; no other host
        # is to see them.
        client.organization = client.project = client.admin_api_key = None
        return client

    async def ask(
        self, body: Mapping[str, Any], stop: asyncio.Event
    ) -> Answer | Failure:
        """The server's answer to `body`, or its last failure. Once `stop` is set no
        further attempt is made.
        """
        return await self.again(lambda: self._once(body), stop)

    async def again(
        self, once: Callable[[], Awaitable[T | Failure]], stop: asyncio.Event
    ) -> T | Failure:
        """What the attempt `once` gives, or its last failure: a passing one is tried
        again, up to `retries` times.
        """
        attempts = 0
        while True:
            found = await once()
            attempts += 1
            if (
                not isinstance(found, Failure)
                or not found.passing
                or attempts > self._retries
            ):
                return found
            pause = random.uniform(
                0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
            )
            if found.wait is not None:
                pause = found.wait + min(pause, FIRST_PAUSE)
            if pause > PATIENCE or await _set_within(stop, pause):
                return found

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def renew(self) -> None:
        """Go on with fresh connections: the old ones died with their event loop."""
        self._client = self._connected()

    async def _once(self, body: Mapping[str, Any]) -> Answer | Failure:
        import openai

        rest = {
            field: value
            for field, value in body.items()
            if field not in ("model", "messages")
        }
        try:
            async with asyncio.timeout(
                self._timeout
            ):  # the client's own limit is on each part of the exchange
                reply = await self._client.chat.completions.with_raw_response.create(
                    model=body["model"], messages=body["messages"], extra_body=rest
                )
                text = reply.text
        except TimeoutError:
            return Failure(f"no answer within {self._timeout:g} s", passing=True)
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.APIConnectionError as error:
            return self._unconnected(error)
        try:
            return read(json.loads(text))
        except ValueError as error:
            return Failure(
                self._clean(f"not a chat completion ({error}): {text}"), passing=True
            )

    def _refused(self, error: Any) -> Failure:
        """`error` is an openai.APIStatusError."""
        status, body = error.status_code, error.body
        words = body.get("message") if isinstance(body, dict) else None
        return Failure(
            self._clean(str(words or error.response.text or error.message)),
            status,
            passing=status in PASSING or (status >= 500 and status != 501),
            wait=asked_wait(error.response.headers),
            code=str(error.code or ""),
            field=str(error.param or ""),
        )

    def _unconnected(self, error: Any) -> Failure:
        """`error` is an openai.APIConnectionError."""
        import httpx2

        cause = error.__cause__
        unreachable = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        if isinstance(cause, httpx2.TimeoutException) and not unreachable:
            return Failure(f"no answer within {self._timeout:g} s", passing=True)
        return Failure(
            self._clean(str(cause or error)) or "broken connection",
            passing=True,
            unreachable=unreachable,
        )

    def _clean(self, words: str) -> str:
        """`words` on one line, short, and without the key, should the server have
        repeated it.
        """
        if self._key:
            words = words.replace(self._key, "[key]")
        words = " ".join(words.split())
        return words if len(words) <= WORDS else f"{words[:WORDS]}…"


def read(reply: Any) -> Answer:
    """The answer in the JSON of a chat completion. Reasoning that the server keeps
    apart stays apart.

    Raises ValueError where it is none.
    """
    match reply:
        case {"choices": [{"message": {**message}, **choice}, *_]}:
            pass
        case {"error": {"message": words}} | {"error": words}:
            raise ValueError(f"the server says: {words}")
        case _:
            raise ValueError("no choice with a message")
    # Where a model declines a schema, OpenAI gives its words as `refusal`; they are its
    # answer.
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise ValueError("the message's content is no text")
    usage = reply.get("usage") or {}
    tokens = (choice.get("logprobs") or {}).get("content") or ()
    return Answer(
        text,
        str(choice.get("finish_reason") or "stop"),
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        tuple(float(token["logprob"]) for token in tokens),
    )


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until the time that Retry-After names (seconds, or a date of HTTP); None
    where it names none.
    """
    said = headers.get("retry-after")
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(
            0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time()
        )
    except ValueError:
        return None


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
