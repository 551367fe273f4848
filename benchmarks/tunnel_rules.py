"""The learning rules of the wind tunnel: what each makes of the policies so far.

A rule of one's own is one file with a function and a `Rule` that names it:

    from benchmarks.tunnel_rules import Rule

    def move(games, past, step, pull):
        return past[-1] + step * games.wins(past[-1])

    rule = Rule("my rule", move)

`past` are the log-probabilities of all policies so far, [R, A], the start first; `games.wins(log)`
is what every action gains against such policies, [R, A]. The result is logits. A rule has no other
memory: what it needs of earlier steps it reads from `past`.
"""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, logsumexp, wrightomega

from benchmarks.tunnel_games import ABSENT, Games, normalised
from equipoise.solvers.dynamics import proximal_step

Past = Sequence[np.ndarray]
Move = Callable[[Games, Past, float, float], np.ndarray]
"""(games, past, step, pull) -> the logits of the next policies, [R, A]."""
STEPS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PULLS = (0.01, 0.05, 0.2)


@dataclass(frozen=True)
class Rule:
    """A row of the board.

    pulls: the settings of a second number that a rule may have, such as the weight of a reference;
    steps: those of the first. Both are chosen for each family on games of their own. source: an
    arXiv number or a place in this package.
    """

    name: str
    move: Move
    pulls: Sequence[float] = (0.0,)
    steps: Sequence[float] = STEPS
    source: str = ""

    def settings(self) -> list[tuple[float, float]]:
        """Every step with every pull."""
        return list(product(self.steps, self.pulls))


