"""Dynamics of two players who answer each other step by step, and their averages.

All but the replicator's are one loop (`path`) over a small step function: multiplicative weights,
mirror descent with an anchor, fictitious play, and GPO's steps in `solvers.gpo`. In zero-sum games
the averages approach equilibrium; the last profile often only circles it, except under an anchor.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import Field

from equipoise.errors import EquipoiseError
from equipoise.solvers.base import (
    IterateName,
    Iterates,
    Profile,
    Solver,
    checked_payoff,
    checked_positive,
    checked_sides,
    checked_start,
    span,
)

Update = Literal["plain", "optimistic", "extragradient"]
"""The pay-offs g that a step of multiplicative weights follows: those of the profile played, g_t;
2·g_t − g_{t−1} (g_{−1} = g_0); or those of a plain step's profile, a second evaluation."""


class Step(NamedTuple):
    """One step of a dynamic: the profile played, the sums of all so far, and the next profile."""

    played: Profile
    sums: Profile
    following: Profile


def softmax(logit_A: np.ndarray) -> np.ndarray:
    """exp(logit) / sum exp(logit) over the last axis; scipy's takes ten times as long on a few
    choices.

    >>> softmax(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    weight_A = np.exp(logit_A - logit_A.max(-1, keepdims=True))
    return weight_A / weight_A.sum(-1, keepdims=True)


def mixtures(logits: Profile) -> Profile:
    """Both sides' mixtures of their logits.

    >>> mixtures(Profile(np.log([1.0, 3.0]), np.zeros(2))).row_A
    array([0.25, 0.75])
    """
    return Profile(softmax(logits.row_A), softmax(logits.column_M))


def path(
    step: Callable[[Profile, Profile], Profile],
    state: Profile,
    steps: int,
    profile: Callable[[Profile], Profile] = mixtures,
) -> Iterator[Step]:
    """The steps of a dynamic, one by one.

    `profile` makes mixtures of the state (such as logits); step(state, played) is the next state.
    The sums are one pair of arrays, added to in place.

    >>> steps = path(lambda logits, played: logits, Profile(np.zeros(2), np.zeros(2)), steps=3)
    >>> [float(step.sums.row_A[0]) for step in steps]
    [0.5, 1.0, 1.5]
    """
    played = profile(state)
    sums = Profile(np.zeros_like(played.row_A), np.zeros_like(played.column_M))
    for _ in range(steps):
        sums.row_A[:] += played.row_A
        sums.column_M[:] += played.column_M
        state = step(state, played)
        following = profile(state)
        yield Step(played, sums, following)
        played = following


def average(sums: Profile, steps: int) -> Profile:
    """The mean of the profiles of so many steps.

    >>> average(Profile(np.array([3.0, 1.0]), np.array([0.0, 4.0])), 4).row_A
    array([0.75, 0.25])
    """
    return Profile(sums.row_A / steps, sums.column_M / steps)


def end(steps: Iterable[Step]) -> Step:
    """The last step of a path.

    >>> end(path(lambda logits, played: logits, Profile(np.zeros(2), np.zeros(2)), 3)).sums.row_A
    array([1.5, 1.5])
    """
    [last] = deque(steps, maxlen=1)
    return last


def proximal_step(
    logit_A: np.ndarray,
    reward_A: np.ndarray,
    eta: float,
    tau: float = 0.0,
    anchor_A: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The logits [A] of the most gainful policy that stays close to softmax(logit) and
    softmax(anchor).

    argmax_π ⟨π, reward⟩ − tau·KL(π‖softmax(anchor)) − KL(π‖softmax(logit))/eta: (logit +
    eta·(tau·anchor + reward)) / (1 + eta·tau). With anchor 0 the second term is tau times the
    entropy, up to a constant. reward_A: each choice's pay-off. eta: in 1/pay-off. tau: in units of
    pay-off. Source: Sokota et al. 2022, arXiv 2206.05825, §3.

    >>> proximal_step(np.zeros(2), np.array([1.0, 0.0]), eta=0.5, tau=2.0)
    array([0.25, 0.  ])
    """
    return (logit_A + eta * (tau * anchor_A + reward_A)) / (1 + eta * tau)


