"""transformers' `Trainer` for losses on whole answers' log-probabilities.

A row is a prompt with one or more answers; an `Objective` says what loss a batch of
scored rows has. Only `compute_loss`, `log` and `floating_point_ops` are overridden, all
three documented ways to extend the `Trainer`, so checkpoints, mixed precision, PEFT,
accelerate, FSDP, DeepSpeed and `report_to` are its own.

An optimizer step takes the next rows in order, as many as fit the batches of all its
forward passes on all processes, and its loss is one mean over them all. So how it is
divided does not matter. A last step that is short is filled up with rows that do not
count.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from accelerate import PartialState
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.learners.checkpoints import COMPLETE
from equipoise.models.logprobs import Answers, pack, shares_prompts
from equipoise.models.output_head import AnswerHead

if TYPE_CHECKING:
    from equipoise.learners.gradient import Training

KEPT = (
    "step",
    "loss",
    "grad_norm",
    "learning_rate",
)  # of the Trainer's own words, what a line of metrics repeats


@dataclass(frozen=True, slots=True)
class Row:
    """One example: a prompt with its answers, and the numbers that the objective needs
    beside them.

    A row that does not count is computed and left out: every process has to go through
    the model equally often.
    """

    answers: Answers
    columns: tuple[float, ...] = ()
    counts: bool = True

    @property
    def length(self) -> int:
        """Tokens of the prompt and of all answers."""
        return len(self.answers.prompt) + sum(map(len, self.answers.answers))

    @property
    def identity(self) -> bytes:
        """Bytes that differ where rows differ."""
        ids = [self.answers.prompt, *self.answers.answers]
        numbers = array("d", self.columns).tobytes()
        return (
            b"".join(array("q", [len(part), *part]).tobytes() for part in ids) + numbers
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of rows, one object to whatever moves batches between devices."""

    rows: tuple[Row, ...]

    @classmethod
    def collate(cls, rows: Sequence[Row]) -> dict[str, Rows]:
        """The batch as the Trainer wants it."""
        return {"rows": cls(tuple(rows))}


