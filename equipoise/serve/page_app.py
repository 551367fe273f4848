"""A page for people: one HTML file, its script and its style, and the calls that the script makes.
It asks no other address for anything, and holds no data itself: what is shown comes from calls,
which need the token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from equipoise import report
from equipoise.errors import UserError
from equipoise.serve.app import guarded
from equipoise.serve.endpoint import Endpoint
from equipoise.serve.gate import Gate, Limits
from equipoise.serve.protocol import Problem, Reply
from equipoise.serve.request_body import read_object

Call = Callable[[dict[str, Any]], Awaitable[Any]]
PAGES = Path(__file__).parent / "pages"
COLOURS = Path(report.__file__).parent / "page.css"  # the report's
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


def page_app(
    name: str, calls: Mapping[str, Call], limits: Limits, token: str | None, policy: str = POLICY
) -> Starlette:
    """The application of the page `name`: its files, and /api/CALL for each of `calls`, to which a
    JSON object is posted.

    `policy` is the page's content security policy; `token` as `app.create` has it.
    """
    files = {
        "/": _file("text/html", PAGES / f"{name}.html", policy=policy),
        "/page.css": _file("text/css", COLOURS, PAGES / "pages.css"),
        "/page.js": _file("text/javascript", PAGES / "client.js", PAGES / f"{name}.js"),
    }
    gate = Gate(limits.concurrency, limits.queue)
    app = Starlette(
        routes=[
            *(Route(path, file) for path, file in files.items()),
            *(
                Route(f"/api/{each}", JsonCall(call, limits, gate), methods=["POST"])
                for each, call in calls.items()
            ),
        ],
        **guarded(token, frozenset(files)),
    )
    app.router.redirect_slashes = False
    return app


class JsonCall(Endpoint):
    """Answers a posted JSON object with what a function makes of it."""

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


def _file(media_type: str, *paths: Path, policy: str = POLICY) -> Any:
    """An endpoint that sends these files as one."""
    content = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    headers = {**HEADERS, "content-security-policy": policy}

    async def send(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=headers)

    return send
