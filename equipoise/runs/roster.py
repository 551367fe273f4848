"""The players present at each generation of the loop, by configuration and recorded turns alone."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from equipoise.ledger.ledger import Ledger
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.runs.config import RunConfig
from equipoise.runs.turns import Turns, TurnTaken
from equipoise.types import PlayerId


class ExpectedGeneration(NamedTuple):
    """A generation before it is played: the learners' ages, and who learns in it."""

    learners: list[PlayerId]
    learning: tuple[str, ...]


def expected_generations(
    turns: Turns, names: Sequence[str], generations: int
) -> list[ExpectedGeneration]:
    """The generations as far as they are known beforehand, and the end of the run."""
    ages = dict.fromkeys(names, 0)
    expected = []
    for learning in [*turns.expected_learners(names, generations), ()]:
        learners = [PlayerId(name, age) for name, age in ages.items()]
        expected.append(ExpectedGeneration(learners, learning))
        ages = {name: age + (name in learning) for name, age in ages.items()}
    return expected


class Roster:
    """The players of a run through the generations of its loop."""

    def __init__(self, config: RunConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        # The turns decided so far, what each of them brought but the last, and the learners' ages
        # when each generation begins.
        self._turns: list[tuple[str, ...]] = []
        self._taken: list[TurnTaken] = []
        self._ages: list[dict[str, int]] = [dict.fromkeys(config.learning, 0)]

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, as old as it is when generation t begins."""
        if t:
            self._decide(t - 1)
        return [PlayerId(name, age) for name, age in self._ages[t].items()]

    def others(self) -> list[PlayerId]:
        """The players that do not learn; they stay as given."""
        players = self._config.players
        return [PlayerId(name) for name in players if not players[name].learns]

    def opponent_pool(self, player: PlayerId, t: int) -> OpponentPool:
        """The players that a loss can set against a learner in generation t."""
        peers = [peer for peer in self.learners(t) if peer.name != player.name]
        return OpponentPool(self.past(player), peers, self.others())

    def players(self, t: int) -> list[PlayerId]:
        """Everybody when generation t begins, learners first."""
        return self.learners(t) + self.others()

    def turn(self, t: int) -> list[PlayerId]:
        """The players that learn in generation t; every earlier generation has learned."""
        self._decide(t)
        return [player for player in self.learners(t) if player.name in self._turns[t]]

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself, newest first."""
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def due(self, t: int) -> bool:
        """Return True if generation t is measured."""
        return self._config.evaluate.due(t, self._config.generations)

    def last_measured(self, t: int) -> int:
        """The newest generation up to t that is measured; the first one always is."""
        return max(g for g in range(t + 1) if self.due(g))

    def measured(self, player: PlayerId) -> list[PlayerId]:
        """The measured generations of `player` up to itself and with it, newest first."""
        ages = {player.generation}
        for t in range(self._config.generations):
            age = self._age(player.name, t)
            if age >= player.generation:
                break
            if self.due(t):
                ages.add(age)
        return [PlayerId(player.name, age) for age in sorted(ages, reverse=True)]

    def measured_at(self, player: PlayerId) -> int:
        """The loop's generation in which a player is measured first, else the first with it."""
        if player.name not in self._config.learning:
            return player.generation
        # No turn is decided ahead of its time.
        first = next(t for t in count() if self._age(player.name, t) >= player.generation)
        due = next(filter(self.due, count(first)))
        return due if due < len(self._ages) else first

    def seated(self, t: int) -> Mapping[str, PlayerId]:
        """role -> its player in generation t. Raises ConfigError for a player without a role."""
        return self._config.schedule.seat_players(self._config.game, self.players(t))

    def _age(self, name: str, t: int) -> int:
        if t:
            self._decide(t - 1)
        return self._ages[t].get(name, 0)

    def _decide(self, t: int) -> None:
        """Decide, or read, the turns up to that of generation t."""
        while len(self._turns) <= t:
            g = len(self._turns)
            if g:
                self._taken.append(self._turn_taken(g - 1))
            recorded = self._ledger.stage_facts(f"{g}/turn")
            if recorded:
                learning = tuple(recorded["learn"])
            else:
                names = self._config.learning
                learning = self._config.turns.next_learners(names, self._taken)
                self._ledger.finish(f"{g}/turn", g, "turn", {"learn": learning}, 0.0)
            self._turns.append(learning)
            ages = self._ages[-1]
            self._ages.append({name: ages[name] + (name in learning) for name in ages})

    def _turn_taken(self, t: int) -> TurnTaken:
        names = self._turns[t]
        rewards = {}
        for name in names:
            facts = self._ledger.stage_facts(f"{t}/episodes/{name}")
            if facts is not None:
                rewards[name] = facts["reward"]
        return TurnTaken(names, rewards)
