"""The settings of an engine in another process, and what its protocol has to say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import Field, field_validator, model_validator

from equipoise.models.samplers.adapter import EngineAdapter
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.samplers.base import Sampler
from equipoise.system.addresses import KeyVariable, checked_address, key_of

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One answer to be sampled: the prompt's token ids, a seed, the most tokens, and a JSON schema
    that the answer should follow.
    """

    prompt: list[int]
    seed: int
    limit: int
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The base model's name at a server, and the adapters it holds, the oldest first."""

    base: str
    adapters: tuple[str, ...] = ()


class JsonServer(Protocol):
    """A server, asked for JSON by path."""

    async def get(self, path: str) -> Any:
        """What is at a path."""
        ...

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The reply to `body`."""
        ...


class RemoteSampler(Sampler):
    """Servers of one base model, which answer to token ids with token ids."""

    base_url: tuple[str, ...] = Field(
        min_length=1,
        description="where the server answers, as http://127.0.0.1:8000; several: a "
        "list, over which the rows are divided",
    )
    model: str | None = Field(
        None, description="the base model's name there; null: the only one it serves"
    )
    api_key_env: KeyVariable = None
    concurrency: int = Field(256, ge=1, description="requests in flight at most, at each server")
    timeout: float = Field(600.0, gt=0, description="seconds that a request may take")
    patience: float = Field(
        300.0,
        ge=0,
        description="seconds for which a server that is gone (it may be restarted) is "
        "tried again before the run stops",
    )
    adapters: int = Field(
        8,
        ge=1,
        description="adapters of ours that a server keeps; the one that was not used "
        "for longest makes room",
    )
    probes: int = Field(
        4,
        ge=0,
        description="answers on which engine and model are compared whenever weights "
        "are opened; 0: never, for players whose weights are not on this machine",
    )
    max_gap: float = Field(
        0.1, gt=0, description="nats a token by which the two may differ there; more is refused"
    )
    sleep: bool = Field(
        False,
        description="let the server free its memory while a learner on the same "
        "accelerator trains, and wake it afterwards",
    )

    answer_path: ClassVar[str]
    logprobs_are: ClassVar[str]
    """In which form log-probabilities come, in the engine's own words."""

    @field_validator("base_url", mode="before")
    @classmethod
    def _several(cls, urls: Any) -> Any:
        return (urls,) if isinstance(urls, str) else urls

    @field_validator("base_url")
    @classmethod
    def _are_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(checked_address(url).removesuffix("/v1") for url in urls)

    @model_validator(mode="after")
    def _are_different(self) -> Self:
        if len(set(self.base_url)) < len(self.base_url):
            raise ValueError("base_url: names a server twice")
        return self

    @property
    def where(self) -> str:
        """The servers' addresses."""
        return ", ".join(self.base_url)

    def key(self) -> str | None:
        """The key itself, from the environment. Raises ConfigError where it is not set."""
        return key_of(self.api_key_env, self.where)

    # -- the protocol

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

    @abstractmethod
    async def version(self, server: JsonServer) -> str:
        """The engine's version."""

    async def why_unfit(self, server: JsonServer) -> str | None:
        """What a server says of itself that makes it unfit; None: nothing."""
        return None

    @abstractmethod
    async def models(self, server: JsonServer) -> ServedModels:
        """What the server holds."""

    @abstractmethod
    async def load(self, server: JsonServer, adapter: EngineAdapter) -> None:
        """Give the server an adapter, by its folder, which the server must see, too."""

    @abstractmethod
    async def unload(self, server: JsonServer, name: str) -> None:
        """Let the server forget an adapter."""

    @abstractmethod
    def lacks_adapter(self, status: int, message: str) -> bool:
        """Whether an answer says that the server does not know the adapter (any more)."""

    @abstractmethod
    async def rest(self, server: JsonServer) -> None:
        """Let the server free its memory."""

    @abstractmethod
    async def wake(self, server: JsonServer) -> None:
        """Let the server take its memory again."""
