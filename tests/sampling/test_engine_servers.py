"""What is asked of engines in other processes and how their replies are read: vLLM's protocol, word
by word, and servers that are busy, gone or odd.
"""

import asyncio
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from equipoise.errors import ModelError
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.engines import remote_engine
from equipoise.sampling.engines.base import (
    EngineAdapter,
    EngineRow,
    RemoteSampler,
    SampledAnswer,
    Sampler,
    ServedModels,
    ServerGone,
    ServerRefused,
)
from equipoise.sampling.engines.remote_engine import Engine, EngineServer, ProbedEngine
from equipoise.sampling.engines.vllm import Vllm
from equipoise.system import http_bounds

URL = "http://127.0.0.1:1"
ADAPTER = EngineAdapter("equipoise:a@1:0", Path("/a"))


class Paper:
    """A server that answers by a table: (path, body) -> a reply, or an error to raise."""

    def __init__(self, **replies):
        self.replies, self.asked = replies, []

    async def get(self, path):
        return await self.post(path)

    async def post(self, path, body=None):
        self.asked.append((path, body) if body is not None else path)
        [(_, reply)] = [(k, v) for k, v in self.replies.items() if k in path] or [("", None)]
        if isinstance(reply, Exception):
            raise reply
        return reply


def vllm(**settings) -> Vllm:
    return Vllm.model_validate({"base_url": URL, **settings})


def test_a_request_says_all_that_a_models_own_configuration_could_set():
    settings = SamplingSettings(temperature=0.5, top_k=3, top_p=0.9, min_p=0.05)
    plain = vllm().body("it", EngineRow([1, 2], 7, 9), settings, (4, 5))
    assert plain == {
        "model": "it",
        "prompt": [1, 2],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.0,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
        "seed": 7,
        "logprobs": 0,
        "return_token_ids": True,
        "ignore_eos": True,
        "stop_token_ids": [4, 5],
    }
    followed = vllm().body("it", EngineRow([1, 2], 7, 9, {"type": "object"}), settings, (4, 5))
    more = {"structured_outputs": {"json": {"type": "object"}}, "ignore_eos": False}
    assert followed == plain | more


def choice(ids, logprobs):
    return {"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": logprobs}}]}


def test_a_reply_is_read():
    whole, cut = SamplingSettings(), SamplingSettings(top_p=0.9)
    assert vllm().read(choice([1, 4], [-1, -0.5]), whole, (4,)) == SampledAnswer(
        [1, 4], [-1.0, -0.5], [-1.0, -0.5], True
    )
    assert vllm().read(choice([4, 1], [-1, -0.5]), cut, (4,)) == SampledAnswer(
        [4, 1], [-1.0, -0.5], [], False
    )
    for odd in (choice([1], []), choice([], []), {"choices": []}, "busy"):
        with pytest.raises(ValueError, match="no token ids with log-probabilities in "):
            vllm().read(odd, whole, (4,))
    with pytest.raises(ValueError, match=r"vLLM 0\.10\.2 or newer"):
        vllm().read({"choices": [{"token_ids": None}]}, whole, (4,))


def test_what_a_server_tells_of_itself():
    run = asyncio.run
    assert run(vllm().version(Paper(version={"version": "1.2"}))) == "1.2"
    assert run(vllm().version(Paper(version="0.9"))) == "0.9"
    modes = {"processed_logprobs": None, "raw_logprobs": "its log-probabilities are raw_logprobs; "}
    for mode, fault in modes.items():
        told = {"vllm_config": {"model_config": {"logprobs_mode": mode}}}
        found = run(vllm().fault(Paper(server_info=told)))
        assert found == fault or (fault and found.startswith(fault))
    for silent in ({}, "no", ServerRefused("HTTP 404: none", 404)):
        assert run(vllm().fault(Paper(server_info=silent))) is None
    cards = {"data": [{"id": "x", "parent": "b"}, {"id": "b"}, {"id": "c", "parent": None}]}
    assert run(vllm().models(Paper(models=cards))) == ServedModels("b", ("x",))
    assert run(vllm(model="c").models(Paper(models=cards))) == ServedModels("c", ("x",))
    with pytest.raises(ServerRefused, match="it serves b, c, not 'x'") as refused:
        run(vllm(model="x").models(Paper(models=cards)))
    assert refused.value.status == 404