def multiplicative_weights(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    steps: int,
    eta: float | None = None,
    start: Profile | None = None,
    update: Update = "plain",
) -> Iterates:
    """The mixtures after `steps` simultaneous updates, and their averages over the steps played.

    row_{t+1} ∝ row_t · exp(eta · payoff·column_t); the column player likewise. eta: step size in
    1/pay-off; None is sqrt(8·ln(choices)/steps)/span, with which nash_conv of the averages is at
    most span·sqrt(2·ln(choices)/steps). Of the other updates, which approach equilibrium with the
    last profile, too, where plain ones circle, None is 1/span; an extragradient step takes two
    evaluations. Raises ValueError for wrong pay-offs, start, steps, eta or update. Sources: Freund
    and Schapire 1999, Games and Economic Behavior 29; Cesa-Bianchi and Lugosi 2006, Theorem 2.2;
    Rakhlin and Sridharan 2013, arXiv 1311.1869; Nemirovski 2004, SIAM Journal on Optimization 15.

    >>> dominated = np.array([[2.0, 2.0], [0.0, 1.0]])
    >>> multiplicative_weights(dominated, steps=1000).average.row_A.round(2)
    array([0.99, 0.01])
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(steps=steps, eta=eta)
    if update not in get_args(Update):
        raise ValueError(f"update must be one of {', '.join(get_args(Update))}; it is {update}")
    logits = checked_start(start, row_payoff_AM.shape)
    if eta is None:
        unit = max(span(row_payoff_AM), span(column_payoff_AM))
        bound = float(np.sqrt(8 * np.log(max(2, *row_payoff_AM.shape)) / steps))
        eta = (bound if update == "plain" else 1.0) / unit

    def gains(played: Profile) -> Profile:
        return Profile(row_payoff_AM @ played.column_M, played.row_A @ column_payoff_AM)

    def moved(logits: Profile, gain: Profile) -> Profile:
        return Profile(logits.row_A + eta * gain.row_A, logits.column_M + eta * gain.column_M)

    before: Profile | None = None

    def step(logits: Profile, played: Profile) -> Profile:
        nonlocal before
        gain = gains(played)
        last, before = before or gain, gain
        if update == "optimistic":
            gain = Profile(2 * gain.row_A - last.row_A, 2 * gain.column_M - last.column_M)
        elif update == "extragradient":
            gain = gains(mixtures(moved(logits, gain)))
        return moved(logits, gain)

    last = end(path(step, logits, steps))
    return Iterates(last.following, average(last.sums, steps))


def mirror_descent(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    tau: float,
    steps: int,
    eta: float | None = None,
    anchor: Profile | None = None,
    start: Profile | None = None,
) -> Iterates:
    """The mixtures after `steps` simultaneous updates that are pulled towards an anchor; their
    averages.

    row_{t+1} ∝ [row_t · anchor_row^(eta·tau) · exp(eta · payoff·column_t)]^(1/(1 + eta·tau)), which
    minimises −eta·⟨row, payoff·column_t⟩ + eta·tau·KL(row‖anchor_row) + KL(row‖row_t); the column
    player likewise. In zero-sum games `last` converges to the one profile with row ∝
    anchor_row·exp(payoff·column/tau) and column alike, its KL distance shrinking by 1/(1 + eta·tau)
    a step. It is the game of KL-regularised preference optimisation, the anchor the reference
    policy. tau: in units of pay-off. eta: in 1/pay-off; None is 4·tau/span², the largest for which
    convergence is proved. Raises ValueError for wrong pay-offs, anchor, start, tau, steps or eta.
    Source: magnetic mirror descent, Sokota et al. 2022, arXiv 2206.05825, §3.

    >>> pennies = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> start = Profile(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    >>> mirror_descent(pennies, tau=0.5, steps=200, start=start).last.row_A.round(3)
    array([0.5, 0.5])
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(tau=tau, steps=steps, eta=eta)
    anchor_A, anchor_M = checked_start(anchor, row_payoff_AM.shape, "anchor")
    logits = checked_start(start, row_payoff_AM.shape)
    if eta is None:
        # Half the span bounds the pay-offs once a constant, which changes no mixture, is taken off.
        eta = 4 * tau / max(span(row_payoff_AM), span(column_payoff_AM)) ** 2

    def step(logits: Profile, played: Profile) -> Profile:
        reward_A = row_payoff_AM @ played.column_M
        reward_M = played.row_A @ column_payoff_AM
        return Profile(
            proximal_step(logits.row_A, reward_A, eta, tau, anchor_A),
            proximal_step(logits.column_M, reward_M, eta, tau, anchor_M),
        )

    last = end(path(step, logits, steps))
    return Iterates(last.following, average(last.sums, steps))


def fictitious_play(
    payoff_AM: np.ndarray, column_payoff_AM: np.ndarray | None = None, *, steps: int
) -> Iterates:
    """Frequencies of best replies to the frequencies so far; `last` is the last round's pure
    replies.

    a_{t+1} = argmax_a (payoff·column frequencies_t)_a, the lowest index on ties; the column player
    likewise. Beliefs start from one imagined round against a uniform opponent; the averages count
    real rounds only. In zero-sum games they converge, often like 1/sqrt(steps), in the worst case
    much slower; elsewhere they may cycle. Raises ValueError for wrong pay-offs or steps. Source:
    Brown 1951; Robinson 1951, Annals of Mathematics 54; the slow case: Daskalakis and Pan 2014,
    arXiv 1412.1840.

    >>> fictitious_play(np.array([[2.0, 2.0], [0.0, 1.0]]), steps=10).average.row_A
    array([1., 0.])
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(steps=steps)
    pure_AA, pure_MM = map(np.eye, row_payoff_AM.shape)
    rewards = Profile(row_payoff_AM.mean(1), column_payoff_AM.mean(0))

    def best_replies(rewards: Profile) -> Profile:
        return Profile(pure_AA[rewards.row_A.argmax()], pure_MM[rewards.column_M.argmax()])

    def step(rewards: Profile, played: Profile) -> Profile:
        return Profile(
            rewards.row_A + row_payoff_AM @ played.column_M,
            rewards.column_M + played.row_A @ column_payoff_AM,
        )

    last = end(path(step, rewards, steps, best_replies))
    return Iterates(last.played, average(last.sums, steps))


def replicator(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    time: float,
    start: Profile | None = None,
) -> Iterates:
    """The mixtures at `time` (in 1/pay-off) of replicator dynamics, and their averages over [0,
    time].

    d row_a/dt = row_a · ((payoff·column)_a − rowᵀ·payoff·column); the column player likewise.
    Integrated in Y_row = ∫ row dt and Y_column, since row(t) = softmax(log row(0) +
    payoff·Y_column(t)): no mixture can leave the simplex, and the averages Y/time are exact. From
    the uniform start their nash_conv is at most 2·ln(choices)/time. Raises ValueError for wrong
    pay-offs, start or time, EquipoiseError when the integration fails. Source: Taylor and Jonker
    1978, Mathematical Biosciences 40; the exponential form, Hofbauer, Sorin and Viossat 2009,
    Mathematics of Operations Research 34.

    >>> replicator(np.array([[2.0, 2.0], [0.0, 1.0]]), time=20.0).last.row_A.round(3)
    array([1., 0.])
    """
    from scipy.integrate import solve_ivp

    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(time=time)
    logit_A, logit_M = checked_start(start, row_payoff_AM.shape)
    rows = len(logit_A)

    def profile(integral: np.ndarray) -> Profile:
        row_A = softmax(logit_A + row_payoff_AM @ integral[rows:])
        return Profile(row_A, softmax(logit_M + integral[:rows] @ column_payoff_AM))

    solution = solve_ivp(
        lambda _, integral: np.concatenate(profile(integral)),
        (0.0, time),
        np.zeros(sum(row_payoff_AM.shape)),
        method="DOP853",
        rtol=1e-8,
        atol=1e-8,
        t_eval=[time],
    )
    if not solution.success:
        raise EquipoiseError(
            f"replicator dynamics could not be integrated to time {time}: {solution.message}"
        )
    integral = solution.y[:, -1]
    integrals = Profile(integral[:rows], integral[rows:])
    return Iterates(profile(integral), Profile(integrals.row_A / time, integrals.column_M / time))


class Dynamic(Solver):
    """A population's mixture by a dynamic of it against itself, from a uniform start."""

    iterate: IterateName = Field(
        "average", description="average converges in constant-sum games, last in many others"
    )

    @abstractmethod
    def play(self, payoff_NN: np.ndarray) -> Iterates:
        """The dynamic on a square, finite matrix."""

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        return self.play(payoff_NN).pick(self.iterate).row_A


class Multiplicative(Dynamic):
    """Multiplicative weights (Hedge)."""

    kind: Literal["multiplicative"] = "multiplicative"
    steps: int = Field(10_000, ge=1, description="updates")
    eta: float | None = Field(
        None, gt=0, description="step size in 1/pay-off; null chooses it from steps and pay-offs"
    )
    update: Update = Field(
        "plain",
        description="optimistic and extragradient ones come to rest with iterate: last, too",
    )

    def play(self, payoff_NN: np.ndarray) -> Iterates:
        return multiplicative_weights(
            payoff_NN, payoff_NN.T, steps=self.steps, eta=self.eta, update=self.update
        )


class Replicator(Dynamic):
    """Replicator dynamics."""

    kind: Literal["replicator"] = "replicator"
    time: float = Field(
        1000.0, gt=0, description="length of the path, in units of 1/(largest − smallest pay-off)"
    )

    def play(self, payoff_NN: np.ndarray) -> Iterates:
        return replicator(payoff_NN, payoff_NN.T, time=self.time / span(payoff_NN))


class Fictitious(Solver):
    """A population's mixture by fictitious play against itself."""

    kind: Literal["fictitious"] = "fictitious"
    steps: int = Field(20_000, ge=1, description="rounds")

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        return fictitious_play(payoff_NN, payoff_NN.T, steps=self.steps).average.row_A


class Mirror(Dynamic):
    """Mirror descent with a uniform anchor."""

    kind: Literal["mirror"] = "mirror"
    tau: float = Field(
        0.02, gt=0, description="weight of the anchor, in units of (largest − smallest pay-off)"
    )
    eta: float | None = Field(
        None, gt=0, description="step size in 1/(that unit); null is 4·tau, proved to converge"
    )
    steps: int = Field(
        10_000,
        ge=1,
        description="updates; some 10/(eta·tau) of them reach the regularised equilibrium",
    )
    iterate: IterateName = Field(
        "last", description="last converges to the regularised equilibrium; average is slower"
    )

    def play(self, payoff_NN: np.ndarray) -> Iterates:
        scaled_NN = payoff_NN / span(payoff_NN)
        return mirror_descent(scaled_NN, scaled_NN.T, tau=self.tau, eta=self.eta, steps=self.steps)
