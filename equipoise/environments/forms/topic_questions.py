"""Short questions about everyday topics, to be answered in a sentence or two."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import ClassVar, Literal

from equipoise import seeds
from equipoise.prompts.subject_prompts import DealtPrompts
from equipoise.types import Prompt

TOPICS = Path(__file__).parent / "topics.txt"
QUESTIONS = (
    "What should I know about {}?",
    "Why do people care about {}?",
    "What is surprising about {}?",
    "Tell me something about {}.",
)


class TopicQuestions(DealtPrompts):
    """Four questions about each of 168 topics; no parts share a topic. Fact: `topic`."""

    subject: ClassVar = "topics"
    shares: ClassVar = (0.6, 0.3)

    kind: Literal["topic_questions"] = "topic_questions"

    def subjects(self) -> Sequence[str]:
        return known_topics()

    def about(self, subjects: Sequence[str]) -> list[Prompt]:
        prompts = [
            self.asked(question.format(topic), {"topic": topic})
            for topic, question in product(subjects, QUESTIONS)
        ]
        random.Random(seeds.child(self.seed, "questions", subjects[0])).shuffle(prompts)
        return prompts


@cache
def known_topics() -> tuple[str, ...]:
    """The packaged topics."""
    lines = TOPICS.read_text(encoding="utf-8").split("\n")
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
