"""What a schedule is: who meets whom, decided before anyone plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.types import PlayerId, Prompt

Seatings = list[tuple[Prompt, dict[str, PlayerId]]]


@dataclass(frozen=True, slots=True)
class Planned:
    """A match that is to be played."""

    id: str
    generation: int
    split: str
    prompt: Prompt
    seats: dict[str, PlayerId]
    seed: int


@dataclass(frozen=True)
class MatchContext:
    """Who may be seated, and what is known of them.

    `players` are at the table now, learners first; `history` are the learners' earlier
    generations, newest first. `ratings` by player name, from the matches before; empty
    at first. `mixture` and `win_rate` are of the league as it was last measured: player
    -> weight at equilibrium, and (first, second) -> P(first beats second); empty at
    first. `learners` are those of `players` who learn; all of them where it is empty.
    `successful_texts` are texts of earlier generations that a game may give again, each
    as often as it succeeded.
    """

    game: Game
    players: Sequence[PlayerId]
    history: Sequence[PlayerId] = ()
    seed: int = 0
    ratings: Mapping[str, float] = field(default_factory=dict)
    mixture: Mapping[PlayerId, float] = field(default_factory=dict)
    win_rate: Mapping[tuple[PlayerId, PlayerId], float] = field(default_factory=dict)
    learners: Sequence[PlayerId] = ()
    successful_texts: Sequence[str] = ()

    @property
    def who_learns(self) -> Sequence[PlayerId]:
        """The learners at the table."""
        return self.learners or self.players


class Schedule(Component):
    """Who sits where: pure and seeded."""

    KINDS: ClassVar = {
        "self_play": "equipoise.matches.schedule:SelfPlay",
        "round_robin": "equipoise.matches.schedule:RoundRobin",
        "against_history": "equipoise.matches.schedule:AgainstHistory",
        "sparta": "equipoise.matches.sparta:Sparta",
        "swiss": "equipoise.matches.swiss:Swiss",
        "mixture": "equipoise.matches.league:Mixture",
        "prioritised": "equipoise.matches.league:Prioritised",
        "roles": "equipoise.matches.roles:Roles",
    }

    remembers: ClassVar[bool] = False
    """Whether it needs the successful texts of earlier generations."""

    def check(self, game: Game, players: Sequence[str]) -> None:
        """Raises ConfigError unless this game can be played so by players of these
        names.
        """

    def seatings(
        self, prompts: Sequence[Prompt], match_context: MatchContext
    ) -> Seatings:
        """Seats for every match of a generation."""
        raise TypeError(f"{type(self).__name__} must define seatings()")
