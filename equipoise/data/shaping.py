"""Shaping of rewards by comparing a move's text with others: diversity, and penalties.

`open` makes a term of a setting, which remembers every text of its role in the run so far.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, Self

from pydantic import Field

from equipoise.component import Component
from equipoise.games.base import Game
from equipoise.models.embedding import Embedding, sentence_embedding, stand_in
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import MeanCosine, SelfBleu
from equipoise.payoffs.words import Tokens
from equipoise.system.effects import Text


class Term(Protocol):
    """A shaping at work."""

    name: str
    role: str

    def values(self, texts: Sequence[str], seeds: Sequence[str]) -> Sequence[float]:
        """The addition to each text's reward; `seeds` are the texts that they were made from."""
        ...

    def add(self, texts: Sequence[str]) -> None:
        """Remember these texts of the role."""
        ...


class Shaping(Component):
    """Adds −weight · measure(text) to the rewards of one role."""

    KINDS: ClassVar = {
        "self_bleu": "equipoise.data.shaping:SelfBleuShaping",
        "cosine": "equipoise.data.shaping:CosineShaping",
        "unfit": "equipoise.data.shaping:UnfitShaping",
    }

    role: Text | None = Field(
        None, description="the texts' role; null: the one that rewrites the game's prompts"
    )
    weight: float = Field(
        ge=0, description="factor of the measure before it is taken off the reward"
    )

    def in_game(self, game: Game) -> Self:
        """The shaping with a role of this game, the rewriting one where none is named."""
        if self.role is not None or game.rewriter is None:
            return self
        return self.model_copy(update={"role": game.rewriter})

    @abstractmethod
    def open(self, resources: Resources) -> Term:
        """The term, without texts yet."""

    def notes(self) -> tuple[str, ...]:
        """Notes for a plan."""
        return ()

    def _role(self) -> str:
        assert self.role is not None, "a run fills it in"
        return self.role


class Diversity(Shaping):
    """−weight · the mean likeness to every text of the role so far; 1 for a blank text."""

    window: int | None = Field(
        None, ge=1, description="compare with the newest so many texts; null: with all"
    )


class _Measured:
    def __init__(self, shaping: Diversity, measure: SelfBleu | MeanCosine) -> None:
        self.name = shaping.kind
        self.role = shaping._role()
        self.weight = shaping.weight
        self.measure = measure

    def values(self, texts: Sequence[str], seeds: Sequence[str]) -> Sequence[float]:
        # A blank text shares nothing with any other; if that counted, silence would pay best.
        blank = float(len(self.measure) > 0)
        likeness = self.measure.score(texts)
        return [
            -self.weight * (value if text.strip() else blank)
            for text, value in zip(texts, likeness, strict=True)
        ]

    def add(self, texts: Sequence[str]) -> None:
        self.measure.add(texts)


class SelfBleuShaping(Diversity):
    """−weight · mean BLEU-2..5 against the role's texts so far. Source: GPO (arXiv 2406.10977)."""

    kind: Literal["self_bleu"] = "self_bleu"
    weight: float = Field(
        5.0, ge=0, description="factor of the measure before it is taken off the reward"
    )

    tokens: Tokens = Field(
        "whitespace",
        description="words by white space, or, as GPO's released code has it, NLTK's words, "
        "which set punctuation apart",
    )

    def open(self, resources: Resources) -> Term:
        """The term. Raises ConfigError where `tokens: words` lack NLTK."""
        return _Measured(self, SelfBleu(window=self.window, tokens=self.tokens))


class CosineShaping(Diversity):
    """−weight · the mean cosine with every text of the role so far. Source: GPO; weight 1 there."""

    kind: Literal["cosine"] = "cosine"
    weight: float = Field(
        1.0, ge=0, description="factor of the measure before it is taken off the reward"
    )
    embedding: Embedding = Field(
        default_factory=sentence_embedding,
        description="compares the texts; by default minilm, or hashed where "
        "neither its package nor sentence-transformers is installed",
    )

    def notes(self) -> tuple[str, ...]:
        note = stand_in(self.embedding, "shaping.embedding")
        return (note,) if note else ()

    def open(self, resources: Resources) -> Term:
        return _Measured(self, MeanCosine(self.embedding.open(resources), window=self.window))


class UnfitShaping(Shaping):
    """−weight for a text that is blank, repeated, a copy of its seed, or off its seed's topic."""

    kind: Literal["unfit"] = "unfit"
    weight: float = Field(1.0, ge=0, description="the penalty")
    on_topic: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="the least cosine with the seed prompt; null: topics are not looked at",
    )
    repeats: int = Field(
        1, ge=0, description="times that a text may have been written before without a penalty"
    )
    embedding: Embedding = Field(default="hashed", description="compares topics")  # type: ignore[assignment]

    def open(self, resources: Resources) -> Term:
        return _Unfit(self, resources)


class _Unfit:
    def __init__(self, shaping: UnfitShaping, resources: Resources) -> None:
        self.name = shaping.kind
        self.role = shaping._role()
        self.shaping = shaping
        self.embed = None if shaping.on_topic is None else shaping.embedding.open(resources)
        self.seen: Counter[str] = Counter()

    def values(self, texts: Sequence[str], seeds: Sequence[str]) -> Sequence[float]:
        seen = self.seen.copy()
        values = []
        on_topic = self._on_topic(texts, seeds)
        plain = zip(map(_plain, texts), map(_plain, seeds), strict=True)
        for (text, seed), near in zip(plain, on_topic, strict=True):
            new = bool(text) and text != seed and seen[text] <= self.shaping.repeats
            seen[text] += 1
            values.append(0.0 if near and new else -self.shaping.weight)
        return values

    def _on_topic(self, texts: Sequence[str], seeds: Sequence[str]) -> list[bool]:
        if self.embed is None or not texts:
            return [True] * len(texts)
        cosine_B = (self.embed(texts) * self.embed(seeds)).sum(1)
        return (cosine_B >= self.shaping.on_topic).tolist()

    def add(self, texts: Sequence[str]) -> None:
        self.seen.update(map(_plain, texts))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
