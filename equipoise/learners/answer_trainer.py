"""transformers' `Trainer` for losses on whole answers' log-probabilities.

An `Objective` gives the loss of a batch of rows, each a prompt with one or more answers. Only
documented extension points of the `Trainer` are overridden, so checkpoints, mixed precision, PEFT,
accelerate, FSDP and DeepSpeed are its own.

An optimizer step takes the next rows in order, as many as fit the batches of all its forward passes
on all processes, and its loss is one mean over them all, so it does not matter how the step is
divided. A short last step is filled up with rows that do not count.
"""

from __future__ import annotations

import json
import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import PartialState
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from equipoise.errors import ConfigError, EquipoiseError, RunError, first_line
from equipoise.learners.launch import LAUNCH
from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import PromptAnswers, pack, shares_prompts
from equipoise.models.progress import report_progress
from equipoise.system.files import sync, sync_tree
from equipoise.system.folder import Folder

# A checkpoint folder holds a file of this name once everything else in it is written.
COMPLETE = "complete"
CHECKPOINT = "checkpoint-"  # the beginning of its name, before the number of its step
TRAINING = "training.json"  # beside checkpoints: the training that they are of
STATE = "trainer_state.json"  # in a checkpoint: the Trainer's own
# Parts of the Trainer's own log that a line of metrics repeats.
KEPT = ("step", "loss", "grad_norm", "learning_rate")


@dataclass(frozen=True, slots=True)
class Row:
    """One example: a prompt with its answers, and further numbers for the objective.

    Every process runs the model equally often, so one that does not `count` is computed, too.
    """

    answers: PromptAnswers
    columns: tuple[float, ...] = ()
    counts: bool = True

    @property
    def length(self) -> int:
        """Tokens of the prompt and of all answers."""
        return len(self.answers.prompt) + sum(map(len, self.answers.answers))

    @property
    def identity(self) -> bytes:
        """Bytes that differ where rows differ."""
        sequences = [self.answers.prompt, *self.answers.answers]
        ids = [array("q", [len(part), *part]).tobytes() for part in sequences]
        masks = [bytes(mask) for mask in self.answers.learned if mask is not None]
        return b"".join(ids) + array("d", self.columns).tobytes() + b"".join(masks)


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of rows, which accelerate takes for one object and does not move."""

    rows: tuple[Row, ...]

    @classmethod
    def collate(cls, rows: Sequence[Row]) -> dict[str, Rows]:
        """The batch as the Trainer wants it."""
        return {"rows": cls(tuple(rows))}


class Objective(Protocol):
    """An optimizer step's sum of losses over its sum of sizes; its `repr` is its identity."""

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss_B, further numbers to log, each [B]) of log p(answer | prompt) in nats."""
        ...

    def size(self, row: Row) -> float:
        """A row's part of the divisor: 1, or its number of tokens for a mean over tokens."""
        ...


