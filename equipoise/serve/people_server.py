"""What the verbs for people do: serve a page until it is stopped. Each is one function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equipoise.run.people.ballot import open_ballot
from equipoise.serve import server
from equipoise.serve.gate import Limits
from equipoise.serve.vote_page import vote_app

Announce = Callable[[str], None]
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
    """Have people vote on a run's answers, on a page, until Ctrl-C or SIGTERM, and say
    how many votes the run has then.

    Args: part, overlap, trust: as `open_ballot` takes them; token: what visitors must
    send, None: none, on this machine alone (`server.choose_token`); announce: is called
    with the page's address once it can be opened.

    Raises what `open_ballot` does, and ConfigError where the port is taken.
    """
    with open_ballot(folder, part, overlap, trust) as ballot:
        listening = server.listen(host, port)
        limits = Limits.model_validate({})
        app = vote_app(ballot, limits, token)
        announce(server.page_url(host, listening, token))
        server.run(server.bounded(app, limits, GRACE), listening)
        ballot.record()
        return ballot.count()
