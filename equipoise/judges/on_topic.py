"""A judge of topics: is a text near the prompt, by its embedding?"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.judges.pointwise import BatchPointwise, Verdict
from equipoise.models.embedding import Embedding, Hashed
from equipoise.types import Prompt

BLANK = "the prompt's last message is blank"


class OnTopic(BatchPointwise):
    """Scores a text 1 where its cosine with the prompt's last message reaches `threshold`, else 0.

    The cosine is the `similarity`, 0 for a blank text; a blank message is not judged. Hashed
    vectors know spelling alone: a request in other words often stays below 0.3, which unrelated
    ones seldom reach. An encoder knows more, and has a threshold of its own.
    """

    kind: Literal["on_topic"] = "on_topic"
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score", "similarity")
    embedding: Embedding = Field(Hashed(), description="the embedding by which texts are compared")
    threshold: float = Field(
        0.3,
        ge=-1,
        le=1,
        description="the least cosine that is on topic; each embedding has its own",
    )

    def prepare(self) -> None:
        self.embedding.open(self.judge_context.resources)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        if not prompt.messages or not prompt.messages[-1].content.strip():
            return BLANK
        return ""

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        topics = [prompt.messages[-1].content if prompt.messages else "" for prompt, _ in answers]
        vector_BD = self.embedding.open(self.judge_context.resources)(
            [*topics, *(text for _, text in answers)]
        )
        similarity_B = (vector_BD[: len(topics)] * vector_BD[len(topics) :]).sum(1)
        return [
            self._verdict(topic, text, float(similarity))
            for topic, (_, text), similarity in zip(topics, answers, similarity_B, strict=True)
        ]

    def _verdict(self, topic: str, text: str, similarity: float) -> Verdict:
        if not topic.strip():
            return BLANK
        if not text.strip():
            return {"score": 0.0, "similarity": 0.0}
        if not np.isfinite(similarity):
            return f"the embedding's cosine is {similarity}"
        return {"score": float(similarity >= self.threshold), "similarity": similarity}
