"""Prompts of the built-in world: questions to the clerk, and requests for a red team."""

from abc import abstractmethod
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.environments.clerk import disguises, world
from equipoise.environments.clerk.assistance_case import wish
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Prompt


class ClerkPrompts(Prompts):
    """Prompts drawn from the world's parts: to train on, held out, and for a test.

    A fifth of the questions stays out of training; half of that is the test, if one is asked for.
    """

    count: int = Field(
        2000, ge=1, description="distinct prompts to train on, shared out over the generations"
    )
    seed: int = Field(0, ge=0, description="seed of the draw")

    @abstractmethod
    def draw(self, count: int, part: world.Part) -> list[Prompt]:
        """`count` prompts of a part. Raises ConfigError when the world does not have that many."""

    def load(self, folder: Path = Path()) -> PromptSource:
        return PromptSource(
            self.draw(self.count, "train"),
            self.draw(self.held_out, "validation" if self.test else "held_out"),
            self.draw(self.test, "test"),
        )


class ClerkQuestions(ClerkPrompts):
    """Questions to the clerk of the built-in world; its parts share no question."""

    kind: Literal["clerk_questions"] = "clerk_questions"
    kinds: tuple[world.Kind, ...] = Field(
        world.KINDS, min_length=1, description="kinds of question, in equal number"
    )
    wishes: bool = Field(
        False,
        description="add what a simulated user needs to know: its question in a `vague`"
        " and a `detailed` form, and the piece that is `told` when asked for",
    )

    def draw(self, count: int, part: world.Part) -> list[Prompt]:
        questions = world.prompts(self.seed, count, self.kinds, part)
        if not self.wishes:
            return questions
        return [
            Prompt(prompt.id, prompt.messages, {**prompt.facts, **wish(prompt)}, prompt.source)
            for prompt in questions
        ]


class ClerkRequests(ClerkPrompts):
    """Requests to the clerk for an adversary and a defender; its parts share no act.

    The harmful ones ask plainly, as seeds. Every other harmless one is disguised as an adversary's
    would be, so that to decline every disguise is no defence.
    """

    kind: Literal["clerk_requests"] = "clerk_requests"
    harmful: float = Field(0.5, ge=0, le=1, description="share of requests that are harmful")

    def draw(self, count: int, part: world.Part) -> list[Prompt]:
        return disguises.prompts(self.seed, count, part, self.harmful)
