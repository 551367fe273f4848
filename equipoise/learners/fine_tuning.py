"""Fine-tuning on a fixed set of examples: its settings, the order of the examples, going on after
a crash, and the folder in which it ends.

The training itself is transformers' `Trainer` (see `learners.answer_trainer`), so one process, DDP,
FSDP and DeepSpeed are a matter of the usual accelerate configuration (see `learners.launch`). The
result does not depend on how the work is divided: an optimizer step is of batch_size x
gradient_accumulation x processes examples, and of the same ones however that product is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec
import numpy as np
from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.games.base import Game
from equipoise.learners import automatic
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.launch import Launch, world_size
from equipoise.learners.process_group import learn_in_processes
from equipoise.players.base import Player, Precision
from equipoise.players.local import Local
from equipoise.sampling.arrival_check import write_probes
from equipoise.system.folder import write_text

if TYPE_CHECKING:
    import torch
    from transformers import TrainingArguments

    from equipoise.learners.answer_trainer import AnswerTrainer, Objective, Row
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.loading import Dtype, Loading

# Small steps that are sorted by length together: little padding, and an order that is still nearly
# random.
WINDOW = 16
# A step of so many examples is sorted within itself alone, which leaves its batches little padding,
# too.
LARGE = 64
DROPPED = 16  # low bits of a float32 that a bfloat16 has not
START = "start.json"  # in the scratch folder: the scores of the probes before the first step


class FineTuning(Learner):
    """The base of learners that fine-tune a language model on examples.

    Batches count examples (for preferences pairs) in a forward pass on one process.
    """

    launch: Launch | None = Field(None, description="train in several processes; null: in this one")
    epochs: float = Field(1.0, gt=0, description="passes over the examples; may be a fraction")
    batch_size: int = Field(8, ge=1, description="examples in one forward pass on each process")
    gradient_accumulation: int = Field(
        1, ge=1, description="forward passes that make one optimizer step"
    )
    optimizer: automatic.Optimizer = "adamw_fused"
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
        "float32; auto: bf16 on an accelerator from a billion parameters on, and on a CPU that "
        "is faster in it from a hundred million on, else fp32",
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
    gradient_checkpointing: automatic.Recomputed = "auto"
    log_steps: int = Field(10, ge=1, description="optimizer steps between two lines of metrics")
    save_steps: int = Field(
        200,
        ge=0,
        description="optimizer steps between checkpoints, rounded up to whole "
        "log_steps; 0 keeps none",
    )

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        if not isinstance(player, Local):
            yield f"'{self.kind}' trains players of kind 'local', not '{player.kind}'"
        yield from automatic.faults_of_weights(self.optimizer, self.launch, player)
        yield from automatic.faults_of_recomputing(self.gradient_checkpointing, player)

    def resolve_auto(self, player: Player) -> Self:
        return automatic.resolve_auto(self, player)

    def carried_precision(self) -> Precision:
        if self.rounding != "none":
            return "bf16_weights"
        return "bf16" if self.precision == "bf16" else "fp32"  # auto counts as fp32

    def has_exact_products(self, player: Local) -> bool:
        """True if matrix products are of float32; settings without `auto`."""
        from equipoise.models.device import choose_device, has_tf32

        tf32 = choose_device(player.device).type == "cuda" and has_tf32()
        return self.precision == "fp32" and not tf32

    def shared_key(self, player: Player) -> Hashable | None:
        loading = None if self.launch is not None else base_of(self, player)
        if loading is None:
            return None
        from equipoise.models.shared_base import base_key

        return base_key(*loading)

    def steps(self, examples: int) -> int:
        processes = 1 if self.launch is None else self.launch.processes
        return math.ceil(self.passes(examples) / self.step_size(processes))

    def step_size(self, processes: int) -> int:
        """Examples in an optimizer step."""
        return self.batch_size * self.gradient_accumulation * processes

    def passes(self, examples: int) -> int:
        """The number of examples seen, each pass over them counted."""
        return max(1, round(self.epochs * examples))

    def order(self, lengths: Sequence[int], seed: int, processes: int = 1) -> list[int]:
        """The order of examples, a pure function of their lengths, the seed and a step's size.

        Each pass is a fresh permutation, cut into optimizer steps. A large step is sorted by
        length. Small steps that lie in one window of a pass swap examples, so that those of like
        length share a step, and are shuffled again; a step that belongs to two passes stays as it
        was drawn.
        """
        examples, size = len(lengths), self.step_size(processes)
        count = self.passes(examples)
        passes = math.ceil(count / examples)
        permutations = [
            seeds.generator(seed, "pass", p).permutation(examples) for p in range(passes)
        ]
        order: list[int] = np.concatenate(permutations)[:count].tolist()

        def longest_first(rows: Sequence[int]) -> list[int]:
            return sorted(rows, key=lambda i: -lengths[i])

        if size >= LARGE:
            for begin in range(0, len(order), size):
                order[begin : begin + size] = longest_first(order[begin : begin + size])
            return order
        for p in range(passes):
            first = math.ceil(p * examples / size)
            last = min((p + 1) * examples, count) // size
            for begin in range(first, last, WINDOW):
                window = slice(begin * size, min(begin + WINDOW, last) * size)
                by_length = longest_first(order[window])
                dice = seeds.generator(seed, "window", begin)
                shuffled: list[int] = []
                for step in dice.permutation(len(by_length) // size):
                    shuffled += by_length[step * size : (step + 1) * size]
                order[window] = shuffled
        return order


def fine_tune(
    settings: FineTuning,
    batch: TrainingBatch,
    make_rows: Callable[[Encoding], list[Row]],
    objective: Objective,
    *,
    share: bool = False,
    dtype: Dtype | None = None,
    measured: Sequence[int] = (),
    measure_every: int = 0,
) -> dict[str, float]:
    """Train the player of a batch on rows, and write it and its tokenizer into `batch.output`.

    share: answers may share a forward pass with their prompt. measured: places of rows that are not
    learned from, but on which the objective is measured every `measure_every` optimizer steps and
    after the last; the weights with the lowest loss on them are written. dtype: of whole weights as
    they are written, auto: the model's own; None: as they were trained, or by `rounding`. Returns
    the last line of metrics. Goes on from a checkpoint of this training in `batch.scratch`. The
    processes of `launch` come here with the same arguments. Raises ConfigError for a player that is
    no model here, ModelError, and EquipoiseError when the loss is no number.
    """
    if settings.launch is not None and not batch.launched:
        return learn_in_processes(settings, settings.launch, batch)
    from equipoise.learners.answer_trainer import AnswerTrainer, going_on_from, resumable
    from equipoise.models.loading import written_dtype
    from equipoise.models.progress import quiet

    player = local_player(settings.kind, batch.learner.name, batch.player)
    settings = settings.resolve_auto(player)
    encoding = player.encoding()
    with _model_of(settings, player, batch) as model:
        rows = make_rows(encoding)
        places = set(measured)
        learned = [row for place, row in enumerate(rows) if place not in places]
        held_out = [row for place, row in enumerate(rows) if place in places]
        order = settings.order([row.length for row in learned], batch.seed, world_size())
        steps = math.ceil(len(order) / settings.step_size(world_size()))
        with quiet():
            args = _trainer_arguments(
                settings, steps, batch.scratch, batch.seed, player.device, measure_every
            )
            identity = _identity(settings, rows, objective, batch.seed)
            with args.main_process_first(local=False):
                checkpoint = resumable(batch.scratch, identity)
            start = StartScores(batch.scratch, identity, rows[: settings.probes])
            trainer = AnswerTrainer(
                model,
                args,
                [learned[i] for i in order],
                objective,
                held_out=held_out,
                pad_id=encoding.pad_id,
                chunk=settings.chunk,
                share=share,
                log=batch.log,
                at_start=None if checkpoint else lambda: start.score(trainer),
            )
            with going_on_from(checkpoint, trainer):
                trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
        trainer.assert_finite()
        end = trainer.logprobs(start.probes)
        if settings.rounding == "stochastic":
            round_weights(trainer.model, seeds.child(batch.seed, "rounding"))
        elif dtype is not None and player.lora is None:
            trainer.model.to(written_dtype(player.model, dtype))  # pyright: ignore
        with quiet():
            batch.output.mkdir(parents=True, exist_ok=True)
            trainer.save_whole(batch.output)
            if trainer.is_world_process_zero():
                encoding.save(batch.output)
                start.write_probes(batch.output, end, settings.has_exact_products(player))
        return trainer.summary()


def _trainer_arguments(
    settings: FineTuning, steps: int, scratch: Path, seed: int, device: str, measure_every: int = 0
) -> TrainingArguments:
    """The Trainer's arguments. Its data are one pass in a given order, whatever `epochs`.

    measure_every: steps between measurements on held-out rows, of which the best is kept; 0: none.
    """
    from transformers import TrainingArguments

    from equipoise.learners.recomputing import checkpointing
    from equipoise.models.activation_checkpoints import trainer_arguments
    from equipoise.models.device import choose_device

    save_steps = math.ceil(settings.save_steps / settings.log_steps) * settings.log_steps
    saving: dict[str, Any] = {}
    if measure_every:
        save_steps = measure_every
        saving = {
            "eval_strategy": "steps",
            "eval_steps": measure_every,
            "load_best_model_at_end": True,
            "metric_for_best_model": "eval_loss",
            "greater_is_better": False,
        }
    if settings.gradient_checkpointing in (True, "selective"):
        keywords = checkpointing(settings.gradient_checkpointing)
        saving |= trainer_arguments(TrainingArguments, keywords)
    return TrainingArguments(
        output_dir=str(scratch),
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation,
        optim=automatic.OPTIMIZERS[settings.optimizer],
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.scheduler,
        warmup_steps=settings.warmup_ratio,  # a number below 1 is a share of the steps
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        train_sampling_strategy="sequential",
        seed=seed % 2**32,
        logging_strategy="steps",
        logging_steps=settings.log_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if measure_every or 0 < save_steps < steps else "no",
        save_steps=max(1, save_steps),
        save_total_limit=2,  # while the newest is being written, the one before is whole
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=choose_device(device).type == "cpu",
        disable_tqdm=True,
        log_level="error",
        report_to="none",  # the run has its own
        **saving,
    )


def _identity(settings: FineTuning, rows: Sequence[Row], objective: Objective, seed: int) -> str:
    """Hash of all that decides what is trained but the model, which its folder decides."""
    makings = repr((settings.model_dump(mode="json"), objective, seed))
    digest = hashlib.blake2b(makings.encode(), digest_size=16)
    for row in rows:
        digest.update(row.identity)
    return digest.hexdigest()


class _StartScores(msgspec.Struct):
    """What the file of `StartScores` holds."""

    identity: str
    logprobs: list[list[float]]


class StartScores:
    """The probes' log-probabilities before a training's first step, kept for its resumption."""

    def __init__(self, scratch: Path, identity: str, rows: Sequence[Row]) -> None:
        """identity: of the training, as of its checkpoints in `scratch`."""
        self.file, self.identity = scratch / START, identity
        self.probes = [probe_of(row) for row in rows]

    def score(self, trainer: AnswerTrainer) -> None:
        """Score the probes and keep the scores, before any checkpoint of this training."""
        logprobs = trainer.logprobs(self.probes)
        if trainer.is_world_process_zero():
            write_text(self.file, json.dumps({"identity": self.identity, "logprobs": logprobs}))

    def write_probes(self, folder: Path, end: Sequence[Sequence[float]], exact: bool) -> None:
        """Write the probes for the hand-over, with `end`, their scores after the last step."""
        start = None
        with suppress(FileNotFoundError, ValueError, RecursionError):
            content = msgspec.convert(json.loads(self.file.read_bytes()), _StartScores)
            sizes = [len(row.answers.answers) for row in self.probes]
            is_of_these = list(map(len, content.logprobs)) == sizes
            if content.identity == self.identity and is_of_these:
                start = content.logprobs
        answers = [row.answers for row in self.probes]
        write_probes(folder, answers, start, end, exact=exact)


# -- the player and its model


def local_player(learner_kind: str, name: str, player: Player) -> Local:
    """`player`, called `name`, if it is a model in this process. Raises ConfigError."""
    if not isinstance(player, Local):
        raise ConfigError(
            f"learner '{learner_kind}' trains players of kind 'local', but "
            f"players.{name} is of kind '{player.kind}'"
        )
    return player


def probe_of(row: Row) -> Row:
    """The row as its player can score it: of answers with several turns the last one."""
    from equipoise.learners.answer_trainer import Row
    from equipoise.models.packing import PromptAnswers

    masks = [row.answers.mask(k) for k in range(len(row.answers.answers))]
    if all(mask is None for mask in masks):
        return row
    ids, mask = row.answers.answers[0], masks[0]
    if mask is None:
        return Row(PromptAnswers(row.answers.prompt, [ids]))
    end = len(mask) - [*reversed(mask)].index(True) if any(mask) else len(mask)
    start = end
    while start and mask[start - 1]:
        start -= 1
    return Row(PromptAnswers([*row.answers.prompt, *ids[:start]], [ids[start:end]]))


def need_examples(rows: Sequence[Any], learner: object) -> None:
    """Raises NoSignal when there is nothing to learn from."""
    if not rows:
        raise NoSignal(f"{learner} has no example to learn from")


@contextmanager
def _model_of(settings: FineTuning, player: Local, batch: TrainingBatch) -> Iterator[Any]:
    """The model to train: an adapter on the base that plays, or its own. Raises ModelError."""
    loading = base_of(settings, player)
    if loading is None:
        yield model_to_train(player, batch.weights, batch.seed, settings.precision)
        return
    from equipoise.models.adapters import add_adapter, holds_adapter, load_adapter
    from equipoise.models.shared_base import shared_base

    base = shared_base(batch.resources, *loading)
    with base.bare() as model:
        seed_adapter(batch.seed)
        lora = player.lora
        assert lora is not None
        if batch.weights is None:
            yield add_adapter(model, lora).eval()
        else:
            holds_adapter(batch.weights, lora)
            yield load_adapter(model, player.model, batch.weights, "default", trainable=True).eval()


def base_of(settings: FineTuning, player: Player) -> tuple[str, Loading] | None:
    """The base of an adapter trained in this process, as in `shared_base`; None: its own."""
    from equipoise.models.device import choose_device

    if not isinstance(player, Local) or player.lora is None or world_size() > 1:
        return None
    if choose_device(player.device).index:  # the Trainer takes the first device
        return None
    short = settings.resolve_auto(player).precision == "bf16"
    return player.model, player.loading._replace(dtype="bfloat16" if short else "float32")


def model_to_train(player: Local, weights: Path | None, seed: int, precision: str) -> Any:
    """The model at `weights`, float32 but for a frozen base with `precision: bf16`.

    On the CPU, from where the Trainer places it on the device of this process; quantised there.
    """
    from equipoise.models.device import choose_device
    from equipoise.models.loading import load_model
    from equipoise.models.quantization import keep_from_sending

    seed_adapter(seed)
    frozen_base = player.lora is not None and precision == "bf16"
    device = "cpu"
    if player.quantization is not None and (kind := choose_device(player.device).type) != "cpu":
        device = f"{kind}:{os.environ.get('LOCAL_RANK', '0')}"
    dtype = "bfloat16" if frozen_base else "float32"
    loading: Any = player.loading._replace(dtype=dtype, device=device)._asdict()
    model = load_model(player.model, weights, player.lora, **loading, trainable=True)
    if player.quantization is not None:
        keep_from_sending(model)
    return model


def seed_adapter(seed: int) -> None:
    """Seed torch's generator, from which a fresh adapter is drawn."""
    from transformers import set_seed

    set_seed(seeds.child(seed, "adapter") % 2**32)


# -- stochastic rounding


def round_weights(model: Any, seed: int) -> None:
    """Turn `model` into bfloat16 in place, each weight rounded up or down at random.

    At small learning rates rounding to the nearest would take an update back; rounding up or down
    with the probability of the remainder keeps it on average.
    """
    import torch

    device = next(model.parameters()).device
    dice = torch.Generator(device).manual_seed(seed % 2**32)
    for weight in model.parameters():
        weight.data = round_stochastically(weight.data, dice)
    model.to(torch.bfloat16)


def round_stochastically(weight: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """Float32 values that bfloat16 holds exactly, whose expectation is `weight`.

    The dropped bits are the probability of the neighbour that is larger in magnitude.
    """
    import torch

    bits = weight.float().contiguous().view(torch.int32)
    below = torch.randint(0, 1 << DROPPED, bits.shape, generator=dice, device=bits.device)
    kept = (bits + below.int()) & ~((1 << DROPPED) - 1)
    return kept.view(torch.float32)