def test_adapters_come_and_go():
    server = Paper()
    asyncio.run(vllm().load(server, ADAPTER))
    asyncio.run(vllm().unload(server, ADAPTER.name))
    assert server.asked == [
        ("/v1/load_lora_adapter", {"lora_name": ADAPTER.name, "lora_path": "/a"}),
        ("/v1/unload_lora_adapter", {"lora_name": ADAPTER.name}),
    ]
    again = Paper(load=ServerRefused("HTTP 400: it has already been loaded", 400))
    asyncio.run(vllm().load(again, ADAPTER))
    for status, message, said in (
        (404, "Not Found", "it loads no adapters (Not Found); start it with --enable-lora"),
        (404, "No adapter found for /a", "it cannot load the adapter /a: No adapter found"),
        (400, "rank", "it cannot load the adapter /a: rank; the server must see this folder"),
    ):
        with pytest.raises(ServerRefused) as refused:
            asyncio.run(vllm().load(Paper(load=ServerRefused(message, status)), ADAPTER))
        assert str(refused.value).startswith(said)
        assert refused.value.status == status
    assert vllm().lacks_adapter(404, "")
    assert not vllm().lacks_adapter(400, "")


def test_it_sleeps_and_wakes():
    server = Paper()
    asyncio.run(vllm().put_to_sleep(server))
    asyncio.run(vllm().wake(server))
    assert server.asked == ["/sleep?level=1", "/wake_up"]
    for status, said in ((404, "it cannot sleep (no); start it with --enable-sleep"), (500, "no")):
        with pytest.raises(ServerRefused) as refused:
            asyncio.run(vllm().wake(Paper(wake=ServerRefused("no", status))))
        assert str(refused.value).startswith(said)
        assert refused.value.status == status


class Plain(RemoteSampler):
    """A sampler of one's own that defines what it must."""

    kind: Literal["plain"] = "plain"
    answer_path: ClassVar = "/answer"
    logprobs_are: ClassVar = "plain"

    def body(self, model, row, settings, stop_ids):
        return {"model": model, "prompt": row.prompt, "seed": row.seed, "limit": row.limit}

    def read(self, reply, settings, stop_ids):
        return SampledAnswer(reply["ids"], [], [], reply["ids"][-1] in stop_ids)


class Loading(Plain):
    """One whose servers take adapters."""

    async def load(self, server, adapter):
        await server.post("/load", {"name": adapter.name})

    async def unload(self, server, name):
        await server.post("/unload", {"name": name})

    def lacks_adapter(self, status, message):
        return status == 410


def test_what_a_sampler_of_ones_own_leaves_out_is_not_supported():
    assert not Plain.takes_adapters
    assert Loading.takes_adapters
    assert Vllm.takes_adapters
    plain, server = Plain(base_url=(URL,)), Paper()
    for work in (plain.load(server, ADAPTER), plain.put_to_sleep(server)):
        with pytest.raises(ServerRefused) as refused:
            asyncio.run(work)
        assert refused.value.status == 501
    assert asyncio.run(plain.version(server)) == "unknown"
    assert asyncio.run(plain.fault(server)) is None
    assert asyncio.run(Plain(base_url=(URL,), model="m").models(server)) == ServedModels("m")
    assert not plain.lacks_adapter(404, "")
    assert not server.asked
    assert Plain.model_validate({"base_url": f"{URL}/v1"}).base_url == (URL,)
    two = Plain.model_validate({"base_url": [URL, "http://127.0.0.1:2"]})
    assert two.where == f"{URL}, http://127.0.0.1:2"
    with pytest.raises(ValueError, match="names a server twice"):
        Plain.model_validate({"base_url": [URL, f"{URL}/v1"]})
    assert Sampler.build("local").where == "in this process"


@pytest.fixture
def engine_server():
    """engine_server(replies) is the address of a server that gives these, path -> a list of
    (status, text), the last one for ever; its `asked` are (path, body, key).
    """
    servers = []

    def start(replies):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                server.asked.append((self.path, body, self.headers.get("authorization")))
                kept = replies[self.path]
                status, text = kept.pop(0) if len(kept) > 1 else kept[0]
                data = (text if isinstance(text, str) else json.dumps(text)).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.asked, server.url = [], f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def loading(*servers, **settings) -> Loading:
    return Loading.model_validate({"base_url": [s.url for s in servers], "model": "m", **settings})


ROWS = [EngineRow([n], n, 5) for n in range(3)]


def test_rows_are_answered_in_order_by_the_adapter(engine_server, monkeypatch):
    monkeypatch.setenv("KEY", "secret")
    server = engine_server({"/answer": [(200, {"ids": [4]})], "/load": [(200, "")]})
    engine = Engine(loading(server, api_key_env="KEY"))
    done = engine.sample(ADAPTER, ROWS, SamplingSettings(), (4,))
    assert done == [SampledAnswer([4], [], [], True)] * 3
    assert server.asked[0] == ("/load", {"name": ADAPTER.name}, "Bearer secret")
    asked = sorted(body["seed"] for path, body, _ in server.asked[1:])
    assert asked == [0, 1, 2]
    assert len(server.asked) == 4
    assert server.asked[1][1]["model"] == ADAPTER.name
    engine.sample(None, ROWS[:1], SamplingSettings(), ())
    assert server.asked[-1][1] == {"model": "m", "prompt": [0], "seed": 0, "limit": 5}
    assert engine.facts() == {"engine": "plain", "version": "unknown", "logprobs": "plain"}


