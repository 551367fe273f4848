"""GPO's idealised algorithm: two players, each taking KL-proximal steps against the other.

    contextual   the game as stated, J = E[r(x, y)] over x ~ μ, y ~ π(·|x): the defender
                 sees the prompt, and has a policy for each
    gpo          a substitute for it, in which both move at once: a matrix game

The averages of the policies played approach equilibrium like 1/sqrt(rounds) in both. The last
policies do so faster in the contextual game, and circle the equilibrium of the substitute.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from equipoise.solvers.base import (
    Iterates,
    Profile,
    checked_mixture,
    checked_payoff,
    checked_positive,
    checked_sides,
    checked_start,
    span,
)
from equipoise.solvers.dynamics import Dynamic, Step, average, end, path, proximal_step, softmax

EntropySide = Literal["both", "column"]
"""The side whose entropy counts; as published the column player's, the adversary's, alone."""

PromptWeights = Literal["played", "uniform"]
"""The weights of prompts in the defender's KL: the adversary's policy μ_t, or all alike."""


class StepSizes(NamedTuple):
    """Step sizes of the two players; all three in units of pay-off."""

    beta: float
    """β, which holds the row player back: the weight of KL(π‖π_t)."""
    eta: float
    """η, which holds the column player back: the weight of KL(μ‖μ_t)."""
    entropy: float = 0.0
    """τ, the weight of the players' entropies; 0 is the algorithm without it."""


def step_sizes(
    payoff_AM: np.ndarray,
    rounds: int,
    column_payoff_AM: np.ndarray | None = None,
    *,
    entropy: bool = False,
) -> StepSizes:
    """β and η of order sqrt(rounds), and for the entropy-regularised variant τ of order
    1/sqrt(rounds).

    β = span·sqrt(rounds/(8·ln A)), η = span·sqrt(rounds/(8·ln M)): they make the bound of `gpo`
    least, span·(sqrt(ln A/(2·rounds)) + sqrt(ln M/(2·rounds))). τ = span/sqrt(2·rounds·ln max(A,
    M)): its bias, τ·(ln A + ln M), is no larger. span: a side's largest pay-off less its smallest.
    A single choice counts as two. Raises ValueError for wrong pay-offs or rounds.

    >>> round(step_sizes(np.array([[1.0, -1.0], [-1.0, 1.0]]), rounds=100).beta, 3)
    8.493
    """
    sides = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(rounds=rounds)
    unit_A, unit_M = map(span, sides)
    log_A, log_M = (float(np.log(max(2, size))) for size in sides[0].shape)
    tau = 0.0
    if entropy:
        tau = max(unit_A, unit_M) / float(np.sqrt(2 * rounds * max(log_A, log_M)))
    return StepSizes(
        unit_A * float(np.sqrt(rounds / (8 * log_A))),
        unit_M * float(np.sqrt(rounds / (8 * log_M))),
        tau,
    )


def gpo(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    rounds: int,
    step: StepSizes | None = None,
    alternate: bool = False,
    start: Profile | None = None,
    entropy_of: EntropySide = "both",
) -> Iterates:
    """The policies after `rounds` KL-proximal steps of both players in a matrix game, and the
    averages of those played.

    Both move at once, so that the row player does not see what it answers: a substitute for the
    published game, which `contextual` plays. π_{t+1} = argmax_π ⟨π, payoff·μ_t⟩ + τ·H(π) −
    β·KL(π‖π_t) ∝ (π_t^β · exp(payoff·μ_t))^(1/(β + τ)), μ_{t+1} = argmin_μ ⟨μ, payoffᵀ·π_t⟩ −
    τ·H(μ) + η·KL(μ‖μ_t), likewise; with `alternate` the column player meets π_{t+1}. In a zero-sum
    game, from the uniform start, nash_conv of the averages is at most (β·ln A + η·ln M)/rounds +
    span²·(1/β + 1/η)/8 + τ·(ln A + ln M), and span/rounds more with `alternate`: of order
    1/sqrt(rounds) for the `step_sizes`.

    With τ = 0 this is the published idealised algorithm, which is multiplicative weights with steps
    1/β and 1/η. With τ > 0 both objectives gain an entropy bonus, or with `entropy_of` "column" the
    column player's alone, as published, without τ·ln A in the bound; the gap that is bounded is
    that of the game without the bonus. column_payoff_AM: where it is not −payoff_AM; no bound holds
    then. step: β, η and τ; None is `step_sizes(…)` without entropy. Raises ValueError for wrong
    pay-offs, start, rounds or step. Source: GPO, arXiv 2406.10977; the bound: mirror descent with a
    composite objective, Duchi et al. 2010, COLT.

    >>> gpo(np.array([[2.0, 2.0], [0.0, 1.0]]), rounds=1000).last.row_A.round(3)
    array([1., 0.])
    """
    last = end(_path(payoff_AM, column_payoff_AM, rounds, step, alternate, start, entropy_of))
    return Iterates(last.following, average(last.sums, rounds))


