"""Log-probabilities of chosen tokens under a linear output head, a chunk of rows at a time, with
gradients.

    log softmax(tail(hidden · weightᵀ + bias))[target]

The logits of a whole batch are never held: forward and backward each project chunk by chunk into
two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable


class Tail(NamedTuple):
    """What the model does to the head's output: `cap · tanh(scale · x / cap)`, or `scale · x` where
    cap is None.
    """

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The logits that the model would give for the head's output `x`."""
        x = x if self.scale == 1.0 else x * self.scale
        return x if self.cap is None else torch.tanh(x / self.cap) * self.cap

    def cooled(self, temperature: float) -> Tail:
        """The tail of logits that are divided by `temperature`."""
        cap = None if self.cap is None else self.cap / temperature
        return Tail(self.scale / temperature, cap)

    def pull_back(self, grad: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """In place: the gradient on the head's output from `grad`, that on the logits."""
        if self.cap is not None:
            grad.mul_(1 - (logits / self.cap).square_())
        return grad if self.scale == 1.0 else grad.mul_(self.scale)


class ChunkedLogprob(torch.autograd.Function):
    """log softmax(tail(hidden_NH · weight_VH' + bias_V)) at target_N, a chunk of rows at a time;
    returns float32 [N].

    Backward projects each chunk again instead of keeping it: d log p_t / d logits_v = [v = t] −
    p_v. With a frozen head (LoRA) the gradient on `hidden` is instead computed in the forward pass,
    up to the factor that each row gets in backward, and nothing is projected twice.
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
            _softmax_into(spare_CV, torch.ops.aten._log_softmax.out, logits_CV)
            logprob_N[rows] = spare_CV.gather(1, target_C1)[:, 0]
            if grad_NH is not None:
                one_C1 = torch.ones_like(spare_CV[:, :1])
                grad_CV = spare_CV.exp_().neg_().scatter_add_(1, target_C1, one_C1)
                grad_CV = tail.pull_back(grad_CV, logits_CV).to(weight_VH.dtype)
                grad_NH[rows] = grad_CV @ weight_VH
        ctx.tail, ctx.chunk, ctx.frozen = tail, chunk, frozen
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
            _softmax_into(spare_CV, torch.ops.aten._softmax.out, logits_CV)
            grad_CV = spare_CV.mul_(-grad_C1).scatter_add_(1, target_C1, grad_C1)
            grad_CV = ctx.tail.pull_back(grad_CV, logits_CV)
            if grad_V is not None:
                grad_V += grad_CV.sum(0)
            grad_CV = grad_CV.to(weight_VH.dtype)
            if grad_NH is not None:
                grad_NH[rows] = grad_CV @ weight_VH
            if grad_VH is not None:
                _add_product(grad_VH, grad_CV.t(), hidden_NH[rows])
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
    """(rows, their logits, a float32 buffer of that shape); both are overwritten by the next
    chunk.
    """
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


def _softmax_into(
    out: torch.Tensor, softmax: Callable[..., torch.Tensor], logits: torch.Tensor
) -> None:
    """Softmax or its logarithm in float32; on a GPU the kernel reads the shorter type itself."""
    reads_short = logits.is_cuda and logits.dtype != torch.float32
    softmax(logits if reads_short else logits.float(), -1, reads_short, out=out)


def _add_product(total: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> None:
    """total += first · second with a float32 total, the product not rounded to a shorter type on
    the way.
    """
    if first.dtype == total.dtype:
        total.addmm_(first, second)
    elif total.is_cuda:
        torch.addmm(total, first, second, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(first.float(), second.float())