class Objective(Protocol):
    """What is minimised: an optimizer step's sum of losses over its sum of sizes. Its
    `repr` tells it from others.
    """

    def __call__(
        self, logprob_A: torch.Tensor, batch: Sequence[Row]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss_B, named numbers worth watching, each [B], detached).

        logprob_A: log p(answer | prompt) in nats of all rows' answers, in order.
        """
        ...

    def size(self, row: Row) -> float:
        """What the row adds to the divisor: 1 for a mean over rows, its tokens for a
        mean over tokens.
        """
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
    ) -> None:
        """`rows` in the order in which they are seen; `share`: answers may share a row
        with their prompt.
        """
        if args.n_gpu > 1:
            raise ConfigError(
                f"one process sees {args.n_gpu} GPUs: train on all of them with `learner.launch: "
                f"{{num_processes: {args.n_gpu}}}`, or show it one of them with CUDA_VISIBLE_DEVICES"
            )
        filled = [
            *rows,
            *_filling(rows, args.per_device_train_batch_size, args.world_size),
        ]
        super().__init__(
            model,
            args,
            data_collator=Rows.collate,
            train_dataset=filled,
            callbacks=[_Pace()],
        )  # type: ignore[arg-type]
        for silent in (PrinterCallback, ProgressCallback):
            self.remove_callback(silent)
        self.add_callback(_Replay(log))
        self.model_accepts_loss_kwargs = False
        self.loss_is_scaled_for_ga = (
            True  # a batch's loss is its part of the step's mean already
        )
        step = (
            args.per_device_train_batch_size
            * args.gradient_accumulation_steps
            * args.world_size
        )
        self.sizes = [
            sum(map(objective.size, rows[i : i + step]))
            for i in range(0, len(rows), step)
        ]
        self.examples = len(rows)
        self.objective, self.pad_id, self.chunk, self.share = (
            objective,
            pad_id,
            chunk,
            share,
        )
        self.longest = max(
            len(row.answers.prompt) + max(map(len, row.answers.answers)) for row in rows
        )
        self.head: AnswerHead | None = None
        self.line = log
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
        """The batch's part of the step's mean loss, times the processes: their
        gradients are averaged.

        Raises EquipoiseError when it is not a number.
        """
        batch: tuple[Row, ...] = inputs["rows"].rows
        if self.head is None:
            self.head = AnswerHead(model, self.chunk)
            self.share = self.share and shares_prompts(
                self.head, model, batch[0].answers, self.longest
            )
        packed = pack(
            [row.answers for row in batch], self.pad_id, shared=self.share
        ).to(self.args.device)
        loss_B, numbers = self.objective(packed.sums(self.head, model), batch)
        counts = [b for b, row in enumerate(batch) if row.counts]
        if len(counts) < len(batch):
            loss_B, numbers = (
                loss_B[counts],
                {name: value_B[counts] for name, value_B in numbers.items()},
            )
        loss = loss_B.sum() * self.args.world_size / self.sizes[self.state.global_step]
        if not math.isfinite(loss.item()):
            raise EquipoiseError(self._broken(f"the loss became {loss.item()}"))
        for name, value_B in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value_B.sum()
        self._rows += len(counts)
        self._tokens += sum(batch[b].answers.length for b in counts)
        return loss

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted."""
        return 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the means since the last line, over all processes, and hands the line
        on.
        """
        if "loss" not in logs:  # the Trainer's closing words
            return
        counted = torch.tensor(
            [self._rows, self._tokens], dtype=torch.float32, device=self.args.device
        )
        totals = torch.stack([*self._sums.values(), *counted]).float()
        *sums, rows, tokens = self.accelerator.reduce(totals, "sum").tolist()  # type: ignore[union-attr]
        logs |= {
            name: value / rows for name, value in zip(self._sums, sums, strict=True)
        }
        logs["tokens_per_second"] = tokens / (time.perf_counter() - self._since)
        super().log(logs, start_time)
        if self.is_world_process_zero():
            self.line(_lines(self.state.log_history)[-1])
        self._sums, self._rows, self._tokens, self._since = (
            {},
            0,
            0,
            time.perf_counter(),
        )

    def summary(self) -> dict[str, float]:
        """The last line of metrics, but for what a clock said."""
        last = dict(_lines(self.state.log_history)[-1])
        del last["tokens_per_second"], last["steps"]
        return {"steps": last.pop("step"), **last, "examples": self.examples}

    def assert_finite(self) -> None:
        """Raises EquipoiseError when the last step has left a weight that is not a
        number.
        """
        for name, weight in self.model.named_parameters():  # type: ignore[union-attr]
            own = (
                weight.to_local() if isinstance(weight, DTensor) else weight
            )  # of a sharded one, this process's share
            if weight.requires_grad and not bool(torch.isfinite(own).all()):
                raise EquipoiseError(
                    self._broken(f"{name} holds a weight that is not a number")
                )

    def save_whole(self, folder: Path) -> None:
        """Write the model, gathered from all processes, into `folder` as
        `from_pretrained` reads it.
        """
        if not self.is_fsdp_enabled:
            self.save_model(str(folder))
            return
        self.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")  # type: ignore[union-attr]
        weights = self.accelerator.get_state_dict(self.model)  # type: ignore[union-attr]
        if self.is_world_process_zero():
            model: Any = self.model
            for name, same in model.all_tied_weights_keys.items():
                if (
                    name in weights and same in weights
                ):  # gathered one by one, tied weights have come apart
                    weights[name] = weights[same]
            model.save_pretrained(str(folder), state_dict=weights)

    def _broken(self, what: str) -> str:
        return (
            f"{what} at step {self.state.global_step} of {self.state.max_steps}: lower learner.learning_rate "
            f"(now {self.args.learning_rate:g}) or learner.max_grad_norm (now {self.args.max_grad_norm:g}), "
            "or look for answers that the model finds all but impossible"
        )


def _filling(rows: Sequence[Row], batch_size: int, processes: int) -> list[Row]:
    """Rows that do not count, as many as all processes need to have equally many and
    equally large batches.
    """
    missing = -len(rows) % (batch_size * processes) if processes > 1 else 0
    return [replace(min(rows, key=lambda row: row.length), counts=False)] * missing


def _lines(history: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Lines of metrics from the Trainer's own; `steps` is how many optimizer steps a
    line is about.
    """
    lines = []
    before = 0
    for entry in history:
        rest = {
            name: value for name, value in entry.items() if name not in (*KEPT, "epoch")
        }
        step = int(entry["step"])
        lines.append(
            {
                "step": step,
                "steps": step - before,
                **{k: entry[k] for k in KEPT[1:] if k in entry},
                **rest,
            }
        )
        before = step
    return lines


class _Pace(TrainerCallback):
    """The last step is always logged; a checkpoint is marked once it is whole."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_log |= state.global_step >= state.max_steps

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        PartialState().wait_for_everyone()  # each process has written its part
        if state.is_world_process_zero:
            (
                Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE
            ).touch()


class _Replay(TrainerCallback):
    """A training that goes on from a checkpoint says again what it had said up to
    there.
    """

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        self.log = log

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            for line in _lines(state.log_history):
                self.log(line)


def arguments(
    settings: Training,
    steps: int,
    scratch: Path,
    seed: int,
    device: str,
    report_to: Sequence[str],
) -> TrainingArguments:
    """The Trainer's arguments. The data are one pass in a given order, whatever the
    number of epochs.
    """
    every = math.ceil(settings.save_steps / settings.log_steps) * settings.log_steps
    again: dict[str, Any] = {
        "activation_checkpointing": True,
        "activation_checkpointing_kwargs": {"use_reentrant": False},
    }
    return TrainingArguments(
        output_dir=str(scratch),
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation,
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
        save_strategy="steps" if 0 < every < steps else "no",
        save_steps=max(1, every),
        save_total_limit=2,  # while the newest is being written, the one before is whole
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=device == "cpu",
        disable_tqdm=True,
        log_level="error",
        report_to=list(report_to) or "none",
        **(again if settings.gradient_checkpointing else {}),
    )
