"""The HTTP server: /v1/models, /v1/chat/completions and /health, as OpenAI's clients
expect them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from equipoise.errors import EquipoiseError
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.chat_request import ChatRequest, read
from equipoise.serve.engine import (
    Engine,
    EngineError,
    EngineRequest,
    Piece,
    Refused,
    brief,
)
from equipoise.serve.gate import Gate, Limits
from equipoise.serve.protocol import CompletionBuilder, Problem, Reply

T = TypeVar("T")
log = logging.getLogger(__name__)


def create(catalogue: Catalogue, limits: Limits, token: str | None) -> Starlette:
    """The application. `token` None: whoever is on this machine may ask, but no page of
    a browser's.
    """
    gate = Gate(limits.concurrency, limits.queue)

    async def health(request: Request) -> JSONResponse:
        return JSONResponse(
            {"status": "ok", "running": gate.running, "waiting": gate.waiting}
        )

    async def models(request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "object": "list",
                "data": [_model(name, catalogue) for name in catalogue.names],
            }
        )

    async def model(request: Request) -> JSONResponse:
        name = request.path_params["name"]
        if name not in catalogue.names:
            raise catalogue.unknown(name)
        return JSONResponse(_model(name, catalogue))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await catalogue.close()

    app = Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route(
                "/v1/chat/completions",
                ChatEndpoint(catalogue, limits, gate),
                methods=["POST"],
            ),
        ],
        middleware=[Middleware(AccessCheck, token=token)],
        exception_handlers={
            Problem: _problem,
            HTTPException: _http,
            Exception: _failure,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class AccessCheck:
    """Lets those in who know the token; where there is none, those on this machine."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = (
            app,
            None if token is None else f"bearer {token}".encode(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with an error."""
        if scope["type"] == "http" and scope["path"] != "/health":
            try:
                self._check(Request(scope))
            except Problem as problem:
                return await Reply(send).fail(problem)
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        if self._token is None:
            # A page from elsewhere, open in a browser here, must not speak through it,
            # by whatever name.
            origin = request.headers.get("origin")
            hosts = [urlsplit(f"//{request.headers.get('host', '')}").hostname]
            hosts += [urlsplit(origin).hostname] if origin is not None else []
            if not all(host and is_loopback(host) for host in hosts):
                raise Problem(
                    403,
                    "without a token only this machine's own names and pages are served",
                    "forbidden",
                )
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not secrets.compare_digest(
            f"{scheme.lower()} {given.strip()}".encode(), self._token
        ):
            raise Problem(
                401,
                "wrong or missing token: send Authorization: Bearer TOKEN, as `equipoise serve` printed it",
                "invalid_api_key",
                None,
                {"www-authenticate": "Bearer"},
            )


class ChatEndpoint:
    """/v1/chat/completions."""

    def __init__(self, catalogue: Catalogue, limits: Limits, gate: Gate) -> None:
        self._catalogue, self._limits, self._gate = catalogue, limits, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. A client that goes away ends the work on it."""
        reply = Reply(send)
        clock = asyncio.timeout(self._limits.seconds)
        try:
            async with clock:
                question = read(await self._body(Request(scope, receive)), self._limits)
                await _unless_gone(receive, self._answer(question, reply))
        except Problem as problem:
            await reply.fail(problem)
        except Refused as error:
            await reply.fail(Problem(400, str(error), error.code, error.param))
        except EngineError as error:
            await reply.fail(Problem(500, str(error), "engine_error"))
        except EquipoiseError as error:
            log.error("%s", error)
            await reply.fail(
                Problem(
                    500,
                    "the model cannot be used; the server's log says why",
                    "engine_error",
                )
            )
        except TimeoutError:
            if not clock.expired():
                raise
            words = f"the answer took longer than {self._limits.seconds:g} s"
            await reply.fail(
                Problem(408, words, "timeout", None, {"x-should-retry": "false"})
            )

    async def _body(self, request: Request) -> bytes:
        """The request's body; of one that is too long no more than the limit is ever
        held.
        """
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "0")
        body, parts = 0, []
        if length.isdecimal() and int(length) <= most:
            async for part in request.stream():
                body += len(part)
                if body > most:
                    break
                parts.append(part)
            else:
                return b"".join(parts)
        raise Problem(
            413, f"a request has at most {most} bytes here", "request_too_large"
        )

    async def _answer(self, question: ChatRequest, reply: Reply) -> None:
        seed = question.dice()
        async with self._gate.place(question.answers):
            served = await self._catalogue.find(
                question.model, seed, question.steering, question.blocks
            )
            asked = question.asked(seed, served.given, self._limits.max_tokens)
            prompt, count = (asked[0].messages, asked[0].prefix), served.engine.count
            tokens = (
                count(*prompt)
                if brief(*prompt)
                else await asyncio.to_thread(count, *prompt)
            )
            whole = CompletionBuilder(
                served.name, len(asked), tokens, question.counts_in_stream
            )
            async with aclosing(_answers(served.engine, asked)) as pieces:
                if question.stream:
                    await self._stream(whole, pieces, reply, question)
                    return
                async for number, piece in pieces:
                    whole.add(number, piece)
            await reply.json(whole.body())

    async def _stream(
        self,
        whole: CompletionBuilder,
        pieces: AsyncIterator[tuple[int, Piece]],
        reply: Reply,
        question: ChatRequest,
    ) -> None:
        opened: set[int] = set()
        async for number, piece in pieces:
            whole.add(number, piece)
            if number not in opened:
                opened.add(number)
                await reply.event(whole.opening(number))
            if piece.text or piece.finish or piece.fields:
                await reply.event(whole.event(number, piece))
        if question.counts_in_stream:
            await reply.event(whole.closing())
        await reply.done()


