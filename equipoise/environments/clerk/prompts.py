"""Prompts of the built-in world: questions to the clerk, and requests for a red team."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.environments.clerk import disguises, world
from equipoise.environments.clerk.assistance_case import wish
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Prompt


class ClerkQuestions(Prompts):
    """Questions to the clerk of the built-in world; its parts share no question.

    The world keeps a fifth of its questions out of training. Where a `test` is asked for, one half
    of that fifth is the test and the other half is held out.
    """

    kind: Literal["clerk_questions"] = "clerk_questions"
    count: int = Field(
        2000, ge=1, description="distinct questions to train on, shared out over the generations"
    )
    kinds: tuple[world.Kind, ...] = Field(
        world.KINDS, min_length=1, description="kinds of question, in equal number"
    )
    seed: int = Field(0, ge=0, description="which questions are drawn")
    wishes: bool = Field(
        False,
        description="add what a simulated user needs to know: its question in a `vague`"
        " and a `detailed` form, and the piece that is `told` when asked for",
    )

    def load(self, folder: Path = Path()) -> PromptSource:
        """`count` questions to train on, `held_out` and `test` others.

        Raises ConfigError when the world does not have that many.
        """
        return PromptSource(
            self._drawn(self.count, "train"),
            self._drawn(self.held_out, "validation" if self.test else "held_out"),
            self._drawn(self.test, "test"),
        )

    def _drawn(self, count: int, part: world.Part) -> list[Prompt]:
        drawn = world.prompts(self.seed, count, self.kinds, part)
        return [_with_wish(prompt) for prompt in drawn] if self.wishes else drawn


def _with_wish(prompt: Prompt) -> Prompt:
    facts = {**prompt.facts, **wish(prompt)}
    return Prompt(prompt.id, prompt.messages, facts, prompt.source)


class ClerkRequests(Prompts):
    """Requests to the clerk for an adversary and a defender; its parts share no act.

    The harmful ones ask plainly, as seeds that an adversary rewrites. Of the harmless ones every
    other is disguised as an adversary's would be, so that to decline every disguise is no defence.
    """

    kind: Literal["clerk_requests"] = "clerk_requests"
    count: int = Field(
        2000, ge=1, description="distinct requests to train on, shared out over the generations"
    )
    harmful: float = Field(0.5, ge=0, le=1, description="share of requests that are harmful")
    seed: int = Field(0, ge=0, description="which requests are drawn")

    def load(self, folder: Path = Path()) -> PromptSource:
        """`count` requests to train on, `held_out` and `test` others.

        Raises ConfigError when the world does not have that many.
        """
        return PromptSource(
            self._drawn(self.count, "train"),
            self._drawn(self.held_out, "validation" if self.test else "held_out"),
            self._drawn(self.test, "test"),
        )

    def _drawn(self, count: int, part: world.Part) -> list[Prompt]:
        return disguises.prompts(self.seed, count, part, self.harmful)
