"""Players: configurations that open into actors, and the capabilities that an actor may have."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from pydantic import Field

from equipoise.component import Component, named_within
from equipoise.errors import ModelError
from equipoise.models.resources import Resources
from equipoise.types import Message, Move, Prompt, Turns, View

Precision = Literal["fp32", "bf16", "bf16_weights"]
"""What a learner computes in: fp32; bf16, products in bfloat16 of weights in float32;
bf16_weights, the same with weights that bfloat16 holds exactly."""


class Actor(Protocol):
    """A player that is ready to move."""

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One move per view, in order, by the row's own seed. A row that fails is an error move."""
        ...

    def close(self) -> None:
        """Release memory and connections."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """An actor that can also compute the log-probability of a text."""

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template, truncation; log-probabilities compare if equal."""
        ...

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str | Turns],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        """Each (chat, answer)'s log-probability in nats, a sum over tokens, and their count.

        A longer answer is cut or, with `whole`, raises DataError. Those `cut` in sampling have no
        end.
        """
        ...


@dataclass(frozen=True, slots=True)
class WordProbabilities:
    """Chances of words at an answer's start; the likeliest token, `known` if it begins one."""

    probabilities: tuple[float, ...]
    likeliest: str
    known: bool
    prompt_tokens: int


@runtime_checkable
class WordReader(Protocol):
    """An actor that says how its answer would begin, and writes none."""

    def word_probabilities(
        self, views: Sequence[View], words: Sequence[str]
    ) -> list[WordProbabilities | str]:
        """For each view the probabilities of `words`, or why there are none."""
        ...


@runtime_checkable
class Tokenizing(Protocol):
    """An actor whose tokenizer is at hand."""

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """The texts of all its special tokens."""
        ...


@runtime_checkable
class TokenScorer(Protocol):
    """An actor that can compute the log-probability of given token ids."""

    def token_sums(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float]:
        """log p(answer | prompt), in nats, of each answer's ids under softmax(logits)."""
        ...


@runtime_checkable
class AsyncActor(Protocol):
    """An actor that can be asked for moves before they are waited for, with others at once."""

    def submit(self, views: Sequence[View], seeds: Sequence[int]) -> Callable[[], list[Move]]:
        """Ask for the moves; the function returned waits for them. As `act`, in two steps."""
        ...


@runtime_checkable
class Sleepable(Protocol):
    """An actor that can free memory which a learner needs, and wakes at its next move."""

    def sleep(self) -> None:
        """Free what can be freed."""
        ...


@runtime_checkable
class EngineSampled(Protocol):
    """An actor whose answers an engine samples."""

    def sampler_facts(self) -> dict[str, Any]:
        """Engine, version, form of the log-probabilities, distance to the model here."""
        ...


@runtime_checkable
class Adjustable(Protocol):
    """An actor whose model can play under other settings of sampling."""

    def with_settings(self, player: Any) -> Actor:
        """The same model under the settings of `player`."""
        ...


@runtime_checkable
class Distribution(Protocol):
    """An actor whose whole policy can be written down."""

    def probabilities(self, actions: Sequence[str]) -> Sequence[float]:
        """The probability of each of `actions`."""
        ...


class Player(Component):
    """A player's configuration. `learns`: whether the run's learner trains it."""

    KINDS: ClassVar = {
        "scripted": "equipoise.players.scripted:Scripted",
        "recorded": "equipoise.players.scripted:Recorded",
        "tabular": "equipoise.players.tabular:Tabular",
        "local": "equipoise.players.local:Local",
        "endpoint": "equipoise.players.endpoint:Endpoint",
    }

    READ: ClassVar = ("base_model",)

    learns: bool = Field(False, description="whether the run's learner trains it")

    @property
    def base_model(self) -> str | None:
        """The model that it started from; None where it is none."""
        return None

    @property
    def start(self) -> Path | None:
        """The folder of generation 0's weights, where they are not the model's own."""
        return None

    def settings_at(self, weights: Path | None) -> dict[str, Any]:
        """A player's settings from a learner's folder (None: as now). Raises ModelError."""
        if weights is not None:
            raise ModelError(f"{weights}: a '{self.kind}' player has no weights to begin with")
        return self.settings()

    def carrying(self, precision: Precision | None) -> Self:
        """The player as it plays where a learner of this precision, if any, trains it."""
        return self

    def faults(self) -> Iterator[str]:
        """Messages about what is missing here, such as a model or a key; no weights are loaded."""
        return iter(())

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """Messages about prompts that it cannot answer; asked before a run, after `faults`."""
        return iter(())

    def too_long(self, prompts: Sequence[Prompt]) -> set[int]:
        """The places of prompts that leave it no room for an answer, or that it reads cut.

        Raises ModelError where that cannot be known.
        """
        return set()

    def prints_date(self) -> bool:
        """True if what it reads has the day in it. Raises ModelError where that is unknown."""
        return False

    @abstractmethod
    def open(self, weights: Path | None, resources: Resources) -> Actor:
        """The actor with `weights` (a folder that a learner wrote), or as configured when None."""


def players_in(part: Any, place: str) -> Iterator[tuple[str, Player]]:
    """(place, player) of every player in a part's settings, at whatever depth."""
    if isinstance(part, Player):
        yield place, part
    for name, inner in named_within(part):
        yield from players_in(inner, f"{place}.{name}".lstrip("."))
