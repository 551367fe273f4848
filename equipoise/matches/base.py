"""What a schedule is: who meets whom, decided before anyone plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.types import PlayerId, Prompt


@dataclass(frozen=True, slots=True)
class Planned:
    """A match that is to be played."""

    id: str
    generation: int
    split: str
    prompt: Prompt
    seats: dict[str, PlayerId]
    seed: int


class Schedule(Component):
    """Who sits where: pure and seeded."""

    KINDS: ClassVar = {
        "self_play": "equipoise.matches.schedule:SelfPlay",
        "round_robin": "equipoise.matches.schedule:RoundRobin",
        "against_history": "equipoise.matches.schedule:AgainstHistory",
    }

    def seatings(
        self,
        prompts: Sequence[Prompt],
        game: Game,
        players: Sequence[PlayerId],
        history: Sequence[PlayerId],
        seed: int,
    ) -> list[tuple[Prompt, dict[str, PlayerId]]]:
        """Seats for every match of a generation.

        `players` are at the table now, learners first; `history` are the learners' earlier generations, newest first.
        """
        raise TypeError(f"{type(self).__name__} must define seatings()")
