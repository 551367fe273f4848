"""Log-probabilities of chosen tokens straight from a model's output head, without a batch's logits.

    log softmax(tail(hidden · weightᵀ + bias))[target]

A causal language model ends in `logits = tail(head(hidden))`: a projection to the vocabulary, and
in some architectures a tail, `cap · tanh(scale · logits / cap)`. The logits [B, T, V] are by far
the largest tensor of training, though only the answers' tokens are ever needed.

`AnswerHead` replaces the head's `forward` during a call of the model, projects the positions that
are needed a chunk at a time, forward and backward, into two buffers, and returns the tokens'
log-probabilities through the model's own forward pass. The hooks of PEFT, DDP, FSDP and DeepSpeed
fire as always, and parameters and state dict are untouched. The tail is measured on a few numbers,
applied inside, and kept from acting on the result; then the whole is compared with the plain logits
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from accelerate.utils import extract_model_from_parallel
from torch import nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from equipoise.errors import ModelError
from equipoise.models.token_choice import SamplingSettings, kept_mass


class Tail(NamedTuple):
    """The function after the head: `cap · tanh(scale · x / cap)`, or `scale · x` without a cap."""

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.scale == 1.0 else x * self.scale
        if self.cap is None:
            return x
        return torch.tanh(x / self.cap) * self.cap

    def cool(self, temperature: float) -> Tail:
        """The tail of logits that are divided by `temperature`."""
        cap = None if self.cap is None else self.cap / temperature
        return Tail(self.scale / temperature, cap)

    def pull_back(self, grad: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """In place: the gradient on the head's output from `grad`, that on the logits."""
        if self.cap is not None:
            grad.mul_(1 - (logits / self.cap).square_())
        return grad if self.scale == 1.0 else grad.mul_(self.scale)


# A log-probability reduced this much passes any tail as through a straight line.
_FAINT = 2.0**-20


