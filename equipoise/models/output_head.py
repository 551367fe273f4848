"""Log-probabilities of chosen tokens straight from a model's output head, without the
logits of a batch.

A causal language model ends in `logits = tail(head(hidden))`: a projection to the
vocabulary, and in some architectures a tail, `cap · tanh(scale · logits / cap)`. For a
batch of B sequences of T tokens the logits are [B, T, V], by far the largest tensor of
training, though only the answers' tokens are ever looked at.

`AnswerHead` lends the head another `forward` for the duration of one call of the model.
It selects the positions that are asked for, projects them a chunk at a time, and hands
the tokens' log-probabilities out through the model's own forward pass. The model is
called as always, so the hooks of PEFT, DDP, FSDP and DeepSpeed fire as always, and its
parameters and state dict are untouched. The tail is not looked up by the name of an
architecture: it is measured on a few numbers, applied inside, and kept from acting on
the result; then all of it is held against the plain logits once.
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

_FAINT = (
    2.0**-20
)  # a log-probability this much reduced passes any tail as through a straight line


class Tail(NamedTuple):
    """What the model does to the head's output: `cap · tanh(scale · x / cap)`, or
    `scale · x` where cap is None.
    """

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The logits that the model would give for the head's output `x`."""
        x = x if self.scale == 1.0 else x * self.scale
        return x if self.cap is None else torch.tanh(x / self.cap) * self.cap

    def cooled(self, temperature: float) -> Tail:
        """The tail of logits that are divided by `temperature`."""
        return Tail(
            self.scale / temperature,
            None if self.cap is None else self.cap / temperature,
        )

    def pull_back(self, grad: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """In place: the gradient on the head's output from `grad`, that on the logits."""
        if self.cap is not None:
            grad.mul_(1 - (logits / self.cap).square_())
        return grad if self.scale == 1.0 else grad.mul_(self.scale)


class AnswerHead:
    """Calls a model for the log-probabilities of some tokens. One for each model: its
    first use measures the tail.
    """

    def __init__(
        self,
        model: nn.Module,
        chunk: int | None = None,
        *,
        temperature: float = 1.0,
        keep: bool = False,
    ) -> None:
        """`model` may be wrapped for parallel training; `chunk` is how many tokens are
        projected at a time.

        Log-probabilities are under softmax(logits / temperature). `keep`: the last
        call's hidden states [N, H] stay in `hidden_NH`, for a head beside the model's
        own.

        Memory is about `2 · chunk · V · 4` bytes. None: 256 on a CPU; 2048 on an
        accelerator, where each chunk's reading and writing of the head's gradient would
        else take longer than its products. Raises ModelError where the model has no
        output head.
        """
        inner = extract_model_from_parallel(model)
        head = (
            inner.get_output_embeddings()
            if hasattr(inner, "get_output_embeddings")
            else None
        )
        if not isinstance(head, nn.Module):
            raise ModelError(
                f"{type(inner).__name__} has no output head (lm_head); a causal language model is needed"
            )
        self.head: nn.Module = head
        self.chunk = chunk or (
            256 if next(inner.parameters()).device.type == "cpu" else 2048
        )
        self.temperature, self.keep = temperature, keep
        self.hidden_NH: torch.Tensor | None = None
        self.tail: Tail | None = None
        self._short = (
            False  # whether the hidden states are of a short floating-point type
        )

    def __call__(
        self,
        model: nn.Module,
        source_N: torch.Tensor,
        target_N: torch.Tensor,
        **inputs: Any,
    ) -> torch.Tensor:
        """log p(target_N[n] | the context that ends at position source_N[n]), float32
        [N], in nats, differentiable.

        source_N: int64 [N], positions in the flattened [B · T] batch. target_N: int64
        [N], token ids. inputs: `input_ids` [B, T] and whatever else the model's forward
        takes. Raises ModelError when the model's own logits say otherwise.
        """
        if self.tail is None:
            self.tail = self._measure(model, inputs["input_ids"])
        return self._logprobs(
            self.tail, model, source_N, target_N, inputs, self.temperature
        )

    def entropy(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """Entropy of the next token's distribution, float32 [N], in nats, from hidden
        states that were kept.
        """
        assert self.tail is not None, "no model has been called yet"
        tail = self.tail.cooled(self.temperature)

        def of(hidden_CH: torch.Tensor) -> torch.Tensor:
            logprob_CV = torch.log_softmax(tail(self.head(hidden_CH).float()), -1)
            return -(logprob_CV.exp() * logprob_CV).sum(-1)

        parts = [
            checkpoint(of, hidden_CH, use_reentrant=False)
            for hidden_CH in hidden_NH.split(self.chunk)
        ]
        return torch.cat(parts)  # type: ignore[arg-type]

    def agree(self, first_N: torch.Tensor, second_N: torch.Tensor) -> bool:
        """Whether two computations of the same log-probabilities agree, as far as the
        model's precision goes.
        """
        relative, absolute = (
            (0.05, 0.5) if self._short else (1e-3, 1e-2)
        )  # a bfloat16 of 40 is known to an eighth
        return torch.allclose(
            first_N.to(second_N.device), second_N, rtol=relative, atol=absolute
        )

    def _logprobs(
        self,
        tail: Tail,
        model: nn.Module,
        source_N: torch.Tensor,
        target_N: torch.Tensor,
        inputs: dict[str, Any],
        temperature: float = 1.0,
    ) -> torch.Tensor:
        project, cooled = self._projection(), tail.cooled(temperature)

        def forward(
            hidden_BTH: torch.Tensor, *args: Any, **kwargs: Any
        ) -> torch.Tensor:
            source, target = (
                source_N.to(hidden_BTH.device),
                target_N.to(hidden_BTH.device),
            )
            hidden_NH = hidden_BTH.flatten(0, -2).index_select(0, source)
            self.hidden_NH = hidden_NH if self.keep else None
            return (project(cooled, hidden_NH, target) * _FAINT).view(1, -1, 1)

        with _lend_forward(self.head, forward):
            faint = model(**inputs, use_cache=False).logits
        return faint.float().flatten() / (_FAINT * tail.scale)

    def _projection(self) -> Callable[[Tail, torch.Tensor, torch.Tensor], torch.Tensor]:
        """How hidden states become log-probabilities: fused for a plain linear head,
        else by the head's own forward.
        """
        head, chunk = self.head, self.chunk
        if type(head) is nn.Linear and "forward" not in vars(head):

            def fused(
                tail: Tail, hidden_NH: torch.Tensor, target_N: torch.Tensor
            ) -> torch.Tensor:
                kind = hidden_NH.device.type
                dtype = (
                    torch.get_autocast_dtype(kind)
                    if torch.is_autocast_enabled(kind)
                    else head.weight.dtype
                )
                bias = None if head.bias is None else head.bias.to(dtype)
                out = ChunkedLogprob.apply(
                    hidden_NH.to(dtype),
                    head.weight.to(dtype),
                    bias,
                    target_N,
                    tail,
                    chunk,
                )
                return out  # type: ignore[return-value]

            return fused
        own_forward = head.forward

        def gathered(
            tail: Tail, hidden_CH: torch.Tensor, target_C: torch.Tensor
        ) -> torch.Tensor:
            logits_CV = tail(own_forward(hidden_CH).float())
            return torch.log_softmax(logits_CV, -1).gather(1, target_C[:, None])[:, 0]

        def chunked(
            tail: Tail, hidden_NH: torch.Tensor, target_N: torch.Tensor
        ) -> torch.Tensor:
            parts = zip(hidden_NH.split(chunk), target_N.split(chunk), strict=True)
            made = [
                checkpoint(gathered, tail, hidden, target, use_reentrant=False)
                for hidden, target in parts
            ]
            return (
                torch.cat(made) if made else hidden_NH.new_zeros(0, dtype=torch.float32)
            )  # type: ignore[arg-type]

        return chunked

    @torch.no_grad()
    def _measure(self, model: nn.Module, input_ids: torch.Tensor) -> Tail:
        """The model's tail; raises ModelError unless a few tokens of the first row get
        what the plain logits give.
        """
        ids = input_ids[:1, :8]
        was_training = model.training
        model.eval()
        try:
            plain = model(input_ids=ids, use_cache=False).logits
            probe = torch.tensor(
                [0.0, 2.0**-10, 0.5, 2.0, 8.0, 1e6], device=plain.device
            )

            def echo(hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
                self._short = (
                    hidden.dtype != torch.float32
                    or torch.is_autocast_enabled(hidden.device.type)
                )
                return probe.view(1, -1, 1)

            with _lend_forward(self.head, echo):
                answer = model(input_ids=ids, use_cache=False).logits.float().flatten()
            tail = _tail(probe, answer, type(model).__name__)
            source = torch.arange(ids.shape[1] - 1, device=ids.device)
            found = self._logprobs(tail, model, source, ids[0, 1:], {"input_ids": ids})
        finally:
            model.train(was_training)
        told = torch.log_softmax(plain.float(), -1)[0, :-1].gather(
            1, ids[0, 1:, None].to(plain.device)
        )[:, 0]
        if not bool(torch.isfinite(told).all()):
            raise ModelError(
                f"{type(model).__name__}: the model's logits are not numbers; its weights are broken"
            )
        if found.shape != told.shape or not self.agree(found, told):
            raise ModelError(
                f"{type(model).__name__}: log-probabilities taken at the output head ({found.tolist()}) are not those "
                f"of the model's logits ({told.tolist()}); this architecture cannot be trained or scored"
            )
        return tail


def _tail(probe: torch.Tensor, answer: torch.Tensor, name: str) -> Tail:
    """The tail that turns `probe` (0, a small number, …, a huge one) into `answer`.
    Raises ModelError if none does.
    """
    scale = float(answer[1] / probe[1]) if answer.shape == probe.shape else 0.0
    straight = Tail(float(answer[-1] / probe[-1])) if scale else Tail()
    for tail in (straight, Tail(scale, float(answer[-1]))):
        if scale > 0 and torch.allclose(tail(probe), answer, rtol=1e-5, atol=0):
            return tail
    raise ModelError(
        f"{name}: what the model does after its output head is neither a scale nor a soft cap "
        f"({probe.tolist()} became {answer.flatten().tolist()}); this architecture cannot be trained or scored"
    )


@contextmanager
def _lend_forward(
    module: nn.Module, forward: Callable[..., torch.Tensor]
) -> Iterator[None]:
    """`module` runs `forward` in place of its own, hooks as always."""
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
    """log softmax(tail(hidden_NH · weight_VH' + bias_V)) at target_N, a chunk of rows
    at a time; returns float32 [N].

    Backward projects each chunk again instead of keeping it: d log p_t / d logits_v =
    [v = t] − p_v. With a frozen head (LoRA) the gradient on `hidden` is instead made on
    the way forward, up to the factor that each row gets from above, and nothing is
    projected twice.
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
        """Two buffers of [chunk, V] are all that is held."""
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        frozen = wants_hidden and not (wants_weight or wants_bias)
        logprob_N = hidden_NH.new_empty(len(hidden_NH), dtype=torch.float32)
        grad_NH = torch.empty_like(hidden_NH) if frozen else None
        for rows, logits_CV, spare_CV in _chunks(
            hidden_NH, weight_VH, bias_V, tail, chunk
        ):
            target_C1 = target_N[rows, None]
            _softmax_into(spare_CV, torch.ops.aten._log_softmax.out, logits_CV)
            logprob_N[rows] = spare_CV.gather(1, target_C1)[:, 0]
            if grad_NH is not None:
                grad_CV = (
                    spare_CV.exp_()
                    .neg_()
                    .scatter_add_(1, target_C1, torch.ones_like(spare_CV[:, :1]))
                )
                grad_CV = tail.pull_back(grad_CV, logits_CV).to(weight_VH.dtype)
                grad_NH[rows] = grad_CV @ weight_VH
        ctx.tail, ctx.chunk, ctx.frozen = tail, chunk, frozen
        ctx.save_for_backward(
            *((grad_NH,) if frozen else (hidden_NH, weight_VH, bias_V, target_N))
        )
        return logprob_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        """Gradients on hidden, weight and bias; weight's and bias's are summed in
        float32.
        """
        if ctx.frozen:
            (grad_NH,) = ctx.saved_tensors
            return (
                grad_NH * grad_N[:, None].to(grad_NH.dtype),
                None,
                None,
                None,
                None,
                None,
            )
        hidden_NH, weight_VH, bias_V, target_N = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        grad_NH = torch.empty_like(hidden_NH) if wants_hidden else None
        grad_VH = (
            torch.zeros_like(weight_VH, dtype=torch.float32) if wants_weight else None
        )
        grad_V = torch.zeros_like(bias_V, dtype=torch.float32) if wants_bias else None
        for rows, logits_CV, spare_CV in _chunks(
            hidden_NH, weight_VH, bias_V, ctx.tail, ctx.chunk
        ):
            grad_C1 = grad_N[rows, None]
            _softmax_into(spare_CV, torch.ops.aten._softmax.out, logits_CV)
            grad_CV = spare_CV.mul_(-grad_C1).scatter_add_(
                1, target_N[rows, None], grad_C1
            )
            grad_CV = ctx.tail.pull_back(grad_CV, logits_CV)
            if grad_V is not None:
                grad_V += grad_CV.sum(0)
            grad_CV = grad_CV.to(weight_VH.dtype)
            if grad_NH is not None:
                grad_NH[rows] = grad_CV @ weight_VH
            if grad_VH is not None:
                _add_product(grad_VH, grad_CV.t(), hidden_NH[rows])
        return (
            grad_NH,
            None if grad_VH is None else grad_VH.to(weight_VH.dtype),
            None if grad_V is None or bias_V is None else grad_V.to(bias_V.dtype),
            None,
            None,
            None,
        )


def _chunks(
    hidden_NH: torch.Tensor,
    weight_VH: torch.Tensor,
    bias_V: torch.Tensor | None,
    tail: Tail,
    chunk: int,
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """(rows, their logits, a float32 buffer of that shape); both are overwritten by the
    next chunk.
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
    """Softmax or its logarithm in float32; on a GPU the kernel reads the shorter type
    itself.
    """
    reads_short = logits.is_cuda and logits.dtype != torch.float32
    softmax(logits if reads_short else logits.float(), -1, reads_short, out=out)


def _add_product(
    total: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> None:
    """total += first · second with a float32 total, the product not rounded to a
    shorter type on the way.
    """
    if first.dtype == total.dtype:
        total.addmm_(first, second)
    elif total.is_cuda:
        torch.addmm(total, first, second, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(first.float(), second.float())
