"""The HTTP client of endpoints and engines: one host, the proxy of `--proxy`, bounded replies.

Requests go to the address that the configuration names and nowhere else: redirects are not
followed, and a proxy is used only where `--proxy` says so.
"""

from typing import Any
from urllib.parse import urlsplit

import httpx2

from equipoise.system.addresses import Machine
from equipoise.system.http_bounds import (
    CONNECTING,
    KEPT_CONNECTIONS,
    LONGEST_REFUSAL,
    LONGEST_REPLY,
)

# What belongs to the body as it came, and not to what was read of it.
OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}


class ReplyTooLongError(httpx2.DecodingError):
    """A reply that is longer than it may be."""


class BoundedClient(httpx2.AsyncClient):
    """A client that stops reading a reply which grows too long, and follows no redirects."""

    def __init__(
        self,
        base_url: str = "",
        *,
        longest: int = LONGEST_REPLY,
        key: str | None = None,
        timeout: float | None = None,
        connections: int | None = None,
        through_proxy: bool = True,
    ) -> None:
        """`longest`: bytes of a reply, uncompressed; `timeout`: seconds of a part of an exchange.

        `key`: sent as the bearer's; `connections`: the most at once; `through_proxy`: by the way
        that `--proxy` names. Raises ConfigError for a faulty --proxy.
        """
        here = Machine.here()
        proxy = here.proxy if through_proxy else None
        trust_env = here.uses_environment and through_proxy
        # Requests go to base_url alone, wherever the server would redirect them; so http never
        # leads to TLS, and loading certificates, the slowest part of opening a player, can be left
        # out.
        encrypted = urlsplit(base_url).scheme != "http" or proxy or trust_env
        connecting = CONNECTING if timeout is None else min(timeout, CONNECTING)
        super().__init__(
            base_url=base_url,
            headers={} if key is None else {"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(timeout, connect=connecting, pool=None),
            limits=httpx2.Limits(
                max_connections=connections, max_keepalive_connections=KEPT_CONNECTIONS
            ),
            follow_redirects=False,
            verify=bool(encrypted),
            trust_env=trust_env,
            proxy=proxy,
        )
        self._longest = longest

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """The response, read to its end. Raises ReplyTooLongError."""
        response = await super().send(request, stream=True, **options)
        try:
            body = await self._read(response)
        finally:
            await response.aclose()
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in OF_THE_BODY
        ]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)

    async def _read(self, response: httpx2.Response) -> bytes:
        """The body, uncompressed; of a refusal no more than its beginning."""
        longest = self._longest if response.is_success else LONGEST_REFUSAL
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > longest and response.is_success:
                raise ReplyTooLongError(f"the reply is longer than {longest} bytes")
            if size > longest:
                break
        return b"".join(pieces)[:longest]


def is_unreachable(error: BaseException | None) -> bool:
    """True if an error says that no connection came about."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
