"""Every member of the family of preference losses by its own paper's formula, on pairs of
log-probabilities: settings -> a loss for each row.

`opponents` gives the chosen and the rejected answers' log-probabilities of each opponent by
generation, of a learner in generation 4 whose start is 0 and which was sampled at 3.
"""

from math import exp, expm1, log, log1p
from random import Random

ROWS = 5
GENERATIONS = (3, 2, 1, 0)


def softplus(x: float) -> float:
    return max(x, 0.0) + log1p(exp(-abs(x)))  # −log σ(−x)


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def bernoulli_kl(first: float, second: float) -> float:
    """KL of coins that fall heads with the sigmoids of these."""
    p, q = sigmoid(first), sigmoid(second)
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))


def log_odds(mean: float) -> float:
    return mean - log(-expm1(mean))


class Row:
    """One pair: log-probabilities of policy and generations, lengths, scores."""

    def __init__(self, dice: Random) -> None:
        self.tokens = dice.randint(3, 9), dice.randint(3, 9)
        self.policy = dice.uniform(-18, -4), dice.uniform(-18, -4)
        self.past = {t: (dice.uniform(-18, -4), dice.uniform(-18, -4)) for t in GENERATIONS}
        self.scores = dice.uniform(0.5, 1), dice.uniform(0, 0.5)

    def margin(self, logprobs: tuple[float, float], mean: bool = False) -> float:
        chosen, rejected = logprobs
        if mean:
            chosen, rejected = chosen / self.tokens[0], rejected / self.tokens[1]
        return chosen - rejected

    def residual(self, weights: dict[int, float], mean: bool = False) -> float:
        opponents = sum(w * self.margin(self.past[t], mean) for t, w in weights.items())
        return self.margin(self.policy, mean) - opponents

    def log_ratio(self, side: int, t: int) -> float:
        return self.policy[side] - self.past[t][side]


