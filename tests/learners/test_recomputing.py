"""What is kept of a layer for its backward pass, and what is computed again."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy
from transformers import AutoModelForCausalLM

from equipoise.learners.recomputing import _policy, checkpointing
from equipoise.models.activation_checkpoints import enable_checkpoints

IDS = torch.arange(24).reshape(2, 12) + 5
CHEAP = torch.ops.aten.silu.default


class Counting(TorchDispatchMode):
    """Counts the operations that are run."""

    def __init__(self):
        super().__init__()
        self.count = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count[func] += 1
        return func(*args, **(kwargs or {}))


def passes(model, setting, dtype=None):
    """Loss, gradients, and what the backward pass ran."""
    if setting:
        enable_checkpoints(model, checkpointing(setting))
    model.train().zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
        loss = model(IDS, use_cache=False).logits.float().square().mean()
    with Counting() as counting:
        loss.backward()
    return loss, [weight.grad.clone() for weight in model.parameters()], counting.count


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["float32", "autocast"])
def test_selective_repeats_what_is_cheap_and_nothing_dear(model_folder, dtype):
    found = {}
    for setting in (False, "selective", True):
        folder = model_folder("llama")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        found[setting] = passes(model, setting, dtype)
    layers = model.config.num_hidden_layers
    loss, gradients, plain = found[False]
    for setting in ("selective", True):
        own, slopes, _ = found[setting]
        assert own.item() == loss.item()
        for slope, gradient in zip(slopes, gradients, strict=True):
            torch.testing.assert_close(slope, gradient, rtol=1e-4, atol=1e-7)
    assert plain[CHEAP] == 0
    products, attentions = torch.ops.aten.mm.default, "_scaled_dot_product"
    for setting, repeated in (("selective", False), (True, True)):
        count = found[setting][2]
        assert count[CHEAP] == layers
        assert (count[products] > plain[products]) == repeated
        ran = [str(op) for op in count if attentions in str(op) and "backward" not in str(op)]
        assert bool(ran) == repeated


def test_an_attention_that_drops_is_not_kept():
    """Its dice come before those of a layer's later dropouts."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    given = [None, None, None]
    keep, again = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
    assert _policy(None, flash, *given) == _policy(None, flash, *given, 0.0) == keep
    assert _policy(None, flash, *given, 0.1) == again
    assert _policy(None, flash, *given, dropout_p=0.1) == again
    assert _policy(None, torch.ops.aten.silu.default, None) == again
