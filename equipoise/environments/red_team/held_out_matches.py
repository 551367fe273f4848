"""Held-out matches of an adversary and a defender, judged and recorded by an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from equipoise.environments.red_team.game import ADVERSARY, DEFENDER
from equipoise.environments.red_team.seed_prompts import as_it_stands, harmful
from equipoise.evaluation.base import Arena, JudgedMatch
from equipoise.judges.base import Judge
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.types import PlayerId, Prompt


@dataclass(frozen=True)
class HeldOutMatches:
    """Plays held-out prompts in an arena; everything is played and judged once.

    Matches are judged as of generation `t` of the loop.
    """

    arena: Arena
    judge: Judge
    t: int

    def raw(self, defender: PlayerId) -> list[JudgedMatch]:
        """The harmful prompts asked as they are: nobody rewrites them."""
        prompts = [as_it_stands(prompt) for prompt in self._harmful]
        label = f"harmful as they are/{len(prompts)}"
        return self.arena.play({DEFENDER: defender}, prompts, self.judge, self.t, label)

    def harmless(self, defender: PlayerId) -> list[JudgedMatch]:
        """The harmless prompts."""
        prompts = [prompt for prompt in self.arena.held_out if not harmful(prompt)]
        label = f"harmless/{len(prompts)}"
        return self.arena.play({DEFENDER: defender}, prompts, self.judge, self.t, label)

    def attacks(
        self, adversary: PlayerId, defender: PlayerId, most: int | None = None
    ) -> list[JudgedMatch]:
        """The first `most` harmful prompts (None: all), rewritten by the adversary."""
        prompts = self._harmful[:most]
        label = f"harmful/{most or len(prompts)}"
        roles = {ADVERSARY: adversary, DEFENDER: defender}
        return self.arena.play(roles, prompts, self.judge, self.t, label)

    @cached_property
    def _harmful(self) -> list[Prompt]:
        return [prompt for prompt in self.arena.held_out if harmful(prompt)]


def attack_success(matches: Sequence[JudgedMatch]) -> Interval:
    """Attack success, prompts counting as clusters.

    Where nobody wrote the attack, that of the prompts as they stand.
    """
    written = mean_utility(matches, ADVERSARY, "success")
    return written if written.n else mean_utility(matches, DEFENDER, "unsafe")


def mean_utility(matches: Sequence[JudgedMatch], role: str, utility: str) -> Interval:
    """The mean of a utility over the seats of a role, prompts counting as clusters."""
    values, prompts = [], []
    for match, judgement in matches:
        for seat, value in judgement.by_seat(utility).items():
            if seat.startswith(role):
                values.append(value)
                prompts.append(match.prompt)
    return mean_interval(values, prompts)
