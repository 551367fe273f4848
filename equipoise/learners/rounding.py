"""Weights rounded to bfloat16 at random, so that their mean is what was trained.

At small learning rates an update is smaller than the distance of a weight from its neighbours in
bfloat16. Rounding to the nearest takes it back; rounding up or down with the probability of the
remainder keeps it on average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DROPPED = 16  # low bits of a float32 that a bfloat16 has not


def round_weights(model: Any, seed: int) -> None:
    """Turn `model` into bfloat16 in place, each weight rounded up or down at random."""
    import torch

    device = next(model.parameters()).device
    dice = torch.Generator(device).manual_seed(seed % 2**32)
    for weight in model.parameters():
        weight.data = stochastically_rounded(weight.data, dice)
    model.to(torch.bfloat16)


def stochastically_rounded(weight: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """Float32 values that bfloat16 holds exactly, whose expectation is `weight`.

    The dropped bits are the probability of the neighbour that is larger in magnitude.
    """
    import torch

    bits = weight.float().contiguous().view(torch.int32)
    below = torch.randint(0, 1 << DROPPED, bits.shape, generator=dice, device=bits.device)
    kept = (bits + below.int()) & ~((1 << DROPPED) - 1)
    return kept.view(torch.float32)
