"""The page on which a person plays: what its script asks, and what it is answered."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.applications import Starlette

from equipoise.blocks.terminal import show_notes
from equipoise.errors import clean
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.people.play_server import LONGEST_MOVE, HumanMatch, PlayServer, open_play_server
from equipoise.runs.recipe_loader import component_announced
from equipoise.serve.app import PageHead, page_app
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.protocol import Body, validate_body
from equipoise.serve.server import PAGE_LIMITS, serve_page

HEAD = PageHead(
    title="Play",
    subtitle="place",
    name_label="Your name, as it shall stand in the records",
    field="player",
    begin="Sit down",
)
MOST_SITTINGS = 200  # matches that are kept in memory; others are played again to go on
MOST_MOVES = 1000


class SitRequest(Body):
    """A person who sits down at a match that was begun ("": a new one), with `moves` of theirs."""

    name: str = Field(max_length=1000)
    match: str = Field("", pattern="^([0-9a-f]{32})?$")
    moves: list[str] = Field([], max_length=MOST_MOVES)


class MoveRequest(SitRequest):
    """A move in a match, after the person's other `moves` in it."""

    text: str = Field(max_length=10 * LONGEST_MOVE)


def play_app(play_server: PlayServer, limits: Limits, token: str | None) -> Starlette:
    """The application on which people play."""
    one_at_a_time = asyncio.Lock()  # the players are shared
    sittings: OrderedDict[str, HumanMatch] = OrderedDict()

    def sit(request: SitRequest) -> HumanMatch:
        """The match as far as the page knows it; it is played again where it is not here."""
        known = sittings.pop(request.match, None)
        if known is None or not continues(known, request):
            known = play_server.open_match(request.name, request.match, request.moves)
        sittings[known.plan.id] = known
        while len(sittings) > MOST_SITTINGS:
            sittings.popitem(last=False)
        return known

    def begin_match(request: SitRequest) -> Any:
        return match_facts(play_server, sit(request))

    def make_move(request: MoveRequest) -> Any:
        sitting = sit(request)
        if len(sitting.moves) == len(request.moves):  # else it was sent twice
            sitting.move(request.text)
        return match_facts(play_server, sitting)

    async def begin(values: dict[str, Any]) -> Any:
        request = validate_body(SitRequest, values)
        async with one_at_a_time:
            return await asyncio.to_thread(begin_match, request)

    async def move(values: dict[str, Any]) -> Any:
        request = validate_body(MoveRequest, values)
        async with one_at_a_time:
            return await asyncio.to_thread(make_move, request)

    return page_app("play", HEAD, {"begin": begin, "move": move}, limits, token)


def continues(sitting: HumanMatch, request: SitRequest) -> bool:
    """True if the match has this person in it, and the moves that the page knows."""
    moves = sitting.moves[: len(request.moves)]
    return sitting.human.name == request.name.strip() and moves == request.moves


def match_facts(play_server: PlayServer, sitting: HumanMatch) -> dict[str, Any]:
    view = sitting.view
    shown = {
        "match": sitting.plan.id,
        "game": play_server.game.kind,
        "seat": play_server.seat,
        "moves": sitting.moves,
        "warning": play_server.game.content_warning(sitting.plan.prompt),
    }
    if view is None:
        played = play_server.record(sitting)
        match = played.match
        judgement = played.judgement
        moves = [
            {
                "role": f"{turn.seat} ({clean(str(match.seats[turn.seat].name))})",
                "text": clean(turn.move.text or turn.move.error),
            }
            for turn in match.turns
        ]
        scores = {} if judgement is None else dict(judgement.scores or {})
        result_facts = {
            "chat": moves,
            "scores": [[seat, *sorted(scores[seat].items())] for seat in scores],
            "reason": "" if judgement is None else judgement.reason,
        }
        return {**shown, "over": True, **result_facts}
    chat = [
        {"role": clean(message.role), "text": clean(message.content)} for message in view.messages
    ]
    return {**shown, "over": False, "chat": chat, "actions": list(view.actions)}


@contextmanager
def play_server(
    folder: Path,
    *,
    seat: str = "",
    game: str | Mapping[str, Any] | Game | None = None,
    against: Sequence[str] = (),
    prompt: str = "",
    judge: str | Mapping[str, Any] | Judge | None = None,
    trust: bool = False,
) -> Iterator[PlayServer]:
    """A place to play a run's players: `open_match(name)`, `move(text)` to the end,
    `record(match)`.

    game, judge: a kind, YAML, a mapping or a component; the others, and errors, as
    `open_play_server`.
    """
    played, judging = None, None
    if game is not None:
        played = component_announced(Game, game, None, "--game", show_notes)
    if judge is not None:
        judging = component_announced(Judge, judge, None, "--judge", show_notes)
    with open_play_server(folder, seat, played, against, prompt, judging, trust) as opened:
        yield opened


def play(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8011,
    token: str | None,
    announce: Callable[[str], None] = lambda address: None,
    **options: Any,
) -> None:
    """Have people play against a run's players, on a page, until Ctrl-C or SIGTERM.

    Args as of `vote` and `play_server`, whose errors are raised; ConfigError if the port is taken.
    """
    with play_server(folder, **options) as opened:
        serve_page(play_app(opened, PAGE_LIMITS, token), host, port, token, announce)
