"""The HTTP applications: models for OpenAI's clients, with vLLM's tokenizer endpoints; pages."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from equipoise import blocks
from equipoise.errors import UserError
from equipoise.serve.asgi_endpoint import Endpoint, Gate, Limits
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.chat_completions import ChatEndpoint
from equipoise.serve.protocol import Problem, Reply, read_object
from equipoise.serve.text_endpoints import CompletionEndpoint, Detokenize, Tokenize, TokenizerInfo
from equipoise.system.addresses import is_loopback

POSTED = {
    "/v1/chat/completions": ChatEndpoint,
    "/v1/completions": CompletionEndpoint,
    "/tokenize": Tokenize,
    "/detokenize": Detokenize,
}
# Endpoints of OpenAI's that are not here -> what to ask in their place.
ELSEWHERE = {
    "/v1/responses": "ask /v1/chat/completions; vLLM and LiteLLM answer /v1/responses",
    "/v1/embeddings": "a language model here makes no embeddings; serve an embedding model by "
    "`vllm serve` or `transformers serve`",
}
Call = Callable[[dict[str, Any]], Awaitable[Any]]
PAGES = Path(__file__).parent / "pages"
COLOURS = Path(blocks.__file__).parent / "page.css"  # the report's
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def create(catalogue: Catalogue, limits: Limits, token: str | None) -> Starlette:
    """The application; `token` None: programs here may ask, but no web page elsewhere."""
    gate = Gate(limits.concurrency, limits.queue)

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "running": gate.running, "waiting": gate.waiting})

    async def models(request: Request) -> JSONResponse:
        return JSONResponse(
            {"object": "list", "data": [_model(name, catalogue) for name in catalogue.names]}
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

    routes = [
        Route("/health", health),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        *(
            Route(path, kind(catalogue, limits, gate), methods=["POST"])
            for path, kind in POSTED.items()
        ),
        Route("/tokenizer_info", TokenizerInfo(catalogue, limits, gate), methods=["GET"]),
    ]
    app = Starlette(
        routes=routes, lifespan=lifespan, **access_settings(token, frozenset({"/health"}))
    )
    app.router.redirect_slashes = False
    return app


def _model(name: str, catalogue: Catalogue) -> dict[str, object]:
    return {"id": name, "object": "model", "created": catalogue.created, "owned_by": "equipoise"}


@dataclass(frozen=True)
class PageHead:
    """The words of a page's head: its `title`, and the form that asks for a name.

    `subtitle` is the id of the line below the title, `field` the name's in the form.
    """

    title: str
    subtitle: str
    name_label: str
    field: str
    begin: str


def page_app(
    name: str, head: PageHead, calls: Mapping[str, Call], limits: Limits, token: str | None
) -> Starlette:
    """The page `name`: one HTML file, its script and style, and /api/CALL for each of `calls`.

    A JSON object is posted to a call. The page asks no other address, and its files hold no data:
    that comes from calls, which need the `token` (as in `create`).
    """
    opening = Template(joined(PAGES / "head.html")).substitute(vars(head))
    page = opening + joined(PAGES / f"{name}.html")
    files = {
        "/": file_endpoint("text/html", page),
        "/page.css": file_endpoint("text/css", joined(COLOURS, PAGES / "pages.css")),
        "/page.js": file_endpoint(
            "text/javascript", joined(PAGES / "client.js", PAGES / f"{name}.js")
        ),
    }
    gate = Gate(limits.concurrency, limits.queue)
    routes = [
        *(Route(path, file) for path, file in files.items()),
        *(
            Route(f"/api/{each}", JsonCall(call, limits, gate), methods=["POST"])
            for each, call in calls.items()
        ),
    ]
    app = Starlette(routes=routes, **access_settings(token, frozenset(files)))
    app.router.redirect_slashes = False
    return app


class JsonCall(Endpoint):
    """Answers a posted JSON object with the result of a function."""

    def __init__(self, call: Call, limits: Limits, gate: Gate) -> None:
        super().__init__(limits, gate)
        self._call = call

    async def _reply(self, body: bytes, reply: Reply) -> None:
        values = read_object(body)
        async with self._gate.place(1):
            try:
                content = await self._call(values)
            except Problem:
                raise
            except UserError as error:
                raise Problem(400, str(error), "invalid_value") from error
        await reply.json(content, headers={"cache-control": "no-store"})


def joined(*paths: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def file_endpoint(media_type: str, content: str) -> Any:
    headers = {**HEADERS, "content-security-policy": POLICY}

    async def send(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=headers)

    return send


def access_settings(token: str | None, free: frozenset[str]) -> dict[str, Any]:
    """Settings of every application: access check but for `free` paths, the protocol's errors."""
    return {
        "middleware": [Middleware(AccessCheck, token=token, free=free)],
        "exception_handlers": {Problem: _problem, HTTPException: http, Exception: failure},
    }


class AccessCheck:
    """Lets requests in that carry the token; where there is none, those from this machine."""

    def __init__(self, app: ASGIApp, token: str | None, free: frozenset[str]) -> None:
        self._app = app
        self._free = free
        self._expected = None if token is None else f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with an error."""
        if scope["type"] == "http" and scope["path"] not in self._free:
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
                "with the token that the server printed when it was started",
                "invalid_api_key",
                None,
                {"www-authenticate": "Bearer"},
            )

    def _check_origin(self, request: Request) -> None:
        """Refuse a page from elsewhere that is open in a browser here, whatever name it uses."""
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


async def _problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return JSONResponse(error.body(), error.status, error.headers)


async def http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = error.detail
    code = "not_found"
    if error.status_code == 404:
        message = ELSEWHERE.get(request.url.path, "there is nothing at this path")
    elif error.status_code == 405:
        message = f"this path does not take {request.method}"
        code = "method_not_allowed"
    problem = Problem(error.status_code, message, code)
    return JSONResponse(problem.body(), problem.status, error.headers)


async def failure(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours: the traceback goes to the server's log, not to the client."""
    problem = Problem(500, "the server failed; its log says why", "internal_error")
    return JSONResponse(problem.body(), problem.status)