def by_formula():
    """(settings, the formula of a row)."""
    yield {"kind": "dpo", "beta": 0.3}, lambda r: softplus(-0.3 * r.residual({0: 1}))
    yield (
        {"kind": "dpo", "reference": "previous", "length": "mean"},
        lambda r: softplus(-0.1 * r.residual({3: 1}, mean=True)),
    )
    yield (
        {"kind": "simpo", "beta": 2.5, "gamma": 0.7},
        lambda r: softplus(0.7 - 2.5 * r.margin(r.policy, mean=True)),
    )
    yield (
        {"kind": "cpo", "likelihood": 0.5},
        lambda r: softplus(-0.1 * r.margin(r.policy)) - 0.5 * r.policy[0] / r.tokens[0],
    )
    yield (
        {"kind": "orpo", "odds_weight": 0.4},
        lambda r: (
            -r.policy[0] / r.tokens[0]
            + 0.4
            * softplus(log_odds(r.policy[1] / r.tokens[1]) - log_odds(r.policy[0] / r.tokens[0]))
        ),
    )
    yield (
        {"kind": "rdpo", "alpha": 0.05},
        lambda r: softplus(-0.1 * r.residual({0: 1}) - 0.05 * (r.tokens[0] - r.tokens[1])),
    )
    yield (
        {"kind": "kto", "point": 1.5, "desirable": 1.2, "undesirable": 0.7},
        lambda r: (
            1.2 * (1 - sigmoid(0.1 * (r.log_ratio(0, 0) - 1.5)))
            + 0.7 * (1 - sigmoid(0.1 * (1.5 - r.log_ratio(1, 0))))
        ),
    )
    yield (
        {"kind": "distill_dpo", "beta": 0.2},
        lambda r: (0.2 * r.residual({0: 1}) - (r.scores[0] - r.scores[1])) ** 2,
    )
    yield {"kind": "ipo", "tau": 0.25}, lambda r: (r.residual({0: 1}) - 2) ** 2
    yield {"kind": "dno"}, lambda r: softplus(-0.1 * r.residual({3: 1}))
    yield {"kind": "spin", "beta": 0.5}, lambda r: softplus(-0.5 * r.residual({3: 1}))
    yield (
        {"kind": "sppo", "eta": 8.0},
        lambda r: (
            (r.log_ratio(0, 3) - 8 * (r.scores[0] - 0.5)) ** 2
            + (r.log_ratio(1, 3) - 8 * (r.scores[1] - 0.5)) ** 2
        ),
    )
    yield (
        {"kind": "sppo", "eta": 8.0, "target": "constant"},
        lambda r: (r.log_ratio(0, 3) - 4) ** 2 + (r.log_ratio(1, 3) + 4) ** 2,
    )
    yield (
        {"kind": "inpo", "tau": 0.1, "eta": 0.4},
        lambda r: (r.residual({0: 0.25, 3: 0.75}) - 5) ** 2,
    )
    yield (
        {"kind": "inpo", "tau": 0.1, "eta": 0.4, "target": "eta"},
        lambda r: (r.residual({0: 0.25, 3: 0.75}) - 1.25) ** 2,
    )
    # at tau = eta the current policy is no opponent any more
    yield ({"kind": "inpo", "tau": 0.2, "eta": 0.2}, lambda r: (r.residual({0: 1}) - 2.5) ** 2)
    yield (
        {"kind": "mnpo", "weights": [3, 1], "ratio": 0.2, "eta": 0.25},
        lambda r: (r.residual({3: 0.6, 2: 0.2, 0: 0.2}) - 2) ** 2,
    )
    yield (
        {"kind": "mnpo", "target": "reward", "eta": 4.0},
        lambda r: (r.residual({3: 0.5, 2: 0.5}) - 4 * (r.scores[0] - r.scores[1])) ** 2,
    )
    yield (
        {"kind": "mnpo", "target": "probability", "eta": 4.0},
        lambda r: (r.residual({3: 0.5, 2: 0.5}) - 4 * (r.scores[0] - r.scores[1])) ** 2,
    )
    yield (
        {"kind": "mnpo", "distance": "sigmoid", "beta": 0.3},
        lambda r: softplus(-0.3 * r.residual({3: 0.5, 2: 0.5})),
    )
    yield (
        {"kind": "mnpo", "distance": "bernoulli", "eta": 0.25, "beta": 0.3},
        lambda r: bernoulli_kl(0.3 * 2, 0.3 * r.residual({3: 0.5, 2: 0.5})),
    )
    yield (
        {"kind": "mnpo", "distance": "bernoulli", "target": "reward", "eta": 4.0, "beta": 1.0},
        lambda r: bernoulli_kl(4 * (r.scores[0] - r.scores[1]), r.residual({3: 0.5, 2: 0.5})),
    )
    yield ({"kind": "mnpo", "against": {}, "eta": 0.25}, lambda r: (r.margin(r.policy) - 2) ** 2)
    # scores are 2 P(· beats π_3) − P(· beats π_2) here
    yield (
        {"kind": "optimistic", "eta": 4.0},
        lambda r: (r.residual({3: 1}) - 4 * (r.scores[0] - r.scores[1])) ** 2,
    )
    # π_3 moved by 2 g_3 − g_2 / g_2 = half the last move, a quarter of the one before, …
    yield (
        {"kind": "optimistic", "target": "constant", "eta": 0.5},
        lambda r: (r.residual({3: 1 / 2, 2: 1 / 4, 1: 1 / 8, 0: 1 / 8}) - 2) ** 2,
    )
    # with a tenth of the start, each move was (1 − .1) of the last policy, .1 of the start, and g
    yield (
        {"kind": "optimistic", "target": "constant", "eta": 0.5, "ratio": 0.1},
        lambda r: (r.residual({3: 0.4, 2: 0.2, 1: 0.1, 0: 0.9 / 8 + 0.1 * (2 - 1 / 8)}) - 2) ** 2,
    )
    # g is the reward, and the pair's answers are kept likely
    yield (
        {"kind": "optimistic", "target": "reward", "eta": 3.0, "likelihood": 0.5},
        lambda r: (
            (
                r.residual({3: 1 / 2, 2: 1 / 4, 1: 1 / 8, 0: 1 / 8})
                - 2 * 3 * (r.scores[0] - r.scores[1])
            )
            ** 2
            - 0.5 * log(exp(r.policy[0]) + exp(r.policy[1]))
        ),
    )
    yield (
        {"kind": "extragradient", "target": "reward", "eta": 3.0},
        lambda r: (r.residual({2: 1}) - 3 * (r.scores[0] - r.scores[1])) ** 2,
    )
    # behind the half step π_3
    yield (
        {"kind": "extragradient", "eta": 0.25, "ratio": 0.2},
        lambda r: (r.residual({2: 0.8, 0: 0.2}) - 2) ** 2,
    )
    yield (
        {"kind": "extragradient", "target": "probability", "eta": 4.0},
        lambda r: (r.residual({2: 1}) - 4 * (r.scores[0] - r.scores[1])) ** 2,
    )
    yield (
        {"kind": "mnpo_released", "weights": [1, 3], "ratio": 0.4, "eta": 0.1},
        lambda r: (r.residual({0: 0.4, 3: 0.15, 2: 0.45}, mean=True) - 5) ** 2,
    )


def vectors() -> dict:
    dice = Random(5)
    rows = [Row(dice) for _ in range(ROWS)]
    return {
        "policy": [row.policy for row in rows],
        "past": {str(t): [row.past[t] for row in rows] for t in GENERATIONS},
        "tokens": [row.tokens for row in rows],
        "scores": [row.scores for row in rows],
        "losses": [
            {"settings": settings, "rows": [formula(row) for row in rows]}
            for settings, formula in by_formula()
        ],
    }
