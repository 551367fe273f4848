"""KL(policy ‖ reference), estimated from the sampled tokens, and the coefficient that steers it.

The log-probabilities, in nats, are of tokens that the *policy* sampled; each estimator gives a
number a token. An estimator of the value is not one of the gradient. With the samples held fixed,
as autograd does, its expectation is

    k1   0: E[∇ log π] vanishes. In the reward (detached) it is the right penalty, as a
         loss it adds nothing but noise
    k2   ∇ KL(policy ‖ reference): the one to use as a loss
    k3   ∇ KL(reference ‖ policy): near the reference the same to first order, further
         off another pull

Source: Schulman, "Approximating KL divergence", 2020 (http://joschu.net/blog/kl-approx.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def k1(logprob_BT: torch.Tensor, reference_BT: torch.Tensor) -> torch.Tensor:
    """log π/π_ref: unbiased, of either sign, and of high variance.

    >>> k1(torch.tensor([0.5]).log(), torch.tensor([0.25]).log())
    tensor([0.6931])
    """
    assert logprob_BT.shape == reference_BT.shape, "log-probabilities of other tokens"
    return logprob_BT - reference_BT


def k3(logprob_BT: torch.Tensor, reference_BT: torch.Tensor) -> torch.Tensor:
    """π_ref/π − 1 − log π_ref/π: unbiased, never negative; of low variance unless π_ref/π is large.

    Unbiased where the policy can write all that the reference can. (GRPO's penalty: arXiv
    2402.03300, eq. 4)

    >>> k3(torch.tensor([0.5]).log(), torch.tensor([0.25]).log())
    tensor([0.1931])
    """
    log_ratio_BT = -k1(logprob_BT, reference_BT)
    return log_ratio_BT.expm1() - log_ratio_BT


def next_coefficient(
    coefficient: float, kl: float, target: float, horizon: int, count: int
) -> float:
    """The next KL coefficient: coefficient · (1 + clip(kl/target − 1, ±0.2) · count/horizon).

    kl, target: nats an answer, or both a token; kl is the mean over `count` answers. horizon:
    answers over which the coefficient may change by a fifth; both positive. Source: arXiv
    1909.08593, §2.2.

    >>> round(next_coefficient(0.1, kl=12.0, target=6.0, horizon=1000, count=100), 6)
    0.102
    """
    return coefficient * (1 + min(max(kl / target - 1, -0.2), 0.2) * count / horizon)
