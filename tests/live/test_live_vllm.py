"""A real vLLM answers as the model here. `make live` makes its environment and runs this.

EQUIPOISE_VLLM names the environment, EQUIPOISE_LIVE_MODEL the model (the built-in one by default).
On a machine without an accelerator vLLM runs on its CPUs.
"""

import os
import signal
import statistics
from pathlib import Path

import pytest
import torch

from benchmarks import engines
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings
from equipoise.players.base import Player
from equipoise.sampling.engines.base import EngineAdapter, EngineRow
from equipoise.sampling.engines.remote_engine import open_engine
from equipoise.sampling.engines.vllm import Vllm
from equipoise.types import View, user

pytestmark = pytest.mark.live
MODEL = os.environ.get("EQUIPOISE_LIVE_MODEL", "builtin")
VIEWS = [View((user(f"What is {n} and four?"),)) for n in range(8)]
SEEDS = [10**15 + n for n in range(8)]
EXACT = 1e-4  # nats a token, float32 on both sides
ADAPTERS = 8  # at once in the server
PATIENCE = 900.0


@pytest.fixture(scope="module")
def server(serving):
    """start() -> the address; where a server was killed, another one there."""
    return serving(MODEL, adapters=ADAPTERS)


@pytest.fixture(scope="module")
def adapters(tmp_path_factory) -> list[Path]:
    folders = []
    for n in range(2):
        torch.manual_seed(n)
        model = add_adapter(load_model(MODEL), Lora(r=8, alpha=16))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0, 0.02)
        folders.append(tmp_path_factory.mktemp("policy") / str(n + 1))
        model.save_pretrained(str(folders[-1]))
    return folders


def player(url: str, **settings):
    given = {"kind": "vllm", "base_url": url, "adapters": ADAPTERS, "patience": PATIENCE}
    return Player.build(
        {
            "kind": "local",
            "model": MODEL,
            "learns": True,
            "lora": {"r": 8, "alpha": 16},
            "dtype": "float32",
            "max_new_tokens": 16,
            "max_length": 256,
            "temperature": 0.7,
            "sampler": given,
            **settings,
        }
    )


def test_vllm_and_the_model_here_give_the_same_logprobs(server, adapters):
    resources = Resources()
    for weights in (None, *adapters):
        actor = player(server()).open(weights, resources)
        moves = actor.act(VIEWS, SEEDS)
        prompts = [actor._encoding.prompt_ids(view.messages) for view in VIEWS]
        here = actor.retrace(prompts, [list(move.token_ids) for move in moves])
        gaps = [
            abs(a - b)
            for row, move in zip(here, moves, strict=True)
            for a, b in zip(row, move.logprobs, strict=True)
        ]
        assert sum(gaps) / len(gaps) <= EXACT
        assert actor.sampler_facts()["probe_gap"] <= EXACT
        assert actor.act(VIEWS, SEEDS) == moves


def test_cuts_and_schemas(server):
    cut = player(server(), top_k=5, top_p=0.9).open(None, Resources())
    moves = cut.act(VIEWS, SEEDS)
    assert all(move.logprobs and not move.uncut for move in moves)
    schema = {"type": "string", "enum": ["first", "second"]}
    views = [View(VIEWS[0].messages, (), schema)]
    (move,) = player(server()).open(None, Resources()).act(views, SEEDS[:1])
    assert move.text.strip().startswith('"')


def test_a_server_that_is_killed_and_started_again_goes_on(server, adapters):
    server()
    actor = player(server()).open(adapters[0], Resources())
    before = actor.act(VIEWS, SEEDS)
    waiting = actor.submit(VIEWS, SEEDS)
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    server()
    assert [move.token_ids for move in waiting()] == [move.token_ids for move in before]


def test_eight_adapters_in_one_batch_answer_as_each_alone(server, tmp_path, capsys):
    """Their speed beside a single adapter's is printed: a figure, and no bound."""
    url = server()
    engines.with_adapters(load_model(MODEL), tmp_path)
    settings = {"base_url": url, "adapters": ADAPTERS, "patience": PATIENCE}
    engine = open_engine(Vllm.model_validate(settings), Resources())
    assert engine is not None
    prompts = [[3 + (7 * n + k) % 200 for k in range(16)] for n in range(16)]
    adapters = [EngineAdapter.of(f"b@{n}", tmp_path / f"a{n}") for n in range(ADAPTERS)]
    rows = [EngineRow(prompt, n, 16) for n, prompt in enumerate(prompts)]
    asked = [(a, rows[n::ADAPTERS]) for n, a in enumerate(adapters)]
    sampling = SamplingSettings(1.0)
    work = [engine.submit(adapter, own, sampling, []) for adapter, own in asked]
    together = [answer.token_ids for part in work for answer in engine.wait(part)]
    alone = [
        answer.token_ids
        for adapter, own in asked
        for answer in engine.sample(adapter, own, sampling, [])
    ]
    same = sum(a == b for a, b in zip(together, alone, strict=True))
    assert same >= 15, "one row may fall on the other side of a rounding"
    assert len({tuple(ids) for ids in together}) >= 12, "these are not several adapters"

    systems = engines.on_engine(engine, prompts, 16, tmp_path)
    chosen = {n: systems[n] for n in ("vllm, one adapter", "vllm, 8 adapters")}
    one, eight = engines.measured(chosen, rounds=3).values()
    ratios = sorted(a / b for a, b in zip(one, eight, strict=True))
    with capsys.disabled():
        median = statistics.median(ratios)
        print(f"\n8 adapters × 2 rows: {median:.2f} × the speed of 1 × 16 {ratios}")
