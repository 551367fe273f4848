"""vLLM: `/v1/completions` by token ids, adapters that come and go, sleep.

Started with `--logprobs-mode processed_logprobs`: by default vLLM gives log-probabilities before
temperature, top-k and top-p, not those that it samples from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from equipoise.sampling.engines.base import (
    EngineAdapter,
    EngineRow,
    JsonServer,
    RemoteSampler,
    SampledAnswer,
    ServedModels,
    ServerRefused,
)

if TYPE_CHECKING:
    from equipoise.models.token_choice import SamplingSettings

MODE = "processed_logprobs"
START = f"start it with --logprobs-mode {MODE} (`equipoise sampler` does)"
ABSENT = 404


class Vllm(RemoteSampler):
    """A vLLM server, started by `equipoise sampler` or by hand."""

    kind: Literal["vllm"] = "vllm"
    answer_path: ClassVar = "/v1/completions"
    logprobs_are: ClassVar = MODE

    def body(
        self, model: str, row: EngineRow, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        """The request, with all that the model's own generation configuration could set."""
        body: dict[str, Any] = {
            "model": model,
            "prompt": row.prompt,
            "max_tokens": row.limit,
            "temperature": settings.temperature,
            "top_k": settings.top_k,
            "top_p": settings.top_p,
            "min_p": settings.min_p,
            "repetition_penalty": 1.0,
            "presence_penalty": settings.presence_penalty,
            "frequency_penalty": settings.frequency_penalty,
            "seed": row.seed,
            "logprobs": 0,
            "return_token_ids": True,
            "ignore_eos": True,  # the end tokens are those of the encoding, and no more
            "stop_token_ids": list(stop_ids),
        }
        if row.schema is not None:
            body["structured_outputs"] = {"json": row.schema}
            body["ignore_eos"] = False  # the grammar ends with the tokenizer's own
        return body

    def read(
        self, reply: Any, settings: SamplingSettings, stop_ids: Sequence[int]
    ) -> SampledAnswer:
        """The answer; vLLM gives no log-probabilities from before top-k and top-p."""
        match reply:
            case {
                "choices": [{"token_ids": [*ids], "logprobs": {"token_logprobs": [*logprobs]}}]
            } if len(ids) == len(logprobs) > 0:
                pass
            case {"choices": [{"token_ids": None}, *_]}:
                raise ValueError("it gives no token ids; vLLM 0.10.2 or newer is needed")
            case _:
                raise ValueError(f"no token ids with log-probabilities in {reply!r:.200}")
        values = [float(value) for value in logprobs]
        uncut = [] if settings.cuts else values
        return SampledAnswer(list(ids), values, uncut, ids[-1] in stop_ids)

    def score_body(
        self, model: str, prompt: Sequence[int], answer: Sequence[int]
    ) -> dict[str, Any]:
        """A request that reads prompt and answer as one prompt; what follows is not used."""
        return {
            "model": model,
            "prompt": [*prompt, *answer],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
            "return_token_ids": True,
            "ignore_eos": True,
        }

    def read_scores(self, reply: Any, answer: Sequence[int]) -> list[float]:
        """The answer's tokens stand last in the prompt, each by its id."""
        match reply:
            case {"choices": [{"prompt_logprobs": [*entries]}]} if len(entries) > len(answer):
                own = entries[-len(answer) :]
            case _:
                raise ValueError(f"no log-probabilities of the prompt in {reply!r:.200}")
        scores: list[float] = []
        for token, entry in zip(answer, own, strict=True):
            scores.append(float(entry[str(token)]["logprob"]))
        return scores

    async def version(self, server: JsonServer) -> str:
        reply = await server.get("/version")
        return str(reply["version"]) if isinstance(reply, Mapping) else str(reply)

    async def fault(self, server: JsonServer) -> str | None:
        """Another form of log-probabilities, where the server tells (in its development mode)."""
        try:
            reply = await server.get("/server_info?config_format=json")
        except ServerRefused:
            return None
        match reply:
            case {"vllm_config": {"model_config": {"logprobs_mode": str(mode)}}}:
                known = mode == MODE
                return None if known else f"its log-probabilities are {mode}; {START}"
        return None

    async def models(self, server: JsonServer) -> ServedModels:
        """The models that `/v1/models` lists; an adapter has a parent there."""
        cards = (await server.get("/v1/models"))["data"]
        bases = [card["id"] for card in cards if card.get("parent") is None]
        if self.model is not None and self.model not in bases:
            names = ", ".join(bases)
            raise ServerRefused(f"it serves {names}, not '{self.model}'", ABSENT)
        adapters = [card["id"] for card in cards if card.get("parent") is not None]
        return ServedModels(self.model or bases[0], tuple(adapters))

    async def load(self, server: JsonServer, adapter: EngineAdapter) -> None:
        """Load by name and folder; an adapter that is there under this name has these weights."""
        body = {"lora_name": adapter.name, "lora_path": str(adapter.folder)}
        try:
            await server.post("/v1/load_lora_adapter", body)
        except ServerRefused as error:
            if "already been loaded" in str(error):
                return
            if error.status == ABSENT and "No adapter found" not in str(error):
                raise ServerRefused(
                    f"it loads no adapters ({error}); start it with --enable-lora and "
                    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 (`equipoise sampler` does)",
                    error.status,
                ) from error
            raise ServerRefused(
                f"it cannot load the adapter {adapter.folder}: {error}; the server must "
                "see this folder, and have room for its rank (--max-lora-rank)",
                error.status,
            ) from error

    async def unload(self, server: JsonServer, name: str) -> None:
        await server.post("/v1/unload_lora_adapter", {"lora_name": name})

    def lacks_adapter(self, status: int, message: str) -> bool:
        return status == ABSENT

    async def put_to_sleep(self, server: JsonServer) -> None:
        """Sleep at level 1: weights move to the host's memory, the cache of prompts is dropped."""
        await self._switch(server, "/sleep?level=1")

    async def wake(self, server: JsonServer) -> None:
        await self._switch(server, "/wake_up")

    async def _switch(self, server: JsonServer, path: str) -> None:
        try:
            await server.post(path)
        except ServerRefused as error:
            if error.status != ABSENT:
                raise
            raise ServerRefused(
                f"it cannot sleep ({error}); start it with --enable-sleep-mode and "
                "VLLM_SERVER_DEV_MODE=1 (`equipoise sampler -s sleep=true` does), or "
                "leave out sampler.sleep",
                error.status,
            ) from error
