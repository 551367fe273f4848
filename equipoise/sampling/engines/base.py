"""Samplers of a local player's answers: this process, or an engine in one of its own."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field, field_validator, model_validator

from equipoise.component import Component
from equipoise.errors import EquipoiseError, ModelError
from equipoise.system.addresses import KeyVariable, check_address, key_of
from equipoise.system.effects import Text, Url

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

ADAPTER_PREFIX = "equipoise:"
"""Begins the name of every adapter of ours, so that an engine's others are left alone."""

UNSUPPORTED = 501  # HTTP's status for what a server cannot do


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """Token ids (the end token included), their log-probabilities, and whether it ended.

    A log-probability is in nats, after temperature and cuts, renormalised; at temperature 0 under
    softmax(logits). `uncut` are those before the cuts. Either may be empty where an engine gives
    none. `forced` are (start, end) of tokens that a limit on thoughts put there.
    """

    token_ids: list[int]
    logprobs: list[float]
    uncut: list[float]
    ended: bool
    forced: tuple[int, int] | None = None


class Sampler(Component):
    """A sampler of answers. Weights, token ids, log-probabilities and learning stay here."""

    KINDS: ClassVar = {
        "local": "equipoise.sampling.engines.base:InProcess",
        "vllm": "equipoise.sampling.engines.vllm:Vllm",
    }

    is_remote: ClassVar[bool] = False
    """Whether another process samples; the sampler then is a `RemoteSampler`."""

    takes_adapters: ClassVar[bool] = True
    """Whether generations can reach it as adapters while it runs."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The place where it samples, for messages."""


class InProcess(Sampler):
    """The model in this process, in batches; the same tokens for a seed, always."""

    kind: Literal["local"] = "local"

    @property
    def where(self) -> str:
        return "in this process"


# -- engines in another process


@dataclass(frozen=True, slots=True)
class EngineRow:
    """An answer to be sampled: prompt's token ids, seed, most tokens, JSON schema to follow."""

    prompt: list[int]
    seed: int
    limit: int
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EngineAdapter:
    """An adapter's folder, and its name at the engine, which no other weights ever have."""

    name: str
    folder: Path

    @classmethod
    def of(cls, player: str, folder: Path) -> EngineAdapter:
        """The adapter of `player`, written `name@generation`, with its weights' hash."""
        digest = hashlib.blake2b(digest_size=8)
        for file in sorted(folder.glob("adapter_*")):
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
        return cls(f"{ADAPTER_PREFIX}{player}:{digest.hexdigest()}", folder.resolve())


def player_of(name: str) -> str:
    """The player whose adapter has this name at an engine; other names are left as they are."""
    if not name.startswith(ADAPTER_PREFIX):
        return name
    return name.removeprefix(ADAPTER_PREFIX).rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The base model's name at a server, and the adapters it holds, the oldest first."""

    base: str
    adapters: tuple[str, ...] = ()


