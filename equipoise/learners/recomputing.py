"""Activations that a backward pass computes again to save memory: gradient_checkpointing."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

aten = torch.ops.aten
ATTENTION = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
DEAR = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default} | {
    getattr(aten, name).default for name in ATTENTION if hasattr(aten, name)
}
"""What takes a layer's time: matrix products and attention."""


def checkpointing(setting: bool | str) -> dict[str, Any]:
    """torch's keywords for checkpointing a model's layers: whole ones, or with `selective` all but
    the results of matrix products and of attention, so that only cheap operations are repeated.
    """
    if setting != "selective":
        return {"use_reentrant": False}
    contexts = partial(create_selective_checkpoint_contexts, _policy)
    return {"use_reentrant": False, "context_fn": contexts}


def _policy(_: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    # Autocast's copy of a weight is kept by the products that read it.
    of_weight = operation is aten._to_copy.default and isinstance(args[0], torch.nn.Parameter)
    if of_weight or (operation in DEAR and not _dropout(operation, args, kwargs)):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def _dropout(operation: Any, args: Any, kwargs: Any) -> float:
    """Of an attention: were it kept, a layer's later dropouts would draw other numbers again."""
    names = [argument.name for argument in operation._schema.arguments]
    if "dropout_p" not in names:
        return 0.0
    place = names.index("dropout_p")
    return args[place] if place < len(args) else kwargs.get("dropout_p", 0.0)
