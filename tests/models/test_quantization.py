"""Bases of 4 or 8 bits, optimizers and kernels: what is planned, and what is asked for in vain is
refused. `test_quantized_models.py` has the models themselves.
"""

import sys
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from equipoise.errors import ConfigError, ModelError
from equipoise.judges.base import Judge
from equipoise.learners import automatic
from equipoise.learners.preference_learner import Preference
from equipoise.models import quantization
from equipoise.models.adapters import Lora
from equipoise.models.loading import FLASH, describe, load_model
from equipoise.planning.phases import phases
from equipoise.players import local_settings
from equipoise.players.base import Player
from equipoise.runs import recipe_loader

BUILTIN = {"kind": "local", "model": "builtin", "device": "cpu"}


def test_what_is_trained_or_served_elsewhere_is_not_quantised():
    with pytest.raises(
        ValidationError, match=r"4bit is for weights that are not trained.*lora: true"
    ):
        Player.build({**BUILTIN, "quantization": "4bit", "learns": True})
    with pytest.raises(ValidationError, match="sampler vllm has weights of its own"):
        sampler = {"kind": "vllm", "base_url": "http://127.0.0.1:1"}
        Player.build({**BUILTIN, "quantization": "8bit", "sampler": sampler})
    with pytest.raises(ValidationError, match="'4bit' or '8bit'"):
        Player.build({**BUILTIN, "quantization": "3bit"})


@pytest.mark.long
def test_a_plan_names_the_package_that_is_missing(command, monkeypatch):
    monkeypatch.setitem(quantization.PACKAGES, "4bit", "no_such_package")
    plan = ["plan", "quickstart", "-s", "policy.quantization=4bit"]
    done = command(*plan, "-s", "policy.lora=true")
    assert done.code == 2
    assert done.err.count("error:") == 1
    assert "no_such_package, which is not installed; pip install 'equipoise[quantiz" in done.err
    guard = Judge.build({"kind": "guard", "model": "builtin", "quantization": "4bit"})
    with pytest.raises(ConfigError, match="no_such_package"):
        guard.at(None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no_such_package"):
        load_model("builtin", quantization="4bit", device="cpu")
    launch = "learner.launch={config: fsdp2, num_processes: 2}"
    done = command(*plan, "-s", "policy.lora=true", "-s", launch)
    assert "a base of 4 or 8 bits is not divided among processes; use ddp" in done.err


def test_an_optimizer_that_cannot_work_is_refused(monkeypatch):
    learner = Preference.model_validate(
        {"optimizer": "adamw_8bit", "launch": {"config": "fsdp2", "num_processes": 2}}
    )
    monkeypatch.setattr(automatic, "find_spec", lambda name: None)
    divided, missing = learner.faults(Player.build(BUILTIN), None)  # type: ignore[arg-type]
    assert "with fsdp2, use adamw_fused" in divided
    assert "pip install" in missing


@pytest.mark.long
def test_ligers_kernels_are_refused_without_them_and_on_a_cpu(command, monkeypatch):
    plan = ["plan", "quickstart", "-s", "policy.liger=true", "-s", "policy.device=cpu"]
    for found, said in ((None, "pip install liger-kernel"), (object(), "are for GPUs, and device")):
        monkeypatch.setattr(local_settings, "find_spec", lambda name, found=found: found)
        done = command(*plan)
        assert done.code == 2
        assert done.err.count("error:") == 1
        assert said in done.err
    assert command(*plan[:-2], "--on", "1xH100-80GB").code == 0


def test_liger_leaves_the_head_alone(monkeypatch):
    """Its entry point stands here for kernels that need a GPU."""
    given = {}
    patches = SimpleNamespace(
        _apply_liger_kernel_to_instance=lambda model, **which: given.update(which, model=model),
        MODEL_TYPE_TO_APPLY_LIGER_FN={"llama": None},
    )
    monkeypatch.setitem(sys.modules, "liger_kernel", SimpleNamespace())
    kernels = SimpleNamespace(monkey_patch=patches)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", kernels)
    model = load_model("builtin", device="cpu", liger=True)
    assert given.pop("model") is model
    assert given == {"cross_entropy": False, "fused_linear_cross_entropy": False}
    patches.MODEL_TYPE_TO_APPLY_LIGER_FN.clear()
    with pytest.raises(ModelError, match="no kernels for models of type 'llama'"):
        load_model("builtin", device="cpu", liger=True)


@pytest.mark.long
def test_attention_that_shares_no_prompt_is_named_once(command):
    plan = ["plan", "quickstart", "--on", "1xH100-80GB", "-s"]
    for attention, count in (("flash_attention_2", 1), ("flex_attention", 0)):
        done = command(*plan, f"policy.attention={attention}")
        assert (done.out + done.err).count("computed once for each answer") == count


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_is_the_one_that_is_named(attention):
    model = load_model("builtin", device="cpu", attention=attention)
    assert model.config._attn_implementation == attention


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="it is installed")
def test_flash_attention_is_refused_where_it_is_not_installed():
    """In place of another kernel that would compute the same more slowly."""
    with pytest.raises(ModelError, match="FlashAttention2 has been toggled on, but"):
        load_model("builtin", device="cpu", attention="flash_attention_2")


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="it is installed")
@pytest.mark.parametrize("place", ["policy", "judge"])
def test_a_plan_refuses_flash_attention_where_it_is_not_installed(command, place, monkeypatch):
    judge = "judge={kind: reward_model, model: builtin, head: lm_head}"
    set_judge = ["-s", judge] if place == "judge" else []
    given = [*set_judge, "-s", f"{place}.attention=flash_attention_2"]
    done = command("plan", "quickstart", *given)
    assert done.code == 2
    assert "flash_attention_2 is by the package flash_attn, which is not installed" in done.err
    monkeypatch.setitem(FLASH, "flash_attention_2", "math")  # as if it were
    done = command("plan", "quickstart", *given)
    assert done.code == 2
    assert "flash_attention_2 is not for CPUs, and device is auto; set sdpa" in done.err


def test_a_plan_counts_the_shorter_base():
    size = replace(describe("builtin", Lora()), linear=600_000)
    taken = {}
    for kind in (None, "8bit", "4bit"):
        config = recipe_loader.load(
            "mnpo", ["policy.model=builtin", "policy.lora=true", "prompts.path=none.jsonl"]
        )
        policy = config.players["policy"].model_copy(update={"quantization": kind})
        config = config.model_copy(update={"players": {"policy": policy}})
        parts = phases(config, 64, accelerator=False, sizes=lambda model, lora: size)
        taken[kind] = {part.phase: part.bytes for part in parts}
    for phase in ("play", "learn"):
        assert taken[None][phase] - taken["8bit"][phase] == pytest.approx(600_000 * 3)
        assert taken["8bit"][phase] - taken["4bit"][phase] == pytest.approx(600_000 * 0.48)


def test_what_is_not_trained_is_not_sent_to_other_processes():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].weight.requires_grad_(False)
    quantization.keep_from_sending(model)
    assert list(model._ddp_params_and_buffers_to_ignore) == ["0.weight"]


def test_weights_keep_their_gradients():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].support_avx512bf16_for_cpu = True
    quantization.keep_gradients(model)
    assert model[0].support_avx512bf16_for_cpu is False
    assert not hasattr(model[1], "support_avx512bf16_for_cpu")
