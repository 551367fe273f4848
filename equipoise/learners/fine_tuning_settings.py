"""Settings of the learners that fine-tune on a fixed set of examples, and the order in which they
see them.

What is learned does not depend on how the work is divided: an optimizer step is of batch_size x
gradient_accumulation x processes examples, and of the same ones however that product is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.component import Settings
from equipoise.learners import automatic
from equipoise.players.base import Player, Precision

# Small steps that are sorted by length together: little padding, and an order that is still nearly
# random.
WINDOW = 16
# A step of so many examples is sorted within itself alone, which leaves its batches little padding,
# too.
LARGE = 64


class FineTuningSettings(Settings):
    """How long and how fast to train.

    Batches count examples (pairs, for preferences) in one forward pass on one process.
    """

    epochs: float = Field(1.0, gt=0, description="passes over the examples; may be a fraction")
    batch_size: int = Field(8, ge=1, description="examples in one forward pass on each process")
    gradient_accumulation: int = Field(
        1, ge=1, description="forward passes that make one optimizer step"
    )
    learning_rate: float = Field(1e-6, gt=0, description="peak learning rate of AdamW")
    scheduler: Literal["cosine", "linear", "constant_with_warmup"] = Field(
        "cosine", description="how the learning rate goes on after the warm-up"
    )
    warmup_ratio: float = Field(
        0.1, ge=0, lt=1, description="share of the steps over which the learning rate rises"
    )
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay of AdamW")
    max_grad_norm: float = Field(
        1.0, ge=0, description="gradients are scaled down to this norm; 0 leaves them alone"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="bf16: matrix products in bfloat16, weights that are trained in "
        "float32; auto: bf16 on an accelerator from a billion parameters on, else fp32",
    )
    rounding: Literal["none", "stochastic"] = Field(
        "none",
        description="of whole weights when they are written. none: float32, as they "
        "were trained, and so they play; stochastic: to bfloat16, up or down at random "
        "so that their mean is what was trained: half the memory in play",
    )
    probes: int = Field(
        8,
        ge=1,
        description="examples on which the player that plays is compared with the "
        "learner, after each training",
    )
    max_disagreement: float | None = Field(
        None,
        gt=0,
        description="nats a token by which they may differ on average; more stops the "
        "run. null: 0.001 in fp32, 0.02 where its products are TF32, 0.25 in bf16 or "
        "where weights are rounded",
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="answer tokens projected to the vocabulary at a time, at 8 x "
        "vocabulary bytes each; null: 256 on a CPU, 2048 on an accelerator",
    )
    gradient_checkpointing: bool | Literal["auto"] = Field(
        "auto",
        description="compute activations again in the backward pass: less memory, "
        "about a third slower; auto: where precision auto is bf16",
    )
    log_steps: int = Field(10, ge=1, description="optimizer steps between two lines of metrics")
    save_steps: int = Field(
        200,
        ge=0,
        description="optimizer steps between checkpoints, rounded up to whole "
        "log_steps; 0 keeps none",
    )

    def on(self, player: Player) -> Self:
        """With nothing left to `auto`, for this player on its device."""
        return automatic.on(self, player)

    def carried_precision(self) -> Precision:
        """In which precision the player plays what was trained; `auto` counts as fp32."""
        if self.rounding != "none":
            return "bf16_weights"
        return "bf16" if self.precision == "bf16" else "fp32"

    def step_size(self, processes: int) -> int:
        """How many examples an optimizer step is of."""
        return self.batch_size * self.gradient_accumulation * processes

    def passes(self, examples: int) -> int:
        """How many examples are seen, each pass over them counted."""
        return max(1, round(self.epochs * examples))

    def updates(self, examples: int, processes: int) -> int:
        """How many optimizer steps training on so many examples takes."""
        return math.ceil(self.passes(examples) / self.step_size(processes))

    def order(self, lengths: Sequence[int], seed: int, processes: int = 1) -> list[int]:
        """The order in which examples of these lengths are seen.

        It is a pure function of the lengths, the seed and the size of a step. Each pass is a fresh
        permutation, cut into optimizer steps. A large step is sorted by length. Small steps that
        lie in one window of a pass swap examples, so that those of like length share a step, and
        are shuffled again; a step that belongs to two passes stays as it was drawn.
        """
        examples, size = len(lengths), self.step_size(processes)
        count = self.passes(examples)
        passes = math.ceil(count / examples)
        permutations = [
            seeds.generator(seed, "pass", p).permutation(examples) for p in range(passes)
        ]
        order = np.concatenate(permutations)[:count].tolist()
        if size >= LARGE:
            return _sorted_within_steps(order, size, lengths)
        for p in range(passes):
            first = math.ceil(p * examples / size)
            last = min((p + 1) * examples, count) // size
            for begin in range(first, last, WINDOW):
                window = slice(begin * size, min(begin + WINDOW, last) * size)
                dice = seeds.generator(seed, "window", begin)
                order[window] = _like_with_like(order[window], size, lengths, dice)
        return order


def _sorted_within_steps(order: Sequence[int], size: int, lengths: Sequence[int]) -> list[int]:
    """Each step's examples from the longest to the shortest."""
    by_length: list[int] = []
    for begin in range(0, len(order), size):
        step = order[begin : begin + size]
        by_length += sorted(step, key=lambda i: -lengths[i])
    return by_length


def _like_with_like(
    window: Sequence[int], size: int, lengths: Sequence[int], dice: np.random.Generator
) -> list[int]:
    """The window's examples in steps of like length, the steps in random order."""
    by_length = sorted(window, key=lambda i: -lengths[i])
    shuffled: list[int] = []
    for step in dice.permutation(len(window) // size):
        shuffled += by_length[step * size : (step + 1) * size]
    return shuffled
