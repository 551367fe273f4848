"""SPARTA's reputations (arXiv 2506.04721), duel by duel, with its three kinds of scores.

R_i ← max(10, R_i + K/c · (s̄_i − s̄_j) · tanh(σ_i) · max(|Φ(z) − Φ(−z)|, ε)), z = (R_i −
R_j)/√(σ_i² + σ_j²), K = max(5, 10 · 0.9^(n/10)), n counting this duel
"""

from math import sqrt, tanh
from random import Random
from statistics import NormalDist, pstdev

NAMES = ("m0", "m1", "m2", "m3", "m4")
CONSTANTS = {
    "initial_k": 10.0,
    "min_k": 5.0,
    "window": 10,
    "min_deviation": 0.1,
    "epsilon": 0.01,
    "decay_rate": 0.9,
    "decay_steps": 10,
    "initial_rating": 100.0,
    "initial_deviation": 0.5,
    "rating_floor": 10.0,
}
DUELS = 40
EARLIER = (  # reputations at the end of iterations 1 and 2
    {"m0": 100, "m1": 104, "m2": 97, "m3": 108, "m4": 111},
    {"m0": 103, "m1": 110, "m2": 96, "m3": 95, "m4": 115},
)
FACTORS = {  # the lowest-rated, by hand: m2 after iteration 1; m3, then m2 after 2
    ("normal", 0): {},
    ("dynamic", 0): {},
    ("static", 0): {},
    ("dynamic", 3): {"m3": 0.0, "m2": 0.1},
    ("static", 3): {"m2": 0.0, "m3": 0.1},
}


def mean(scores: dict, weights: dict, side: int) -> float:
    total = sum(weights[judge] for judge in scores)
    return sum(weights[judge] * both[side] for judge, both in scores.items()) / total


def played(dice: Random) -> list:
    duels = []
    for _ in range(DUELS):
        a, b = dice.sample(range(len(NAMES)), 2)
        judges = [name for n, name in enumerate(NAMES) if n not in (a, b)]
        scores = {
            judge: [round(min(10.0, max(1.0, 3 + side + dice.gauss(0, 2))), 2) for side in (a, b)]
            for judge in judges
        }
        duels.append({"players": [NAMES[a], NAMES[b]], "judge_scores": scores})
    return duels


def case(kind: str, iteration: int, dice: Random) -> dict:
    scaling = 10.0 if kind == "dynamic" else 20.0
    factors = {name: FACTORS[kind, iteration].get(name, 1.0) for name in NAMES}
    rating = dict.fromkeys(NAMES, 100.0)
    sigma = dict.fromkeys(NAMES, 0.5)
    moves = {name: [] for name in NAMES}
    duels, trajectory = played(dice), []
    for n, duel in enumerate(duels, 1):
        a, b = duel["players"]
        own = {
            name: factors[name] * mean(duel["judge_scores"], rating, side)
            for side, name in enumerate((a, b))
        }
        k = max(5.0, 10 * 0.9 ** (n / 10))
        spread = sqrt(sigma[a] ** 2 + sigma[b] ** 2)
        for i, j in ((a, b), (b, a)):
            z = abs(rating[i] - rating[j]) / spread
            gap = max(NormalDist().cdf(z) - NormalDist().cdf(-z), 0.01)
            step = k / scaling * (own[i] - own[j]) * tanh(sigma[i]) * gap
            before = rating[i]
            rating[i] = max(10.0, before + step)
            moves[i].append(rating[i] - before)
        for i in (a, b):
            if len(moves[i]) > 1:
                sigma[i] = max(0.1, pstdev(moves[i][-10:]))
        trajectory.append({name: [rating[name], sigma[name]] for name in NAMES})
    preferences = []
    for duel in duels:
        a, b = duel["players"]
        first, second = (mean(duel["judge_scores"], rating, side) for side in (0, 1))
        winner, loser = (a, b) if first > second else (b, a)
        preferences.append({"winner": winner, "loser": loser, "margin": abs(first - second)})
    return {
        "kind": kind,
        "iteration": iteration,
        "previous_scores": list(EARLIER) if iteration else [],
        "params": {**CONSTANTS, "scaling": scaling},
        "player_weights": factors,
        "matches": duels,
        "trajectory": trajectory,
        "preferences": preferences,
    }


def vectors() -> dict:
    dice = Random(3)
    return {f"{kind}_iter{iteration}": case(kind, iteration, dice) for kind, iteration in FACTORS}
