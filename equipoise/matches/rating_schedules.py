"""Schedules by rating: SPARTA's matching, where near equals mostly meet, and Swiss tournaments."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.matches.base import MatchContext, Schedule, Seatings
from equipoise.matches.schedule import deal
from equipoise.types import PlayerId, Prompt


def two_or_more(match_context: MatchContext, kind: str) -> Sequence[PlayerId]:
    """The players. Raises ConfigError when there are fewer than two."""
    if len(match_context.players) < 2:
        present = ", ".join(map(str, match_context.players)) or "nobody"
        raise ConfigError(
            f"schedule '{kind}' needs two players or more, and there is {present}; add "
            "players, or use self_play"
        )
    return match_context.players


class Sparta(Schedule):
    """In each loop of as many prompts as players, every player, in random order, is once the first.

    Its opponent is, with probability `alpha`, uniform over the others, else uniform over the `k`
    nearest in rating (equals by `ties`; the unrated are near to nobody). Source: SPARTA, arXiv
    2506.04721, matching.
    """

    kind: Literal["sparta"] = "sparta"
    alpha: float = Field(0.6, ge=0, le=1, description="share of opponents drawn from all others")
    k: int = Field(
        5,
        ge=1,
        description="how many of the nearest the rest are drawn from; all others "
        "where there are fewer",
    )
    ties: Literal["random", "order"] = Field(
        "random",
        description="which of those equally near come first: drawn anew in each match, or in the "
        "players' order, as in the released code, where at first, with all ratings equal, the "
        "first k players are everybody's nearest",
    )
    first: Literal["shuffled", "in_turn"] = Field(
        "shuffled",
        description="who is first in a loop: every player once, in random order, or the players in "
        "their order (the released script's RANDOM_SELECT=false)",
    )
    python_seed: int | None = Field(
        None,
        ge=0,
        description="draw as the released script does: with Python's own dice, which begin with "
        "this seed in every generation, so that who meets whom in the n-th match changes with the "
        "ratings alone; null: by the run's seed, anew in each generation",
    )
    rows_before: int = Field(
        0,
        ge=0,
        description="of `python_seed`: rows of the file, which that script shuffles with the same "
        "dice before it draws players",
    )

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """One match per prompt. Raises ConfigError for fewer than two players."""
        players = two_or_more(match_context, self.kind)
        if self.python_seed is not None:
            return self._seatings_as_released(players, prompts, match_context)
        rng = seeds.generator(match_context.seed, self.kind)
        order: list[int] = []
        game = match_context.game
        ratings = match_context.ratings
        seatings: Seatings = []
        for prompt in prompts:
            if not order:
                order = rng.permutation(len(players)).tolist()
                if self.first == "in_turn":
                    order = list(reversed(range(len(players))))
            first = players[order.pop()]
            others = [players[i] for i in rng.permutation(len(players)) if players[i] != first]
            if rng.random() >= self.alpha:
                if self.ties == "order":
                    others = [player for player in players if player != first]
                # a stable sort, so that equals stay in their order
                others = sorted(others, key=lambda other: _gap(first, other, ratings))
                others = others[: self.k]
            opponent = others[rng.integers(len(others))]
            seatings.append((prompt, deal(game.seats, first, opponent)))
        return seatings

    def _seatings_as_released(
        self, players: Sequence[PlayerId], prompts: Sequence[Prompt], match_context: MatchContext
    ) -> Seatings:
        """One match per prompt, by the dice of the released script and in its order of draws."""
        dice = random.Random(self.python_seed)
        dice.shuffle(list(range(self.rows_before)))
        whole_loops = len(prompts) // len(players) * len(players)
        order: list[PlayerId] = []
        seatings: Seatings = []
        for place, prompt in enumerate(prompts):
            if self.first == "in_turn":
                first = players[place % len(players)]
            elif place < whole_loops:
                order = order or dice.sample(list(players), len(players))
                first = order.pop(0)
            else:
                first = dice.choice(list(players))
            others = [player for player in players if player != first]
            if dice.random() >= self.alpha:
                others.sort(key=lambda other: _gap(first, other, match_context.ratings))
                others = others[: self.k]
            opponent = dice.choice(others)
            seatings.append((prompt, deal(match_context.game.seats, first, opponent)))
        return seatings


def _gap(first: PlayerId, second: PlayerId, ratings: Mapping[str, float]) -> float:
    """The distance of the two in rating; infinite where either is not rated."""
    if first.name not in ratings or second.name not in ratings:
        return np.inf
    return abs(ratings[first.name] - ratings[second.name])


class Swiss(Schedule):
    """Every prompt is a round of pairs: those who met least, and of them the nearest in rank.

    Of an odd number, one of those with the fewest byes has one, the lowest-rated. Equals and
    players without a rating are in new random order in every round.
    """

    kind: Literal["swiss"] = "swiss"
    rounds: int = Field(
        3, ge=1, description="rounds of a tournament; the next one forgets who met whom"
    )

    def seatings(self, prompts: Sequence[Prompt], match_context: MatchContext) -> Seatings:
        """Half as many matches a prompt as players; ConfigError for fewer than two."""
        game = match_context.game
        players = two_or_more(match_context, self.kind)
        rng = seeds.generator(match_context.seed, self.kind)
        met_NN = np.zeros((len(players), len(players)), int)
        byes_N = np.zeros(len(players), int)
        seatings: Seatings = []
        for i, prompt in enumerate(prompts):
            if i % self.rounds == 0:
                met_NN[:] = 0
            ranked = _rank(players, match_context.ratings, rng)
            if len(ranked) % 2:
                idle = min(reversed(ranked), key=lambda n: byes_N[n])
                byes_N[idle] += 1
                ranked.remove(idle)
            for a, b in _pairs(met_NN[np.ix_(ranked, ranked)]):
                first = ranked[a]
                second = ranked[b]
                met_NN[first, second] += 1
                met_NN[second, first] += 1
                swap = bool(rng.integers(2))
                seats = deal(game.seats, players[first], players[second], swap)
                seatings.append((prompt, seats))
        return seatings


def _rank(
    players: Sequence[PlayerId], ratings: Mapping[str, float], rng: np.random.Generator
) -> list[int]:
    """The players' places in `players`, highest-rated first."""
    shuffled = rng.permutation(len(players)).tolist()
    rated = sorted(
        (n for n in shuffled if players[n].name in ratings), key=lambda n: -ratings[players[n].name]
    )
    for n in shuffled:
        if players[n].name not in ratings:
            rated.insert(int(rng.integers(len(rated) + 1)), n)
    return rated


def _pairs(met_NN: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of ranks with few meetings, then small distances in sum.

    From neighbours, two pairs at a time are dealt anew while that is better; nearly optimal.
    """
    ranks = np.arange(len(met_NN))
    # the distances of all pairs sum to less than N², so that one meeting outweighs them
    cost_NN = met_NN * len(ranks) ** 2 + np.abs(ranks[:, None] - ranks)
    pairs = list(zip(ranks[::2].tolist(), ranks[1::2].tolist(), strict=True))
    better = True
    while better:
        better = False
        for p, q in combinations(range(len(pairs)), 2):
            a, b = pairs[p]
            c, d = pairs[q]
            ways = (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c)))
            costs = [cost_NN[first] + cost_NN[second] for first, second in ways]
            best = int(np.argmin(costs))
            if costs[best] < costs[0]:
                pairs[p], pairs[q] = ways[best]
                better = True
    return [(min(pair), max(pair)) for pair in pairs]
