"""Exact exploitability of any local model, as a named set: `equipoise evaluate MODEL --on
nash_conv`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec
import numpy as np
from pydantic import Field

from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.environments.text_games.policies import Reading, written_down
from equipoise.environments.text_games.tree import GameTree
from equipoise.errors import DataError
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.records import (
    Answer,
    BenchmarkResult,
    Item,
    ItemScores,
    Judged,
)
from equipoise.games.base import Game
from equipoise.judges.base import JudgeContext
from equipoise.types import Prompt, record_id


class NashConvBenchmark(Benchmark):
    """What best replies gain against a model that sits in every seat of a small game of OpenSpiel,
    in the game's units and without sampling error.

    `nash_conv` is computed from the probabilities of the legal moves' texts at every information
    state, `illegal` the mean mass on other answers, which is left out of the policy. Nothing is
    sampled.
    """

    kind: Literal["nash_conv"] = "nash_conv"
    lower_is_better: ClassVar[tuple[str, ...]] = ("nash_conv", "illegal")
    game: Game = Field(
        default="open_spiel", description="the game: {kind: open_spiel, name: leduc_poker}"
    )  # type: ignore[assignment]
    largest: int = Field(
        100_000, ge=1, description="positions of the largest game that is written down"
    )

    @property
    def headline(self) -> str:
        """The exploitability."""
        return "nash_conv"

    @property
    def tree(self) -> GameTree:
        """The game, written down. Raises ConfigError for one that cannot be."""
        assert isinstance(self.game, OpenSpiel)
        return written_down(self.game, self.largest)

    def load(self) -> list[Item]:
        """An item for each different view of a player, its legal moves the choices.

        Raises DataError for another game, ConfigError for one that is too large.
        """
        if not isinstance(self.game, OpenSpiel):
            raise DataError(f"game: 'nash_conv' needs a game of open_spiel, not '{self.game.kind}'")
        self.game.check()
        choices: dict[tuple, list[str]] = {}
        for messages, text in Reading.of(self.tree).answers:
            choices.setdefault(messages, []).append(text)
        return [
            Item(
                id=str(number),
                prompt=Prompt(
                    record_id(self.kind, *(m.content for m in messages)),
                    messages,
                    source=self.game.name,
                ),
                choices=tuple(texts),
                ended=True,
            )
            for number, (messages, texts) in enumerate(choices.items())
        ]

    def faults(self, items: Sequence[Item], context: JudgeContext) -> Iterator[str]:
        """That only a part of the game is asked, or a judge."""
        if self.limit is not None:
            yield "'nash_conv' needs the whole game; take away limit"
        if self.judge is not None:
            yield "'nash_conv' is computed; take away its judge"

    def score(
        self,
        items: Sequence[Item],
        answers: Mapping[str, Sequence[Answer]],
        judged: Sequence[Judged],
    ) -> list[ItemScores]:
        """The mass on illegal moves of each view; the log-probabilities as facts."""
        rows = []
        for item in items:
            [answer] = answers[item.id]
            logprobs = [each.logprob for each in answer.likelihoods]
            illegal = max(0.0, 1 - float(np.exp(logprobs).sum()))
            rows.append(
                ItemScores(item=item.id, values={"illegal": illegal}, facts={"logprobs": logprobs})
            )
        return rows

    def summary(self, scores: Sequence[ItemScores], items: Sequence[Item]) -> BenchmarkResult:
        """NashConv of the policy, with that of uniform play in the note."""
        tree = self.tree
        reading = Reading.of(tree)
        logprobs = {
            (item.prompt.messages, text): logprob
            for item, row in zip(items, scores, strict=True)
            for text, logprob in zip(item.choices, row.facts["logprobs"], strict=True)
        }
        read = reading.policy(tree, [logprobs[answer] for answer in reading.answers])
        seats = tree.game.players
        exact = {
            "nash_conv": tree.nash_conv([read.policy_F] * seats),
            "illegal": float(read.illegal_S.mean()),
        }
        uniform = tree.nash_conv([tree.uniform()] * seats)
        return msgspec.structs.replace(
            super().summary(scores, items),
            unscored=0,
            no_shares=("nash_conv",),
            metrics={
                name: Estimate(value, None, None, len(tree.states)) for name, value in exact.items()
            },
            note=f"over {len(tree.states)} information states of "
            f"{tree.game.name}; NashConv of uniform play: {uniform:.4f}",
        )
