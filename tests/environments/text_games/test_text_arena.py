"""TextArena's games, played end to end: the library referees and pays."""

from __future__ import annotations

import random
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.text_games import any_move_in_brackets
from equipoise.environments.text_games.game import Deals
from equipoise.environments.text_games.text_arena import TextArena
from equipoise.errors import ConfigError
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Match, Move, PlayerId

# Not imported where no test of it runs: it takes a second.
pytestmark = pytest.mark.skipif(find_spec("textarena") is None, reason="needs textarena")
DEALS = Deals(count=2, held_out=0).load().training
# name -> (seats, whether what they get adds up to 0)
GAMES = {
    "KuhnPoker-v0": (2, True),
    "TicTacToe-v0": (2, True),
    "ConnectFour-v0": (2, True),
    "Nim-v0": (2, True),
    "SimpleBlindAuction-v0": (2, True),
    "IteratedRockPaperScissors-v0": (2, True),
    "LiarsDice-v0": (2, True),
    "Poker-v0": (2, False),
    "ThreePlayerTicTacToe-v0": (3, False),
    "ThreePlayerIPD-v0": (3, False),
    "SecretMafia-v0": (6, False),
    "GuessTheNumber-v0": (1, False),
}


def played(game: TextArena, answer=any_move_in_brackets) -> list[Match]:
    player = PlayerId("policy")
    planned = [
        Planned(f"m{n}", 0, "train", deal, dict.fromkeys(game.seats, player), n)
        for n, deal in enumerate(DEALS)
    ]

    def act(who, views, seeds):
        texts = [answer(view, seed) for view, seed in zip(views, seeds, strict=True)]
        return [text if isinstance(text, Move) else Move(text) for text in texts]

    return play(planned, game, act)


@pytest.mark.parametrize("name", GAMES)
def test_a_game_is_played_to_its_end_and_paid_by_the_library(name):
    seats, zero_sum = GAMES[name]
    game = TextArena(name=name, players=seats)
    game.check()
    for match, deal in zip(played(game), DEALS, strict=True):
        result = game.replay(match, deal)
        assert result.returns is not None, result.reason
        assert list(result.returns) == list(game.seats)
        assert not zero_sum or sum(result.returns.values()) == pytest.approx(0)
        roles = [message.role for message in match.turns[-1].view.messages]
        assert roles[::2] == ["user"] * len(roles[::2])
        assert roles[1::2] == ["assistant"] * len(roles[1::2])


@pytest.mark.long  # a hundred moves
def test_the_library_draws_no_one_elses_random_numbers():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = played(TextArena(name="PigDice-v0"))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    random.seed(6)
    assert played(TextArena(name="PigDice-v0")) == first
    assert first[0].turns[0].view != first[1].turns[0].view or (
        len(first[0].turns) != len(first[1].turns)
    )


@pytest.mark.parametrize("retries", [None, 0, 3])
def test_illegal_moves_get_the_librarys_penalty(retries):
    game = TextArena(name="KuhnPoker-v0", retries=retries)
    match, _ = played(game, lambda view, seed: "I wonder")
    tries = 2 if retries is None else 1 + retries
    assert len(match.turns) == tries
    result = game.replay(match, DEALS[0])
    loser = match.turns[0].seat
    assert result.returns is not None
    assert result.returns[loser] == -1
    assert sum(result.returns.values()) == 0
    assert result.illegal[loser] == tries


def test_only_the_move_is_passed_on_where_a_form_says_how_it_is_written():
    game = TextArena(name="SimpleNegotiation-v0", form="tagged")
    match, _ = played(game, lambda view, seed: "My plan. <move>[accept]</move>")
    second = next(turn for turn in match.turns if turn.seat != match.turns[0].seat)
    told = "\n".join(message.content for message in second.view.messages)
    assert "My plan" not in told
    assert "[accept]" in told
    assert game.answer_form.instruction in match.turns[0].view.messages[0].content
    again = [turn for turn in match.turns if turn.seat == second.seat][-1]
    assert again is second or again.view.messages[1].content.startswith("My plan")


@pytest.mark.parametrize(("remember", "messages"), [(0, 1), (1, 3), (None, 9)])
def test_a_seat_is_shown_the_beginning_and_its_last_answers(remember, messages):
    game = TextArena(name="IteratedMatchingPennies-v0", remember=remember)
    views = [turn.view for turn in played(game)[0].turns if turn.seat == "player 0"]
    view = views[4]
    assert len(view.messages) == messages
    assert view.messages[0].content.startswith(views[0].messages[0].content)
    assert view.messages[-1].content != views[0].messages[-1].content


def test_an_endless_match_is_unjudged():
    game = TextArena(name="IteratedPrisonersDilemma-v0", longest=5)
    match, _ = played(game)
    result = game.replay(match, DEALS[0])
    assert result.returns is None
    assert "did not end within game.longest = 5" in result.reason


@pytest.mark.long  # three seats that talk for ninety moves
def test_a_match_without_a_winner_is_unjudged():
    game = TextArena(name="PublicGoodsGame-v0", players=3)
    match = played(game)[0]
    result = game.replay(match, DEALS[0])
    assert result.returns is None
    assert "everybody is out" in result.reason


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "KuhnPoker"}, "did you mean 'KuhnPoker-v0'?"),
        ({"name": "KuhnPoker-v0", "players": 3}, "for 3 players: AssertionError"),
        ({"name": "KuhnPoker-v0", "parameters": {"rounds": 3}}, "rounds"),
    ],
)
def test_a_game_that_cannot_be_set_up_is_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        TextArena(**settings).check()
    assert message in str(error.value)
