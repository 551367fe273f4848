"""TextArena's games, played end to end: which of them the installed library can set up, how long a
match takes, and what becomes of illegal moves.

    python -m benchmarks.text_games [--games KuhnPoker-v0 …] [--deals 4] [--model]
        [--out benchmarks/results/text_games.json]

Every game is played by a script that makes any move that it was told of in square brackets, and
with --model by a language model of the built-in one's size with random weights, whose answers are
mostly no moves. Each match is then paid by playing it again.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.running import provenance
from equipoise import seeds
from equipoise.environments.text_games.game import Deals
from equipoise.environments.text_games.text_arena import TextArena, textarena
from equipoise.errors import ConfigError
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.system.folder import write_text
from equipoise.types import Move, PlayerId, Prompt, View

SEATS = (2, 1, 3, 4, 5, 6)
MOST = 120  # moves of a match
Answers = Callable[[Sequence[View], Sequence[int]], list[Move]]


def any_move_in_brackets(view: View, seed: int) -> str:
    """One of the moves in square brackets in the player's messages, as TextArena writes them."""
    texts = [message.content for message in view.messages if message.role == "user"]
    moves = re.findall(r"\[[^\[\]\n]{1,40}\]", "\n".join(texts)) or ["[pass]"]
    return moves[int(seeds.generator(seed).integers(len(moves)))]


def names() -> list[str]:
    """The games in their first variant."""
    registered = textarena().envs.registration.ENV_REGISTRY
    return sorted(name for name in registered if name.endswith("-v0"))


def set_up(name: str) -> TextArena | str:
    """The game for as few opponents as it takes; why there is none."""
    reason = ""
    for seats in SEATS:
        game = TextArena.model_validate(
            {"name": name, "players": seats, "longest": MOST, "remember": 2}
        )
        try:
            game.check()
            return game
        except ConfigError as error:
            reason = reason or str(error).rpartition("players: ")[2]
    return reason


def played(game: TextArena, deals: Sequence[Prompt], answers: Answers) -> dict[str, Any]:
    """What came of a match on each deal."""
    player = PlayerId("player")
    planned = [
        Planned(f"{n}", 0, "train", deal, dict.fromkeys(game.seats, player), n)
        for n, deal in enumerate(deals)
    ]
    started = time.perf_counter()
    matches = play(planned, game, lambda who, views, dice: answers(views, dice))
    results = [game.replay(*pair) for pair in zip(matches, deals, strict=True)]
    reasons = [result.reason for result in results if result.returns is None]
    return {
        "matches": len(matches),
        "moves": sum(len(match.turns) for match in matches),
        "illegal": sum(sum(result.illegal.values()) for result in results),
        "paid": len(matches) - len(reasons),
        "why_unpaid": reasons[0] if reasons else "",
        "seconds": time.perf_counter() - started,
    }


def scripted(views: Sequence[View], dice: Sequence[int]) -> list[Move]:
    """Any move that stands in brackets."""
    pairs = zip(views, dice, strict=True)
    return [Move(any_move_in_brackets(view, seed)) for view, seed in pairs]


def model(folder: Path, texts: Sequence[str]) -> Answers:
    """A language model of the built-in one's size that reads long games."""
    from tools.fresh_model import Size, new_model

    size = Size(hidden=128, layers=3, heads=4, feed_forward=384)
    new_model(texts, folder, vocabulary=600, size=size, context=8192)
    player = Player.build(
        {"kind": "local", "model": str(folder), "max_new_tokens": 8, "max_length": 8192}
    )
    return player.open(None, Resources()).act


def main() -> None:
    """Play, and print the table."""
    options = arguments()
    deals = Deals.model_validate({"count": options.deals, "held_out": 0}).load().training
    games = {name: set_up(name) for name in options.games or names()}
    players: dict[str, Answers] = {"script": scripted}
    with tempfile.TemporaryDirectory() as place:
        if options.model:
            players["model"] = model(Path(place), _texts(games, deals))
        rows = []
        for name, game in games.items():
            row: dict[str, Any] = {"game": name}
            if isinstance(game, str):
                row["cannot"] = game
            else:
                row["seats"] = game.players
                row |= {who: played(game, deals, act) for who, act in players.items()}
            rows.append(row)
            results = provenance() | {"games": rows}
            write_text(options.out, json.dumps(results, indent=1))
            print(name, row.get("cannot", "played"), flush=True)
    Console().print(table(rows, list(players)))


def _texts(games: dict[str, TextArena | str], deals: Sequence[Prompt]) -> list[str]:
    """What the games begin with."""
    texts = []
    for game in games.values():
        if not isinstance(game, str):
            ask = next(game.play(deals[0]))
            texts += [message.content for message in ask.view.messages]
    return texts


def table(rows: Sequence[dict[str, Any]], players: Sequence[str]) -> Table:
    """A row each game."""
    heads = [f"{who}: {what}" for who in players for what in ("moves", "illegal", "paid")]
    shown = Table("game", "seats", *heads, box=None)
    for row in rows:
        if "cannot" in row:
            shown.add_row(row["game"], "–", row["cannot"])
            continue
        cells = []
        for who in players:
            one = row[who]
            paid = f"{one['paid']} of {one['matches']}"
            cells += [str(one["moves"]), str(one["illegal"]), paid]
        shown.add_row(row["game"], str(row["seats"]), *cells)
    return shown


def arguments() -> argparse.Namespace:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.text_games", description=(__doc__ or "").split("\n")[0]
    )
    made.add_argument("--games", nargs="+", help="instead of all")
    made.add_argument("--deals", type=int, default=4, help="matches of each game")
    made.add_argument("--model", action="store_true", help="a model plays, too")
    made.add_argument("--out", type=Path, default=Path("benchmarks/results/text_games.json"))
    return made.parse_args()


if __name__ == "__main__":
    main()
