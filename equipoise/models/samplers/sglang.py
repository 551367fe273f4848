"""SGLang: `/generate` by token ids, adapters that come and go, memory that is released.

What is missing: its log-probabilities are after temperature, but before top-k and top-p, so with
these a move has no log-probabilities of the distribution that it was sampled from, only those that
learning reads. Rows follow their seeds only where the server was started with
`--enable-deterministic-inference`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from equipoise.models.samplers.adapter import EngineAdapter
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.samplers.engine_server import ServerRefused
from equipoise.models.samplers.remote import EngineRow, JsonServer, RemoteSampler, ServedModels

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

# The memory that a server that shares its accelerator with a learner gives back.
MEMORY = ["kv_cache", "weights"]


class Sglang(RemoteSampler):
    """An SGLang server, started with `--enable-lora --max-lora-rank N`."""

    kind: Literal["sglang"] = "sglang"
    answer_path: ClassVar = "/generate"
    logprobs_are: ClassVar = "after temperature, before the cuts"

    def body(
        self, model: str, row: EngineRow, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        """An adapter is named by its own field; the base has no name."""
        parameters: dict[str, Any] = {
            "max_new_tokens": row.limit,
            "temperature": settings.temperature,
            "top_k": settings.top_k or -1,
            "top_p": settings.top_p,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "sampling_seed": row.seed % 2**31,
            "stop_token_ids": list(stop_ids),
            "ignore_eos": True,
            "skip_special_tokens": False,
        }
        if row.schema is not None:
            import json

            parameters["json_schema"] = json.dumps(row.schema)
            parameters["ignore_eos"] = False
        body = {"input_ids": row.prompt, "sampling_params": parameters, "return_logprob": True}
        return body | ({"lora_path": model} if model else {})

    def read(
        self, reply: Any, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> SampledAnswer:
        """Log-probabilities are `uncut`; without cuts they are both."""
        match reply:
            case {"meta_info": {"output_token_logprobs": [_, *_] as tokens}}:
                pass
            case _:
                raise ValueError(f"no tokens with log-probabilities in {reply!r:.200}")
        uncut = [float(token[0]) for token in tokens]
        ids = [int(token[1]) for token in tokens]
        return SampledAnswer(ids, [] if settings.cuts else uncut, uncut, ids[-1] in stop_ids)

    async def version(self, server: JsonServer) -> str:
        """What `/get_server_info` says."""
        reply = await server.get("/get_server_info")
        return str(reply.get("version", "unknown"))

    async def models(self, server: JsonServer) -> ServedModels:
        """The base has no name in a request; adapters are those of `/v1/models` with a parent."""
        cards = (await server.get("/v1/models"))["data"]
        adapters = [card["id"] for card in cards if card.get("parent") is not None]
        return ServedModels("", tuple(adapters))

    async def load(self, server: JsonServer, adapter: EngineAdapter) -> None:
        """By name and folder."""
        body = {"lora_name": adapter.name, "lora_path": str(adapter.folder)}
        reply = await server.post("/load_lora_adapter", body)
        if isinstance(reply, Mapping) and reply.get("success") is False:
            message = str(reply.get("error_message"))
            if "already" not in message:
                raise ServerRefused(message, 400)

    async def unload(self, server: JsonServer, name: str) -> None:
        """By name."""
        await server.post("/unload_lora_adapter", {"lora_name": name})

    def lacks_adapter(self, status: int, message: str) -> bool:
        """400, with words about the adapter."""
        return status == 400 and "lora" in message.lower()

    async def rest(self, server: JsonServer) -> None:
        """The server needs `--enable-memory-saver`."""
        await server.post("/release_memory_occupation", {"tags": MEMORY})

    async def wake(self, server: JsonServer) -> None:
        """Weights and cache come back."""
        await server.post("/resume_memory_occupation", {"tags": MEMORY})
