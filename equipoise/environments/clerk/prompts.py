"""Prompts of the built-in world: questions to the clerk, and requests that may be
harmful.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.environments.clerk import assistance as desk
from equipoise.environments.clerk import red_team as siege
from equipoise.environments.clerk import world as clerk
from equipoise.prompts.base import Prompts, Source
from equipoise.types import Prompt


class World(Prompts):
    """Questions to the clerk of the built-in world; its parts share no question.

    The world keeps a fifth of its questions out of training. Where a `test` is asked
    for, one half of that fifth is the test and the other half is held out.
    """

    kind: Literal["world"] = "world"
    count: int = Field(
        2000,
        ge=1,
        description="distinct questions to train on, shared out over the generations",
    )
    kinds: tuple[clerk.Kind, ...] = Field(
        clerk.KINDS, min_length=1, description="kinds of question, in equal number"
    )
    seed: int = Field(0, ge=0, description="which questions are drawn")
    wishes: bool = Field(
        False,
        description="facts for a simulated user: the question `vague` and `detailed`, and what it has `told`",
    )

    def load(self, folder: Path = Path()) -> Source:
        """`count` questions, `held_out` and `test` others. Raises ConfigError when the
        world has not so many.
        """
        return Source(
            self._drawn(self.count, "train"),
            self._drawn(self.held_out, "validation" if self.test else "held_out"),
            self._drawn(self.test, "test"),
        )

    def _drawn(self, count: int, part: clerk.Part) -> list[Prompt]:
        drawn = clerk.prompts(self.seed, count, self.kinds, part)
        if not self.wishes:
            return drawn
        return [
            Prompt(p.id, p.messages, {**p.facts, **desk.wish(p)}, p.source)
            for p in drawn
        ]


class Siege(Prompts):
    """Requests to the clerk of the built-in world, for an adversary and a defender; its
    parts share no act.

    The harmful ones ask plainly, as seeds that an adversary rewrites. Of the harmless
    ones every other is disguised as an adversary's would be, so that to decline every
    disguise is no defence.
    """

    kind: Literal["siege"] = "siege"
    count: int = Field(
        2000,
        ge=1,
        description="distinct requests to train on, shared out over the generations",
    )
    harmful: float = Field(
        0.5, ge=0, le=1, description="share of requests that are harmful"
    )
    seed: int = Field(0, ge=0, description="which requests are drawn")

    def load(self, folder: Path = Path()) -> Source:
        """`count` requests, `held_out` and `test` others. Raises ConfigError when the
        world has not so many.
        """
        return Source(
            siege.prompts(self.seed, self.count, "train", self.harmful),
            siege.prompts(
                self.seed,
                self.held_out,
                "validation" if self.test else "held_out",
                self.harmful,
            ),
            siege.prompts(self.seed, self.test, "test", self.harmful),
        )
