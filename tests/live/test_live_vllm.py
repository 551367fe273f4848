"""A real vLLM plays for a local player. `make live` makes its environment and runs this.

EQUIPOISE_VLLM names the environment, EQUIPOISE_LIVE_MODEL the model (the built-in one
by default). On a machine without an accelerator vLLM runs on its CPUs.
"""

import os
import signal
import socket
from pathlib import Path

import pytest
import torch

from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.device import choose_device
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.models.samplers import launcher
from equipoise.models.samplers.environment import VARIABLE, find_environment
from equipoise.players.base import Player
from equipoise.types import View, user

pytestmark = pytest.mark.live
MODEL = os.environ.get("EQUIPOISE_LIVE_MODEL", "builtin")
VIEWS = [View((user(f"What is {n} and four?"),)) for n in range(8)]
SEEDS = [10**15 + n for n in range(8)]
EXACT = 1e-4  # nats a token, float32 on both sides
PATIENCE = 900.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """start() -> the address; where a server was killed, another one there."""
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} names no environment with vLLM; `make live` makes one")
    python = find_environment(None)
    folder = tmp_path_factory.mktemp("sampler")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    on_cpu = choose_device("auto").type == "cpu"
    options = launcher.ServerOptions(
        MODEL,
        port=port,
        max_length=256,
        dtype="float32",
        rank=8,
        adapters=2,
        rows=16,
        cpu=on_cpu,
        memory=1.0 if on_cpu else 0.5,
        more=("--enforce-eager",),
    )

    def start() -> str:
        if not launcher.health(options.url):
            launcher.start(options, python, folder, PATIENCE)
        return options.url

    start.folder = folder
    yield start
    launcher.stop(folder)


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
    given = {"kind": "vllm", "base_url": url, "adapters": 2, "patience": PATIENCE}
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
        here = actor.retraced(prompts, [list(move.token_ids) for move in moves])
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
    waiting = actor.begin(VIEWS, SEEDS)
    os.killpg(launcher.ServerState.read(server.folder).pid, signal.SIGKILL)
    server()
    assert [move.token_ids for move in waiting()] == [move.token_ids for move in before]
