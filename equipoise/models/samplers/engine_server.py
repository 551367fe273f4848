"""One server of an engine: JSON over HTTP, and the adapters that it holds."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import Any

from equipoise.errors import EquipoiseError, ModelError
from equipoise.models.samplers.adapter import EngineAdapter, is_ours
from equipoise.models.samplers.remote import RemoteSampler

CONNECTING = 15.0  # seconds until a host that does not answer counts as gone
LONGEST_MESSAGE = 300  # characters of a server's message that are repeated in ours
BUSY = {429, 502, 503, 504}  # HTTP statuses of a server that is there but cannot answer
LONGEST_LINES = 100  # connections that are kept open


class ServerGone(EquipoiseError):  # noqa: N818
    """The server does not answer; it may be back soon."""


class AdapterGone(EquipoiseError):  # noqa: N818
    """The server does not know the adapter, as after a restart."""


class ServerRefused(ModelError):  # noqa: N818
    """The server refuses a request; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineServer:
    """A server, seen from the event loop that asks it."""

    def __init__(self, settings: RemoteSampler, url: str) -> None:
        import httpx2

        self.settings = settings
        self.url = url
        self._adapters: OrderedDict[str, None] | None = None  # by last use
        self._base = ""
        self._lock = asyncio.Lock()
        self.asleep = False
        key = settings.key()
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={} if key is None else {"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(settings.timeout, connect=CONNECTING, pool=None),
            limits=httpx2.Limits(
                max_connections=settings.concurrency + 1, max_keepalive_connections=LONGEST_LINES
            ),
            follow_redirects=False,
            trust_env=False,
            verify=url.startswith("https"),
        )

    # -- requests

    async def get(self, path: str) -> Any:
        """The server's JSON at a path. Raises ServerGone, ServerRefused."""
        return await self._sent("GET", path)

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server's reply to `body`, as JSON or text. Raises ServerGone, ServerRefused."""
        return await self._sent("POST", path, body)

    async def _sent(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        import httpx2

        try:
            reply = await self._client.request(method, path, json=body)
        except httpx2.TimeoutException as error:
            raise ServerGone(f"no answer within {self.settings.timeout:g} s") from error
        except httpx2.TransportError as error:
            raise ServerGone(str(error) or "broken connection") from error
        if reply.status_code in BUSY:
            raise ServerGone(f"HTTP {reply.status_code}: {_message(reply.text)}")
        if reply.status_code >= 400:
            message = f"HTTP {reply.status_code}: {_message(reply.text)}"
            raise ServerRefused(message, reply.status_code)
        return _parsed(reply.text)

    # -- adapters

    async def prepare(self, adapter: EngineAdapter | None) -> str:
        """The name by which the server knows these weights, which it has from now on.

        None: the base model. Raises ServerGone, ServerRefused.
        """
        async with self._lock:
            if self._adapters is None:
                if self.settings.sleep:  # a run before this one may have let it sleep
                    await self.settings.wake(self)
                served = await self.settings.models(self)
                self._base = served.base
                ours = filter(is_ours, served.adapters)
                self._adapters = OrderedDict.fromkeys(ours)
            if adapter is None:
                return self._base
            if adapter.name not in self._adapters:
                await self._make_room(self._adapters)
                await self.settings.load(self, adapter)
                self._adapters[adapter.name] = None
            self._adapters.move_to_end(adapter.name)
            return adapter.name

    async def _make_room(self, adapters: OrderedDict[str, None]) -> None:
        """Unload the adapters that were not used for longest, until one more fits."""
        while len(adapters) >= self.settings.adapters:
            oldest = next(iter(adapters))
            try:
                await self.settings.unload(self, oldest)
            except ServerRefused as error:
                if not self.settings.lacks_adapter(error.status, str(error)):
                    raise
            del adapters[oldest]

    def forget(self) -> None:
        """Ask the server anew what it holds: it may have been restarted."""
        self._adapters = None
        self.asleep = False


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _message(text: str) -> str:
    """What a server says is wrong, on one line."""
    content = _parsed(text)
    for key in ("error", "message", "detail"):
        if isinstance(content, dict) and key in content:
            content = content[key]
    message = " ".join(str(content).split())
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[:LONGEST_MESSAGE]}…"
