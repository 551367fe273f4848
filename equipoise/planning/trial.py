"""A trial of a model's architecture on this machine: time and memory of the whole model's passes;
and what they would be on accelerators that are not here, by what these compute and read a second.

With random weights. A model of a few layers is tried whole; of a longer one two layers are, with
embeddings and head and without. The passes are the sampler's and the trainer's own.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from equipoise.errors import ModelError, first_line
from equipoise.models.adapters import Lora, add_adapter
from equipoise.models.device import Hardware, choose_device
from equipoise.models.loading import ACTIVATIONS, Description, load_config
from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import PromptAnswers, pack
from equipoise.models.progress import quiet
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling.sampling_batch import SamplingBatch, roomy_cache

SHORT = 4  # layers up to which a model is tried whole
LARGEST = 400_000_000  # parameters of a trial; a larger one would take too long
TOKENS = 256  # about the most tokens of a pass in a trial of training
READ = 256  # about the most tokens of prompts that are read at once
UPDATED = 4_000_000  # about the most weights of an optimizer step that is tried
REPEATS = 2
# Shares of what accelerators are sold with, and seconds that starting their work takes.
TRAINED, READ_AT, FROM_MEMORY = 0.35, 0.5, 0.7
LAYER_STEP = 0.001  # for a layer and a token in this process, while the accelerator works
ENGINE_STEP = 0.004  # for a token in an engine, while it waits
UPDATE = 40  # bytes that AdamW reads and writes for a weight


@dataclass(frozen=True, slots=True)
class WorkShape:
    """The passes that are tried, lengths in tokens."""

    rows: int  # answers that are sampled together
    prompts: int  # different prompts among them
    prompt: int
    new: int
    batch: int  # rows of a forward pass of training
    length: int
    answer: int  # tokens of a row that are learned from
    bf16: bool  # products in bfloat16


@dataclass(frozen=True, slots=True)
class Trial:
    """Seconds and bytes for the whole model."""

    read: float  # of a prompt's token
    step: float  # of a token for each of a batch of rows
    score: float  # of a token without gradients
    train: float  # with gradients
    update: float  # of an optimizer step
    kept: float  # bytes that a token leaves for the backward pass
    kept_by_layer: float

    def with_layers(self, count: float, body: Trial) -> Trial:
        """The trial with `count` times the passes of `body` added."""
        return replace(
            self,
            read=self.read + count * body.read,
            step=self.step + count * body.step,
            score=self.score + count * body.score,
            train=self.train + count * body.train,
            kept=self.kept + count * body.kept,
            kept_by_layer=body.kept_by_layer,
        )


def try_model(
    model: str, lora: Lora | None, size: Description, shape: WorkShape, device: str
) -> Trial | None:
    """The architecture's trial; None where it would be too large. Raises ModelError."""
    target = choose_device(device)
    layers = size.layers if size.layers <= SHORT else 2
    embeddings = size.vocabulary * size.hidden
    by_layer = max(0, size.parameters - embeddings) // size.layers
    if embeddings + layers * by_layer > LARGEST:
        return None
    with quiet():
        built = build_layers(model, lora, layers, target)
    with torch.autocast(target.type, torch.bfloat16, enabled=shape.bf16):
        trial = try_whole(built, layers, size, shape, target)
        if layers < size.layers:
            body = try_body(built, layers, size, shape, target)
            trial = trial.with_layers(size.layers / layers - 1, body)
    return replace(trial, update=update_seconds(built) * size.trainable)


