"""Models of 4 or 8 bits, where the packages are installed that round them: what is short, that
gradients and other rows' numbers stay right, and that a run plays, learns, is killed, goes on and is
merged on one. `test_quantization.py` has what needs none of them.
"""

import shutil
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file
from small_runs import SMALL, settings

import equipoise
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_trainer import PolicyTrainer
from equipoise.ledger.ledger import Ledger
from equipoise.models import quantization
from equipoise.models.adapters import Lora
from equipoise.models.loading import Loading, describe, load_classifier, load_model
from equipoise.models.resources import Resources
from equipoise.models.shared_base import shared_base
from equipoise.players.base import Player
from equipoise.types import Episode, Turn, View, user

BUILTIN = {"kind": "local", "model": "builtin", "device": "cpu"}
QUANTISED = pytest.mark.parametrize("kind", list(quantization.PACKAGES))
IDS = torch.arange(2, 26).view(2, 12)
if missing := [name for name in quantization.PACKAGES.values() if find_spec(name) is None]:
    absent = f"{', '.join(missing)}: not installed; pip install 'equipoise[quantization]'"
    pytest.skip(absent, allow_module_level=True)


@QUANTISED
def test_linear_layers_are_short_and_everything_else_is_as_it_was(kind):
    plain = load_model("builtin", device="cpu")
    short = load_model("builtin", device="cpu", quantization=kind)
    rest = [
        name
        for name, own in short.named_parameters()
        if type(own) is torch.nn.Parameter
        and own.dtype == torch.float32
        and torch.equal(own, plain.get_parameter(name))
    ]
    size = describe("builtin")
    kept = sum(plain.get_parameter(name).numel() for name in rest)
    assert 0 < size.linear == size.parameters - kept
    with torch.no_grad():
        gap = (short(IDS).logits - plain(IDS).logits).abs().mean()
    assert 0.001 < gap < 0.5


@QUANTISED
def test_gradients_and_rows_are_those_of_the_rounded_weights(kind):
    """Also after the model has played, which makes bitsandbytes pack its weights on CPUs."""
    torch.manual_seed(0)
    short = load_model("builtin", None, Lora(r=2), quantization=kind, device="cpu", trainable=True)
    rounded = load_model("builtin", None, Lora(r=2), device="cpu", trainable=True)
    for name, layer in short.named_modules():
        weight = getattr(layer, "weight", None)
        if hasattr(layer, "lora_A") and kind == "4bit":
            from bitsandbytes.functional import dequantize_4bit

            weight = dequantize_4bit(weight.data, weight.quant_state)
        elif hasattr(layer, "lora_A"):
            weight = weight.dequantize()
        else:
            continue
        rounded.get_submodule(name).weight.data = weight
    with torch.no_grad():
        for name, own in short.named_parameters():
            if "lora_" in name:
                rounded.get_parameter(name).copy_(own.normal_(0, 0.1))
        alone = short(IDS[:1]).logits
        assert torch.allclose(alone, short(IDS).logits[:1], atol=1e-5)
    gradients = []
    for model in (short, rounded):
        logits = model(IDS).logits
        logits.square().mean().backward()
        moved = [each.grad.flatten() for each in model.parameters() if each.requires_grad]
        gradients.append(torch.cat(moved))
    assert gradients[1].norm() > 0
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-5 * float(gradients[1].abs().max()))


@QUANTISED
def test_one_quantised_base_is_shared_and_mixes_adapters(kind, adapter_folder, model_folder):
    resources, folder = Resources(), str(model_folder("llama"))
    loading = Loading("float32", "cpu", quantization=kind)
    base = shared_base(resources, folder, loading)
    assert shared_base(resources, folder, loading) is base
    assert shared_base(resources, folder, loading._replace(quantization=None)) is not base
    adapters = [base.adapter(adapter_folder("llama", n)[1]) for n in (1, 2)]
    assert base.mixes(adapters)


