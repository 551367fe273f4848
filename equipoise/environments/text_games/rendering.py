"""States of OpenSpiel's games in words: what one seat knows, and nothing else.

A renderer takes a state and a player and says what that player's information state holds. Games
without one of their own are shown as the library writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from equipoise.environments.text_games.libraries import pyspiel

Renderer = Callable[[Any, int], str]

RULES = {
    "kuhn_poker": "Kuhn poker: every player puts one chip into the pot and gets one "
    "card; the highest card wins. Whoever bets adds one chip; after a bet, pass means "
    "to fold and bet means to call.",
    "leduc_poker": "Leduc poker: two cards each of jack, queen and king. Every player "
    "puts one chip into the pot and gets one card. There are two rounds of betting, "
    "with raises of two and then four chips; between them a card is laid on the table. "
    "Who has its pair wins, else the higher card.",
    "tic_tac_toe": "Tic-tac-toe: three in a row win. Moves name row and column.",
}
RANKS = ("jack", "queen", "king")
LEDUC_MOVES = ("fold", "call", "raise")


def rules(name: str, game: Any) -> str:
    """What players are told of the rules of `game`, "" where nothing is known; of a matrix game
    every pay-off.
    """
    stage = name.removeprefix("repeated_game(stage_game=").partition("(")[0]
    known = {kind.short_name for kind in pyspiel().registered_games()}
    if stage in known and stage.startswith("matrix_"):
        rounds = "Both move at once, without seeing each other's move."
        return f"{rounds} {_payoffs(pyspiel().load_matrix_game(stage))}"
    return RULES.get(name.partition("(")[0], "")


def _payoffs(game: Any) -> str:
    """What both seats get for each pair of moves."""
    cells = []
    for row in range(game.num_rows()):
        for column in range(game.num_cols()):
            names = game.row_action_name(row), game.col_action_name(column)
            values = (game.player_utility(0, row, column), game.player_utility(1, row, column))
            cells.append(f"{names[0]} and {names[1]}: {values[0]:g} and {values[1]:g}".lower())
    return f"What player 0 and player 1 get when they play … and …: {'; '.join(cells)}."


def rendered(name: str, state: Any, player: int) -> str:
    """What `player` knows in this state of the game `name`."""
    if name.startswith("matrix_"):
        return ""  # the rules say all
    return RENDERERS.get(name, as_written)(state, player)


def as_written(state: Any, player: int) -> str:
    """The library's own words: the whole board where nothing is hidden, else what the player
    knows.
    """
    kind = state.get_game().get_type()
    hides = str(kind.information) != "Information.PERFECT_INFORMATION"
    if hides and kind.provides_information_state_string:
        text = state.information_state_string(player)
    else:
        text = state.observation_string(player)
    return re.sub(r"\ACurrent player: \d+\n", "", text).strip()


def kuhn_poker(state: Any, player: int) -> str:
    """The player's card, and what everybody did."""
    players = state.num_players()
    history = state.history()
    dealt, moves = history[:players], history[players:]
    played = [
        f"{'you' if i % players == player else f'player {i % players}'} {('pass', 'bet')[move]}"
        for i, move in enumerate(moves)
    ]
    cards = RANKS if players == 2 else tuple(map(str, range(players + 1)))
    return f"Your card: {cards[dealt[player]]}. So far: {', '.join(played) or 'nothing'}."


def leduc_poker(state: Any, player: int) -> str:
    """The player's card, that on the table, and both rounds of betting."""
    known = dict(re.findall(r"\[(\w+): ?([^\]]*)\]", state.information_state_string(player)))
    ranks = RANKS if state.num_players() == 2 else tuple(map(str, range(12)))
    rounds = [_round(known[key]) for key in ("Round1", "Round2")]
    table = ranks[int(known["Public"]) // 2] if "Public" in known else "nothing yet"
    return (
        f"Your card: {ranks[int(known['Private']) // 2]}. On the table: {table}. "
        f"Round 1: {rounds[0]}. Round 2: {rounds[1]}. Pot: {known['Pot']}."
    )


def _round(moves: str) -> str:
    return ", ".join(LEDUC_MOVES[int(move)] for move in moves.split()) or "nothing yet"


def repeated_game(state: Any, player: int) -> str:
    """All earlier rounds, player 0's move first."""
    return f"Earlier rounds: {as_written(state, player).rstrip(' ;') or 'none'}."


RENDERERS: dict[str, Renderer] = {
    "kuhn_poker": kuhn_poker,
    "leduc_poker": leduc_poker,
    "repeated_game": repeated_game,
}