def foresee(
    size: Description,
    shape: WorkShape,
    hardware: Hardware,
    *,
    lora: bool,
    width: int,
    engine: bool,
    divided: bool,
) -> Trial:
    """The trial that there would be on `hardware`.

    Args: width: bytes of a weight that samples; engine: another process samples; divided: processes
    hold shares of the weights, and gather them for every pass.
    """
    sampling = hardware.speed * (1.0 if width == 2 else 0.5) * READ_AT
    training = hardware.speed * (1.0 if shape.bf16 else 0.5) * TRAINED
    memory = hardware.bandwidth * FROM_MEMORY
    context = shape.prompt + shape.new / 2
    moved = width * (size.parameters + shape.rows * context * size.kv_numbers)
    computed = shape.rows * operations(size, context) / sampling
    begun = LAYER_STEP * size.layers * (2 if lora else 1)
    score = operations(size, shape.length / 2) / training
    train = score * (2 if lora else 3)
    if divided:  # gathered forwards and backwards, and the gradients sent
        frozen = size.parameters if lora else 0
        sent = 2 * frozen * (2 if shape.bf16 else 4) + 3 * size.trainable * 4
        train = max(train, sent / hardware.link / (shape.batch * shape.length))
    step = max(moved / memory, computed, begun)
    if engine:
        step = ENGINE_STEP + max(moved / memory, computed)
    return Trial(
        read=operations(size, shape.prompt / 2) / sampling,
        step=step,
        score=score,
        train=train,
        update=UPDATE * size.trainable / memory,
        kept=4.0 * ACTIVATIONS * size.hidden * size.layers,
        kept_by_layer=4.0 * ACTIVATIONS * size.hidden,
    )


def operations(size: Description, context: float) -> float:
    """Operations for a token behind `context` others, forwards."""
    return 2.0 * size.parameters + 4.0 * size.layers * size.hidden * context


