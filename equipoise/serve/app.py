"""The HTTP application: /v1/models, /v1/chat/completions and /health, as OpenAI's
clients expect them.
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
from equipoise.serve.chat_request import ChatRequest, read_request
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
    """The application.

    `token` None: programs on this machine may ask without one, but no web page from
    elsewhere.
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
    """Lets requests in that carry the token; where there is none, those from this machine."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with an error."""
        if scope["type"] == "http" and scope["path"] != "/health":
            try:
                self._check(Request(scope))
            except Problem as problem:
                return await Reply(send).fail(problem)
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        if self._expected is None:
            self._check_origin(request)
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        received = f"{scheme.lower()} {token.strip()}".encode()
        if not secrets.compare_digest(received, self._expected):
            raise Problem(
                401,
                "wrong or missing token: send Authorization: Bearer TOKEN, "
                "with the token that `equipoise serve` printed",
                "invalid_api_key",
                None,
                {"www-authenticate": "Bearer"},
            )

    def _check_origin(self, request: Request) -> None:
        """A page from elsewhere, open in a browser here, must not get through, by
        whatever name it calls this machine.
        """
        hosts = [urlsplit(f"//{request.headers.get('host', '')}").hostname]
        origin = request.headers.get("origin")
        if origin is not None:
            hosts.append(urlsplit(origin).hostname)
        if not all(host and is_loopback(host) for host in hosts):
            raise Problem(
                403,
                "without a token, only this machine's own names and pages are served",
                "forbidden",
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
                body = await self._body(Request(scope, receive))
                request = read_request(body, self._limits)
                await _unless_gone(receive, self._answer(request, reply))
        except TimeoutError:
            if not clock.expired():
                raise
            message = f"the answer took longer than {self._limits.seconds:g} s"
            headers = {"x-should-retry": "false"}
            await reply.fail(Problem(408, message, "timeout", None, headers))
        except EquipoiseError as error:
            await reply.fail(_as_problem(error))

    async def _body(self, request: Request) -> bytes:
        """The request's body; of one that is too long, no more than the limit is held."""
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "0")
        received, parts = 0, []
        if length.isdecimal() and int(length) <= most:
            async for part in request.stream():
                received += len(part)
                if received > most:
                    break
                parts.append(part)
            else:
                return b"".join(parts)
        raise Problem(
            413, f"a request has at most {most} bytes here", "request_too_large"
        )

    async def _answer(self, request: ChatRequest, reply: Reply) -> None:
        seed = request.seed_or_fresh()
        async with self._gate.place(request.answers):
            served = await self._catalogue.find(request.model, seed, request.wishes)
            requests = request.engine_requests(
                seed, served.defaults, self._limits.max_tokens
            )
            completion = CompletionBuilder(
                served.name,
                len(requests),
                await _prompt_tokens(served.engine, requests[0]),
                request.counts_in_stream,
            )
            async with aclosing(_answers(served.engine, requests)) as pieces:
                if request.stream:
                    await self._stream(completion, pieces, reply, request)
                    return
                async for number, piece in pieces:
                    completion.add(number, piece)
            await reply.json(completion.body())

    async def _stream(
        self,
        completion: CompletionBuilder,
        pieces: AsyncIterator[tuple[int, Piece]],
        reply: Reply,
        request: ChatRequest,
    ) -> None:
        opened: set[int] = set()
        async for number, piece in pieces:
            completion.add(number, piece)
            if number not in opened:
                opened.add(number)
                await reply.event(completion.opening(number))
            if piece.text or piece.finish or piece.fields:
                await reply.event(completion.event(number, piece))
        if request.counts_in_stream:
            await reply.event(completion.closing())
        await reply.done()


async def _prompt_tokens(engine: Engine, request: EngineRequest) -> int | None:
    """How many tokens the prompt has; a long one is counted in another thread."""
    prompt = (request.messages, request.prefix)
    if brief(*prompt):
        return engine.count(*prompt)
    return await asyncio.to_thread(engine.count, *prompt)


async def _answers(
    engine: Engine, requests: Sequence[EngineRequest]
) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of several answers as they come, each with its answer's number.

    Raises what the engine raises.
    """
    arrived: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

    async def follow(number: int, request: EngineRequest) -> None:
        try:
            async with aclosing(engine.generate(request)) as pieces:
                async for piece in pieces:
                    arrived.put_nowait((number, piece))
                    if piece.finish:
                        return
            raise EngineError("the answer broke off")
        except Exception as error:  # noqa: BLE001  raised again where the pieces are read
            arrived.put_nowait((number, error))

    tasks = [
        asyncio.create_task(follow(number, request))
        for number, request in enumerate(requests)
    ]
    try:
        unfinished = len(tasks)
        while unfinished:
            number, piece = await arrived.get()
            if isinstance(piece, Exception):
                raise piece
            if piece.finish == "error":
                raise EngineError(piece.error)
            yield number, piece
            unfinished -= piece.finish is not None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _as_problem(error: EquipoiseError) -> Problem:
    """How the protocol answers an error of ours."""
    match error:
        case Problem():
            return error
        case Refused():
            return Problem(400, str(error), error.code, error.param)
        case EngineError():
            return Problem(500, str(error), "engine_error")
    log.error("%s", error)
    message = "the model cannot be used; the server's log says why"
    return Problem(500, message, "engine_error")


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> None:
    """Do the work, unless the client goes away first; then it is cancelled."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_for_disconnect())
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
    """The router's errors: no such path, or no such method there."""
    assert isinstance(error, HTTPException)
    message, code = error.detail, "not_found"
    if error.status_code == 404:
        message = "there is nothing at this path"
    elif error.status_code == 405:
        message = f"this path does not take {request.method}"
        code = "method_not_allowed"
    problem = Problem(error.status_code, message, code)
    return JSONResponse(problem.body(), problem.status, error.headers)


async def _failure(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours: the traceback goes to the server's log, not to the client."""
    problem = Problem(500, "the server failed; its log says why", "internal_error")
    return JSONResponse(problem.body(), problem.status)
