"""The clipped policy-gradient losses and how their tokens are averaged, on padded [B, T] tensors.

The surrogate is negated, to be minimised. Log-probabilities are of the sampled tokens, in nats.
Padding must hold finite numbers (0 is usual): the gradient of an infinity would survive its weight
0. The learner adds the entropy, and the KL penalty (`losses.kl`) where it is a term of the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from equipoise.errors import ConfigError, NoSignal

if TYPE_CHECKING:
    import torch

Over = Literal["token", "answer", "constant"]


def ratio(logprob_BT: torch.Tensor, old_logprob_BT: torch.Tensor) -> torch.Tensor:
    """π_θ(token) / π_old(token), with gradient to `logprob_BT` alone.

    >>> ratio(torch.tensor([[0.5]]).log(), torch.tensor([[0.25]]).log())
    tensor([[2.]])
    """
    assert logprob_BT.shape == old_logprob_BT.shape, "log-probabilities of other tokens"
    return (logprob_BT - old_logprob_BT.detach()).exp()


def mean_log_ratio(
    logprob_BT: torch.Tensor, old_logprob_BT: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    """The mean of log π_θ/π_old over an answer's tokens, [B, 1], with gradient to `logprob_BT`.

    Its exponential is GSPO's ratio of an answer (arXiv 2507.18071, eq. 7); 0 without a token.

    >>> new_BT = torch.tensor([[0.5, 0.4, 1.0]]).log()
    >>> old_BT = torch.tensor([[0.25, 0.4, 0.1]]).log()
    >>> mean_log_ratio(new_BT, old_BT, torch.tensor([[True, True, False]])).exp()
    tensor([[1.4142]])
    """
    assert logprob_BT.shape == old_logprob_BT.shape, "log-probabilities of other tokens"
    log_ratio_BT = (logprob_BT - old_logprob_BT.detach()).where(mask_BT.bool(), 0.0)
    tokens_B1 = mask_BT.sum(1, keepdim=True)
    return log_ratio_BT.sum(1, keepdim=True) / tokens_B1.clamp(min=1)


def clipped_surrogate(
    logprob_BT: torch.Tensor,
    old_logprob_BT: torch.Tensor,
    advantage_BT: torch.Tensor,
    clip: float,
    clip_high: float | None = None,
    *,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """PPO's loss by token: −min(ρA, clamp(ρ, 1 − clip, 1 + clip_high)·A) with ρ = π_θ/π_old.

    old_logprob_BT, advantage_BT: constants. clip_high: the upper range (DAPO: 0.28 above, 0.2
    below); None: `clip`. dual_clip: c > 1 + clip_high bounds the loss of a bad token that has
    become likely: −max(surrogate, cA) where A < 0. Returns loss_BT, to be weighed by
    `token_weights`. Raises ConfigError where `dual_clip` lies within the range. Source: arXiv
    1707.06347, eq. 7; asymmetric arXiv 2503.14476, §3.1; dual arXiv 1912.09729.

    >>> new_BT, old_BT = torch.tensor([[0.5, 0.3]]).log(), torch.tensor([[0.25, 0.3]]).log()
    >>> clipped_surrogate(new_BT, old_BT, torch.tensor([[1.0, 1.0]]), clip=0.2)
    tensor([[-1.2000, -1.0000]])
    """
    assert logprob_BT.shape == advantage_BT.shape, (
        "one advantage a token: expand those of answers over their tokens"
    )
    high = _high(clip, clip_high, dual_clip)
    advantage_BT = advantage_BT.detach()
    ratio_BT = ratio(logprob_BT, old_logprob_BT)
    surrogate_BT = (ratio_BT * advantage_BT).minimum(
        ratio_BT.clamp(1 - clip, 1 + high) * advantage_BT
    )
    if dual_clip is not None:
        surrogate_BT = surrogate_BT.maximum(dual_clip * advantage_BT).where(
            advantage_BT < 0, surrogate_BT
        )
    return -surrogate_BT


def is_clipped(
    logprob_BT: torch.Tensor,
    old_logprob_BT: torch.Tensor,
    advantage_BT: torch.Tensor,
    clip: float,
    clip_high: float | None = None,
    *,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """True where `clipped_surrogate` has no gradient for its clipping, [B, T].

    >>> new_BT, old_BT = torch.tensor([[0.5, 0.3]]).log(), torch.tensor([[0.25, 0.3]]).log()
    >>> is_clipped(new_BT, old_BT, torch.tensor([[1.0, 1.0]]), clip=0.2)
    tensor([[ True, False]])
    """
    high = _high(clip, clip_high, dual_clip)
    ratio_BT = ratio(logprob_BT.detach(), old_logprob_BT)
    good_BT = advantage_BT > 0
    bad_BT = advantage_BT < 0
    clipped_BT = (good_BT & (ratio_BT > 1 + high)) | (bad_BT & (ratio_BT < 1 - clip))
    return clipped_BT if dual_clip is None else clipped_BT | (bad_BT & (ratio_BT > dual_clip))


def value_loss(
    value_BT: torch.Tensor, old_value_BT: torch.Tensor, return_BT: torch.Tensor, clip: float
) -> torch.Tensor:
    """The critic's loss by token: ½ max((V − R)², (V_old + clamp(V − V_old, ±clip) − R)²).

    clip: in units of reward; `float("inf")` for plain squares. Source: arXiv 2005.12729, on value
    function clipping in PPO's released code.

    >>> value_loss(torch.tensor([[2.0]]), torch.tensor([[0.0]]), torch.tensor([[3.0]]), clip=1.0)
    tensor([[2.]])
    """
    assert value_BT.shape == old_value_BT.shape == return_BT.shape, (
        "values and returns of other tokens"
    )
    old_value_BT = old_value_BT.detach()
    return_BT = return_BT.detach()
    near_BT = old_value_BT + (value_BT - old_value_BT).clamp(-clip, clip)
    return 0.5 * ((value_BT - return_BT) ** 2).maximum((near_BT - return_BT) ** 2)


def token_weights(mask_BT: torch.Tensor, over: Over, length: int | None = None) -> torch.Tensor:
    """The weight of each token, so that Σ loss_BT · weights_BT is the batch's mean loss.

    token: every token of the batch alike (DAPO). answer: every answer alike, its tokens sharing
    (GRPO). constant: 1/(B·length), so neither long nor short answers are favoured (Dr. GRPO).

    Compute them once for the whole batch, of all processes, and slice: the sums of micro-batches
    then add up to the batch's mean. length: the longest answer allowed, in tokens, for `constant`.
    Raises ConfigError about `length`, NoSignal where the mask has no token. Source: arXiv
    2503.14476, §3.3; 2402.03300, eq. 3; 2503.20783, §3.2.

    >>> token_weights(torch.tensor([[1, 1], [1, 0]]), "answer")
    tensor([[0.2500, 0.2500],
            [0.5000, 0.0000]])
    """
    if (over == "constant") != (length is not None) or (length is not None and length < 1):
        raise ConfigError(
            f"over: {over} with length: {length}; a length of 1 or more goes with "
            "constant, and only there"
        )
    if not bool(mask_BT.any()):
        raise NoSignal(
            "a batch without a single answer token: there is nothing to average or to learn from"
        )
    mask_BT = mask_BT.bool()
    share_BT = mask_BT.float()
    if over == "token":
        return share_BT / mask_BT.sum()
    if over == "answer":
        tokens_B = mask_BT.sum(1)
        return share_BT / (tokens_B.clamp(min=1)[:, None] * (tokens_B > 0).sum())
    assert length is not None
    return share_BT / (len(mask_BT) * length)


def _high(clip: float, clip_high: float | None, dual_clip: float | None) -> float:
    high = clip if clip_high is None else clip_high
    if dual_clip is not None and dual_clip <= 1 + high:
        raise ConfigError(f"dual_clip: {dual_clip} must exceed 1 + the upper clip, {1 + high:g}")
    return high
