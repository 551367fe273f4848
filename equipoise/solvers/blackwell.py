"""One policy by many criteria at once: what it secures against a bounded adversary by the criterion
that is worst for it, and the policy that secures most.

With P_c(a ≻ m) the probability that a is preferred to m by criterion c, and π and π' policies,

    V(π) = min over c and π' of E[P_c(a ≻ m)] + β·KL(π' ‖ reference)

The inner minimum has a closed form for each criterion, and the least over mixtures of criteria is
that of one of them, so that V is a concave function of π alone: there is one player. Its maximiser
is the maximum entropy Blackwell winner. Source: PROSPER, arXiv 2602.19041.

C criteria, A actions of the policy, M actions of the adversary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equipoise.solvers.base import checked_mixture, checked_positive
from equipoise.solvers.dynamics import softmax
from equipoise.solvers.zero_sum import nash


class Adversaries(NamedTuple):
    """The answers of the adversary to a policy, one for each criterion."""

    value_C: np.ndarray
    """What the policy is left with, the adversary's KL included."""
    policy_CM: np.ndarray
    """The adversary's policies."""

    @property
    def worst(self) -> int:
        """The criterion by which the policy is left with least, the first of equals."""
        return int(self.value_C.argmin())


class Secured(NamedTuple):
    """Policies of `prosper`: after the last step, and the average of those before each step."""

    last_A: np.ndarray
    average_A: np.ndarray


def checked_wins(win_CAM: np.ndarray) -> np.ndarray:
    """`win_CAM` as floats. Raises ValueError where it holds no probabilities, criterion by
    criterion.
    """
    win_CAM = np.asarray(win_CAM, dtype=float)
    if win_CAM.ndim != 3 or not win_CAM.size:
        raise ValueError(
            f"win_CAM must have three axes, criteria, actions and the adversary's actions; "
            f"its shape is {win_CAM.shape}"
        )
    if not ((win_CAM >= 0) & (win_CAM <= 1)).all():
        raise ValueError("win_CAM must hold probabilities; one is outside [0, 1]")
    return win_CAM


def adversaries(
    win_CAM: np.ndarray, policy_A: np.ndarray, reference_M: np.ndarray, beta: float
) -> Adversaries:
    """The adversary's best answers to a policy near the reference, and what they leave it.

    π'_c(m) ∝ reference(m)·exp(−P_c(π ≻ m)/β), and the policy keeps −β·log Σ_m
    reference(m)·exp(−P_c(π ≻ m)/β): between the worst reply (β → 0) and the reference's mean (β →
    ∞). beta: the weight of the KL, in units of probability a nat. Raises ValueError for wrong
    shapes, probabilities, policies or beta.

    >>> right_wins = np.array([[[0.5, 0.9], [0.1, 0.5]]])
    >>> half = np.array([0.5, 0.5])
    >>> replies = adversaries(right_wins, np.array([0.0, 1.0]), half, beta=0.1)
    >>> replies.policy_CM.round(3), replies.value_C.round(3)
    (array([[0.982, 0.018]]), array([0.167]))
    """
    win_CAM = checked_wins(win_CAM)
    _, actions, replies = win_CAM.shape
    policy_A = checked_mixture(policy_A, actions, "policy_A")
    reference_M = checked_mixture(reference_M, replies, "reference_M")
    checked_positive(beta=beta)
    kept_CM = np.einsum("a,cam->cm", policy_A, win_CAM)
    with np.errstate(divide="ignore"):
        logit_CM = np.log(reference_M) - kept_CM / beta
    value_C = -beta * np.logaddexp.reduce(logit_CM, axis=1)
    return Adversaries(value_C, softmax(logit_CM))


def secured(
    win_CAM: np.ndarray, policy_A: np.ndarray, reference_M: np.ndarray, beta: float
) -> float:
    """V(π): what a policy is left with by the criterion that is worst for it.

    >>> two = np.array([[[0.5, 0.9], [0.1, 0.5]], [[0.5, 0.2], [0.8, 0.5]]])
    >>> half = np.array([0.5, 0.5])
    >>> round(secured(two, half, half, beta=0.1), 3)
    0.367
    """
    replies = adversaries(win_CAM, policy_A, reference_M, beta)
    return float(replies.value_C.min())


def criterion_gains(
    win_CAM: np.ndarray, policy_A: np.ndarray, reference_M: np.ndarray, beta: float
) -> np.ndarray:
    """How often each action is preferred to the adversary of the policy's worst criterion, by that
    criterion, [A]: the gradient of V, which PROSPER's policies learn from.

    >>> two = np.array([[[0.5, 0.9], [0.1, 0.5]], [[0.5, 0.2], [0.8, 0.5]]])
    >>> half = np.array([0.5, 0.5])
    >>> criterion_gains(two, half, half, beta=0.1).round(3)
    array([0.507, 0.107])
    """
    replies = adversaries(win_CAM, policy_A, reference_M, beta)
    worst = replies.worst
    return np.asarray(win_CAM, dtype=float)[worst] @ replies.policy_CM[worst]


def prosper(
    win_CAM: np.ndarray,
    reference_M: np.ndarray,
    *,
    beta: float,
    steps: int,
    eta: float | None = None,
    start_A: np.ndarray | None = None,
) -> Secured:
    """The policies after so many steps of mirror ascent on V, and their average.

    π_{t+1} ∝ π_t·exp(eta·gains), the gains of `criterion_gains`. eta: step size in 1/probability;
    None is sqrt(8·ln(actions)/steps), with which the average secures at least max V −
    sqrt(ln(actions)/(2·steps)) from a uniform start. start_A: None is uniform. Raises ValueError
    for wrong wins, policies, beta, steps or eta. Source: PROSPER, arXiv 2602.19041, whose language
    models regress log-ratios on these gains.

    >>> rock_paper_scissors = np.array([[[0.5, 0, 1], [1, 0.5, 0], [0, 1, 0.5]]])
    >>> third = np.ones(3) / 3
    >>> prosper(rock_paper_scissors, third, beta=0.1, steps=200).average_A.round(2)
    array([0.33, 0.33, 0.33])
    """
    win_CAM = checked_wins(win_CAM)
    actions = win_CAM.shape[1]
    checked_positive(steps=steps, eta=eta)
    if eta is None:
        eta = float(np.sqrt(8 * np.log(max(2, actions)) / steps))
    policy_A = np.full(actions, 1 / actions)
    if start_A is not None:
        policy_A = checked_mixture(start_A, actions, "start_A")
    with np.errstate(divide="ignore"):
        logit_A = np.log(policy_A)
    total_A = np.zeros(actions)
    for _ in range(steps):
        total_A += policy_A
        logit_A = logit_A + eta * criterion_gains(win_CAM, policy_A, reference_M, beta)
        policy_A = softmax(logit_A)
    return Secured(policy_A, total_A / steps)


def blackwell_winner(win_CAM: np.ndarray) -> tuple[np.ndarray, float]:
    """The policy that secures most against every reply by every criterion (β → 0), [A], and how
    much, by linear programming. Raises ValueError for wrong probabilities.

    >>> apart = np.array([[[0.5, 0.9], [0.1, 0.5]], [[0.5, 0.1], [0.9, 0.5]]])
    >>> policy_A, value = blackwell_winner(apart)
    >>> policy_A.round(2), round(value, 2)
    (array([0.5, 0.5]), 0.3)
    """
    win_CAM = checked_wins(win_CAM)
    policy_A, _, value = nash(np.concatenate(list(win_CAM), axis=1))
    return policy_A, float(value)
