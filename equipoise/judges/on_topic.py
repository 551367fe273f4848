"""A judge of topics: is a text near the prompt, by its embedding?"""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from equipoise.judges.pointwise import BatchPointwise, Verdict
from equipoise.models.embedding import Embedding, Hashed
from equipoise.system.effects import Text
from equipoise.types import Prompt

BLANK = "the prompt's last message is blank"


class OnTopic(BatchPointwise):
    """Scores a text 1 where its cosine with the prompt's last message reaches `threshold`, else 0.

    `graded`, the score below the threshold is the cosine's share of it, at least 0. With `fact` the
    text is compared with that fact of the prompt, where it has one.

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
    graded: bool = Field(False, description="score cosines below the threshold in proportion")
    fact: Text | None = Field(
        None, description="a fact to compare with instead, as `question` of instructions"
    )

    @model_validator(mode="after")
    def _has_a_scale(self) -> Self:
        if self.graded and self.threshold <= 0:
            raise ValueError("graded: needs a threshold above 0")
        return self

    def prepare(self) -> None:
        self.embedding.open(self.judge_context.resources)

    def why_unjudgeable(self, prompt: Prompt) -> str:
        return "" if self._topic(prompt).strip() else BLANK

    def _topic(self, prompt: Prompt) -> str:
        of_fact = prompt.facts.get(self.fact) if self.fact is not None else None
        last = prompt.messages[-1].content if prompt.messages else ""
        return last if of_fact is None else str(of_fact)

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        topics = [self._topic(prompt) for prompt, _ in answers]
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
        on = float(similarity >= self.threshold)
        score = min(1.0, max(0.0, similarity / self.threshold)) if self.graded else on
        return {"score": score, "similarity": similarity}