def test_the_longest_unused_makes_room_also_where_the_server_lost_it(engine_server):
    gone = [(410, "unknown"), (500, {"error": {"message": "broken\n inside"}})]
    server = engine_server(
        {"/answer": [(200, {"ids": [4]})], "/load": [(200, "")], "/unload": gone}
    )
    engine = Engine(loading(server, adapters=2))
    adapters = [EngineAdapter(f"equipoise:{n}", Path("/a")) for n in range(4)]
    for n in (0, 1, 0, 2):  # 1 makes room, which the server does not know any more
        engine.sample(adapters[n], ROWS[:1], SamplingSettings(), ())
    changes = [(path, body["name"]) for path, body, _ in server.asked if path != "/answer"]
    assert changes == [
        *(("/load", "equipoise:0"), ("/load", "equipoise:1"), ("/unload", "equipoise:1")),
        ("/load", "equipoise:2"),
    ]
    with pytest.raises(ModelError, match=f"sampler {server.url}: HTTP 500: broken inside"):
        engine.sample(adapters[3], ROWS[:1], SamplingSettings(), ())
    assert server.asked[-1][:2] == ("/unload", {"name": "equipoise:0"})


def test_a_busy_server_is_asked_again_and_a_lost_adapter_loaded_again(engine_server, monkeypatch):
    monkeypatch.setattr(http_bounds, "FIRST_PAUSE", 0.001)
    answers = [(503, "busy"), (429, "busy"), (410, "lost"), (200, {"ids": [4]})]
    server = engine_server({"/answer": answers, "/load": [(200, "")]})
    engine = Engine(loading(server))
    assert engine.sample(ADAPTER, ROWS[:1], SamplingSettings(), ()) == [
        SampledAnswer([4], [], [], False)
    ]
    assert [path for path, *_ in server.asked] == ["/load", "/answer"] * 4


def test_an_engine_s_reply_is_read_no_further_than_any_other(engine_server, monkeypatch):
    server = engine_server({"/answer": [(200, "x" * (http_bounds.LONGEST_REPLY + 1))]})
    with pytest.raises(ModelError, match=f"^sampler {server.url}: the reply is longer than"):
        Engine(loading(server)).sample(None, ROWS[:1], SamplingSettings(), ())


def test_an_engine_s_refusal_repeats_no_key(engine_server, monkeypatch):
    monkeypatch.setenv("KEY", "a-long-secret-key")
    server = engine_server({"/answer": [(400, "no a-long-secret-key here")]})
    with pytest.raises(ModelError, match=r"HTTP 400: no \[key\] here$"):
        Engine(loading(server, api_key_env="KEY")).sample(None, ROWS[:1], SamplingSettings(), ())


def test_an_engine_here_is_asked_directly_whatever_the_proxy(engine_server, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_PROXY", "http://127.0.0.1:1")
    server = engine_server({"/answer": [(200, {"ids": [4]})]})
    assert Engine(loading(server)).sample(None, ROWS[:1], SamplingSettings(), ())


def test_an_engine_elsewhere_is_asked_through_the_proxy(monkeypatch):
    monkeypatch.setenv("EQUIPOISE_PROXY", "http://127.0.0.1:1")
    settings = {"base_url": ["http://engine.example"], "model": "m", "patience": 0}
    with pytest.raises(ModelError, match=r"sampler http://engine\.example: "):
        Engine(Loading.model_validate(settings)).sample(None, ROWS[:1], SamplingSettings(), ())


def test_the_next_server_answers_where_one_is_gone(engine_server, monkeypatch):
    monkeypatch.setattr(http_bounds, "FIRST_PAUSE", 0.001)
    gone = engine_server({"/answer": [(502, "")]})
    there = engine_server({"/answer": [(200, {"ids": [4]})]})
    engine = Engine(loading(gone, there))
    assert len(engine.sample(None, ROWS[:2], SamplingSettings(), ())) == 2
    assert len(there.asked) == 2
    assert len(gone.asked) == 1
    alone = Engine(loading(gone, patience=0))
    with pytest.raises(ModelError, match=r"HTTP 502: ; start it \(`equipoise sampler MODEL`\)"):
        alone.sample(None, ROWS[:1], SamplingSettings(), ())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((400, "a" * 400), f"HTTP 400: {'a' * 300}…$"),
        ((400, {"detail": "so"}), "HTTP 400: so$"),
        ((400, {"error": {"message": {"detail": "so"}}}), "HTTP 400: so$"),
        ((410, "lost"), "HTTP 410: lost$"),  # the base is no adapter
        ((200, "{}"), "its answer cannot be read: KeyError"),
        ((200, "text"), "its answer cannot be read: TypeError"),
    ],
)
def test_what_a_server_refuses_is_one_message(engine_server, reply, said):
    server = engine_server({"/answer": [reply]})
    with pytest.raises(ModelError, match=f"^sampler {server.url}: {said}"):
        Engine(loading(server)).sample(None, ROWS[:1], SamplingSettings(), ())


