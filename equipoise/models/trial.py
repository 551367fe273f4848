"""A trial of a model's architecture, with random weights and a layer or two, on this
machine: what a pass takes, for the whole model.

What one layer takes is the difference between a trial of two layers and one of a single
layer; a model of a few layers is tried whole. No weights are read. The passes are the
sampler's and the trainer's own.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from equipoise.errors import ModelError, first_line
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.device import choose_device
from equipoise.models.loading import Description, load_config
from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import PromptAnswers, pack
from equipoise.models.quiet import quiet
from equipoise.models.sampling_batch import SamplingBatch
from equipoise.models.token_choice import SamplingSettings, choose

SHORT = 4  # layers up to which a model is tried whole
LARGEST = 400_000_000  # parameters of a trial; a larger one would take too long
TOKENS = 256  # about the most tokens of a pass in a trial of training
READ = 512  # about the most tokens of prompts that are read at once
UPDATED = 4_000_000  # about the most weights of an optimizer step that is tried
REPEATS = 2


@dataclass(frozen=True, slots=True)
class WorkShape:
    """The passes that are tried: a batch of `rows` answers to `prompts` different
    prompts, lengths in tokens, and a training's forward pass of `batch` rows of
    `length` tokens, `answer` of them learned from.
    """

    rows: int
    prompts: int
    prompt: int
    new: int
    batch: int
    length: int
    answer: int


@dataclass(frozen=True, slots=True)
class Trial:
    """Seconds and bytes for the whole model.

    `read`: of reading a prompt's token; `step`: of a token for each of a batch of rows;
    `score`, `train`: of a token without and with gradients; `update`: of an optimizer
    step. `kept`: bytes that a token leaves for the backward pass; `kept_by_layer`: in a
    single layer.
    """

    read: float
    step: float
    score: float
    train: float
    update: float
    kept: float
    kept_by_layer: float


@dataclass(frozen=True, slots=True)
class _Passes:
    """What the trial's own few layers take; as `Trial` has it."""

    read: float
    step: float
    score: float
    train: float
    kept: float

    def more(self, single: _Passes, layers: int) -> _Passes:
        """Of `layers` more layers, each taking what this takes beyond `single`."""
        names = ("read", "step", "score", "train", "kept")
        pairs = {name: (getattr(self, name), getattr(single, name)) for name in names}
        grown = {
            name: two + layers * max(0.0, two - one)
            for name, (two, one) in pairs.items()
        }
        return _Passes(**grown)


def try_model(
    model: str, lora: Lora | None, size: Description, shape: WorkShape, device: str
) -> Trial | None:
    """A trial of the model's architecture on a device; None where even a trial would be
    too large.

    Raises ModelError for an architecture that cannot be tried.
    """
    target = choose_device(device)
    layers = size.layers if size.layers <= SHORT else 2
    embeddings = size.vocabulary * size.hidden
    by_layer = max(0, size.parameters - embeddings) // size.layers
    if embeddings + layers * by_layer > LARGEST:
        return None
    with quiet():
        built = _build(model, lora, layers, target)
    passes = _passes(built, size.vocabulary, shape, target)
    update = _update_seconds(built) * size.trainable
    kept_by_layer = passes.kept / layers
    if layers < size.layers:
        _cut_to_one_layer(built, layers)
        single = _passes(built, size.vocabulary, shape, target)
        kept_by_layer = max(0.0, passes.kept - single.kept)
        passes = passes.more(single, size.layers - layers)
    return Trial(
        passes.read,
        passes.step,
        passes.score,
        passes.train,
        update,
        passes.kept,
        kept_by_layer,
    )


