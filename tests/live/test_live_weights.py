"""A real vLLM that plays other weights than those that were sent to it is refused by name."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from equipoise.errors import ModelError
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.sampling.engines.vllm import Vllm
from equipoise.types import View, user

pytestmark = pytest.mark.live
MODEL = os.environ.get("EQUIPOISE_LIVE_MODEL", "builtin")
VIEWS = [View((user(f"What is {n} and four?"),)) for n in range(8)]
SEEDS = [10**15 + n for n in range(8)]
WEIGHTS = "adapter_model.safetensors"
RATE = 1e-5  # by which each weight of the second generation differs from the first


class Swapping(Vllm):
    """vLLM whose server reads another folder than it is told to."""

    kind: Literal["swapping"] = "swapping"  # type: ignore[assignment]
    swapped: ClassVar[dict[Path, Path]] = {}

    async def load(self, server, adapter):
        folder = self.swapped.get(adapter.folder, adapter.folder)
        await super().load(server, replace(adapter, folder=folder))


@pytest.fixture(scope="module")
def server(serving):
    return serving(MODEL, adapters=8)


@pytest.fixture
def folders(tmp_path) -> dict[str, Path]:
    """Generations 1 and 2 of a player, another run's, one of zeros (the base), half of one."""
    made: dict[str, Path] = {}
    for name, seed in (("1", 0), ("another run's", 1)):
        torch.manual_seed(seed)
        model = add_adapter(load_model(MODEL), Lora(r=8, alpha=16))
        with torch.no_grad():
            for key, weight in model.named_parameters():
                if "lora_B" in key:
                    weight.normal_(0, 0.01)
        made[name] = tmp_path / "policy" / name
        model.save_pretrained(str(made[name]))
    for name in ("2", "base", "half"):
        made[name] = tmp_path / "policy" / name
        shutil.copytree(made["1"], made[name])
        weights = load_file(made[name] / WEIGHTS)
        dice = torch.Generator().manual_seed(5)
        names = sorted(weights)
        for place, key in enumerate(names):
            signs = torch.randint(0, 2, weights[key].shape, generator=dice) * 2 - 1
            weights[key] = weights[key] + RATE * signs
            if name == "base" or (name == "half" and place < len(names) // 2):
                weights[key] = torch.zeros_like(weights[key])
        save_file(weights, made[name] / WEIGHTS, {"format": "pt"})
    return {name: folder.resolve() for name, folder in made.items()}


def play(url: str, folder: Path, resources: Resources):
    player = Player.build(
        {
            "kind": "local",
            "model": MODEL,
            "learns": True,
            "lora": {"r": 8, "alpha": 16},
            "dtype": "float32",
            "max_new_tokens": 40,
            "max_length": 256,
            "sampler": {"kind": f"{__name__}:Swapping", "base_url": url, "patience": 900.0},
        }
    )
    actor = player.open(folder, resources)
    actor.act(VIEWS, SEEDS)
    return actor


def test_the_right_weights_arrive_and_others_are_named(server, folders, capsys):
    """The second generation differs from the first by one step at a small rate."""
    url, resources = server(), Resources()
    Swapping.swapped.clear()
    facts = [play(url, folders[name], resources).sampler_facts() for name in ("1", "2")]
    with capsys.disabled():
        print(f"\narrivals: {facts}")
    assert all(abs(each["played_share"] - 1) < 0.05 for each in facts)
    wrong = {
        "1": "it answers as policy@1",
        "base": "it answers as the base model",
        "another run's": "neither as these weights",
        "half": "neither as these weights",
    }
    for number, (name, message) in enumerate(wrong.items()):
        copy = folders["2"].with_name(f"2{number}")  # its own name, so that it is sent again
        shutil.copytree(folders["2"], copy)
        Swapping.swapped[copy.resolve()] = folders[name]
        with pytest.raises(ModelError, match=message):
            play(url, copy, resources)
    Swapping.swapped.clear()


def test_a_restarted_server_proves_its_weights_again(server, folders):
    resources = Resources()
    Swapping.swapped.clear()
    actor = play(server(), folders["1"], resources)
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    Swapping.swapped[folders["1"]] = folders["base"]
    server()
    with pytest.raises(ModelError, match="as the base model"):
        actor.act(VIEWS, SEEDS)
    Swapping.swapped.clear()


def test_right_weights_with_raw_logprobs_are_refused(serving, folders):
    raw = serving(MODEL, vllm=("--enforce-eager", "--logprobs-mode", "raw_logprobs"))
    with pytest.raises(ModelError, match="raw ones"):
        play(raw(), folders["1"], Resources())