def test_one_prompts_rows_go_to_one_server_unless_prompts_are_fewer():
    rows = [EngineRow([n], 0, 1) for n in (5, 5, 6, 7, 6)]
    assert remote_engine._places(rows, 2) == [0, 0, 1, 0, 1]
    assert remote_engine._places(rows, 3) == [0, 0, 1, 2, 1]
    assert remote_engine._places(rows, 4) == [0, 1, 2, 3, 0]


def test_a_server_that_slept_is_woken_before_it_is_asked(engine_server):
    pages = {"/v1/completions": [(200, choice([4], [-1]))], "/wake_up": [(200, "")]}
    pages |= {"/sleep?level=1": [(200, "")], "/v1/models": [(200, {"data": [{"id": "m"}]})]}
    server = engine_server(pages)
    engine = Engine(vllm(base_url=server.url, sleep=True))
    for _ in range(2):
        engine.sample(None, ROWS[:1], SamplingSettings(), ())
        engine.sleep()
        engine.sleep()
    assert [path for path, *_ in server.asked] == [
        *("/wake_up", "/v1/models", "/v1/completions", "/sleep?level=1"),
        *("/wake_up", "/v1/completions", "/sleep?level=1"),
    ]
    restarted = EngineServer(engine.settings, server.url)
    restarted.asleep = True
    restarted.forget()
    assert not restarted.asleep
    still = engine_server({"/sleep?level=1": [(200, "")]})
    Engine(vllm(base_url=still.url)).sleep()
    assert still.asked == []


def test_a_server_that_says_nothing_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        server = EngineServer(vllm(base_url=url, timeout=0.05), url)
        with pytest.raises(ServerGone, match=r"no answer within 0\.05 s"):
            asyncio.run(server.get("/"))
    server = EngineServer(vllm(base_url=url), url)
    with pytest.raises(ServerGone):
        asyncio.run(server.get("/"))


def test_new_weights_are_compared_once_with_the_model_here(engine_server):
    models = [(200, {"data": [{"id": "m"}]})]
    version = [(200, {"version": "1"})]
    server = engine_server(
        {
            "/v1/completions": [(200, choice([4, 5], [-1.0, -3.0]))],
            "/v1/models": models,
            "/version": version,
        }
    )
    engine = Engine(vllm(base_url=server.url, probes=3, max_gap=0.5))
    retraced = []

    def probed(at_07, at_1):
        """The model here gives -1 and -3, moved by so much at either temperature."""

        def retrace(prompts, answers, temperature):
            retraced.append((prompts, answers, temperature))
            moved = {0.7: at_07, 1.0: at_1}[temperature]
            return [[-1 - moved, -3 + moved] for _ in prompts]

        engine.probes = None
        mine = ProbedEngine(engine, lambda: None, (5,))
        engine.wait(mine.submit(ROWS[:2], SamplingSettings(), retrace, retrace))
        return mine, retrace

    mine, retrace = probed(0.25, 0.2)
    assert mine.facts()["probe_gap"] == pytest.approx(0.25)
    prompts = [[0], [1], [0]]
    asked = [(prompts, [[4, 5]] * 3, temperature) for temperature in (0.7, 1.0, 1.0)]
    assert retraced == asked, "against the engine, and once as probes of other weights"
    probes = [body for path, body, _ in server.asked if path == "/v1/completions"][:3]
    assert sorted((p["seed"], p["max_tokens"], p["temperature"]) for p in probes) == [
        *((0, 4, 0.7), (1, 4, 0.7), (2, 4, 0.7))
    ]
    engine.wait(mine.submit(ROWS[:2], SamplingSettings(), retrace, retrace))
    assert len(retraced) == 3, "once for these weights"
    assert probed(0.01, 0.0)[0].facts()["probe_gap"] == pytest.approx(0.01)  # rounding
    with pytest.raises(ModelError, match=r"raw ones, .* are 0\.25 nats a token off, and 0\.12"):
        probed(0.25, 0.12)
    with pytest.raises(ModelError, match=r"differ by 0\.6 nats a token on the base model, more"):
        probed(0.6, 0.4)
    assert "probe_gap" not in ProbedEngine(engine, lambda: None, ()).facts()
