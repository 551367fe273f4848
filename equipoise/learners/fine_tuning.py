"""One training on a fixed set of examples: in what order they are seen, where it goes on after a
crash, how it ends on disk.

The training itself is transformers' `Trainer` (see `learners.answer_trainer`), so one process, DDP,
FSDP and DeepSpeed are a matter of the usual accelerate configuration (see `learners.launch`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.learners.base import TrainingBatch
from equipoise.learners.checkpoints import resumable
from equipoise.learners.fine_tuning_settings import FineTuningSettings
from equipoise.learners.hand_over import write_probes
from equipoise.learners.launch import world_size
from equipoise.learners.rounding import round_weights
from equipoise.players.base import Player
from equipoise.system.files import disk_errors

if TYPE_CHECKING:
    from equipoise.learners.answer_trainer import Objective, Row
    from equipoise.models.encoding import Encoding
    from equipoise.models.loading import Dtype
    from equipoise.players.local import Local


def fine_tune_player(
    settings: FineTuningSettings,
    learner_kind: str,
    batch: TrainingBatch,
    rows: Callable[[Encoding], list[Row]],
    objective: Objective,
    *,
    share: bool = False,
) -> dict[str, float]:
    """`fine_tune` the player of a training batch.

    `rows` makes the examples with the player's encoding. Raises ConfigError for a player that is no
    model in this process, ModelError, and what `fine_tune` raises.
    """
    player = local_player(learner_kind, batch.learner.name, batch.player)
    settings = settings.on(player)
    encoding = player.encoding()
    with _model_of(settings, player, batch) as model:
        return fine_tune(
            settings,
            model,
            encoding,
            rows(encoding),
            objective,
            output=batch.output,
            scratch=batch.scratch,
            seed=batch.seed,
            share=share,
            device=player.device,
            log=batch.log,
        )


@contextmanager
def _model_of(settings: FineTuningSettings, player: Local, batch: TrainingBatch) -> Iterator[Any]:
    """The player's model to be trained: an adapter on the base that plays, or a model of its
    own.
    """
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


def base_of(settings: FineTuningSettings, player: Player) -> tuple[str, Dtype, str, str] | None:
    """As `shared_base` takes it, the base on which the adapter of a player is trained in this
    process; None: it is trained on a model of its own, which the Trainer places.
    """
    from equipoise.models.device import choose_device
    from equipoise.players.local import Local

    if not isinstance(player, Local) or player.lora is None or world_size() > 1:
        return None
    if choose_device(player.device).index:  # the Trainer takes the first device
        return None
    short = settings.on(player).precision == "bf16"
    dtype: Dtype = "bfloat16" if short else "float32"
    return player.model, dtype, player.device, player.attention


def fine_tune(
    settings: FineTuningSettings,
    model: Any,
    encoding: Encoding,
    rows: Sequence[Row],
    objective: Objective,
    *,
    output: Path,
    scratch: Path,
    seed: int,
    share: bool = False,
    device: str = "auto",
    log: Callable[[dict[str, Any]], None] = lambda line: None,
) -> dict[str, float]:
    """Train `model` on `rows` and write it and its tokenizer into `output`.

    Returns the last line of metrics. Goes on from a checkpoint in `scratch` where this same
    training left one. `share`: answers may share a forward pass with their prompt. Each process of
    a training calls it with the same arguments. Raises DiskFull, and EquipoiseError when the loss
    is no longer a number.
    """
    from equipoise.learners.answer_trainer import AnswerTrainer, arguments
    from equipoise.models.quiet import quiet

    processes = world_size()
    order = settings.order([row.length for row in rows], seed, processes)
    ordered = [rows[i] for i in order]
    steps = math.ceil(len(ordered) / settings.step_size(processes))
    with quiet(), disk_errors(scratch):
        args = arguments(settings, steps, scratch, seed, device)
        with args.main_process_first(local=False):
            checkpoint = resumable(scratch, _identity(settings, rows, objective, seed))
        trainer = AnswerTrainer(
            model,
            args,
            ordered,
            objective,
            pad_id=encoding.pad_id,
            chunk=settings.chunk,
            share=share,
            log=log,
        )
        resume_from = None if checkpoint is None else str(checkpoint)
        trainer.train(resume_from_checkpoint=resume_from)
    trainer.assert_finite()
    probes = rows[: settings.probes]
    logprobs = trainer.logprobs(probes)
    if settings.rounding == "stochastic":
        round_weights(trainer.model, seeds.child(seed, "rounding"))
    with quiet(), disk_errors(output):
        trainer.save_whole(output)
        if trainer.is_world_process_zero():
            # a pickle of this machine's paths
            (output / "training_args.bin").unlink(missing_ok=True)
            encoding.tokenizer.save_pretrained(str(output))
            write_probes(output, [row.answers for row in probes], logprobs)
    return trainer.summary()


def _identity(
    settings: FineTuningSettings, rows: Sequence[Row], objective: Objective, seed: int
) -> str:
    """Hash of all that decides what is trained but the model, which its folder decides."""
    makings = repr((settings.model_dump(mode="json"), objective, seed))
    digest = hashlib.blake2b(makings.encode(), digest_size=16)
    for row in rows:
        digest.update(row.identity)
    return digest.hexdigest()


def shared_key(settings: FineTuningSettings, player: Player) -> Hashable | None:
    """The key of the base that learner and player share, if they do."""
    loading = base_of(settings, player)
    if loading is None:
        return None
    from equipoise.models.shared_base import base_key

    return base_key(*loading)


def local_player(learner_kind: str, name: str, player: Player) -> Local:
    """`player`, called `name`, if it is a model in this process. Raises ConfigError."""
    from equipoise.players.local import Local

    if not isinstance(player, Local):
        raise ConfigError(
            f"learner '{learner_kind}' trains players of kind 'local', but "
            f"players.{name} is of kind '{player.kind}'"
        )
    return player


def model_to_train(player: Local, weights: Path | None, seed: int, precision: str) -> Any:
    """The player's model at `weights`, on the CPU. Raises ModelError.

    Weights that are trained are float32. Under LoRA with `precision: bf16` the frozen base is
    bfloat16.
    """
    from equipoise.models.loading import load_model

    seed_adapter(seed)
    frozen_base = player.lora is not None and precision == "bf16"
    return load_model(
        player.model,
        weights,
        player.lora,
        dtype="bfloat16" if frozen_base else "float32",
        device="cpu",  # the Trainer places it on the device of this process
        attention=player.attention,
        trainable=True,
    )


def seed_adapter(seed: int) -> None:
    """Seed torch's generator, from which a fresh adapter is drawn."""
    from transformers import set_seed

    set_seed(seeds.child(seed, "adapter") % 2**32)


def need_examples(rows: Sequence[Any], learner: object) -> None:
    """Raises NoSignal when there is nothing to learn from."""
    if not rows:
        raise NoSignal(f"{learner} has no example to learn from")
