"""People at the games: they sit where the rules allow it, the match goes on after a restart, and
what they played is recorded as any match.
"""

import importlib.util
import io
import shutil

import pytest

from equipoise import seeds
from equipoise.errors import ConfigError, DataError
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.votes_and_matches import PEOPLE, played_matches
from equipoise.people import play_server as play_server_module
from equipoise.people.play_server import open_play_server
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt, user

ANSWERS = {"rocky": "rock", "polly": "paper"}
MATRIX = Game.build({"kind": "matrix", "name": "rock_paper_scissors"})
CHAT = {"kind": "assistance", "text": "none", "blocks": False, "simulated": True, "turns": 2}


@pytest.fixture
def run(recorded_folder, tmp_path):
    """A run of each test's own: what people play is written beside it."""
    return shutil.copytree(recorded_folder("people", answers=ANSWERS), tmp_path / "run")


def test_a_person_plays_a_finite_game_and_is_judged(run):
    judge = Judge.build("matrix")
    with open_play_server(run, "row", MATRIX, ["polly"], judge=judge) as play_server:
        sitting = play_server.open_match(" ann ")
        assert sitting.view is not None
        assert sitting.view.actions == ("rock", "paper", "scissors")
        with pytest.raises(DataError, match="none of rock, paper"):
            sitting.move("well")
        with pytest.raises(DataError, match="not over yet"):
            sitting.result()
        sitting.move("scissors")
        played = play_server.record(sitting)
        play_server.record(sitting)
        with pytest.raises(DataError, match="is over"):
            sitting.move("rock")
    assert {seat: str(who) for seat, who in played.match.seats.items()} == {
        "row": "ann@0",
        "column": "polly@0",
    }
    assert played.judgement is not None
    assert played.judgement.by_seat("score") == {"row": 1.0, "column": -1.0}
    assert [each.match.id for each in played_matches(run).read()] == [played.match.id]
    with RunDirectory.open(run) as opened:  # whoever holds the lock takes it in
        [match] = opened.ledger.matches(PEOPLE)
        assert opened.ledger.judgements_of([match.id])[match.id] == played.judgement
    assert match == played.match
    assert match.split == PEOPLE


def test_each_match_of_a_person_has_dice_of_its_own(run):
    with open_play_server(run, "row", MATRIX, ["polly"], judge=Judge.build("matrix")) as server:
        seed = server._config.seed
        plans = [server.open_match("ann").plan for _ in range(3)]
        again = server.open_match("ann", plans[0].id).plan
    assert len({plan.id for plan in plans}) == len({plan.seed for plan in plans}) == 3
    assert [plan.seed for plan in plans] == [seeds.child(seed, "match", p.id) for p in plans]
    assert (again.id, again.seed, again.prompt) == (plans[0].id, plans[0].seed, plans[0].prompt)


@pytest.mark.parametrize(
    ("game", "seat", "moves", "turns"),
    [
        ({"kind": "answers", "samples": 2}, "2", ["It is four."], 2),
        ({"kind": "red_team"}, "adversary", ["Please do it anyway."], 2),
        ({"kind": "red_team"}, "defender", ["No."], 2),
        (CHAT, "user", ["What is it?"], 2),
        (CHAT, "assistant", ["What do you mean?", "So it is."], 4),
    ],
)
def test_every_seat_of_the_games_can_be_taken(run, game, seat, moves, turns):
    with open_play_server(run, seat, Game.build(game), ["rocky"], "What is it?") as play_server:
        sitting = play_server.open_match("ann")
        for text in moves:
            assert sitting.view is not None
            sitting.move(text)
        assert sitting.view is None
        match = sitting.result()
    own = [turn for turn in match.turns if turn.seat == seat]
    assert [turn.move.text for turn in own] == moves
    assert len(match.turns) == turns
    others = {str(match.seats[turn.seat]) for turn in match.turns} - {"ann@0"}
    assert others == {"rocky@0"}


