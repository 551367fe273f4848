"""START HERE: one generation of the game, and the league that generations make.

Prompts are dealt, players meet, judges speak, verdicts become ratings and lessons,
whoever's turn it is comes out one generation older, and the newcomers are measured.
Each step is a stage of the run: done once, recorded, and skipped when the run is
resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt


class Stages(Protocol):
    """The steps that a run offers; `equipoise.run.stages` is their one implementation."""

    def deal(self, t: int) -> Sequence[Prompt]:
        """The prompts of generation t."""
        ...

    def play(self, prompts: Sequence[Prompt], t: int) -> Sequence[Match]:
        """Every scheduled match on them."""
        ...

    def judge(self, matches: Sequence[Match], t: int) -> Sequence[Judgement]:
        """A judgement of each match."""
        ...

    def rate(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], t: int
    ) -> Sequence[Judgement]:
        """How the players stand after these matches; the judgements, with their judges
        weighed by that.
        """
        ...

    def turn(self, t: int) -> Sequence[PlayerId]:
        """Who learns in generation t."""
        ...

    def training_batch(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught: pairs of answers, or what its own moves were paid."""
        ...

    def learn(
        self, taught: Sequence[Pair | Episode], learner: PlayerId, t: int
    ) -> PlayerId:
        """The learner, one generation older."""
        ...

    def measure(self, t: int) -> None:
        """How strong generation t is, and what can still beat it."""
        ...

    def select(self, t: int) -> None:
        """The best player of all generations up to t, tested once."""
        ...


def generation(run: Stages, t: int) -> None:
    """Generation t plays and learns; what comes of it is measured."""
    prompts = run.deal(t)
    matches = run.play(prompts, t)
    judgements = run.rate(matches, run.judge(matches, t), t)
    for learner in run.turn(t):
        run.learn(run.training_batch(matches, judgements, learner, t), learner, t)
    run.measure(t + 1)


def league(run: Stages, generations: int) -> None:
    """All generations, from the players as they were given."""
    run.measure(0)
    for t in range(generations):
        generation(run, t)
    run.select(generations)