@QUANTISED
def test_a_judges_model_is_quantised(kind, reward_folder):
    folder = str(reward_folder("llama", 1))
    whole, short = (load_classifier(folder, device="cpu", quantization=q) for q in (None, kind))
    assert torch.equal(whole.score.weight, short.score.weight)
    with torch.no_grad():
        gap = (whole(IDS[:1]).logits - short(IDS[:1]).logits).abs().max()
    assert 0 < gap < 10


def policy_trainer(player, **settings):
    given = {**BUILTIN, "learns": True, "max_new_tokens": 5, **player}
    chosen = {"estimator": "group_relative", "learning_rate": 1e-3, "warmup_steps": 0}
    trainer = PolicyGradient.model_validate({**chosen, **settings})
    return PolicyTrainer(trainer, Player.build(given), "policy", 3)


def learn(policy, seed):
    view = View((user("How much is 3 + 4?"),))
    turns = [Turn("first", view, move) for move in policy.actor.act([view] * 6, list(range(6)))]
    paid = [Episode(str(n), 0, f"m{n}", 0, "first", "0", float(n % 2)) for n in range(6)]
    policy.learn(paid, turns, seed, lambda line: None)
    policy.assert_agreement(policy.actor)


def weights(policy):
    return [each.detach().clone() for each in policy.policy.trained_parameters().values()]


def assert_it_learns_and_goes_on(folder, player, **settings):
    """The trainer, after an update, its state on disk, and one more update with and without it."""
    policy, again = (policy_trainer(player, **settings) for _ in range(2))
    before = weights(policy)
    learn(policy, 5)
    assert any(not torch.equal(*pair) for pair in zip(before, weights(policy), strict=True))
    policy.save_state(folder)
    again.load(folder, 1)
    for each in (policy, again):
        learn(each, 6)
    assert all(torch.equal(*pair) for pair in zip(weights(policy), weights(again), strict=True))
    return policy


@pytest.mark.long
@QUANTISED
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_policy_gradient_learns_on_it_and_what_plays_is_what_learned(kind, precision, tmp_path):
    player = {"lora": {"r": 2}, "quantization": kind}
    assert_it_learns_and_goes_on(tmp_path, player, precision=precision)


@pytest.mark.long
def test_moments_of_8_bits_learn_and_go_on(tmp_path):
    policy = assert_it_learns_and_goes_on(tmp_path, {}, optimizer="adamw_8bit")
    kept = policy.optimizer.adamw.state.values()
    assert {each["state1"].dtype for each in kept} == {torch.uint8, torch.float32}


# -- a run


@QUANTISED
@pytest.mark.slow
def test_a_run_plays_learns_goes_on_after_a_kill_and_is_merged(
    kind, command, tmp_path, monkeypatch
):
    short = settings(policy__lora="{r: 2}", policy__quantization=kind, generations=2)
    run = ["run", "quickstart", *SMALL, *short]
    assert command(*run, "--out", "whole").code == 0
    finish = Ledger.finish

    def killed(ledger, key, *values):
        if key == "1/learn/policy":
            raise SystemExit(9)
        finish(ledger, key, *values)

    monkeypatch.setattr(Ledger, "finish", killed)
    assert command(*run, "--out", "killed").code == 9
    monkeypatch.setattr(Ledger, "finish", finish)
    shutil.rmtree("killed/players/policy/2")
    equipoise.open_run("killed").resume(progress=False)
    whole, again = (
        load_file(f"{name}/players/policy/2/adapter_model.safetensors")
        for name in ("whole", "killed")
    )
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    package = quantization.PACKAGES[kind]
    assert f"{kind}, by {package}" in (tmp_path / "whole/players/policy/2/README.md").read_text()
    merged = command("merge", "whole/players/policy/2", "--to", "merged")
    assert merged.code == 0
    assert f"measured on the base in {kind}, and is merged" in merged.err
    own = load_model("builtin/beginner", tmp_path / "whole/players/policy/2", Lora(r=2))
    with torch.no_grad():
        gap = (load_model("merged", device="cpu")(IDS).logits - own(IDS).logits).abs().max()
    assert gap < 1e-4  # on the base as it is