async def _answers(
    engine: Engine, asked: Sequence[EngineRequest]
) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of several answers as they come, each with its answer's number. Raises
    what the engine raises.
    """
    come: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

    async def follow(number: int, question: EngineRequest) -> None:
        try:
            async with aclosing(engine.generate(question)) as pieces:
                async for piece in pieces:
                    come.put_nowait((number, piece))
                    if piece.finish:
                        return
            raise EngineError("the answer broke off")
        except Exception as error:  # noqa: BLE001  it is raised again where the pieces are read
            come.put_nowait((number, error))

    tasks = [
        asyncio.create_task(follow(n, question)) for n, question in enumerate(asked)
    ]
    try:
        left = len(tasks)
        while left:
            number, piece = await come.get()
            if isinstance(piece, Exception):
                raise piece
            if piece.finish == "error":
                raise EngineError(piece.error)
            yield number, piece
            left -= piece.finish is not None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> None:
    """Do the work, unless the client goes away first; then it is cancelled."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        finished = working.done()
        working.cancel()
        results = await asyncio.gather(working, leaving, return_exceptions=True)
    if finished and isinstance(results[0], Exception):
        raise results[0]


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _model(name: str, catalogue: Catalogue) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": catalogue.created,
        "owned_by": "equipoise",
    }


async def _problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return JSONResponse(error.body(), error.status, error.headers)


async def _http(request: Request, error: Exception) -> JSONResponse:
    """What the router says: no such path, or no such method there."""
    assert isinstance(error, HTTPException)
    words = {
        404: "there is nothing at this path",
        405: f"{request.method} is not for this path",
    }
    problem = Problem(
        error.status_code, words.get(error.status_code, error.detail), "not_found"
    )
    if error.status_code == 405:
        problem.code = "method_not_allowed"
    return JSONResponse(problem.body(), problem.status, error.headers)


async def _failure(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours: the server's log has the traceback, the client a plain word."""
    return JSONResponse(
        Problem(500, "the server failed; its log says why", "internal_error").body(),
        500,
    )