def _path(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None,
    rounds: int,
    step: StepSizes | None,
    alternate: bool,
    start: Profile | None,
    entropy_of: EntropySide,
) -> Iterator[Step]:
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    beta, eta, tau = step or step_sizes(row_payoff_AM, rounds, column_payoff_AM)
    row_tau = tau if entropy_of == "both" else 0.0
    checked_positive(rounds=rounds, beta=beta, eta=eta, entropy=tau or None)

    def both_step(logits: Profile, played: Profile) -> Profile:
        reward_A = row_payoff_AM @ played.column_M
        logit_A = proximal_step(logits.row_A, reward_A, 1 / beta, row_tau)
        opponent_A = softmax(logit_A) if alternate else played.row_A
        reward_M = opponent_A @ column_payoff_AM
        return Profile(logit_A, proximal_step(logits.column_M, reward_M, 1 / eta, tau))

    return path(both_step, checked_start(start, row_payoff_AM.shape), rounds)


class PromptPolicies(NamedTuple):
    """Policies of the contextual game."""

    answer_MA: np.ndarray
    """The defender's: for each prompt (a row) the probabilities of its answers."""
    prompt_M: np.ndarray
    """The adversary's: the probabilities of the prompts."""


class PromptIterates(NamedTuple):
    """Policies of the contextual game: after the last round, and the averages of those played."""

    last: PromptPolicies
    average: PromptPolicies


