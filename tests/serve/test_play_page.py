"""The page on which a person plays, over HTTP: a match goes on whatever is sent twice, and after
the server was restarted.
"""

from contextlib import contextmanager

import httpx
import people_run
import pytest

from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.votes_and_matches import played_matches
from equipoise.people.play_server import open_play_server
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.play_page import play_app

CHAT = Game.build(
    {"kind": "assistance", "text": "none", "blocks": False, "simulated": True, "turns": 2}
)


@pytest.fixture
def playing(tmp_path, serving_app):
    """playing(game, seat): post(call, body) to a page of that game, in one run."""
    run = people_run.write(tmp_path / "run", answers={"rocky": "rock"})
    limits = Limits.model_validate({})

    @contextmanager
    def start(game: Game, seat: str, judge: str = ""):
        judging = Judge.build(judge) if judge else None
        with (
            open_play_server(run, seat, game, judge=judging) as play_server,
            serving_app(play_app(play_server, limits, None), limits) as url,
            httpx.Client(base_url=url) as client,
        ):
            yield lambda call, body: client.post(f"/api/{call}", json=body)

    start.run = run  # type: ignore[attr-defined]
    return start


def test_a_match_is_played_to_its_end_and_recorded_once(playing):
    game = Game.build({"kind": "matrix", "name": "rock_paper_scissors"})
    with playing(game, "row", "matrix") as post:
        begun = post("begin", {"name": "ann"}).json()
        assert begun["actions"] == ["rock", "paper", "scissors"]
        assert not begun["over"]
        move = {"name": "ann", "match": begun["match"], "text": "paper"}
        ended = post("move", move).json()
        assert ended == post("move", move).json()  # a double click
    assert ended["over"]
    assert ended["scores"][0] == ["row", ["score", 1.0]]
    assert [each["text"] for each in ended["chat"]] == ["paper", "rock"]
    assert len(played_matches(playing.run).read()) == 1


@pytest.mark.long
def test_a_match_goes_on_after_the_server_was_restarted(playing):
    with playing(CHAT, "assistant") as post:
        begun = post("begin", {"name": "ann"}).json()
        move = {"name": "ann", "match": begun["match"], "text": "What do you mean?"}
        first = post("move", move).json()
        assert first["moves"] == ["What do you mean?"]
        assert not first["over"]
    sat = {"name": "ann", "match": first["match"], "moves": first["moves"]}
    with playing(CHAT, "assistant") as post:
        again = post("begin", sat).json()
        assert again == first
        ended = post("move", {**sat, "text": "So it is."}).json()
        assert ended["over"]
    [played] = played_matches(playing.run).read()
    assert played.match.id == first["match"]
    assert len(played.match.turns) == 4


@pytest.mark.parametrize(
    ("call", "body", "message"),
    [
        ("begin", {}, "name"),
        ("begin", {"name": "rocky"}, "is a player of the run"),
        ("begin", {"name": "a", "match": "../x"}, "match"),
        ("move", {"name": "ann", "text": "well"}, "none of rock"),
        ("move", {"name": "ann", "text": " "}, "at least one character"),
    ],
)
def test_nonsense_is_refused(playing, call, body, message):
    game = Game.build({"kind": "matrix", "name": "rock_paper_scissors"})
    with playing(game, "row") as post:
        refused = post(call, body)
    assert refused.status_code == 400
    assert message in refused.json()["error"]["message"]
