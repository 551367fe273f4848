"""The page on which runs are watched as they go on; it only reads."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.applications import Starlette

from equipoise.blocks.html import script_sources
from equipoise.blocks.terminal import duration
from equipoise.errors import UserError, clean
from equipoise.report.watching import LiveRun, Watched
from equipoise.serve.app import POLICY, page_app
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.protocol import Body, validate_body
from equipoise.serve.server import PAGE_LIMITS, serve_page
from equipoise.types import Match

LONGEST = 1500  # characters of an answer on the page; the report has more


class ReportRequest(Body):
    """The number of a run, counted from 0."""

    run: int = Field(ge=0)


def watch_app(runs: Sequence[Watched], limits: Limits, token: str | None) -> Starlette:
    """The application on which runs are watched."""
    one_at_a_time = asyncio.Lock()

    async def live(values: dict[str, Any]) -> Any:
        async with one_at_a_time:
            return await asyncio.to_thread(lambda: [_run_facts(run) for run in runs])

    async def report(values: dict[str, Any]) -> Any:
        request = validate_body(ReportRequest, values)
        if request.run >= len(runs):
            raise UserError(f"there are {len(runs)} runs here")
        async with one_at_a_time:
            html = await asyncio.to_thread(runs[request.run].report)
        return {"html": html}

    # The report is framed, and a frame obeys its page's policy beside its own.
    policy = (
        POLICY.replace("script-src 'self'", f"script-src 'self' {script_sources()}")
        .replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
        .replace("img-src data:", "img-src data: blob:")
    )
    return page_app("watch", {"live": live, "report": report}, limits, token, policy)


def _run_facts(watched: Watched) -> dict[str, Any]:
    folder = clean(str(watched.folder))
    try:
        run = watched.live()
        running = watched.is_running()
    except UserError as error:
        return {"folder": folder, "error": clean(str(error))}
    left = run.seconds_left
    return {
        "folder": folder,
        "name": clean(run.name),
        "state": _state(run, running),
        "share": _share(run),
        "facts": _facts(run, watched.pace()),
        "left": duration(left) if left is not None and running else "",
        "curves": _curves(run.curves),
        "matches": [_match(match) for match in run.matches],
    }


def _state(run: LiveRun, running: bool) -> str:
    state = "running" if running else "stopped"
    if run.finished:
        state = "finished"
    if run.stage:
        state += f"; last finished: {run.stage} of generation {run.generation}"
    if run.under_way and running:
        state += f"; under way: {run.under_way}"
    return clean(state)


def _share(run: LiveRun) -> float:
    if run.finished or not run.generations:
        return float(run.finished)
    return min(1.0, (run.generation or 0) / run.generations)


def _facts(run: LiveRun, pace: Mapping[str, float]) -> list[list[str]]:
    rows = [["generation", f"{run.generation or 0} of {run.generations}"]]
    for name, count in run.records.items():
        rate = f" ({pace[name]:.3g}/s)" if name in pace else ""
        rows.append([name, f"{count:,}{rate}"])
    rows.append(["time in stages", duration(run.seconds)])
    for account, spent in run.spent.items():
        rows.append([f"spent by {clean(account)}", spent.text()])
    return rows


def _curves(curves: Mapping[str, Sequence[tuple[int, float]]]) -> list[dict[str, Any]]:
    return [
        {"name": name.replace("_", " "), "points": [list(point) for point in points]}
        for name, points in curves.items()
    ]


def _match(match: Match) -> dict[str, Any]:
    first = match.turns[0].view.messages if match.turns else ()
    chat = [{"role": clean(message.role), "text": _shorten(message.content)} for message in first]
    moves = [
        {
            "role": clean(f"{turn.seat}: {match.seats[turn.seat]}"),
            "text": _shorten(turn.move.text or turn.move.error),
        }
        for turn in match.turns
    ]
    return {"id": match.id, "title": f"{match.split}, {match.id[:8]}", "chat": chat + moves}


def _shorten(text: str) -> str:
    return clean(text if len(text) <= LONGEST else f"{text[:LONGEST]} …")


def watch(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8012,
    token: str | None,
    trust: bool = False,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Show runs as they go on, on a page, until Ctrl-C or SIGTERM; they are only read.

    Raises RunError where there is no run, ConfigError where the port is taken.
    """
    runs = [Watched(folder, trust) for folder in folders]
    serve_page(watch_app(runs, PAGE_LIMITS, token), host, port, token, announce)