class ServerGone(EquipoiseError):  # noqa: N818
    """The server does not answer; it may be back soon, by its own word in `wait` seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class ServerRefused(ModelError):  # noqa: N818
    """The server refuses a request; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class JsonServer(Protocol):
    """A server, asked for JSON by path. Its methods raise ServerGone and ServerRefused."""

    async def get(self, path: str) -> Any:
        """The JSON at a path."""
        ...

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The reply to `body`."""
        ...


class RemoteSampler(Sampler):
    """Servers of one base model, which answer token ids with token ids.

    A sampler of one's own defines `answer_path`, `logprobs_are`, `body` and `read`. What it leaves
    out of the rest is not supported: without `load` its players do not learn, without `score_body`
    and `read_scores` new weights are not told from old ones, and without `put_to_sleep` it keeps
    its memory.
    """

    base_url: tuple[Url, ...] = Field(
        min_length=1, description="address, as http://127.0.0.1:8000; a list divides the rows"
    )
    model: Text | None = Field(None, description="the base model's name there; null: the only one")
    api_key_env: KeyVariable = None
    concurrency: int = Field(256, ge=1, description="requests in flight at most, at each server")
    timeout: float = Field(600.0, gt=0, description="seconds that a request may take")
    patience: float = Field(
        300.0, ge=0, description="seconds for which a server that is gone is tried again"
    )
    adapters: int = Field(8, ge=1, description="adapters of ours that a server keeps, by last use")
    probes: int = Field(
        8,
        ge=0,
        description="answers on which new weights are compared with the model here; 0: none. Four "
        "times as many show changes half as large",
    )
    max_gap: float = Field(0.1, gt=0, description="most nats a token by which the two may differ")
    sleep: bool = Field(False, description="free the server's memory while a learner trains")

    is_remote: ClassVar[bool] = True
    takes_adapters: ClassVar[bool] = False

    REQUIRED: ClassVar = ("answer_path", "logprobs_are")
    answer_path: ClassVar[str]
    """The path that takes the request of `body`, as "/v1/completions"."""
    logprobs_are: ClassVar[str]
    """The form of its log-probabilities, in the engine's own words."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.takes_adapters = cls.load is not RemoteSampler.load

    @field_validator("base_url", mode="before")
    @classmethod
    def _as_list(cls, urls: Any) -> Any:
        return (urls,) if isinstance(urls, str) else urls

    @field_validator("base_url")
    @classmethod
    def _check_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_address(url).removesuffix("/v1") for url in urls)

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        if len(set(self.base_url)) < len(self.base_url):
            raise ValueError("base_url: names a server twice")
        return self

    @property
    def where(self) -> str:
        return ", ".join(self.base_url)

    @property
    def scores(self) -> bool:
        """True if it gives log-probabilities of given answers, by which weights are told apart."""
        return type(self).score_body is not RemoteSampler.score_body

    def key(self) -> str | None:
        """The key itself, from the environment. Raises ConfigError where it is not set."""
        return key_of(self.api_key_env, self.where)

    @abstractmethod
    def body(
        self, model: str, row: EngineRow, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        """The request for one answer by `model`, a base or an adapter by its name."""

    @abstractmethod
    def read(
        self, reply: Any, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> SampledAnswer:
        """The answer in a server's JSON. Raises ValueError where it holds none."""

    def score_body(
        self, model: str, prompt: Sequence[int], answer: Sequence[int]
    ) -> dict[str, Any]:
        """The request to `answer_path` for the log-probabilities of a given answer."""
        raise ServerRefused(f"{self.kind} scores no answers", UNSUPPORTED)

    def read_scores(self, reply: Any, answer: Sequence[int]) -> list[float]:
        """log p of each of the answer's tokens at temperature 1, in nats. Raises ValueError."""
        raise ServerRefused(f"{self.kind} scores no answers", UNSUPPORTED)

    async def version(self, server: JsonServer) -> str:
        """The engine's version."""
        return "unknown"

    async def fault(self, server: JsonServer) -> str | None:
        """A fault that a server tells of itself and that makes it unfit; None: none."""
        return None

    async def models(self, server: JsonServer) -> ServedModels:
        """The models that the server holds."""
        return ServedModels(self.model or "")

    async def load(self, server: JsonServer, adapter: EngineAdapter) -> None:
        """Give the server an adapter, by its folder, which the server must see, too."""
        raise ServerRefused(f"{self.kind} takes no adapter while it runs", UNSUPPORTED)

    async def unload(self, server: JsonServer, name: str) -> None:
        """Have the server forget an adapter."""

    def lacks_adapter(self, status: int, message: str) -> bool:
        """True if a refusal means that the server does not know the adapter (any more)."""
        return False

    async def put_to_sleep(self, server: JsonServer) -> None:
        """Have the server free its memory."""
        raise ServerRefused(f"{self.kind} does not sleep; leave out sampler.sleep", UNSUPPORTED)

    async def wake(self, server: JsonServer) -> None:
        """Have the server take its memory again."""
