"""What `auto` means, by size and device."""

import json

import pytest
import torch
from transformers import AutoConfig

from equipoise.games.base import Game
from equipoise.learners import automatic
from equipoise.learners.automatic import NOTABLE, decide, decide_on
from equipoise.learners.launch import Launch
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.preference_learner import Preference
from equipoise.models import device
from equipoise.models.loading import Description, describe
from equipoise.players.base import Player

ZAMBA = {
    **{"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 64},
    **{"intermediate_size": 32, "mamba_d_state": 8, "n_mamba_heads": 4, "mamba_headdim": 16},
    **{"num_mem_blocks": 1, "hybrid_layer_ids": [1, 3, 5], "adapter_rank": 4},
    "layers_block_type": ["mamba", "hybrid"] * 3,
}
SIZE = dict.fromkeys(("hidden", "layers", "vocabulary", "kv_numbers", "trainable"), 1)


def sized(parameters, **more):
    return Description(**SIZE, parameters=parameters, context=None, short=False, **more)


LEARNERS = [Preference.model_validate({}), PolicyGradient.model_validate({})]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_a_large_model_on_an_accelerator_saves_memory(learner):
    large = decide(learner, large=True)
    assert (large.precision, large.gradient_checkpointing) == ("bf16", True)
    assert large.max_disagreement == 0.25
    small = decide(learner, large=False)
    assert (small.precision, small.gradient_checkpointing) == ("fp32", False)
    assert small.max_disagreement == 1e-3
    assert decide(learner, large=False, tf32=True).max_disagreement == 0.02
    assert decide(learner, large=True, tf32=True).max_disagreement == 0.25


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_what_is_set_stays(learner):
    chosen = {"precision": "fp32", "gradient_checkpointing": False}
    own = learner.model_validate(chosen | {"max_disagreement": 0.5})
    assert decide(own, large=True) == own
    part = learner.model_validate({"gradient_checkpointing": True})
    assert decide(part, large=False).gradient_checkpointing is True
    assert decide(part, large=True).precision == "bf16"


def test_rounded_weights_may_differ_more():
    rounding = Preference.model_validate({"rounding": "stochastic"})
    assert decide(rounding, large=False).max_disagreement == 0.25


def test_on_a_cpu_nothing_is_saved_and_carried():
    player = Player.build({"kind": "local", "model": "builtin", "device": "cpu"})
    settled = LEARNERS[0].resolve_auto(player)
    assert (settled.precision, settled.carried_precision()) == ("fp32", "fp32")
    assert settled.gradient_checkpointing is False


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
@pytest.mark.parametrize("faster", [False, True])
def test_a_notable_model_on_a_cpu_multiplies_as_the_trial_says(learner, faster, monkeypatch):
    monkeypatch.setattr(device, "bfloat16_is_faster", lambda: faster)
    settled = decide_on("cpu", learner, sized(NOTABLE))
    assert settled.precision == ("bf16" if faster else "fp32")
    assert settled.gradient_checkpointing is False
    assert settled.max_disagreement == (0.25 if faster else 1e-3)
    assert decide_on("cpu", learner, sized(NOTABLE - 1)).precision == "fp32"
    own = learner.model_validate({"precision": "fp32"})
    assert decide_on("cpu", own, sized(NOTABLE)).precision == "fp32"
    for parameters, on, whole, chosen in (
        (NOTABLE, "cpu", True, "selective"),
        (NOTABLE, "cpu", False, False),
        (NOTABLE - 1, "cpu", True, False),
        (NOTABLE, "cuda", True, False),
    ):
        settled = decide_on(on, learner, sized(parameters), whole=whole)
        assert settled.gradient_checkpointing == chosen


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_layers_that_cannot_be_computed_again_are_not(learner, monkeypatch):
    for more, setting, told in (
        ({}, "selective", []),
        ({"shared": True}, True, []),
        ({"shared": True}, "selective", ["share weights; set it true"]),
        ({"checkpoints": False}, "selective", ["has no such way; set it false"]),
        ({"checkpoints": False}, True, ["has no such way; set it false"]),
        ({"checkpoints": False}, False, []),
        ({"checkpoints": False}, "auto", []),
    ):
        own = sized(NOTABLE, **more)
        asked = learner.model_validate({"gradient_checkpointing": setting})
        monkeypatch.setattr(automatic, "_size", lambda model, own=own: own)
        player = Player.build({"kind": "local", "model": "builtin", "device": "cpu"})
        faults = [*asked.faults(player, Game.build("answers"))]
        assert [fault.partition("'builtin' ")[2] for fault in faults] == told
        if more:
            settled = decide_on("cpu", learner, own, whole=True)
            assert settled.gradient_checkpointing is False
    assert decide_on("cuda", learner, sized(10**9, shared=True)).gradient_checkpointing is True
    plain = sized(10**9, checkpoints=False)
    assert decide_on("cuda", learner, plain).gradient_checkpointing is False


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_whose_weights_learn_is_the_players(monkeypatch, learner):
    monkeypatch.setattr(automatic, "_size", lambda model: sized(NOTABLE))
    monkeypatch.setattr(device, "bfloat16_is_faster", lambda: False)
    player = {"kind": "local", "model": "builtin", "device": "cpu"}
    for lora, chosen in ((None, "selective"), ({"r": 2}, False)):
        settled = learner.resolve_auto(Player.build({**player, "lora": lora}))
        assert settled.gradient_checkpointing == chosen


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_a_billion_parameters_are_many_on_an_accelerator(learner):
    for parameters, many in ((10**9, True), (10**9 - 1, False)):
        settled = decide_on("cuda", learner, sized(parameters))
        assert (settled.precision, settled.gradient_checkpointing) == (
            "bf16" if many else "fp32",
            many,
        )
        assert settled.max_disagreement == (0.25 if many else 1e-3)
    assert NOTABLE == 10**8


@pytest.mark.parametrize(("name", "tf32", "most"), [("cuda", True, 0.02), ("cuda", False, 1e-3)])
def test_a_players_device_and_model_decide(monkeypatch, name, tf32, most):
    """Its size is looked up where something is open, on an accelerator that is stood in for."""
    asked = []
    monkeypatch.setattr(device, "choose_device", torch.device)
    monkeypatch.setattr(device, "has_tf32", lambda: tf32)
    monkeypatch.setattr(automatic, "_size", lambda model: asked.append(model) or sized(2 * 10**9))
    player = Player.build({"kind": "local", "model": "builtin", "device": name})
    large = PolicyGradient.model_validate({}).resolve_auto(player)
    assert (large.precision, large.gradient_checkpointing) == ("bf16", True)
    half = PolicyGradient.model_validate({"precision": "fp32"}).resolve_auto(player)
    assert half.gradient_checkpointing is True
    assert half.max_disagreement == most
    assert asked == [player.model] * 2
    closed = {"precision": "fp32", "gradient_checkpointing": False}
    assert PolicyGradient.model_validate(closed).resolve_auto(player).max_disagreement == most
    assert len(asked) == 2
    other = player.model_copy(update={"device": "meta"})
    assert PolicyGradient.model_validate(closed).resolve_auto(other).max_disagreement == 1e-3
    rock = Player.build("tabular")
    settled = automatic.resolve_auto(PolicyGradient.model_validate({}), rock)
    assert (settled.precision, settled.gradient_checkpointing) == ("fp32", False)


def test_what_cannot_go_with_weights_in_shares_is_said(monkeypatch):
    local = {"kind": "local", "model": "builtin", "lora": {"r": 2}}
    plain, short = (Player.build({**local, "quantization": q}) for q in (None, "8bit"))
    ddp, shares = (Launch(config=name, num_processes=2) for name in ("ddp", "fsdp2"))

    def faults(*given):
        return [text.partition(" ")[0] for text in automatic.faults_of_weights(*given)]

    monkeypatch.setattr(automatic, "find_spec", lambda name: name)
    for launch in (None, ddp):
        for player in (plain, short):
            assert faults("adamw", launch, player) == faults("adamw_8bit", launch, player) == []
    assert faults("adamw", shares, plain) == []
    assert faults("adamw", shares, short) == ["launch:"]
    assert faults("adamw_8bit", shares, short) == ["launch:", "optimizer:"]
    monkeypatch.setattr(automatic, "find_spec", lambda name: None)
    assert faults("adamw", shares, plain) == []
    assert faults("adamw_8bit", None, plain) == ["optimizer:"]
    assert faults("adamw_8bit", shares, plain) == ["optimizer:"] * 2


def test_what_a_trial_found_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device.bfloat16_is_faster.cache_clear()
    found = device.bfloat16_is_faster()
    file = tmp_path / "equipoise" / "products.json"
    (key, times), *others = json.loads(file.read_text()).items()
    assert not others
    assert found == (times >= device.FASTER)
    file.write_text(json.dumps({key: 0.5 if found else 9.0}))
    device.bfloat16_is_faster.cache_clear()
    assert device.bfloat16_is_faster() != found
    device.bfloat16_is_faster.cache_clear()


def test_a_model_tells_whether_its_layers_can_be_computed_again(model_folder, tmp_path):
    plain = describe(str(model_folder("llama")))
    assert plain.checkpoints
    assert not plain.shared
    for name, values, checkpoints, shared in (
        ("openai-gpt", {"n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 16}, False, False),
        ("zamba2", ZAMBA, True, True),
    ):
        folder = tmp_path / name
        AutoConfig.for_model(name, **values).save_pretrained(folder)
        size = describe(str(folder))
        assert (size.checkpoints, size.shared) == (checkpoints, shared), name
