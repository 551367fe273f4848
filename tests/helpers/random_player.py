"""Scripted players of games in text, to be named in `call` of a player of kind scripted."""

from equipoise import seeds
from equipoise.types import View


def any_legal_move(view: View, seed: int) -> str:
    """A legal move, each as likely as any other: OpenSpiel's uniform policy."""
    return view.actions[int(seeds.generator(seed).integers(len(view.actions)))]