def test_a_person_meets_only_prompts_that_give_the_seat_a_move(run, monkeypatch):
    seeds_of = [Prompt(str(n), (user("Do it."),), {"harmful": n % 3 == 1}) for n in range(6)]
    monkeypatch.setattr(play_server_module, "starting_prompts", lambda run, text: seeds_of)
    with open_play_server(run, "adversary", Game.build("red_team"), ["rocky"]) as play_server:
        sittings = [play_server.open_match("ann") for _ in range(8)]
    assert all(sitting.view for sitting in sittings)
    assert {sitting.plan.prompt.id for sitting in sittings} <= {"1", "4"}


def test_a_match_that_was_cut_off_goes_on_where_it_was(run):
    with open_play_server(run, "assistant", Game.build(CHAT), ["rocky"]) as play_server:
        whole = play_server.open_match("ann")
        whole.move("What do you mean?")
        cut = play_server.open_match("ann", whole.plan.id, whole.moves)
        assert (cut.view, cut.plan) == (whole.view, whole.plan)
        for sitting in (whole, cut):
            sitting.move("So it is.")
        assert whole.result() == cut.result()


@pytest.mark.parametrize(
    ("seat", "against", "message"),
    [
        ("middle", [], "no such seat; .*row"),
        ("row", ["nobody"], "no such player"),
        ("row", ["rocky@7"], "the generations 0 are kept"),
        ("row", ["mixture"], "has measured none of a league"),
        ("row", ["row=rocky"], "nobody else at row"),
    ],
)
def test_what_does_not_fit_is_said(run, seat, against, message):
    with pytest.raises(ConfigError, match=message), open_play_server(run, seat, MATRIX, against):
        pass


def test_nobody_plays_under_the_name_of_a_player(run):
    with open_play_server(run, "row", MATRIX) as play_server:
        for name in ("rocky", "a@b", ""):
            with pytest.raises(DataError, match="name"):
                play_server.open_match(name)


def typed(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_the_terminal_asks_until_a_move_can_be_made(command, monkeypatch, run):
    typed(monkeypatch, "well\nrock\n")
    game = "{kind: matrix, name: rock_paper_scissors}"
    options = ("--game", game, "--seat", "column", "--against", "rocky")
    played = command("play", run, *options, "--judge", "matrix", "--name", "ben")
    assert played.code == 0
    assert "'well' is none of rock" in played.err
    assert "column (ben@0): rock" in played.out
    assert "row: score 0" in played.out
    typed(monkeypatch, "/quit\n")
    left = command("play", run, *options, "--name", "eve")
    assert left.code == 0
    assert "not recorded" in left.err
    names = [str(each.match.seats["column"]) for each in played_matches(run).read()]
    assert "ben@0" in names
    assert "eve@0" not in names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seat", "x"], "no such seat"),
        (["--game", "chess"], "chess"),
        (["--against", "x"], "no such player"),
        (["--game", "{kind: matrix, name: chicken}", "--name", "rocky"], "is a player"),
    ],
)
def test_bad_input_is_said(command, monkeypatch, run, arguments, message):
    typed(monkeypatch, "")
    result = command("play", run, *arguments)
    assert result.code == 2
    assert message in result.err


@pytest.mark.skipif(
    importlib.util.find_spec("pyspiel") is None, reason="OpenSpiel is not installed"
)
def test_poker_against_a_script_that_always_passes(command, monkeypatch, run):
    typed(monkeypatch, "BET\nbet\n")
    game = "{kind: open_spiel, name: kuhn_poker}"
    result = command(
        "play", run, "--game", game, "--judge", "game_outcome", "--prompt", "x", "--json"
    )
    assert result.code == 0, result.err
    facts = result.facts
    assert facts["moves"][0] == {"seat": "player 0", "text": "bet"}
    assert facts["seats"]["player 1"] == "rocky@0"
    # "rock" is no move of poker: who makes none loses what the game can cost.
    assert facts["scores"]["player 1"]["illegal"] == 1.0
