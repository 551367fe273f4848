"""A judge of topics: is a text near the prompt, by its embedding?"""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from equipoise.judges.pointwise import BatchPointwise, Verdict
from equipoise.models.embedding import Embedding, Hashed
from equipoise.system.effects import Text
from equipoise.types import Prompt

BLANK = "the prompt's last message is blank"
WORD = re.compile(r"\w+")
SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
COPIED = 0.8  # the share of a sentence's words that makes it a copy
FEWEST = 3  # words of a sentence that can be one


class OnTopic(BatchPointwise):
    """Scores a text 1 where its cosine with the prompt's last message reaches `threshold`, else 0.

    `graded`, the score below the threshold is the cosine's share of it, at least 0. With `fact` the
    text is compared with that fact of the prompt, where it has one.

    The cosine is the `similarity`, 0 for a blank text; a blank message is not judged. Hashed
    vectors know spelling alone: a request in other words often stays below 0.3, which unrelated
    ones seldom reach. An encoder knows more, and has a threshold of its own.

    The question itself is nearest to the question. `without_copies` leaves out, before the text is
    compared, each sentence of which four words in five are the question's, in its order; a text of
    nothing else scores 0.
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

    without_copies: bool = Field(
        False, description="compare without the sentences that repeat the question"
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
        texts = [text for _, text in answers]
        if self.without_copies:
            pairs = zip(topics, texts, strict=True)
            texts = [text_without_copies(topic, text) for topic, text in pairs]
        vector_BD = self.embedding.open(self.judge_context.resources)([*topics, *texts])
        similarity_B = (vector_BD[: len(topics)] * vector_BD[len(topics) :]).sum(1)
        return [
            self._verdict(topic, text, float(similarity))
            for topic, text, similarity in zip(topics, texts, similarity_B, strict=True)
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


def text_without_copies(question: str, text: str) -> str:
    """A text without its sentences that repeat a question.

    >>> text_without_copies("How do I bake bread?", "How do I bake bread? Heat the oven first.")
    'Heat the oven first.'
    """
    question_words = WORD.findall(question.lower())
    sentences = SENTENCE.split(text)
    kept = [sentence for sentence in sentences if not is_copy(question_words, sentence)]
    return text if len(kept) == len(sentences) else " ".join(kept).strip()


def is_copy(question_words: Sequence[str], sentence: str) -> bool:
    """True if enough of a sentence's words are the question's, in its order or in runs of three."""
    own = WORD.findall(sentence.lower())
    if len(own) < FEWEST:
        return False
    needed = COPIED * len(own)
    return in_order(question_words, own) >= needed or in_runs(question_words, own) >= needed


def in_order(question_words: Sequence[str], own: Sequence[str]) -> int:
    """The most words of `own` that stand in `question_words` in the same order.

    >>> in_order(["how", "do", "i", "bake", "bread"], ["bread", "how", "i", "bake"])
    3
    """
    most = [0] * (len(question_words) + 1)
    for word in own:
        before = 0
        for place, other in enumerate(question_words, 1):
            longest = before + 1 if other == word else max(most[place], most[place - 1])
            before, most[place] = most[place], longest
    return most[-1]


def in_runs(question_words: Sequence[str], own: Sequence[str]) -> int:
    """The words of `own` that stand in a run of three words of `question_words`."""
    runs = {tuple(question_words[place : place + 3]) for place in range(len(question_words) - 2)}
    covered: set[int] = set()
    for place in range(len(own) - 2):
        if tuple(own[place : place + 3]) in runs:
            covered.update(range(place, place + 3))
    return len(covered)