def stay(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """The start, for ever."""
    return past[-1]


def uniform(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Every action alike."""
    return np.where(past[0] > ABSENT / 2, 0.0, past[0])


def plain(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Multiplicative weights; what iterated IPO does to a policy."""
    return past[-1] + step * games.wins(past[-1])


def mnpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Opponents ½ π_t and ½ π_{t−1}."""
    before = past[-2] if len(past) > 1 else past[-1]
    return (past[-1] + before) / 2 + step * games.wins(past[-1])


def inpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """The start has the share `pull` among the opponents."""
    return (1 - pull) * past[-1] + pull * past[0] + step * games.wins(past[-1])


def sppo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Each action's log-ratio is regressed on step·(gain − value) with weight π_t, over normalised
    policies: log π = a − ω(a + log(λ/π_t)), with λ such that they add up to one.
    """
    gain_RA = games.wins(past[-1])
    value_R1 = (np.exp(past[-1]) * gain_RA).sum(axis=1, keepdims=True)
    wanted_RA = past[-1] + step * (gain_RA - value_R1)
    low_R1 = np.full((len(wanted_RA), 1), -60.0)
    high_R1 = np.full((len(wanted_RA), 1), 60.0)
    for _ in range(60):
        middle_R1 = (low_R1 + high_R1) / 2
        log_RA = wanted_RA - wrightomega(wanted_RA + middle_R1 - past[-1])
        large_R1 = np.exp(log_RA).sum(axis=1, keepdims=True) > 1
        low_R1 = np.where(large_R1, middle_R1, low_R1)
        high_R1 = np.where(large_R1, high_R1, middle_R1)
    middle_R1 = (low_R1 + high_R1) / 2
    return wanted_RA - wrightomega(wanted_RA + middle_R1 - past[-1])


def bradley_terry(win_RAA: np.ndarray, log_RA: np.ndarray, guess_RA: np.ndarray) -> np.ndarray:
    """The rewards [R, A] of the Bradley–Terry model of pairs of the policies, by Newton's method
    from a guess.
    """
    policy_RA = np.exp(log_RA)
    reward_RA = guess_RA.copy()
    open_R = np.arange(len(policy_RA))
    for _ in range(25):
        policy = policy_RA[open_R]
        reward = reward_RA[open_R]
        pair = policy[:, :, None] * policy[:, None, :]
        beats = expit(reward[:, :, None] - reward[:, None, :])
        slope = (pair * (win_RAA[open_R] - beats)).sum(axis=2)
        curve = pair * beats * (1 - beats)
        scale = 1 / np.sqrt(np.maximum(curve.sum(axis=2), 1e-150))
        # The sum of the rewards is free; scaled to a unit diagonal, whatever is hardly sampled.
        curve *= -scale[:, :, None] * scale[:, None, :]
        curve += (1 + 1e-9) * np.eye(curve.shape[1])
        move = scale * np.linalg.solve(curve, (scale * slope)[..., None])[..., 0]
        reward = reward + np.clip(move, -2, 2)
        reward_RA[open_R] = reward - (policy * reward).sum(axis=1, keepdims=True)
        open_R = open_R[np.abs(policy * move).max(axis=1) > 1e-7]
        if not len(open_R):
            break
    return reward_RA


def dpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """On fresh pairs, the start as reference; β = 4/step, the step to first order around P = ½."""
    guess_RA = 4 / step * (past[-1] - past[0])
    return past[0] + step / 4 * bradley_terry(games.pairs(past[-1]), past[-1], guess_RA)


def iterated_dpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """On fresh pairs, the policy that sampled them as reference; DNO's loss, too."""
    before = past[-2] if len(past) > 1 else past[-1]
    guess_RA = 4 / step * (past[-1] - before)
    return past[-1] + step / 4 * bradley_terry(games.pairs(past[-1]), past[-1], guess_RA)


def nash_md(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Multiplicative weights from, and against, the policy mixed with the start."""
    mixed_RA = normalised((1 - pull) * past[-1] + pull * past[0])
    return mixed_RA + step * games.wins(mixed_RA)


def magnetic(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Magnetic mirror descent; the magnet is uniform, its weight τ the pull."""
    magnet_RA = np.where(past[0] > ABSENT / 2, 0.0, past[0])
    return proximal_step(past[-1], games.wins(past[-1]), step, pull, magnet_RA)


def optimistic(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Optimistic multiplicative weights: 2·g_t − g_{t−1}, both asked for anew."""
    before = past[-2] if len(past) > 1 else past[-1]
    return past[-1] + step * (2 * games.wins(past[-1]) - games.wins(before))


def optimistic_by_past(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Without g_{t−1}: opponents ½ π_t, ¼ π_{t−1}, … of nine policies, and a doubled target."""
    window = [past[-k] for k in range(1, min(9, len(past)) + 1)]
    shares = [0.5**k for k in range(1, len(window))]
    shares.append(0.5 ** (len(window) - 1))
    opponents_RA = sum(w * log_RA for w, log_RA in zip(shares, window, strict=True))
    return opponents_RA + 2 * step * games.wins(past[-1])


def extragradient(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """A plain half step is asked what to do for the step."""
    half_RA = normalised(plain(games, past, step, pull))
    return past[-1] + step * games.wins(half_RA)


def egpo(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """As `extragradient`, both steps from the policy mixed with the start."""
    mixed_RA = (1 - pull) * past[-1] + pull * past[0]
    half_RA = normalised(mixed_RA + step * games.wins(past[-1]))
    return mixed_RA + step * games.wins(half_RA)


def mirror_prox(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Nash mirror prox: two proximal steps with weight `pull` on KL from the start."""
    half_RA = normalised(proximal_step(past[-1], games.wins(past[-1]), step, pull, past[0]))
    return proximal_step(past[-1], games.wins(half_RA), step, pull, past[0])


def nash_prox(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """The proximal point, a policy that answers itself near the old one, by four inner steps."""
    inner_RA = past[-1]
    for _ in range(4):
        inner_RA = normalised(proximal_step(past[-1], games.wins(inner_RA), step, pull, past[0]))
    return inner_RA


def prosper(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """One player against the adversary that answers its policy best near the start (β the pull), by
    the criterion by which that gains most; π ∝ π_t·exp(step·P(y is preferred to the adversary)).
    """
    beaten_CRA = games.criteria(past[-1])
    log_CRA = past[0] + beaten_CRA / pull
    worst_R = logsumexp(log_CRA, axis=2).argmax(axis=0)
    rows = np.arange(len(worst_R))
    adversary_RA = normalised(log_CRA[worst_R, rows])
    gain_CRA = games.criteria(adversary_RA)
    return past[-1] + step * gain_CRA[worst_R, rows]


def least(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Multiplicative weights by the least of an action's gains over the criteria."""
    return past[-1] + step * games.criteria(past[-1]).min(axis=0)


def welfare(games: Games, past: Past, step: float, pull: float) -> np.ndarray:
    """Multiplicative weights by the geometric mean of an action's gains, as GTAlign's welfare."""
    gain_CRA = np.maximum(games.criteria(past[-1]), 1e-9)
    return past[-1] + step * np.exp(np.log(gain_CRA).mean(axis=0))


RULES = [
    Rule("the start", stay, steps=(1.0,)),
    Rule("uniform", uniform, steps=(1.0,)),
    Rule("multiplicative weights", plain, source="loss ipo, iterated"),
    Rule("MNPO, two past", mnpo, source="loss mnpo"),
    Rule("INPO", inpo, PULLS, source="loss inpo"),
    Rule("SPPO", sppo, source="loss sppo"),
    Rule("DPO online", dpo, source="loss dpo"),
    Rule("DPO iterated", iterated_dpo, source="losses dpo, dno"),
    Rule("Nash-MD", nash_md, PULLS, source="arXiv 2312.00886"),
    Rule("magnetic mirror descent", magnetic, PULLS, source="solver mirror"),
    Rule("optimistic (OMWU)", optimistic, source="loss optimistic"),
    Rule("optimistic, by its past", optimistic_by_past, source="loss optimistic"),
    Rule("extragradient", extragradient, source="loss extragradient"),
    Rule("EGPO", egpo, PULLS, source="arXiv 2503.08942"),
    Rule("Nash mirror prox", mirror_prox, PULLS, source="arXiv 2505.19731 v1"),
    Rule("Nash Prox, four inner", nash_prox, PULLS, source="arXiv 2505.19731 v2"),
    Rule("PROSPER", prosper, PULLS, source="judge panel how prosper"),
    Rule("least of the criteria", least, source="judge panel how least"),
    Rule("product of the criteria", welfare, source="judge panel how product"),
]


def load(given: str) -> Rule:
    """The rule of a file, `my_rule.py`, or of an import path, `package.module` or
    `package.module:name`. Raises ValueError, which says what is wrong.
    """
    place, _, name = given.partition(":")
    name = name or "rule"
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise ValueError(f"--rule {given}: there is no such file")
        held = runpy.run_path(place)
    else:
        try:
            held = vars(importlib.import_module(place))
        except ImportError as error:
            raise ValueError(
                f"--rule {given}: {error}; name a file, my_rule.py, or a module"
            ) from error
    rule = held.get(name)
    if not isinstance(rule, Rule):
        raise ValueError(
            f'--rule {given}: it has no `{name}`; write {name} = Rule("its name", move), '
            "with Rule from benchmarks.tunnel_rules"
        )
    if rule.name in {member.name for member in RULES} and rule not in RULES:
        raise ValueError(f"--rule {given}: '{rule.name}' is a row already; choose another name")
    return rule