class AnswerTrainer(Trainer):
    """Trains a causal language model on an objective of its answers' log-probabilities."""

    def __init__(
        self,
        model: Any,
        args: TrainingArguments,
        rows: Sequence[Row],
        objective: Objective,
        *,
        pad_id: int,
        chunk: int | None,
        share: bool,
        log: Callable[[dict[str, Any]], None],
        at_start: Callable[[], None] | None = None,
        held_out: Sequence[Row] = (),
    ) -> None:
        """`rows` are in the order in which they are seen; on those `held_out` the loss is measured
        where the arguments want it.

        `chunk`: answer tokens projected to the vocabulary at a time. `share`: answers may share a
        row with their prompt. `log` takes each line of metrics. `at_start` is called before the
        first step, or after a checkpoint was read. Raises ConfigError where one process sees
        several GPUs.
        """
        if args.n_gpu > 1:
            raise ConfigError(
                f"one process sees {args.n_gpu} GPUs: train on all of them with "
                f"`learner.launch: {{num_processes: {args.n_gpu}}}`, or show it one "
                "of them with CUDA_VISIBLE_DEVICES"
            )
        batch_size = args.per_device_train_batch_size
        filled: Any = [*rows, *_filling(rows, batch_size, args.world_size)]
        self.events = _Events(log, at_start)
        super().__init__(
            model,
            args,
            data_collator=Rows.collate,
            train_dataset=filled,
            eval_dataset=[*held_out] or None,  # type: ignore[arg-type]
            callbacks=[self.events],
        )
        for silent in (PrinterCallback, ProgressCallback):
            self.remove_callback(silent)
        self.model_accepts_loss_kwargs = False
        # a batch's loss is its part of the step's mean already
        self.loss_is_scaled_for_ga = True
        step = batch_size * args.gradient_accumulation_steps * args.world_size
        # the divisor of each optimizer step's sum of losses
        self.sizes = [
            sum(map(objective.size, rows[begin : begin + step]))
            for begin in range(0, len(rows), step)
        ]
        self.examples = len(rows)
        self.held_out = held_out
        self.objective = objective
        self.pad_id, self.chunk, self.share = pad_id, chunk, share
        self.longest = max(
            len(row.answers.prompt) + max(map(len, row.answers.answers)) for row in rows
        )
        self.head: AnswerHead | None = None
        self.log_line = log
        self._begin_line()

    def _begin_line(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._rows = 0
        self._tokens = 0
        self._since = time.perf_counter()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The batch's part of the step's mean loss, times the number of processes; transformers'
        Trainer calls backward on it.

        Raises EquipoiseError when it is not a number.
        """
        batch: tuple[Row, ...] = inputs["rows"].rows
        if self.head is None:
            self.head = AnswerHead(model, self.chunk)
            self.share = self.share and shares_prompts(
                self.head, model, batch[0].answers, self.longest
            )
        answers = [row.answers for row in batch]
        packed = pack(answers, self.pad_id, shared=self.share).to(self.args.device)
        loss_B, numbers = self.objective(packed.sums(self.head, model), batch)
        counts = [b for b, row in enumerate(batch) if row.counts]
        if len(counts) < len(batch):
            loss_B = loss_B[counts]
            numbers = {name: value_B[counts] for name, value_B in numbers.items()}
        loss = loss_B.sum() * self.args.world_size / self.sizes[self.state.global_step]
        if not math.isfinite(loss.item()):
            raise EquipoiseError(self._error(f"the loss became {loss.item()}"))
        for name, value_B in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value_B.sum()
        self._rows += len(counts)
        self._tokens += sum(batch[b].answers.length for b in counts)
        return loss

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """The Trainer's own, shifted so that neither first nor last step is at rate 0."""
        fresh = self.lr_scheduler is None
        scheduler: Any = super().create_scheduler(num_training_steps + 1, optimizer)
        if fresh and isinstance(scheduler, torch.optim.lr_scheduler.LambdaLR):
            skip_first_step(scheduler)
        return scheduler

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        return 0  # not counted

    @torch.no_grad()
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The mean loss on the rows held out; transformers' Trainer calls it.

        Raises EquipoiseError when it is not a number.
        """
        started = time.perf_counter()
        model: Any = self.model_wrapped
        model.eval()
        head = self.head or AnswerHead(model, self.chunk)
        size = self.args.per_device_train_batch_size
        total = torch.zeros(2, device=self.args.device)
        step = size * self.args.world_size
        with self.compute_loss_context_manager():
            for begin in range(0, len(self.held_out), step):
                own = begin + size * self.args.process_index
                batch = self.held_out[own : own + size]
                # every process runs the model equally often
                rows = batch or self.held_out[:1]
                answers = [row.answers for row in rows]
                packed = pack(answers, self.pad_id, shared=self.share).to(self.args.device)
                loss_B, _ = self.objective(packed.sums(head, model), rows)
                if batch:
                    total[0] += loss_B.sum()
                    total[1] += sum(map(self.objective.size, batch))
        loss_sum, sizes = self.accelerator.reduce(total, "sum").tolist()  # type: ignore[union-attr]
        loss = loss_sum / sizes
        if not math.isfinite(loss):
            raise EquipoiseError(self._error(f"the loss on held-out rows became {loss}"))
        metrics = {"eval_loss": loss}
        self.log(metrics)
        self._since += time.perf_counter() - started
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means since the last line, over all processes, and log the line."""
        if "eval_loss" in logs:
            super().log(logs, start_time)
            if self.is_world_process_zero():
                self.log_line(_lines(self.state.log_history)[-1])
            return
        if "loss" not in logs:  # the Trainer's closing summary
            return
        counted = torch.tensor(
            [self._rows, self._tokens], dtype=torch.float32, device=self.args.device
        )
        totals = torch.stack([*self._sums.values(), *counted]).float()
        *sums, rows, tokens = self.accelerator.reduce(totals, "sum").tolist()  # type: ignore[union-attr]
        logs |= {name: value / rows for name, value in zip(self._sums, sums, strict=True)}
        logs["tokens_per_second"] = tokens / (time.perf_counter() - self._since)
        super().log(logs, start_time)
        if self.is_world_process_zero():
            self.log_line(_lines(self.state.log_history)[-1])
        self._begin_line()

    def summary(self) -> dict[str, float]:
        """The last line of metrics without the speed."""
        lines = [line for line in _lines(self.state.log_history) if "loss" in line]
        last = dict(lines[-1])
        del last["tokens_per_second"], last["steps"]
        summary = {"steps": last.pop("step"), **last, "examples": self.examples}
        if self.held_out:
            summary["held_out_loss"] = self.state.best_metric
            summary["kept_step"] = self.state.best_global_step
            summary["held_out_examples"] = len(self.held_out)
        return summary

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        """log p of each row's answers, in nats, under the model as it is, on every process."""
        model: Any = self.model_wrapped
        model.eval()
        head = self.head or AnswerHead(model, self.chunk)
        sums: list[list[float]] = []
        with self.compute_loss_context_manager():  # one for all casts the weights once
            for row in rows:
                packed = pack([row.answers], self.pad_id, shared=False)
                sums.append(packed.to(self.args.device).sums(head, model).tolist())
        return sums

    def assert_finite(self) -> None:
        """Raises EquipoiseError if a weight is no longer a number."""
        for name, weight in self.model.named_parameters():  # type: ignore[union-attr]
            # of a sharded weight, the share of this process
            own = weight.to_local() if isinstance(weight, DTensor) else weight
            if weight.requires_grad and not bool(torch.isfinite(own).all()):
                raise EquipoiseError(self._error(f"{name} holds a weight that is not a number"))

    def save_whole(self, folder: Path) -> None:
        """Write the model, gathered from all processes, for `from_pretrained`."""
        if not self.is_fsdp_enabled:
            self.save_model(str(folder))
            if self.is_world_process_zero():
                (folder / "training_args.bin").unlink(missing_ok=True)
            return
        self.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")  # type: ignore[union-attr]
        weights = self.accelerator.get_state_dict(self.model)  # type: ignore[union-attr]
        if self.is_world_process_zero():
            model: Any = self.model
            for name, same in model.all_tied_weights_keys.items():
                if name in weights and same in weights:
                    # gathered one by one, tied weights have come apart
                    weights[name] = weights[same]
            model.save_pretrained(str(folder), state_dict=weights)

    def _error(self, what: str) -> str:
        return (
            f"{what} at step {self.state.global_step} of {self.state.max_steps}: "
            f"lower learner.learning_rate (now {self.args.learning_rate:g}) or "
            f"learner.max_grad_norm (now {self.args.max_grad_norm:g}), or look for "
            "answers that the model finds all but impossible"
        )


def _filling(rows: Sequence[Row], batch_size: int, processes: int) -> list[Row]:
    """Rows that do not count, to give all processes equally many batches of equal size."""
    missing = -len(rows) % (batch_size * processes) if processes > 1 else 0
    shortest = min(rows, key=lambda row: row.length)
    return [replace(shortest, counts=False)] * missing


def _lines(history: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Lines of metrics from the Trainer's log; a line covers `steps` optimizer steps."""
    lines: list[dict[str, Any]] = []
    before = 0
    for entry in history:
        step = int(entry["step"])
        line: dict[str, Any] = {"step": step, "steps": step - before}
        line |= {name: entry[name] for name in KEPT[1:] if name in entry}
        if "eval_loss" in entry:
            line["held_out_loss"] = entry["eval_loss"]
        dropped = (*KEPT, "epoch", "eval_loss")
        line |= {name: value for name, value in entry.items() if name not in dropped}
        lines.append(line)
        before = step
    return lines


class _Events(TrainerCallback):
    """Log the last step, mark whole checkpoints, and repeat their lines after a resumption."""

    def __init__(
        self, log: Callable[[dict[str, Any]], None], at_start: Callable[[], None] | None = None
    ) -> None:
        self.log = log
        self.at_start = at_start
        self.has_begun = False  # whether a step has, after all of a checkpoint is read

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.has_begun = True

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.at_start is not None:
            self.at_start()
        if state.is_world_process_zero:
            for line in _lines(state.log_history):
                self.log(line)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_log |= state.global_step >= state.max_steps
        report_progress(1 / args.gradient_accumulation_steps)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        report_progress(1 / args.gradient_accumulation_steps)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        PartialState().wait_for_everyone()  # each process has written its part
        if state.is_world_process_zero:
            mark_complete(Path(args.output_dir) / f"{CHECKPOINT}{state.global_step}")


# -- checkpoints


def resumable(scratch: Path, identity: str) -> Path | None:
    """The newest complete checkpoint of the training `identity`; removes all others.

    A run may be a stranger's, so anything can lie there.
    """
    with (
        Folder.open(scratch.parent, make=True) as home,
        home.inner(scratch.name, make=True) as files,
    ):
        is_known = _recorded_identity(files) == identity
        complete = [name for name in files.names() if is_known and _is_complete(files, name)]
        for name in files.names():
            is_other = name.startswith(CHECKPOINT) or (not is_known and files.is_folder(name))
            if is_other and name not in (*complete, LAUNCH):
                files.remove(name)
        if not is_known:
            files.write(TRAINING, json.dumps({"identity": identity}))
        newest = max(complete, key=_step_of, default=None)
        if newest is None:
            return None
        with files.inner(newest) as checkpoint:
            name_best_here(checkpoint)
    return scratch / newest


def _recorded_identity(files: Folder) -> Any:
    """The identity of the training whose checkpoints lie in a folder, None where none is noted."""
    if not files.has(TRAINING):
        return None
    try:
        return json.loads(files.read(TRAINING))["identity"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # a checkpoint that a crash left without it is not used


def _is_complete(files: Folder, name: str) -> bool:
    step = name.removeprefix(CHECKPOINT)
    if not (name.startswith(CHECKPOINT) and step.isascii() and step.isdigit() and len(step) < 20):
        return False
    if not files.is_folder(name):
        return False
    with files.inner(name) as checkpoint:
        return checkpoint.has(COMPLETE)


def _step_of(name: str) -> int:
    return int(name.removeprefix(CHECKPOINT))


def name_best_here(checkpoint: Folder) -> None:
    """Name the best checkpoint by its place now: the run may have been moved since it was kept."""
    if not checkpoint.has(STATE):
        return
    try:
        state = json.loads(checkpoint.read(STATE))
        best = state["best_model_checkpoint"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # what the Trainer makes of it is said by `going_on_from`
    if best is not None:
        here = checkpoint.path.parent / Path(str(best)).name
        state["best_model_checkpoint"] = str(here)
        checkpoint.write(STATE, json.dumps(state))


@contextmanager
def going_on_from(checkpoint: Path | None, trainer: AnswerTrainer) -> Iterator[None]:
    """Raises RunError, which names the checkpoint, where what fails is reading it."""
    try:
        yield
    except (EquipoiseError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if checkpoint is None or trainer.events.has_begun:
            raise
        raise RunError(
            f"{checkpoint}: the training cannot go on from this checkpoint "
            f"({type(error).__name__}: {first_line(error)}). Remove the folder: `equipoise resume` "
            "then trains from an older one, or from the start"
        ) from error


def mark_complete(checkpoint: Path) -> None:
    """Say that everything in a checkpoint is written, once it is on the disk."""
    sync_tree(checkpoint)
    (checkpoint / COMPLETE).touch()
    sync(checkpoint)


# -- learning rates


def skip_first_step(scheduler: Any) -> None:
    """Let a fresh LambdaLR go on from its second step: a warm-up's first is at rate 0."""
    rates = [partial(_next_rate, rate) for rate in scheduler.lr_lambdas]
    scheduler.lr_lambdas = rates
    groups = scheduler.optimizer.param_groups
    for group, peak, rate in zip(groups, scheduler.base_lrs, rates, strict=True):
        group["lr"] = peak * rate(0)
    scheduler._last_lr = [group["lr"] for group in groups]


def _next_rate(rate: Callable[[int], float], step: int) -> float:
    return rate(step + 1)
