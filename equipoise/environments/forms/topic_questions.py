"""Short questions about everyday topics, to be answered in a sentence or two."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.system.effects import Text
from equipoise.types import Message, Prompt, record_id, user

TOPICS = Path(__file__).parent / "topics.txt"
QUESTIONS = (
    "What should I know about {}?",
    "Why do people care about {}?",
    "What is surprising about {}?",
    "Tell me something about {}.",
)
TRAINED, HELD_OUT = 0.6, 0.3  # shares of the topics; the rest is the test's


class TopicQuestions(Prompts):
    """Four questions about each of 168 topics; no parts share a topic. Fact: `topic`."""

    kind: Literal["topic_questions"] = "topic_questions"
    system: Text = Field("Answer briefly.", description="the system message; empty: none")
    seed: int = Field(0, ge=0, description="seed of the topics' order")

    def load(self, folder: Path = Path()) -> PromptSource:
        """Raises ConfigError where more are held out than there are."""
        topics = list(known_topics())
        random.Random(seeds.child(self.seed, "topics")).shuffle(topics)
        first = round(TRAINED * len(topics))
        second = round((TRAINED + HELD_OUT) * len(topics))
        held_out = self.questions(topics[first:second])
        test = self.questions(topics[second:])
        if self.held_out > len(held_out) or self.test > len(test):
            raise ConfigError(
                f"prompts: held_out and test have {len(held_out)} and {len(test)} questions; set "
                "fewer"
            )
        return PromptSource(
            self.questions(topics[:first]), held_out[: self.held_out], test[: self.test]
        )

    def questions(self, topics: list[str]) -> list[Prompt]:
        """Every question about every topic, in a drawn order."""
        before = (Message("system", self.system),) if self.system else ()
        prompts = []
        for topic, question in product(topics, QUESTIONS):
            text = question.format(topic)
            name = record_id("prompt", self.system, text)
            prompts.append(Prompt(name, (*before, user(text)), {"topic": topic}, self.kind))
        random.Random(seeds.child(self.seed, "questions", topics[0])).shuffle(prompts)
        return prompts


@cache
def known_topics() -> tuple[str, ...]:
    """The packaged topics."""
    lines = TOPICS.read_text(encoding="utf-8").split("\n")
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
