"""Scripted players of games of many turns, to be named in `call` of a player of kind scripted."""

from __future__ import annotations

import re

from equipoise import seeds
from equipoise.types import View


def any_legal_move(view: View, seed: int) -> str:
    """A legal move, each as likely as any other: OpenSpiel's uniform policy."""
    return view.actions[int(seeds.generator(seed).integers(len(view.actions)))]


def any_move_in_brackets(view: View, seed: int) -> str:
    """One of the moves that stand in square brackets in what the player was told, as TextArena
    writes them.
    """
    told = [message.content for message in view.messages if message.role == "user"]
    moves = re.findall(r"\[[^\[\]\n]{1,40}\]", "\n".join(told)) or ["[pass]"]
    return moves[int(seeds.generator(seed).integers(len(moves)))]
