"""Schedules without ratings, pure functions of players, prompts and seed."""

from collections.abc import Sequence
from itertools import combinations, islice
from math import inf, isfinite, nan
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.types import PlayerId, Prompt


def deal(
    seats: Sequence[str], first: PlayerId, second: PlayerId, swap: bool = False
) -> dict[str, PlayerId]:
    """The first half of the seats to `first`, the rest to `second`, or swapped."""
    if swap:
        first, second = second, first
    half = (len(seats) + 1) // 2
    return {seat: first if i < half else second for i, seat in enumerate(seats)}


class SelfPlay(Schedule):
    """Every learner meets itself on every prompt: all seats are its own."""

    draws: ClassVar = False
    kind: Literal["self_play"] = "self_play"

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        seatings: Seatings = []
        for player in match_context.learning:
            seats = dict.fromkeys(match_context.game.seats, player)
            seatings += [(prompt, seats) for prompt in prompts]
        return seatings


class RoundRobin(Schedule):
    """Every two players meet on every prompt; who sits first alternates from prompt to prompt."""

    draws: ClassVar = False
    kind: Literal["round_robin"] = "round_robin"

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt and pair of players; a lone player meets itself."""
        game = match_context.game
        players = match_context.players
        alone = [(player, player) for player in players]
        seatings: Seatings = []
        for first, second in list(combinations(players, 2)) or alone:
            sides = [deal(game.seats, first, second, swap) for swap in (False, True)]
            for i, prompt in enumerate(prompts):
                seatings.append((prompt, sides[i % 2]))
        return seatings


class AgainstHistory(Schedule):
    """Every learner meets, on each prompt, one of its own earlier generations, drawn uniformly."""

    kind: Literal["against_history"] = "against_history"
    max_history: int = Field(
        4, ge=1, description="how many of the newest earlier generations may be drawn"
    )

    @property
    def generations(self) -> float:
        return self.max_history + 1

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt and learner; a learner without a past meets itself."""
        game = match_context.game
        seatings: Seatings = []
        for player in match_context.learning:
            own = (old for old in match_context.history if old.name == player.name)
            opponents = list(islice(own, self.max_history)) or [player]
            rng = seeds.generator(match_context.seed, "history", player)
            draws = rng.integers(len(opponents), size=len(prompts))
            for i, (prompt, draw) in enumerate(zip(prompts, draws, strict=True)):
                seats = deal(game.seats, player, opponents[draw], swap=i % 2 == 1)
                seatings.append((prompt, seats))
        return seatings


class Mixture(Schedule):
    """Every learner meets, on each prompt, an opponent drawn from the league's equilibrium.

    It may hold the learner itself. Players outside the league are left out; without weights the
    draw is uniform over the others. A learner in an empty league meets itself. Source: policy-space
    response oracles, Lanctot et al. 2017, arXiv 1711.00832.
    """

    kind: Literal["mixture"] = "mixture"

    @property
    def generations(self) -> float:
        return inf

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        league = match_context.league
        weights = {player: match_context.mixture.get(player, 0.0) for player in league}
        weighted = [player for player in league if weights[player] > 0]
        seatings: Seatings = []
        for learner in match_context.learning:
            opponents = weighted or others(learner, match_context)
            weight_N = np.array([weights[player] for player in opponents])
            seatings += against(opponents, weight_N, self.kind, learner, prompts, match_context)
        return seatings


class Prioritised(Schedule):
    """Every learner meets, on each prompt, one of the others, most often those that it does not
    beat.

    P(opponent) ∝ (1 − P(learner beats opponent))^power; a pair that was not measured counts as ½.
    Where the learner surely beats everyone the draw is uniform. A learner in an empty league meets
    itself. Source: prioritised fictitious self-play, Vinyals et al. 2019, Nature 575, the weighting
    f_hard.
    """

    kind: Literal["prioritised"] = "prioritised"
    power: float = Field(
        2.0, ge=0, description="0 is uniform; the larger, the more the hardest opponents"
    )

    @property
    def generations(self) -> float:
        return inf

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        seatings: Seatings = []
        for learner in match_context.learning:
            opponents = others(learner, match_context)
            chance_N = np.array([_beats(learner, o, match_context) for o in opponents])
            weight_N = (1 - chance_N) ** self.power
            seatings += against(opponents, weight_N, self.kind, learner, prompts, match_context)
        return seatings


def others(learner: PlayerId, match_context: MatchContext) -> list[PlayerId]:
    """Everybody, present or past, but `learner`; itself where there is nobody else."""
    return [player for player in match_context.league if player != learner] or [learner]


def _beats(first: PlayerId, second: PlayerId, match_context: MatchContext) -> float:
    """P(first beats second), ½ where it was not measured: it decides the draw alone."""
    win_rate = match_context.win_rate
    chance = win_rate.get((first, second), nan)
    if not isfinite(chance):
        chance = 1 - win_rate.get((second, first), nan)
    return min(1.0, max(0.0, chance)) if isfinite(chance) else 0.5


def against(
    opponents: Sequence[PlayerId],
    weight_N: np.ndarray,
    kind: str,
    learner: PlayerId,
    prompts: Sequence[Prompt],
    match_context: MatchContext,
) -> Seatings:
    """One match a prompt for `learner`, opponents drawn by weight; the first seat alternates."""
    weight_N = weight_N if weight_N.sum() > 0 else np.ones(len(weight_N))
    rng = seeds.generator(match_context.seed, kind, learner)
    draws = rng.choice(len(opponents), size=len(prompts), p=weight_N / weight_N.sum())
    return [
        (prompt, deal(match_context.game.seats, learner, opponents[draw], i % 2 == 1))
        for i, (prompt, draw) in enumerate(zip(prompts, draws, strict=True))
    ]