def contextual(
    payoff_AM: np.ndarray,
    *,
    rounds: int,
    weights: PromptWeights = "played",
    step: StepSizes | None = None,
    alternate: bool = False,
    entropy_of: EntropySide = "both",
) -> PromptIterates:
    """The policies after `rounds` KL-proximal steps in the game whose row player sees the prompt,
    and the averages of those played, from uniform policies.

    J(π, μ) = Σ_x μ(x)·Σ_y π(y|x)·payoff[y, x]. π_{t+1} = argmax_π J(π, μ_t) − β·Σ_x w_t(x)·
    KL(π(·|x)‖π_t(·|x)), so π_{t+1}(y|x) ∝ π_t(y|x)·exp(μ_t(x)·payoff[y, x]/(β·w_t(x))), with w_t =
    μ_t where `weights` is "played", 1/prompts where "uniform"; μ_{t+1} = argmin_μ J(π_t, μ) + η·
    KL(μ‖μ_t), with `alternate` against π_{t+1}. τ adds entropies, weighed by w_t, as in `gpo`.

    payoff_AM: the defender's for each answer (row) to each prompt (column), in the orientation of
    `gpo`. step: None is `contextual_steps(…)` without entropy. Raises
    ValueError for wrong pay-offs, rounds or step. Source: GPO, arXiv 2406.10977, §3.1 and §3.2.

    >>> pennies = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> contextual(pennies, rounds=100).last.answer_MA.round(3) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    last = end(_contextual_path(payoff_AM, rounds, weights, step, alternate, entropy_of))
    return PromptIterates(
        PromptPolicies(*last.following), PromptPolicies(*average(last.sums, rounds))
    )


def contextual_nash_conv(
    payoff_AM: np.ndarray, answer_MA: np.ndarray, prompt_M: np.ndarray
) -> float:
    """What best replies of both gain in the contextual game, ≥ 0, 0 at equilibrium.

    Σ_x μ(x)·max_y payoff[y, x] − min_x Σ_y π(y|x)·payoff[y, x]. Raises ValueError for wrong
    pay-offs or policies: `answer_MA` has a row for each prompt, a column of the pay-offs.

    >>> contextual_nash_conv(np.eye(2), answer_MA=np.full((2, 2), 0.5), prompt_M=np.ones(2) / 2)
    0.5
    """
    payoff_AM = checked_payoff(payoff_AM)
    answers, prompts = payoff_AM.shape
    answer_MA = np.asarray(answer_MA, dtype=float)
    if answer_MA.shape != (prompts, answers):
        raise ValueError(
            f"answer_MA must have a row for each prompt and a column for each answer, "
            f"({prompts}, {answers}); its shape is {answer_MA.shape}"
        )
    for x, answer_A in enumerate(answer_MA):
        checked_mixture(answer_A, answers, f"answer_MA[{x}]")
    prompt_M = checked_mixture(prompt_M, prompts, "prompt_M")
    value_M = (answer_MA * payoff_AM.T).sum(1)
    return max(0.0, float(prompt_M @ payoff_AM.max(0) - value_M.min()))


def contextual_steps(
    payoff_AM: np.ndarray, rounds: int, weights: PromptWeights = "played", *, entropy: bool = False
) -> StepSizes:
    """β, η and τ of `step_sizes`, β times sqrt(prompts) where the KL's weights are uniform.

    With it nash_conv of the averages is at most (β·ln A + η·ln M)/rounds + span²·(M/β + 1/η)/8 for
    uniform weights. For those played, β·ln A·(1 + ln rounds)/rounds + span/rounds + η·ln M/rounds +
    span²/(8·η). Raises ValueError for wrong pay-offs or rounds.

    >>> contextual_steps(np.eye(4), 100, "uniform").beta / step_sizes(np.eye(4), 100).beta
    2.0
    """
    step = step_sizes(payoff_AM, rounds, entropy=entropy)
    prompts = np.shape(payoff_AM)[1] if weights == "uniform" else 1
    return step._replace(beta=step.beta * float(np.sqrt(prompts)))


def _contextual_path(
    payoff_AM: np.ndarray,
    rounds: int,
    weights: PromptWeights,
    step: StepSizes | None,
    alternate: bool,
    entropy_of: EntropySide,
) -> Iterator[Step]:
    payoff_AM = checked_payoff(payoff_AM)
    beta, eta, tau = step or contextual_steps(payoff_AM, rounds, weights)
    row_tau = tau if entropy_of == "both" else 0.0
    checked_positive(rounds=rounds, beta=beta, eta=eta, entropy=tau or None)
    prompts = payoff_AM.shape[1]

    def both_step(logits: Profile, played: Profile) -> Profile:
        # μ_t(x)/w_t(x)
        share_M1 = prompts * played.column_M[:, None] if weights == "uniform" else 1.0
        logit_MA = proximal_step(logits.row_A, share_M1 * payoff_AM.T, 1 / beta, row_tau)
        met_MA = softmax(logit_MA) if alternate else played.row_A
        reward_M = -(met_MA * payoff_AM.T).sum(1)
        return Profile(logit_MA, proximal_step(logits.column_M, reward_M, 1 / eta, tau))

    return path(both_step, Profile(np.zeros(payoff_AM.T.shape), np.zeros(prompts)), rounds)


class GPO(Dynamic):
    """A population's mixture by GPO's steps against itself; without entropy it is `multiplicative`.

    `entropy`: a bonus that shrinks like 1/sqrt(rounds) and spreads the mixture over equal players.
    """

    kind: Literal["gpo"] = "gpo"
    rounds: int = Field(10_000, ge=1, description="steps of each side; β and η are chosen for them")
    entropy: bool = Field(False, description="add the entropy bonus")

    def play(self, payoff_NN: np.ndarray) -> Iterates:
        step = step_sizes(payoff_NN, self.rounds, payoff_NN.T, entropy=self.entropy)
        return gpo(payoff_NN, payoff_NN.T, rounds=self.rounds, step=step)
