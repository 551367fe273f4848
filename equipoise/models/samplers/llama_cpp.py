"""llama.cpp's server: `/completion` by token ids.

What is missing: it takes no adapter while it runs (only those, in its own format, that it was
started with), so its players do not learn; it ends an answer at the end tokens of its own model
file alone; and it does not sleep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from equipoise.models.samplers.adapter import EngineAdapter
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.samplers.engine_server import ServerRefused
from equipoise.models.samplers.remote import EngineRow, JsonServer, RemoteSampler, ServedModels

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

NO_ADAPTERS = (
    "llama.cpp takes no adapter while it runs; give this player `sampler: local`, or a vllm server"
)
UNSUPPORTED = 501
LEAST = 1e-30  # a probability that the server rounds to 0


class LlamaCpp(RemoteSampler):
    """A llama.cpp server of a frozen model, the same one as a GGUF file here."""

    kind: Literal["llama_cpp"] = "llama_cpp"
    takes_adapters: ClassVar[bool] = False
    answer_path: ClassVar = "/completion"
    logprobs_are: ClassVar = "post_sampling_probs"

    def body(
        self, model: str, row: EngineRow, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        """The order of the samplers is ours, in place of the server's, which cuts before it applies
        the temperature.
        """
        body: dict[str, Any] = {
            "prompt": row.prompt,
            "n_predict": row.limit,
            "temperature": settings.temperature,
            "top_k": settings.top_k,
            "top_p": settings.top_p,
            "min_p": 0.0,
            "repeat_penalty": 1.0,
            "samplers": ["temperature", "top_k", "top_p"],
            "seed": row.seed % 2**31,
            "n_probs": 1,
            "post_sampling_probs": True,
            "return_tokens": True,
            "cache_prompt": True,
        }
        if row.schema is not None:
            body["json_schema"] = row.schema
        return body

    def read(
        self, reply: Any, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> SampledAnswer:
        """Probabilities are of the distribution that was sampled from."""
        match reply:
            case {"completion_probabilities": [_, *_] as tokens}:
                pass
            case _:
                raise ValueError(f"no tokens with probabilities in {reply!r:.200}")
        ids = [int(token["id"]) for token in tokens]
        logprobs = [math.log(max(float(token["prob"]), LEAST)) for token in tokens]
        if reply.get("stop_type") == "eos" and ids[-1] not in stop_ids:
            raise ValueError(
                "it ends answers at a token that is no end token here; serve the GGUF "
                "file that players.…model names"
            )
        uncut = [] if settings.cuts else logprobs
        return SampledAnswer(ids, logprobs, uncut, ids[-1] in stop_ids)

    async def version(self, server: JsonServer) -> str:
        """What `/props` says."""
        return str((await server.get("/props")).get("build_info", "unknown"))

    async def models(self, server: JsonServer) -> ServedModels:
        """One model, without a name."""
        await server.get("/health")
        return ServedModels("")

    async def load(self, server: JsonServer, adapter: EngineAdapter) -> None:
        """Raises ServerRefused."""
        raise ServerRefused(NO_ADAPTERS, UNSUPPORTED)

    async def unload(self, server: JsonServer, name: str) -> None:
        """There is none."""

    def lacks_adapter(self, status: int, message: str) -> bool:
        """There is none to lack."""
        return False

    async def rest(self, server: JsonServer) -> None:
        """Raises ServerRefused."""
        raise ServerRefused("llama.cpp does not sleep; leave out sampler.sleep", 501)

    async def wake(self, server: JsonServer) -> None:
        """It never sleeps."""
