"""The base of schedules, which decide who meets whom before anyone plays."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from equipoise.component import Component
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.types import PlayerId, Prompt

Seatings = list[tuple[Prompt, dict[str, PlayerId]]]
Weighted = list[tuple[PlayerId, float]]  # players with weights that add up to one


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
    """The players, and their results so far, as a schedule sees them.

    players: everybody in this generation, learners first
    history: the learners' earlier generations, newest first
    ratings: player name -> training rating before these matches; at first what
        players start with, empty where that is alike
    mixture, win_rate: of the league as last measured, player -> weight at equilibrium
        and (first, second) -> P(first beats second); empty at first
    learners: those of `players` who learn; empty: all of them
    turn: the names of those whose turn it is to learn from these matches; empty: all
    successful_texts: texts of earlier generations that the game may give again, each as
        often as it succeeded
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
    turn: Sequence[str] = ()

    @property
    def league(self) -> Sequence[PlayerId]:
        """All players, present and past."""
        return (*self.players, *self.history)

    @property
    def learning(self) -> Sequence[PlayerId]:
        """The learners among `players`."""
        return self.learners or self.players


class Schedule(Component):
    """Decides which players meet on which prompts, and their seats: pure and seeded."""

    KINDS: ClassVar = {
        "self_play": "equipoise.matches.schedule:SelfPlay",
        "round_robin": "equipoise.matches.schedule:RoundRobin",
        "against_history": "equipoise.matches.schedule:AgainstHistory",
        "sparta": "equipoise.matches.rating_schedules:Sparta",
        "swiss": "equipoise.matches.rating_schedules:Swiss",
        "mixture": "equipoise.matches.schedule:Mixture",
        "prioritised": "equipoise.matches.schedule:Prioritised",
        "roles": "equipoise.matches.roles:Roles",
        "psro": "equipoise.matches.psro:PSRO",
    }

    draws: ClassVar[bool] = True
    """False if seats depend on the players' names and the number of prompts alone."""

    by_mixture: ClassVar[bool] = False
    """True if it needs the mixture that the evaluation makes of the league."""

    @property
    def generations(self) -> float:
        """The number of a player's newest generations that may play, with the present one."""
        return math.inf if self.by_mixture else 1

    @property
    def replays_texts(self) -> bool:
        """True if it needs the successful texts of earlier generations."""
        return False

    @property
    def player_of_role(self) -> Mapping[str, str]:
        """role -> the name of its player in every match; empty where roles have none."""
        return {}

    def check(self, game: Game, players: Sequence[str]) -> None:
        """Raises ConfigError unless players of these names can play this game so."""

    def seat_players(self, game: Game, players: Sequence[PlayerId]) -> dict[str, PlayerId]:
        """role -> its player. Raises ConfigError without one, for unknown roles and players."""
        if not self.player_of_role:
            raise ConfigError(f"schedule: '{self.kind}' gives no role to a player; use roles")
        by_name = {player.name: player for player in players}
        self.check(game, list(by_name))
        return {role: by_name[name] for role, name in self.player_of_role.items()}

    def opponents(self, learner: PlayerId, match_context: MatchContext) -> Mapping[str, Weighted]:
        """role -> the mixture that `learner` meets there, empty where none is drawn from."""
        return {}

    @abstractmethod
    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """Seats for every match of a generation."""