class AnswerHead:
    """Log-probabilities of some tokens by one model, whose tail the first use measures."""

    def __init__(
        self,
        model: nn.Module,
        chunk: int | None = None,
        *,
        temperature: float = 1.0,
        keep: bool = False,
    ) -> None:
        """Log-probabilities are under softmax(logits / temperature); `model` may be wrapped.

        `keep`: the last call's hidden states [N, H] stay in `hidden_NH`. `chunk` tokens are
        projected at a time, in about `2 · chunk · V · 4` bytes. None: 256 on a CPU; 2048 on an
        accelerator, where smaller ones cost time. Raises ModelError without an output head.
        """
        inner = extract_model_from_parallel(model)
        embeddings = getattr(inner, "get_output_embeddings", None)
        head = None if embeddings is None else embeddings()
        if not isinstance(head, nn.Module):
            raise ModelError(
                f"{type(inner).__name__} has no output head (lm_head); a causal language model is "
                "needed"
            )
        self.head: nn.Module = head
        on_cpu = next(inner.parameters()).device.type == "cpu"
        self.chunk = chunk or (256 if on_cpu else 2048)
        self.temperature = temperature
        self.keep = keep
        self.hidden_NH: torch.Tensor | None = None
        self.tail: Tail | None = None
        self._short = False  # whether hidden states are of a short floating-point type

    def __call__(
        self, model: nn.Module, source_N: torch.Tensor, target_N: torch.Tensor, **inputs: Any
    ) -> torch.Tensor:
        """log p(target_N[n] | context to position source_N[n]), float32 [N], in nats,
        differentiable.

        source_N: positions in the flattened [B · T] batch. inputs: `input_ids` [B, T] and further
        arguments of the model's forward. Raises ModelError when the model's own logits disagree.
        """
        if self.tail is None:
            self.tail = self._measure(model, inputs["input_ids"])
        return self._logprobs(self.tail, model, source_N, target_N, inputs, self.temperature)

    def entropy(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """Entropy of the next token, float32 [N], in nats, from hidden states that were kept."""
        assert self.tail is not None, "no model has been called yet"
        tail = self.tail.cool(self.temperature)

        def chunk_entropy(hidden_CH: torch.Tensor) -> torch.Tensor:
            logprob_CV = torch.log_softmax(tail(self.head(hidden_CH).float()), -1)
            return -(logprob_CV.exp() * logprob_CV).sum(-1)

        chunks = [
            checkpoint(chunk_entropy, hidden_CH, use_reentrant=False)
            for hidden_CH in hidden_NH.split(self.chunk)
        ]
        return torch.cat(chunks)  # type: ignore[arg-type]

    @torch.no_grad()
    def distributions(
        self, model: nn.Module, source_N: torch.Tensor, **inputs: Any
    ) -> Iterator[torch.Tensor]:
        """log p [C, V] of every token after source_N[n], in nats, `chunk` at a time."""
        if self.tail is None:
            self.tail = self._measure(model, inputs["input_ids"])
        hidden: list[torch.Tensor] = []

        def forward(hidden_BTH: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            at_N = source_N.to(hidden_BTH.device)
            hidden.append(hidden_BTH.flatten(0, -2).index_select(0, at_N))
            return hidden_BTH.new_zeros(1, 1, 1)

        with replace_forward(self.head, forward):
            model(**inputs, use_cache=False)
        tail = self.tail.cool(self.temperature)
        for hidden_CH in hidden[0].split(self.chunk):
            yield torch.log_softmax(tail(self.head(hidden_CH).float()), -1)

    @torch.no_grad()
    def kept_mass(self, hidden_NH: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
        """log of the probability that top-k and top-p keep, float32 [N], in nats."""
        assert self.tail is not None, "no model has been called yet"
        tail = self.tail.cool(settings.temperature)
        masses = [
            kept_mass(tail(self.head(hidden_CH).float()), settings)
            for hidden_CH in hidden_NH.split(self.chunk)
        ]
        return torch.cat(masses)

    def agree(self, first_N: torch.Tensor, second_N: torch.Tensor) -> bool:
        """True if two computations of log-probabilities agree within the model's precision."""
        # A bfloat16 of 40 is known to an eighth.
        relative, absolute = (0.05, 0.5) if self._short else (1e-3, 1e-2)
        first_N = first_N.to(second_N.device)
        return torch.allclose(first_N, second_N, rtol=relative, atol=absolute)

    def _logprobs(
        self,
        tail: Tail,
        model: nn.Module,
        source_N: torch.Tensor,
        target_N: torch.Tensor,
        inputs: dict[str, Any],
        temperature: float = 1.0,
    ) -> torch.Tensor:
        cooled = tail.cool(temperature)
        own_forward = self.head.forward
        is_plain = type(self.head) is nn.Linear and "forward" not in vars(self.head)

        def forward(hidden_BTH: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            device = hidden_BTH.device
            # [B, T, H] to [N, H]: the positions of all rows in a line, and of those the N.
            hidden_NH = hidden_BTH.flatten(0, -2).index_select(0, source_N.to(device))
            self.hidden_NH = hidden_NH if self.keep else None
            target_at = target_N.to(device)
            if is_plain:
                head: Any = self.head
                kind = hidden_NH.device.type
                autocast = torch.is_autocast_enabled(kind)
                dtype = torch.get_autocast_dtype(kind) if autocast else head.weight.dtype
                weight_VH = head.weight.to(dtype)
                bias_V = None if head.bias is None else head.bias.to(dtype)
                logprob_N = ChunkedLogprob.apply(
                    hidden_NH.to(dtype), weight_VH, bias_V, target_at, cooled, self.chunk
                )
            else:
                logprob_N = project_by_head(own_forward, cooled, hidden_NH, target_at, self.chunk)
            return (logprob_N * _FAINT).view(1, -1, 1)

        with replace_forward(self.head, forward):
            faint = model(**inputs, use_cache=False).logits
        return faint.float().flatten() / (_FAINT * tail.scale)

    @torch.no_grad()
    def _measure(self, model: nn.Module, input_ids: torch.Tensor) -> Tail:
        """The model's tail. Raises ModelError unless it gives the plain logits on a few tokens."""
        ids = input_ids[:1, :8]
        if ids.shape[1] == 1:  # a lone token predicts none that could be compared
            ids = ids.repeat(1, 2)
        was_training = model.training
        model.eval()
        try:
            plain = model(input_ids=ids, use_cache=False).logits
            tail = self._measure_tail(model, ids, plain.device)
            source = torch.arange(ids.shape[1] - 1, device=ids.device)
            inputs = {"input_ids": ids}
            at_head_N = self._logprobs(tail, model, source, ids[0, 1:], inputs)
        finally:
            model.train(was_training)
        logprob_BTV = torch.log_softmax(plain.float(), -1)
        target_N1 = ids[0, 1:, None].to(plain.device)
        expected_N = logprob_BTV[0, :-1].gather(1, target_N1)[:, 0]
        name = type(model).__name__
        if not bool(torch.isfinite(expected_N).all()):
            raise ModelError(f"{name}: the model's logits are not numbers; its weights are broken")
        same_shape = at_head_N.shape == expected_N.shape
        if not same_shape or not self.agree(at_head_N, expected_N):
            raise ModelError(
                f"{name}: log-probabilities taken at the output head ({at_head_N.tolist()}) are "
                f"not those of the model's logits ({expected_N.tolist()}); this architecture "
                "cannot be trained or scored"
            )
        return tail

    def _measure_tail(self, model: nn.Module, ids: torch.Tensor, device: torch.device) -> Tail:
        """The tail, from what the model makes of a few numbers in place of logits."""
        probe = torch.tensor([0.0, 2.0**-10, 0.5, 2.0, 8.0, 1e6], device=device)

        def echo(hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            autocast = torch.is_autocast_enabled(hidden.device.type)
            self._short = hidden.dtype != torch.float32 or autocast
            return probe.view(1, -1, 1)

        with replace_forward(self.head, echo):
            echoed = model(input_ids=ids, use_cache=False).logits.float().flatten()
        name = type(model).__name__
        scale = float(echoed[1] / probe[1]) if echoed.shape == probe.shape else 0.0
        straight = Tail(float(echoed[-1] / probe[-1])) if scale else Tail()
        for tail in (straight, Tail(scale, float(echoed[-1]))):
            if scale > 0 and torch.allclose(tail(probe), echoed, rtol=1e-5, atol=0):
                return tail
        raise ModelError(
            f"{name}: what the model does after its output head is neither a scale nor a soft "
            f"cap ({probe.tolist()} became {echoed.flatten().tolist()}); this architecture "
            "cannot be trained or scored"
        )


def project_by_head(
    own_forward: Callable[[torch.Tensor], torch.Tensor],
    tail: Tail,
    hidden_NH: torch.Tensor,
    target_N: torch.Tensor,
    chunk: int,
) -> torch.Tensor:
    def gather(hidden_CH: torch.Tensor, target_C: torch.Tensor) -> torch.Tensor:
        logits_CV = tail(own_forward(hidden_CH).float())
        return torch.log_softmax(logits_CV, -1).gather(1, target_C[:, None])[:, 0]

    if not len(hidden_NH):
        return hidden_NH.new_zeros(0, dtype=torch.float32)
    chunks = zip(hidden_NH.split(chunk), target_N.split(chunk), strict=True)
    logprobs = [checkpoint(gather, *pair, use_reentrant=False) for pair in chunks]
    return torch.cat(logprobs)  # type: ignore[arg-type]


@contextmanager
def replace_forward(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Iterator[None]:
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


class ChunkedLogprob(torch.autograd.Function):
    """log softmax(tail(hidden_NH · weight_VH' + bias_V)) at target_N, float32 [N], in chunks of
    rows.

    Backward projects each chunk again: d log p_t / d logits_v = [v = t] − p_v. With a frozen head
    (LoRA) the gradient on `hidden` is computed in the forward pass, up to the factor that each row
    gets.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        target_N: torch.Tensor,
        tail: Tail,
        chunk: int,
    ) -> torch.Tensor:
        """Holds two buffers of [chunk, V]."""
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        frozen = wants_hidden and not (wants_weight or wants_bias)
        logprob_N = hidden_NH.new_empty(len(hidden_NH), dtype=torch.float32)
        grad_NH = torch.empty_like(hidden_NH) if frozen else None
        chunks = _chunks(hidden_NH, weight_VH, bias_V, tail, chunk)
        for rows, logits_CV, spare_CV in chunks:
            target_C1 = target_N[rows, None]
            softmax_into(spare_CV, torch.ops.aten._log_softmax.out, logits_CV)
            logprob_N[rows] = spare_CV.gather(1, target_C1)[:, 0]
            if grad_NH is not None:
                one_C1 = torch.ones_like(spare_CV[:, :1])
                grad_CV = spare_CV.exp_().neg_().scatter_add_(1, target_C1, one_C1)
                grad_CV = tail.pull_back(grad_CV, logits_CV).to(weight_VH.dtype)
                grad_NH[rows] = grad_CV @ weight_VH
        ctx.tail = tail
        ctx.chunk = chunk
        ctx.frozen = frozen
        if frozen:
            ctx.save_for_backward(grad_NH)
        else:
            ctx.save_for_backward(hidden_NH, weight_VH, bias_V, target_N)
        return logprob_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        """Gradients on hidden, weight and bias; weight's and bias's are summed in float32."""
        if ctx.frozen:
            (grad_NH,) = ctx.saved_tensors
            return grad_NH * grad_N[:, None].to(grad_NH.dtype), *[None] * 5
        hidden_NH, weight_VH, bias_V, target_N = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        grad_NH = grad_VH = grad_V = None
        if wants_hidden:
            grad_NH = torch.empty_like(hidden_NH)
        if wants_weight:
            grad_VH = torch.zeros_like(weight_VH, dtype=torch.float32)
        if wants_bias:
            grad_V = torch.zeros_like(bias_V, dtype=torch.float32)
        chunks = _chunks(hidden_NH, weight_VH, bias_V, ctx.tail, ctx.chunk)
        for rows, logits_CV, spare_CV in chunks:
            grad_C1 = grad_N[rows, None]
            target_C1 = target_N[rows, None]
            softmax_into(spare_CV, torch.ops.aten._softmax.out, logits_CV)
            grad_CV = spare_CV.mul_(-grad_C1).scatter_add_(1, target_C1, grad_C1)
            grad_CV = ctx.tail.pull_back(grad_CV, logits_CV)
            if grad_V is not None:
                grad_V += grad_CV.sum(0)
            if grad_VH is not None:
                grad_VH.addmm_(grad_CV.t(), hidden_NH[rows].float())
            if grad_NH is not None:
                grad_NH[rows] = grad_CV.to(weight_VH.dtype) @ weight_VH
        if grad_VH is not None:
            grad_VH = grad_VH.to(weight_VH.dtype)
        if grad_V is not None:
            grad_V = grad_V.to(bias_V.dtype)
        return grad_NH, grad_VH, grad_V, None, None, None


def _chunks(
    hidden_NH: torch.Tensor,
    weight_VH: torch.Tensor,
    bias_V: torch.Tensor | None,
    tail: Tail,
    chunk: int,
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """(rows, their logits, a float32 buffer of that shape); the next chunk overwrites both."""
    rows_at_once = min(chunk, len(hidden_NH))
    projected = hidden_NH.new_empty(rows_at_once, len(weight_VH))
    spare = projected.new_empty(projected.shape, dtype=torch.float32)
    for start in range(0, len(hidden_NH), chunk):
        rows = slice(start, min(start + chunk, len(hidden_NH)))
        size = rows.stop - rows.start
        logits = torch.mm(hidden_NH[rows], weight_VH.t(), out=projected[:size])
        if bias_V is not None:
            logits += bias_V
        yield rows, logits if tail == Tail() else tail(logits.float()), spare[:size]


def softmax_into(
    out: torch.Tensor, softmax: Callable[..., torch.Tensor], logits: torch.Tensor
) -> None:
    """Softmax or its logarithm in float32, within `out` alone. No kernel reads bfloat16 and writes
    float32.
    """
    softmax(logits if logits.dtype == out.dtype else out.copy_(logits), -1, False, out=out)