def build_layers(model: str, lora: Lora | None, layers: int, device: torch.device) -> Any:
    """The architecture with random weights and so many layers. Raises ModelError."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(load_config(model))
    text = config.get_text_config()
    if getattr(text, "layer_types", None):
        with suppress(AttributeError):  # of Mamba, whose kinds follow from the number
            text.layer_types = text.layer_types[:layers]
    text.num_hidden_layers = layers
    try:
        built: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ModelError(
            f"model '{model}' cannot be tried with {layers} of its layers: {first_line(error)}"
        ) from error
    if lora is not None:
        built = add_adapter(built, lora)
    return built.to(device)


def try_whole(
    built: Any, layers: int, size: Description, shape: WorkShape, device: torch.device
) -> Trial:
    """The passes through the few layers, with embeddings and head; no update."""
    dice = torch.Generator().manual_seed(0)

    def tokens(rows: int, length: int) -> torch.Tensor:
        return torch.randint(0, size.vocabulary, (rows, length), generator=dice)

    built.eval()
    read, step = try_sampling(without_adapter(built), tokens, shape, device)
    score, train, kept = try_training(built, tokens, shape, device)
    return Trial(read, step, score, train, 0.0, kept, kept / layers)


def try_body(
    built: Any, layers: int, size: Description, shape: WorkShape, device: torch.device
) -> Trial:
    """The passes through the few layers, without embeddings and head; no update."""
    body = without_adapter(built).base_model
    length, prompts, rows = tried_sizes(shape)
    width = min(shape.length, size.context or shape.length)  # two answers may be beyond it
    ids_PT = torch.randint(0, size.vocabulary, (prompts, length), device=device)
    ids_BT = torch.randint(0, size.vocabulary, (rows, width), device=device)
    token_B1 = torch.randint(0, size.vocabulary, (shape.rows, 1), device=device)
    cache: Any = None

    def read() -> None:
        nonlocal cache
        cache = roomy_cache(built.config)
        body(input_ids=ids_PT, past_key_values=cache)

    def forward() -> torch.Tensor:
        return body(input_ids=ids_BT, use_cache=False).last_hidden_state

    with torch.inference_mode():
        read_seconds = least_seconds(read, device)
        cache.reorder_cache(torch.arange(shape.rows, device=device) % prompts)
        step = least_seconds(lambda: body(input_ids=token_B1, past_key_values=cache), device)
    with torch.no_grad():
        score = least_seconds(forward, device)
    kept = kept_bytes(built, forward)
    train = least_seconds(lambda: forward().sum().backward(), device)
    count = rows * width
    read_token = read_seconds / (prompts * length)
    kept_token = kept / count
    return Trial(
        read_token, step, score / count, train / count, 0.0, kept_token, kept_token / layers
    )


def without_adapter(built: Any) -> Any:
    """The model that an adapter lies on, or the model itself."""
    return built.get_base_model() if hasattr(built, "get_base_model") else built


def tried_sizes(shape: WorkShape) -> tuple[int, int, int]:
    """(tokens of a row half-way through its answer, prompts read at once, rows in training)."""
    length = max(1, shape.prompt + shape.new // 2 - REPEATS)
    prompts = max(1, min(shape.prompts, READ // length))
    rows = max(1, min(shape.batch, TOKENS // shape.length))
    return length, prompts, rows


Draw = Callable[[int, int], torch.Tensor]


@torch.inference_mode()
def try_sampling(
    built: Any, tokens: Draw, shape: WorkShape, device: torch.device
) -> tuple[float, float]:
    """(seconds to read a prompt's token, seconds for a token of each row)."""
    length, prompts, _ = tried_sizes(shape)
    texts = tokens(prompts, length).tolist()
    batch: Any = None

    def read() -> None:
        nonlocal batch
        batch = SamplingBatch(built, texts, 0)

    read_seconds = least_seconds(read, device) / (prompts * length)
    row_B = torch.arange(shape.rows, device=device) % prompts
    batch.select(row_B)
    batch.logits_BV = batch.logits_BV[row_B]
    number_B = torch.rand(shape.rows, dtype=torch.float64).to(device)

    def step() -> None:
        token_B, *_ = choose(batch.logits_BV, number_B, SamplingSettings())
        batch.step(token_B)

    return read_seconds, least_seconds(step, device)


def try_training(
    built: Any, tokens: Draw, shape: WorkShape, device: torch.device
) -> tuple[float, float, float]:
    """(seconds a token without gradients, with gradients, bytes a token that are kept)."""
    _, _, rows = tried_sizes(shape)
    answers = shape.answer // shape.new
    examples = []
    for _ in range(rows):
        prompt = tokens(1, shape.prompt)[0].tolist()
        examples.append(PromptAnswers(prompt, tokens(answers, shape.new).tolist()))
    packed = pack(examples, 0, shared=answers > 1).to(device)
    head = AnswerHead(built)

    def forward() -> torch.Tensor:
        return packed.tokens(head, built)

    with torch.no_grad():
        score = least_seconds(forward, device)
    kept = kept_bytes(built, forward)
    train = least_seconds(lambda: forward().sum().backward(), device)
    count = rows * shape.length
    return score / count, train / count, kept / count


def kept_bytes(built: Any, forward: Callable[[], torch.Tensor]) -> int:
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


def update_seconds(built: Any) -> float:
    """Seconds for a weight of an optimizer's step, tried on some of the trained ones."""
    weights: list[nn.Parameter] = []
    for weight in built.parameters():
        if weight.requires_grad and sum(map(torch.numel, weights)) < UPDATED:
            weights.append(weight)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    adamw = torch.optim.AdamW(weights, lr=1e-6, fused=True)

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        adamw.step()

    seconds = least_seconds(update, weights[0].device)
    adamw.zero_grad(set_to_none=True)
    return seconds / sum(weight.numel() for weight in weights)


def least_seconds(work: Callable[[], Any], device: torch.device) -> float:
    """The least seconds of a few repetitions, on a CPU no more than it computed."""
    work()
    best = float("inf")
    wait = torch.accelerator.synchronize if device.type != "cpu" else lambda: None
    for _ in range(REPEATS):
        wait()
        started = time.perf_counter()
        computed = time.process_time()
        work()
        wait()
        best = min(best, time.perf_counter() - started)
        if device.type == "cpu":
            best = min(best, time.process_time() - computed)
    return best
