"""What the verbs for people do: serve a page until it is stopped. Each is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.runs import recipe_loader
from equipoise.runs.people.ballot import open_ballot
from equipoise.runs.people.play_server import Arcade, open_arcade
from equipoise.runs.reading.watching import Watched
from equipoise.serve import server
from equipoise.serve.gate import Limits
from equipoise.serve.play_page import play_app
from equipoise.serve.vote_page import vote_app
from equipoise.serve.watch_page import watch_app

Announce = Callable[[str], None]
LIMITS = Limits.model_validate({})
GRACE = 5  # seconds to finish what is under way when a page is stopped


def vote(
    folder: Path,
    *,
    part: str = "",
    overlap: float = 0.1,
    host: str = "127.0.0.1",
    port: int = 8010,
    token: str | None,
    trust: bool = False,
    announce: Announce = lambda address: None,
) -> int:
    """Have people vote on a run's answers, on a page, until Ctrl-C or SIGTERM, and say how many
    votes the run has then.

    Args: part, overlap, trust: as `open_ballot` takes them; token: what visitors must send, None:
    none, on this machine alone (`server.choose_token`); announce: is called with the page's address
    once it can be opened.

    Raises what `open_ballot` does, and ConfigError where the port is taken.
    """
    with open_ballot(folder, part, overlap, trust) as ballot:
        _serve(vote_app(ballot, LIMITS, token), host, port, token, announce)
        ballot.record()
        return ballot.count()


@contextmanager
def arcade(
    folder: Path,
    *,
    seat: str = "",
    game: str | Mapping[str, Any] | Game | None = None,
    against: Sequence[str] = (),
    prompt: str = "",
    judge: str | Mapping[str, Any] | Judge | None = None,
    trust: bool = False,
) -> Iterator[Arcade]:
    """A place to play against a run's players: `arcade.sit(name)`, then `move(text)` until `view`
    is None, then `arcade.record(sitting)`.

    Args: game, judge: a kind, YAML, a mapping or a component; the others as `open_arcade` takes
    them. Raises what it does.
    """
    played = None if game is None else recipe_loader.component(Game, game, (), "--game")
    judging = None if judge is None else recipe_loader.component(Judge, judge, (), "--judge")
    with open_arcade(folder, seat, played, against, prompt, judging, trust) as opened:
        yield opened


def play(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8011,
    token: str | None,
    announce: Announce = lambda address: None,
    **options: Any,
) -> None:
    """Have people play against a run's players, on a page, until Ctrl-C or SIGTERM.

    Args: as of `vote`; `options` as of `arcade`. Raises what `arcade` does, and ConfigError where
    the port is taken.
    """
    with arcade(folder, **options) as opened:
        _serve(play_app(opened, LIMITS, token), host, port, token, announce)


def watch(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8012,
    token: str | None,
    trust: bool = False,
    announce: Announce = lambda address: None,
) -> None:
    """Show runs as they go on, on a page, until Ctrl-C or SIGTERM; they are only read.

    Args: as of `vote`. Raises RunError where there is no run, ConfigError where the port is taken.
    """
    runs = [Watched(folder, trust) for folder in folders]
    _serve(watch_app(runs, LIMITS, token), host, port, token, announce)


def _serve(app: Starlette, host: str, port: int, token: str | None, announce: Announce) -> None:
    listening = server.listen(host, port)
    announce(server.page_url(host, listening, token))
    server.run(server.bounded(app, LIMITS, GRACE), listening)
