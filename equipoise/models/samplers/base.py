"""Where a local player's answers are sampled: in this process, or by an engine in a process and
environment of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from equipoise.component import Component


class Sampler(Component):
    """What answers. Weights, token ids, log-probabilities and learning stay here.

    elsewhere: whether another process samples; then it is a `RemoteSampler`. takes_adapters:
    whether generations reach it as adapters while it runs.
    """

    KINDS: ClassVar = {
        "local": "equipoise.models.samplers.base:InProcess",
        "vllm": "equipoise.models.samplers.vllm:Vllm",
        "sglang": "equipoise.models.samplers.sglang:Sglang",
        "llama_cpp": "equipoise.models.samplers.llama_cpp:LlamaCpp",
    }

    elsewhere: ClassVar[bool] = True
    takes_adapters: ClassVar[bool] = True

    @property
    @abstractmethod
    def where(self) -> str:
        """Where it samples, for messages."""


class InProcess(Sampler):
    """The model in this process, in batches; the same tokens for a seed, always."""

    kind: Literal["local"] = "local"
    elsewhere: ClassVar[bool] = False

    @property
    def where(self) -> str:
        """Here."""
        return "in this process"
