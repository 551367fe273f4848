"""Players that now and then fail or are cut off, and two judges that see different things."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from teachable_players import Taught, TaughtActor, read_skill

from equipoise.models.resources import Resources
from equipoise.types import Move, Prompt, View

FAILS, UNJUDGED = 5, 4  # letters


class Uneven(Taught):
    """As `Taught`, but where it would write five letters its move fails."""

    kind: Literal["uneven"] = "uneven"

    def open(self, weights: Path | None, resources: Resources) -> UnevenActor:
        return UnevenActor(read_skill(self, weights))


class UnevenActor(TaughtActor):
    """The player at one generation."""

    def _move(self, view: View, seed: int) -> Move:
        move = super()._move(view, seed)
        return Move("", "error", error="no words") if len(move.text) == FAILS else move


def brief(prompt: Prompt, text: str) -> float | None:
    """Fewer letters are better; of four letters there is no verdict."""
    return None if len(text) == UNJUDGED else -float(len(text))


def odd(prompt: Prompt, text: str) -> float:
    """An odd number of letters is worth ten."""
    return 10.0 * (len(text) % 2)
