"""What gradient learners share: settings, the order of the data, where a training goes
on, how it ends on disk.

The training itself is transformers' `Trainer` (see `learners.trainer`), so one process,
DDP, FSDP and DeepSpeed are a matter of the usual accelerate configuration (see
`learners.launch`). What is learned does not depend on it: a step is of batch_size x
gradient_accumulation x processes examples, and of the same ones however that product is
made.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.learners.base import Learner
from equipoise.learners.checkpoints import disk_errors, resumable
from equipoise.learners.launch import Launchable
from equipoise.players.base import Player

if TYPE_CHECKING:
    from equipoise.learners.answer_trainer import Objective, Row
    from equipoise.models.encoding import Encoding
    from equipoise.players.local import Local

WINDOW = 16  # small steps that are sorted by length together: little padding, and an order that is still nearly random
LARGE = 64  # a step of so many examples is sorted within itself alone, which leaves its batches little padding, too


class Training(Launchable):
    """How long and how fast to train. Batches count examples (pairs, for preferences)
    in one forward on one process.

    A learner of this kind defines `learn_here`.
    """

    epochs: float = Field(
        1.0, gt=0, description="passes over the examples; may be a fraction"
    )
    batch_size: int = Field(
        8, ge=1, description="examples in one forward pass on each process"
    )
    gradient_accumulation: int = Field(
        1, ge=1, description="forward passes that make one optimizer step"
    )
    learning_rate: float = Field(1e-6, gt=0, description="peak learning rate of AdamW")
    scheduler: Literal["cosine", "linear", "constant_with_warmup"] = Field(
        "cosine", description="how the learning rate goes on after the warm-up"
    )
    warmup_ratio: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="share of the steps over which the learning rate rises",
    )
    weight_decay: float = Field(
        0.0, ge=0, description="decoupled weight decay of AdamW"
    )
    max_grad_norm: float = Field(
        1.0,
        ge=0,
        description="gradients are scaled down to this norm; 0 leaves them alone",
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="bf16: matrix products in bfloat16, weights that are trained in float32",
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="answer tokens projected to the vocabulary at a time, at 8 x vocabulary bytes each; "
        "null: 256 on a CPU, 2048 on an accelerator",
    )
    gradient_checkpointing: bool = Field(
        False,
        description="compute activations again in the backward pass: less memory, about a third slower",
    )
    log_steps: int = Field(
        10, ge=1, description="optimizer steps between two lines of metrics"
    )
    save_steps: int = Field(
        200,
        ge=0,
        description="optimizer steps between checkpoints, rounded up to whole log_steps; 0 keeps none",
    )

    def steps(self, examples: int) -> int:
        """Optimizer steps, over all processes."""
        return math.ceil(
            self.passes(examples)
            / self.step_size(1 if self.launch is None else self.launch.processes)
        )

    def step_size(self, processes: int) -> int:
        """How many examples an optimizer step is of."""
        return self.batch_size * self.gradient_accumulation * processes

    def passes(self, examples: int) -> int:
        """How many examples are seen, each pass over them counted."""
        return max(1, round(self.epochs * examples))

    def order(self, lengths: Sequence[int], seed: int, processes: int = 1) -> list[int]:
        """The order in which examples of these lengths are seen: a pure function of
        both and the size of a step.

        Each pass is a fresh permutation, cut into optimizer steps. A large step is
        sorted by length. Of small steps, those in a window of one pass swap examples,
        so that those of like length share a step, and are shuffled again; a step that
        belongs to two passes stays as it was drawn.
        """
        n, size, count = (
            len(lengths),
            self.step_size(processes),
            self.passes(len(lengths)),
        )
        passes = [
            seeds.generator(seed, "pass", p).permutation(n)
            for p in range(math.ceil(count / n))
        ]
        order = np.concatenate(passes)[:count].tolist()
        if size >= LARGE:
            steps = (order[begin : begin + size] for begin in range(0, count, size))
            return [
                i for step in steps for i in sorted(step, key=lambda i: -lengths[i])
            ]
        for p in range(len(passes)):
            first, last = math.ceil(p * n / size), min((p + 1) * n, count) // size
            for begin in range(first, last, WINDOW):
                end = min(begin + WINDOW, last)
                window = sorted(
                    order[begin * size : end * size], key=lambda i: -lengths[i]
                )
                shuffled = seeds.generator(seed, "window", begin).permutation(
                    end - begin
                )
                order[begin * size : end * size] = [
                    i for b in shuffled for i in window[b * size : (b + 1) * size]
                ]
        return order

    def train(
        self,
        model: Any,
        encoding: Encoding,
        rows: Sequence[Row],
        objective: Objective,
        *,
        home: Path,
        scratch: Path,
        seed: int,
        share: bool = False,
        device: str = "auto",
        report_to: Sequence[str] = (),
        log: Callable[[dict[str, Any]], None] = lambda line: None,
    ) -> dict[str, float]:
        """Train `model` on `rows` and write it and its tokenizer into `home`; returns
        the last line of metrics.

        Goes on from a checkpoint in `scratch` where this same training left one. Raises
        DiskFull, and EquipoiseError when the loss is no longer a number. Each process
        of a training calls it with the same arguments.
        """
        from equipoise.learners.answer_trainer import AnswerTrainer, arguments
        from equipoise.models.quiet import quiet

        size = self.step_size(world_size())
        ordered = [
            rows[i]
            for i in self.order([row.length for row in rows], seed, world_size())
        ]
        with quiet(), disk_errors(scratch):
            given = arguments(
                self, math.ceil(len(ordered) / size), scratch, seed, device, report_to
            )
            with given.main_process_first(local=False):
                checkpoint = resumable(scratch, self._identity(rows, objective, seed))
            trainer = AnswerTrainer(
                model,
                given,
                ordered,
                objective,
                pad_id=encoding.pad_id,
                chunk=self.chunk,
                share=share,
                log=log,
            )
            trainer.train(
                resume_from_checkpoint=None if checkpoint is None else str(checkpoint)
            )
        trainer.assert_finite()
        with quiet(), disk_errors(home):
            trainer.save_whole(home)
            if trainer.is_world_process_zero():
                (home / "training_args.bin").unlink(
                    missing_ok=True
                )  # a pickle of this machine's paths
                encoding.tokenizer.save_pretrained(str(home))
        return trainer.summary()

    def _identity(self, rows: Sequence[Row], objective: Objective, seed: int) -> str:
        """A hash of all that decides what is trained, but for the model, which its
        folder decides.
        """
        digest = hashlib.blake2b(
            repr((self.settings(), objective, seed)).encode(), digest_size=16
        )
        for row in rows:
            digest.update(row.identity)
        return digest.hexdigest()


def world_size() -> int:
    """How many processes train together, as whatever started this one says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_player(learner: Learner, name: str, player: Player) -> Local:
    """`player`, called `name`, if it is a model in this process. Raises ConfigError."""
    from equipoise.players.local import Local

    if not isinstance(player, Local):
        raise ConfigError(
            f"learner '{learner.kind}' trains players of kind 'local', but players.{name} is of kind '{player.kind}'"
        )
    return player


def model_to_train(
    learner: Learner,
    precision: str,
    name: str,
    player: Player,
    weights: Path | None,
    seed: int,
) -> tuple[Any, Encoding, str]:
    """(the player called `name` at `weights`, its encoding, its device). Raises
    ConfigError, ModelError.

    Weights that are trained are float32. Under LoRA with `precision: bf16` the frozen
    base is bfloat16.
    """
    from transformers import set_seed

    from equipoise.models.loading import load_model

    player = local_player(learner, name, player)
    set_seed(
        seeds.child(seed, "adapter") % 2**32
    )  # a fresh adapter is drawn from torch's generator
    model = load_model(
        player.model,
        weights,
        player.lora,
        dtype="bfloat16"
        if player.lora is not None and precision == "bf16"
        else "float32",
        device="cpu",  # the Trainer places it, on the device of this process
        attention=player.attention,
        trainable=True,
    )
    return model, player.encoding(), player.device


def need_examples(rows: Sequence[Any], who: object) -> None:
    """Raises NoSignal when there is nothing to learn from."""
    if not rows:
        raise NoSignal(f"{who} has no example to learn from")
