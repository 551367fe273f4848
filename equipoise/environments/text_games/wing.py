"""What this environment adds to the rooms: games of many turns, from OpenSpiel and
TextArena.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Game": {
        "open_spiel": "equipoise.environments.text_games.open_spiel:OpenSpiel",
        "textarena": "equipoise.environments.text_games.text_arena:TextArena",
    },
    "Judge": {
        "game_outcome": "equipoise.environments.text_games.judge:GameOutcome",
    },
    "Prompts": {"deals": "equipoise.environments.text_games.deals:Deals"},
}
