"""A real HTTP server on loopback that speaks vLLM's protocol, token ids in and out, with a model,
adapters and the project's own sampler behind it.

    def test_it(vllm_server):
        server = vllm_server("llama")
        ... {"kind": "vllm", "base_url": server.url} ...
        server.restart()      # as after a crash: no adapter is known any more
        server.logprobs = "raw_logprobs"
        server.plays = lambda folder: other      # a server that answers with other weights
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch

from equipoise.models.loading import load_model
from equipoise.models.shared_base import SharedBase
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.sampling import retrace, sample


class VllmServer:
    """What a test holds: the address, what came in, and what goes wrong."""

    def __init__(self, model: str, port: int = 0) -> None:
        self.base = SharedBase(model, load_model(model))
        self.adapters: dict[str, str] = {}  # by name: the adapter's name in the model
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.logprobs = "processed_logprobs"
        # an adapter's folder -> that of the one that answers in its place; None: the base
        self.plays: Callable[[str], str | None] = lambda folder: folder
        self.tells_mode = False  # whether /server_info is there
        self.asleep = False
        self.break_after: int | None = None  # answers until connections break
        self.busy = 0  # requests that are told to come again
        self._lock = threading.Lock()
        self._start(port)

    def _start(self, port: int) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads, self._http.block_on_close = True, False
        threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all questions."""
        return [body for path, body in self.requests if path == "/v1/completions"]

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def restart(self) -> None:
        """The adapters are gone, as after a crash."""
        self.adapters.clear()
        self.break_after = None

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """(status, content)."""
        match path:
            case "/version":
                return 200, {"version": "0.32.0"}
            case "/v1/models":
                cards = [{"id": "base", "parent": None}]
                cards += [{"id": name, "parent": "base"} for name in self.adapters]
                return 200, {"data": cards}
            case "/server_info?config_format=json" if self.tells_mode:
                mode = {"model_config": {"logprobs_mode": self.logprobs}}
                return 200, {"vllm_config": mode}
            case "/v1/load_lora_adapter":
                name = body["lora_name"]
                if name in self.adapters:
                    return 400, _error(f"'{name}' has already been loaded.")
                self.adapters[name] = body["lora_path"]
                return 200, "Success"
            case "/v1/unload_lora_adapter":
                if self.adapters.pop(body["lora_name"], None) is None:
                    return 404, _error("cannot be found.")
                return 200, "Success"
            case "/sleep?level=1" | "/wake_up":
                self.asleep = path.startswith("/sleep")
                return 200, {}
            case "/v1/completions":
                return self._completion(body)
        return 404, _error("Not Found")

    def _completion(self, body: dict[str, Any]) -> tuple[int, Any]:
        from pathlib import Path

        assert not self.asleep
        assert body["return_token_ids"]
        assert body["ignore_eos"]
        name = body["model"]
        if name != "base" and name not in self.adapters:
            return 404, _error(f"The model `{name}` does not exist.")
        folder = self.adapters.get(name)
        if folder is not None:
            folder = self.plays(folder)
        adapter = None if folder is None else self.base.adapter(Path(folder))
        if "prompt_logprobs" in body:
            return self._prompt_logprobs(body["prompt"], adapter)
        settings = SamplingSettings(body["temperature"], body["top_k"], body["top_p"])
        prompts = [body["prompt"]]
        with self.base.lend(adapter) as model:
            (answer,) = sample(
                model,
                prompts,
                [body["seed"]],
                [body["max_tokens"]],
                settings,
                stop_ids=body["stop_token_ids"],
                pad_id=0,
                batch_size=1,
            )
            logprobs = answer.logprobs
            if self.logprobs == "raw_logprobs":
                (logprobs,) = retrace(model, prompts, [answer.token_ids], 1.0, 0)
        choice = {
            "index": 0,
            "text": "",
            "token_ids": answer.token_ids,
            "logprobs": {"token_logprobs": logprobs},
            "finish_reason": "stop" if answer.ended else "length",
        }
        return 200, {"choices": [choice]}

    def _prompt_logprobs(self, prompt: list[int], adapter: str | None) -> tuple[int, Any]:
        with self.base.lend(adapter) as model, torch.no_grad():
            logits_TV = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
        logprob_TV = logits_TV.float().log_softmax(-1)
        entries: list[dict[str, Any] | None] = [None]
        for place, token in enumerate(prompt[1:]):
            value = float(logprob_TV[place, token])
            entries.append({str(token): {"logprob": value, "rank": 1}})
        return 200, {"choices": [{"index": 0, "text": "", "prompt_logprobs": entries}]}

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                self.answer({})

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                self.answer(json.loads(self.rfile.read(length) or "{}"))

            def answer(self, body: dict[str, Any]) -> None:
                with server._lock:
                    if server.break_after == 0:
                        self.close_connection = True
                        return
                    server.requests.append((self.path, body))
                    status, content = server.reply(self.path, body)
                    if server.busy:
                        server.busy -= 1
                        status, content = 503, _error("busy")
                    elif server.break_after and self.path == "/v1/completions":
                        server.break_after -= 1
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        return Handler


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": 0}}


@pytest.fixture
def vllm_server(model_folder) -> Iterator[Callable[[str], VllmServer]]:
    """vllm_server("llama") -> a server of that tiny model."""
    servers: list[VllmServer] = []

    def start(family: str) -> VllmServer:
        servers.append(VllmServer(str(model_folder(family))))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
