"""Opponents of a preference loss: the players that a run offers, and the shares that they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.system.effects import Text
from equipoise.types import PlayerId

Shares = list[tuple[PlayerId, float]]
"""Opponents with their weights λ."""

REMEDY = {"peers": "let a second player learn", "outsiders": "add a player with learns: false"}


@dataclass(frozen=True, slots=True)
class OpponentPool:
    """The players that a loss can set against a learner.

    past: the learner's generations, newest (π_t, which sampled) first, the start π_0 last. peers:
    the other learners as they are now. outsiders: players that do not learn.
    """

    past: Sequence[PlayerId]
    peers: Sequence[PlayerId] = ()
    outsiders: Sequence[PlayerId] = ()

    @property
    def current(self) -> PlayerId:
        """π_t, which sampled the pairs."""
        return self.past[0]

    @property
    def reference(self) -> PlayerId:
        """The start π_0."""
        return self.past[-1]

    def others(self, group: str) -> Sequence[PlayerId]:
        """The `peers` or the `outsiders`. Raises ConfigError where the run has none."""
        players = self.peers if group == "peers" else self.outsiders
        if not players:
            raise ConfigError(f"loss.against: there are no {group} in this run; {REMEDY[group]}")
        return players


def merge_shares(shares: Iterable[tuple[PlayerId, float]]) -> Shares:
    """Each opponent once, weights added up and zeros left out: at first π_t is π_0, too.

    >>> start = PlayerId("policy", 0)
    >>> merge_shares([(start, 0.5), (start, 0.25), (PlayerId("bob", 0), 0.0)])
    [(PlayerId(name='policy', generation=0), 0.75)]
    """
    total: dict[PlayerId, float] = {}
    for player, weight in shares:
        total[player] = total.get(player, 0.0) + weight
    return [(player, weight) for player, weight in total.items() if weight > 0]


def scale_to_one(shares: Iterable[tuple[PlayerId, float]]) -> Shares:
    """The shares above 0, scaled to add up to one. Raises ConfigError when all of them are 0.

    >>> scale_to_one([(PlayerId("alice", 1), 3.0), (PlayerId("bob", 1), 1.0)])[0][1]
    0.75
    """
    present = [(player, weight) for player, weight in shares if weight > 0]
    total = sum(weight for _, weight in present)
    if not present:
        raise ConfigError("loss.weights: those of the players that are there are all 0")
    return [(player, weight / total) for player, weight in present]


class MixedOpponents(Settings):
    """Shares of the own past, the peers, the outsiders and the reference, taken as written.

    What they leave of 1, or a generation that does not exist yet has, is nobody's.
    """

    history: float | tuple[float, ...] = Field(
        0.0, description="share of π_t; or a list for π_t, π_{t−1}, …, newest first"
    )
    peers: float | dict[Text, float] = Field(
        0.0, description="share of the other learners, alike; or each one's by player name"
    )
    outsiders: float | dict[Text, float] = Field(
        0.0, description="share of the frozen players, alike; or each one's by player name"
    )
    reference: float = Field(0.0, description="share of the start π_0")

    @model_validator(mode="after")
    def _add_up(self) -> MixedOpponents:
        shares: dict[str, list[float]] = {}
        for name in type(self).model_fields:
            shares[name] = _as_list(getattr(self, name))
        every = [share for group in shares.values() for share in group]
        if not all(isfinite(share) and share >= 0 for share in every):
            raise ValueError("the shares must be finite and not negative; see loss: optimistic")
        if sum(every) > 1 + 1e-9:
            parts = [f"{name} {sum(group):g}" for name, group in shares.items() if sum(group)]
            raise ValueError(
                f"the shares add up to {sum(every):g} ({', '.join(parts)}); they must not exceed 1"
            )
        return self

    @property
    def generations(self) -> int:
        """The number of the learner's newest generations that have a share."""
        present = [n for n, share in enumerate(_as_list(self.history), 1) if share > 0]
        return max(present, default=0)

    def rivals(self, pool: OpponentPool) -> Shares:
        """The opponents with a share, without the reference.

        Raises ConfigError for an unknown player or a group that the run lacks.
        """
        shares = list(zip(pool.past, _as_list(self.history), strict=False))
        for group, share in (("peers", self.peers), ("outsiders", self.outsiders)):
            if sum(_as_list(share)) > 0:
                shares += _shares_of_group(group, share, pool)
        return merge_shares(shares)


def _shares_of_group(group: str, share: float | Mapping[str, float], pool: OpponentPool) -> Shares:
    players = pool.others(group)
    if not isinstance(share, Mapping):
        return [(player, share / len(players)) for player in players]
    by_name = {player.name: player for player in players}
    for name in share:
        # One setting serves all learners, and a learner is no peer of its own.
        if name not in by_name and name != pool.current.name:
            raise ConfigError(
                f"loss.against.{group}: '{name}' is none of them; there are {', '.join(by_name)}"
            )
    return [(by_name[name], weight) for name, weight in share.items() if name in by_name]


def _as_list(share: float | Sequence[float] | Mapping[str, float]) -> list[float]:
    if isinstance(share, Mapping):
        return list(share.values())
    return list(share) if isinstance(share, Sequence) else [share]
