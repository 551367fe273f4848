"""Learning on a finite game: the exact expectation of a loss over pairs, minimised exactly.

The losses are those of language models. The expectation is over the pairs that the sampling policy
would produce: two moves drawn from it, the winner drawn by how often it beats the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.losses.base import PairBatch, PreferenceLoss, check_rows
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.players.base import Player
from equipoise.players.tabular import Tabular, log_softmax, write_policy
from equipoise.types import PlayerId

if TYPE_CHECKING:
    import torch

# Nats that one Newton step may go: where a sigmoid is flat, its minimiser seems infinitely far
# away.
LONGEST = 100.0
UNDERFLOW = 1e-280  # curvature below which the digits of a double run out

Opponents = Sequence[tuple[np.ndarray, float]]  # (logits_A in nats, weight)


class TabularLearner(Learner):
    """One generation: minimise `loss` over `sampler`'s pairs, decided by zero-sum pay-offs."""

    kind: Literal["tabular"] = "tabular"
    needs: ClassVar = "game"
    sampler: Literal["current", "initial"] = Field(
        "current",
        description="whose moves are paired: π_t's, or (fixed, offline pairs) those "
        "of the start π_0",
    )
    payoff_scale: float = Field(
        1.0, gt=0, description="the pay-off of a sure win; P(a beats b) = ½ + pay-off/(2·scale)"
    )
    solver: Literal["exact", "gradient"] = Field(
        "exact", description="Newton's method, or plain gradient descent"
    )
    iterations: int = Field(
        100, ge=1, description="of the solver: at most so many (exact), or exactly (gradient)"
    )
    learning_rate: float | None = Field(
        default_factory=lambda data: 1.0 if data.get("solver") == "gradient" else None,
        gt=0,
        description="of gradient descent on the logits",
    )

    @model_validator(mode="after")
    def _all_read(self) -> TabularLearner:
        if (self.learning_rate is None) == (self.solver == "gradient"):
            raise ValueError(
                "learning_rate is read by solver: gradient only, and needed there; "
                f"this is {self.solver}"
            )
        return self

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        if not isinstance(player, Tabular):
            yield f"'tabular' trains tabular players, not '{player.kind}'"
            return
        try:
            win_AA = win_probabilities(game.payoff_AM(), self.payoff_scale)
            logits_A = player.logits_A(None, len(win_AA))
            _check_all_possible(logits_A)
        except ConfigError as error:
            yield str(error).removeprefix("learner: ")

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next policy; returns `loss`, `distance`, and in nats `entropy` and `kl`.

        `kl` is from the previous policy, `distance` (nats) from the minimiser as Newton's method
        estimates it; it stays large where the minimiser is at infinity (a sigmoid distance where
        some move always wins). Raises ConfigError for a player, a loss or a game that does not fit.
        """
        if batch.loss is None or not isinstance(batch.player, Tabular):
            raise ConfigError("learner: 'tabular' trains a tabular player, by a loss")
        win_AA = win_probabilities(batch.game.payoff_AM(), self.payoff_scale)
        generations = range(batch.learner.generation, -1, -1)
        past = [PlayerId(batch.learner.name, generation) for generation in generations]
        folders = dict(zip(past, batch.past_weights, strict=True))
        start = batch.player

        @cache
        def logits_A(player: PlayerId) -> np.ndarray:
            values_A = start.logits_A(folders[player], len(win_AA))
            _check_all_possible(values_A)
            return values_A

        problem = expectation(batch.loss, win_AA, past, logits_A, self.sampler)
        before_A = logits_A(past[0])
        init_from = batch.loss.init_from(OpponentPool(past))
        after_A, facts = self.minimise(problem, logits_A(init_from))
        write_policy(batch.output, after_A)
        before_A, after_A = log_softmax(before_A), log_softmax(after_A)
        facts["entropy"] = float(-(np.exp(after_A) * after_A).sum())
        facts["kl"] = max(0.0, float((np.exp(after_A) * (after_A - before_A)).sum()))
        batch.log({"steps": 1, **facts})
        return facts

    def minimise(
        self, problem: Expectation, start_A: np.ndarray
    ) -> tuple[np.ndarray, dict[str, float]]:
        """(the minimiser's logits in nats with mean 0; `loss` and `distance`)."""
        if self.learning_rate is None:
            return newton(problem, start_A, self.iterations)
        return descend(problem, start_A, self.iterations, self.learning_rate)


class Expectation:
    """The expected loss as a function of the policy's logits.

    `pair_AA[i, j]` is the weight of chosen i and rejected j; `score_A` is P(move beats those that
    it is scored against).
    """

    def __init__(
        self, loss: PreferenceLoss, pair_AA: np.ndarray, opponents: Opponents, score_A: np.ndarray
    ) -> None:
        import torch

        size = len(pair_AA)
        self.loss = loss
        self.chosen_B, self.rejected_B = (
            torch.from_numpy(index.ravel()) for index in np.indices((size, size))
        )
        self.pair_B = torch.from_numpy(pair_AA.astype(np.float64).ravel())
        logprob_KA = np.array([log_softmax(logits_A) for logits_A, _ in opponents]).reshape(
            -1, size
        )
        self.opponent_KA = torch.from_numpy(logprob_KA)
        self.weight_K = torch.tensor([weight for _, weight in opponents], dtype=torch.float64)
        self.score_A = torch.from_numpy(np.asarray(score_A, np.float64))
        self.tokens_B = torch.ones(size * size, dtype=torch.float64)

    def of(self, chosen_B: torch.Tensor, rejected_B: torch.Tensor) -> torch.Tensor:
        """Σ_ij pair[i, j] · loss(i, j), a scalar, at these log-probabilities of the pairs."""
        batch = PairBatch(
            chosen_B,
            rejected_B,
            self.opponent_KA[:, self.chosen_B],
            self.opponent_KA[:, self.rejected_B],
            self.tokens_B,
            self.tokens_B,
            self.score_A[self.chosen_B],
            self.score_A[self.rejected_B],
            self.weight_K,
        )
        loss_B = self.loss.rows(batch)
        check_rows(self.loss, loss_B, batch)
        return (self.pair_B * loss_B).sum()

    def value(self, logits_A: np.ndarray) -> float:
        import torch

        logprob_A = torch.from_numpy(log_softmax(logits_A))
        return self.of(logprob_A[self.chosen_B], logprob_A[self.rejected_B]).item()

    def gradient(self, logits_A: np.ndarray) -> tuple[float, np.ndarray]:
        """(value, gradient [A]) at `logits_A`, by automatic differentiation."""
        import torch

        point_A = torch.from_numpy(logits_A).requires_grad_()
        logprob_A = point_A.log_softmax(0)
        value = self.of(logprob_A[self.chosen_B], logprob_A[self.rejected_B])
        return value.item(), torch.autograd.grad(value, point_A)[0].numpy()

    def derivatives(self, logits_A: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, gradient [A], Hessian [A, A]) at `logits_A`.

        A row depends on its own two log-probabilities alone, so three backward passes give all
        second derivatives; d log π_i / d logit_k = [i = k] − π_k.
        """
        import torch

        logprob_A, size = torch.from_numpy(log_softmax(logits_A)), len(logits_A)
        pair = [logprob_A[index].requires_grad_() for index in (self.chosen_B, self.rejected_B)]
        value = self.of(*pair)
        first = torch.autograd.grad(value, pair, create_graph=True)
        over_chosen = torch.autograd.grad(
            first[0].sum(), pair, retain_graph=True, materialize_grads=True
        )
        over_rejected = torch.autograd.grad(first[1].sum(), pair[1], materialize_grads=True)[0]
        chosen_AA, rejected_AA, both_AA, twice_chosen_AA, twice_rejected_AA = (
            x.detach().numpy().reshape(size, size)
            for x in (*first, over_chosen[1], over_chosen[0], over_rejected)
        )
        slope_A = chosen_AA.sum(1) + rejected_AA.sum(0)
        curvature_AA = (
            both_AA + both_AA.T + np.diag(twice_chosen_AA.sum(1) + twice_rejected_AA.sum(0))
        )
        policy_A = softmax(logits_A)
        jacobian_AA = np.eye(size) - policy_A
        hessian_AA = jacobian_AA.T @ curvature_AA @ jacobian_AA
        hessian_AA -= slope_A.sum() * (np.diag(policy_A) - np.outer(policy_A, policy_A))
        return value.item(), slope_A - slope_A.sum() * policy_A, hessian_AA


def expectation(
    loss: PreferenceLoss,
    win_AA: np.ndarray,
    past: Sequence[PlayerId],
    logits_A: Callable[[PlayerId], np.ndarray],
    sampler: Literal["current", "initial"] = "current",
) -> Expectation:
    """The expected `loss` after `past`, newest first; `logits_A` gives logits, in nats."""
    sampler_A = softmax(logits_A(past[0] if sampler == "current" else past[-1]))
    pool = OpponentPool(past)
    shares = loss.wins_against(pool)
    beaten_A = np.sum([weight * softmax(logits_A(player)) for player, weight in shares], axis=0)
    opponents = [(logits_A(player), weight) for player, weight in loss.opponents(pool)]
    pair_AA = judged_pairs(win_AA, sampler_A)
    return Expectation(loss, pair_AA, opponents, win_AA @ beaten_A)


def _check_all_possible(logits_A: np.ndarray) -> None:
    if not np.isfinite(logits_A).all():
        raise ConfigError(
            "a tabular learner cannot start from probabilities of 0: give each move a little"
        )


def win_probabilities(payoff_AM: np.ndarray | None, scale: float = 1.0) -> np.ndarray:
    """P(a beats b) = (1 + payoff[a, b]/scale)/2, [A, A]; ConfigError for no preference."""
    if payoff_AM is None or payoff_AM.shape[0] != payoff_AM.shape[1]:
        raise ConfigError(
            "learner: 'tabular' needs a finite game in which both seats have the same moves"
        )
    if np.abs(payoff_AM + payoff_AM.T).max() > 1e-9 * scale:
        raise ConfigError(
            "learner: 'tabular' needs a symmetric zero-sum game, payoff[a, b] = "
            "-payoff[b, a]: only there does one move beat the other with a probability"
        )
    if np.abs(payoff_AM).max() > scale:
        raise ConfigError(
            f"learner.payoff_scale: pay-offs reach {np.abs(payoff_AM).max():g}, more "
            f"than the {scale:g} of a sure win; set payoff_scale to at least that"
        )
    return (1 + payoff_AM / scale) / 2


def judged_pairs(win_AA: np.ndarray, sampler_A: np.ndarray) -> np.ndarray:
    """The distribution of (chosen, rejected), [A, A], both drawn from `sampler_A`."""
    return 2 * win_AA * np.outer(sampler_A, sampler_A)


def newton(
    problem: Expectation, start_A: np.ndarray, iterations: int
) -> tuple[np.ndarray, dict[str, float]]:
    """Minimise by Newton's method.

    One step is exact for squared distances of margins. Moves about which the pairs say nothing
    (their probability underflowed) are left alone.
    """
    logits_A = start_A - start_A.mean()
    value, distance = np.inf, np.inf
    for _ in range(iterations):
        value, slope_A, hessian_AA = problem.derivatives(logits_A)
        step_A = newton_step(slope_A, hessian_AA)
        distance = float(np.abs(step_A).max())
        step_A *= min(1.0, LONGEST / max(distance, 1e-300))
        promised = slope_A @ step_A
        # A quadratic keeps half of the promise; a step into the flat tail of a sigmoid keeps
        # little, and is cut.
        while distance > 1e-9 and problem.value(
            logits_A + step_A
        ) > value + 0.3 * promised + 1e-14 * abs(value):
            step_A, promised = step_A / 2, promised / 2
            if np.abs(step_A).max() < 1e-12:
                return logits_A - logits_A.mean(), {"loss": value, "distance": distance}
        if distance < 1e-9:
            break
        logits_A = logits_A + step_A
    return logits_A - logits_A.mean(), {"loss": value, "distance": distance}


def newton_step(slope_A: np.ndarray, hessian_AA: np.ndarray) -> np.ndarray:
    """−H⁻¹·slope, [A], of a function of logits.

    H is singular along the logits' mean. The most curved move is held still, and H is scaled to a
    unit diagonal: a move that is sampled once in 10¹⁰⁰ times is then solved for as accurately as
    any. Where H is not positive definite, negative curvature is turned round.
    """
    curvature_A = np.abs(np.diag(hessian_AA))
    free_A = curvature_A > UNDERFLOW
    free_A[curvature_A.argmax()] = False
    scale_F = 1 / np.sqrt(curvature_A[free_A])
    scaled_FF = scale_F[:, None] * hessian_AA[np.ix_(free_A, free_A)] * scale_F
    slope_F = scale_F * slope_A[free_A]
    step_A = np.zeros_like(slope_A)
    try:
        np.linalg.cholesky(scaled_FF)
        step_A[free_A] = -scale_F * np.linalg.solve(scaled_FF, slope_F)
    except np.linalg.LinAlgError:
        values_F, vectors_FF = np.linalg.eigh(scaled_FF)
        inverse_F = np.where(np.abs(values_F) > 1e-9, 1 / np.maximum(np.abs(values_F), 1e-9), 0.0)
        step_A[free_A] = -scale_F * (vectors_FF @ (inverse_F * (vectors_FF.T @ slope_F)))
    return step_A


def descend(
    problem: Expectation, start_A: np.ndarray, iterations: int, learning_rate: float
) -> tuple[np.ndarray, dict[str, float]]:
    """Plain gradient descent on the logits. `distance` is the length of the last step, in nats."""
    logits_A = start_A - start_A.mean()
    value, slope_A = problem.gradient(logits_A)
    for _ in range(iterations):
        logits_A = logits_A - learning_rate * slope_A
        value, slope_A = problem.gradient(logits_A)
    distance = float(learning_rate * np.abs(slope_A).max())
    return logits_A - logits_A.mean(), {"loss": value, "distance": distance}


def softmax(logits_A: np.ndarray) -> np.ndarray:
    return np.exp(log_softmax(logits_A))