def _build(model: str, lora: Lora | None, layers: int, device: torch.device) -> Any:
    """The architecture with so many layers and random weights."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(load_config(model))
    text = config.get_text_config()
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    text.num_hidden_layers = layers
    try:
        built: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ModelError(
            f"model '{model}' cannot be tried with {layers} of its layers: "
            f"{first_line(error)}"
        ) from error
    return (built if lora is None else add_adapter(built, lora)).to(device)


def _cut_to_one_layer(built: Any, layers: int) -> None:
    """Drop all layers but the first."""
    for module in built.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, nn.ModuleList) and len(child) == layers:
                setattr(module, name, child[:1])
    built.config.get_text_config().num_hidden_layers = 1


def _passes(
    built: Any, vocabulary: int, shape: WorkShape, device: torch.device
) -> _Passes:
    dice = torch.Generator().manual_seed(0)

    def tokens(rows: int, length: int) -> torch.Tensor:
        return torch.randint(0, vocabulary, (rows, length), generator=dice)

    built.eval()
    base = built.get_base_model() if hasattr(built, "get_base_model") else built
    read, step = _sampling(base, tokens, shape, device)
    return _Passes(read, step, *_training(built, tokens, shape, device))


Draw = Callable[[int, int], torch.Tensor]


@torch.inference_mode()
def _sampling(
    built: Any, tokens: Draw, shape: WorkShape, device: torch.device
) -> tuple[float, float]:
    """Seconds of reading a prompt's token, and of a step of all rows in the middle of
    their answers.
    """
    length = shape.prompt + shape.new // 2
    prompts = max(1, min(shape.prompts, READ // length))
    texts = tokens(prompts, length).tolist()
    batch: Any = None

    def read() -> None:
        nonlocal batch
        batch = SamplingBatch(built, texts, 0)

    read_seconds = _seconds(read, device) / (prompts * length)
    row_B = torch.arange(shape.rows, device=device) % prompts
    batch.select(row_B)
    batch.logits_BV = batch.logits_BV[row_B]
    number_B = torch.rand(shape.rows, dtype=torch.float64).to(device)

    def step() -> None:
        token_B, *_ = choose(batch.logits_BV, number_B, SamplingSettings())
        batch.step(token_B)

    return read_seconds, _seconds(step, device)


def _training(
    built: Any, tokens: Draw, shape: WorkShape, device: torch.device
) -> tuple[float, float, float]:
    """(seconds a token without gradients, with gradients, bytes a token that are kept)."""
    rows = max(1, min(shape.batch, TOKENS // shape.length))
    answers = shape.answer // shape.new
    examples = [
        PromptAnswers(
            tokens(1, shape.prompt)[0].tolist(), tokens(answers, shape.new).tolist()
        )
        for _ in range(rows)
    ]
    packed = pack(examples, 0, shared=answers > 1).to(device)
    head = AnswerHead(built)

    def scored() -> torch.Tensor:
        return packed.tokens(head, built)

    def trained() -> None:
        scored().sum().backward()

    with torch.no_grad():
        score = _seconds(scored, device)
    kept = _kept_bytes(built, scored)
    train = _seconds(trained, device)
    count = rows * shape.length
    return score / count, train / count, kept / count


def _kept_bytes(built: Any, forward: Callable[[], torch.Tensor]) -> int:
    """The bytes that a forward pass leaves for the backward pass, weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in built.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage  # held, so that no place is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(storage.nbytes() for storage in kept.values())


def _update_seconds(built: Any) -> float:
    """Seconds of an optimizer step and of cutting the gradients, for each weight."""
    weights: list[nn.Parameter] = []
    for weight in built.parameters():
        if weight.requires_grad and sum(map(torch.numel, weights)) < UPDATED:
            weights.append(weight)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    adamw = torch.optim.AdamW(weights, lr=1e-6)

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        adamw.step()

    seconds = _seconds(update, weights[0].device)
    adamw.zero_grad(set_to_none=True)
    return seconds / sum(weight.numel() for weight in weights)


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    """The least seconds of a few repetitions, after a first one.

    On a CPU, where other programs slow this one down, never more than it computed.
    """
    work()
    best = float("inf")
    for _ in range(REPEATS):
        _wait(device)
        started, computed = time.perf_counter(), time.process_time()
        work()
        _wait(device)
        best = min(best, time.perf_counter() - started)
        if device.type == "cpu":
            best = min(best, time.process_time() - computed)
    return best


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()
