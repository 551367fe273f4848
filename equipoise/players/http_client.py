"""The HTTP client of endpoints: one host, the way that `--proxy` names, bounded replies."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
from openai import DefaultAsyncHttpxClient

from equipoise.system.addresses import Machine

LONGEST_REFUSAL = 64 * 1024  # bytes that are read of a reply that reports an error
# What belongs to the body as it came, and not to what was read of it.
OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}


class ReplyTooLongError(httpx2.DecodingError):
    """A reply that is longer than it may be."""


class BoundedStream(httpx2.AsyncByteStream):
    """A body in pieces, of at most so many bytes. Raises ReplyTooLongError at the next one."""

    def __init__(self, stream: httpx2.AsyncByteStream, longest: int) -> None:
        self._stream, self._longest = stream, longest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._longest:
                raise ReplyTooLongError(f"the reply is longer than {self._longest} bytes")
            yield piece

    async def aclose(self) -> None:
        """Close the connection's end of it."""
        await self._stream.aclose()


class BoundedClient(DefaultAsyncHttpxClient):
    """A client that stops reading a reply which grows too long, and follows no redirects."""

    def __init__(self, base_url: str, *, longest: int) -> None:
        """`longest`: bytes of a reply, uncompressed. Raises ConfigError for a faulty --proxy."""
        here = Machine.here()
        # Requests go to base_url alone, wherever the server would redirect them; so http never
        # leads to TLS, and loading certificates, the slowest part of opening a player, can be left
        # out.
        encrypted = urlsplit(base_url).scheme != "http" or here.proxy or here.uses_environment
        super().__init__(
            follow_redirects=False,
            verify=bool(encrypted),
            trust_env=here.uses_environment,
            proxy=here.proxy,
        )
        self._longest = longest

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """The response; read to its end, unless it is a `stream`. Raises ReplyTooLongError."""
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = BoundedStream(response.stream, self._longest)
            return response
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
        pieces, size = [], 0
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > longest and response.is_success:
                raise ReplyTooLongError(f"the reply is longer than {longest} bytes")
            if size > longest:
                break
        return b"".join(pieces)[:longest]
