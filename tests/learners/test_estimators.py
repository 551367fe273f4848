"""Estimators as one table, and how a learner's settings name them."""

from statistics import fmean, stdev

import pytest
import torch
from pydantic import ValidationError

from equipoise.errors import ConfigError
from equipoise.learners.base import Learner
from equipoise.learners.estimators import Estimator
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.rollouts import RolloutBatch

REWARDS = [1.0, 0.0, 4.0, 2.0, 3.0]
GROUPS = [0, 0, 1, 1, 1]
ROLES = ["first", "second", "first", "second", "first"]
TOKENS = 3


def batch() -> RolloutBatch:
    """Five moves of three tokens, the last of one token; a critic that expects ½."""
    lengths = [TOKENS] * 4 + [1]
    mask_BT = torch.arange(TOKENS)[None] < torch.tensor(lengths)[:, None]
    return RolloutBatch(
        prompts=[[1]] * 5,
        answers=[[2] * length for length in lengths],
        reward_B=torch.tensor(REWARDS),
        group_B=torch.tensor(GROUPS),
        roles=ROLES,
        mask_BT=mask_BT,
        sampled_BT=torch.zeros(5, TOKENS),
        value_BT=0.5 * mask_BT,
    )


def of_group(n: int) -> list[float]:
    return [reward for reward, group in zip(REWARDS, GROUPS, strict=True) if group == GROUPS[n]]


def of_role(n: int) -> list[float]:
    return [reward for reward, role in zip(REWARDS, ROLES, strict=True) if role == ROLES[n]]


def over_tokens(n: int) -> float:
    """The reward to go less its mean over the tokens of the batch."""
    tokens = [reward for reward in REWARDS[:4] for _ in range(TOKENS)] + REWARDS[4:]
    return REWARDS[n] - fmean(tokens)


def discounted(n: int) -> float:
    """The same of rewards that are halved from token to token."""
    tokens = [r * share for r in REWARDS[:4] for share in (0.25, 0.5, 1)] + REWARDS[4:]
    return REWARDS[n] * (0.25 if n < 4 else 1) - fmean(tokens)


def rescaled(n: int) -> float:
    """What move n is paid where rewards by token have deviation 1, their mean kept."""
    tokens = [x for r in REWARDS[:4] for x in (0.0, 0.0, r)] + REWARDS[4:]
    own = [0.0, 0.0, REWARDS[n]] if n < 4 else REWARDS[4:]
    return sum((x - fmean(tokens)) / stdev(tokens) + fmean(tokens) for x in own) - 0.5


# settings -> the advantage of the first token of move n, by plain arithmetic. A new estimator is a
# row here.
FAMILY = {
    "gae": ({"kind": "gae", "lam": 1.0}, lambda n: REWARDS[n] - 0.5),
    "gae, one step": ({"kind": "gae", "lam": 0.0}, lambda n: REWARDS[n] - 0.5 if n == 4 else 0.0),
    "gae, discounted": (
        {"kind": "gae", "gamma": 0.5, "lam": 1.0},
        lambda n: REWARDS[n] * (0.25 if n < 4 else 1) - 0.5,
    ),
    "gae, rewards rescaled": ({"kind": "gae", "lam": 1.0, "whiten_rewards": True}, rescaled),
    "group_relative": (
        {"kind": "group_relative"},
        lambda n: (REWARDS[n] - fmean(of_group(n))) / (stdev(of_group(n)) + 1e-4),
    ),
    "group_relative, not scaled": (
        {"kind": "group_relative", "scale_by_group": False},
        lambda n: REWARDS[n] - fmean(of_group(n)),
    ),
    "leave_one_out": (
        {"kind": "leave_one_out"},
        lambda n: REWARDS[n] - (sum(of_group(n)) - REWARDS[n]) / (len(of_group(n)) - 1),
    ),
    "batch": ({"kind": "batch"}, over_tokens),
    "batch, discounted": ({"kind": "batch", "gamma": 0.5}, discounted),
    "role_baseline": (
        {"kind": "role_baseline", "role_decay": 0.5},
        lambda n: REWARDS[n] - fmean(of_role(n)),
    ),
}


@pytest.mark.parametrize(("settings", "expected"), FAMILY.values(), ids=FAMILY)
def test_advantages_are_those_of_plain_arithmetic(settings, expected):
    moves = batch()
    estimator = Estimator.build(settings)
    advantage_BT, _ = estimator.advantages(moves, moves.token_rewards(), {})
    assert advantage_BT[:, 0].tolist() == pytest.approx(
        [expected(n) for n in range(len(moves))], abs=1e-5
    )
    assert (advantage_BT[~moves.mask_BT] == 0).all()


def test_rewards_by_token_are_at_the_end_of_a_move_less_the_penalty_of_its_own_tokens():
    moves = batch()
    rows = range(len(moves))
    ends = [int(moves.mask_BT[n].sum()) - 1 for n in rows]
    paid = [[REWARDS[n] * (t == ends[n]) for t in range(TOKENS)] for n in rows]
    assert moves.token_rewards().tolist() == [pytest.approx(row) for row in paid]
    moves.old_BT, moves.reference_BT = torch.full((5, TOKENS), -1.0), torch.full((5, TOKENS), -3.0)
    less = [[paid[n][t] - 0.1 * 2 * (t <= ends[n]) for t in range(TOKENS)] for n in rows]
    assert moves.token_rewards(0.1).tolist() == [pytest.approx(row) for row in less]


def test_every_estimator_has_a_row():
    assert {settings["kind"] for settings, _ in FAMILY.values()} == set(Estimator.known_kinds())


def test_a_baseline_moves_from_update_to_update_and_the_others_are_passed_on():
    moves = batch()
    known = {"first": 10.0, "elsewhere": 7.0}
    estimator = Estimator.build({"kind": "role_baseline", "role_decay": 0.5})
    _, moved = estimator.advantages(moves, moves.token_rewards(), known)
    first = fmean([1.0, 4.0, 3.0])
    assert moved["first"] == pytest.approx(0.5**3 * 10 + (1 - 0.5**3) * first)
    assert moved["second"] == pytest.approx(1.0)
    assert moved["elsewhere"] == 7.0
    for kind in ("gae", "batch", "group_relative", "leave_one_out"):
        _, same = Estimator.build(kind).advantages(moves, moves.token_rewards(), known)
        assert same == known


# -- in a learner's settings


@pytest.mark.parametrize(
    ("estimator", "usual"),
    [
        ("gae", ("model", "reward", True, "token")),
        ("group_relative", (None, "loss", False, "answer")),
        ("leave_one_out", (None, "reward", False, "token")),
        ("batch", (None, "reward", True, "token")),
        ("role_baseline", (None, "reward", False, "token")),
    ],
)
def test_an_estimator_brings_its_methods_usual_settings(estimator, usual):
    some = PolicyGradient.model_validate({"estimator": estimator})
    assert (some.critic, some.kl_in, some.whiten_advantages, some.over) == usual
    changed = PolicyGradient.model_validate({"estimator": estimator, "kl_in": "loss"})
    assert changed.kl_in == "loss"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "grpo"}, "unknown kind 'grpo'"),
        ({"estimator": "group_relativ"}, "did you mean 'group_relative'"),
        ({"lam": 0.9}, "unknown key 'lam'"),
        ({"estimator": {"kind": "gae", "lamb": 0.9}}, "did you mean 'lam'"),
        ({"estimator": "batch", "critic": "head"}, "critic: batch has none"),
        ({"estimator": "gae", "critic": None}, "critic: gae needs one"),
        ({"estimator": "test_estimators:Unfinished"}, "advantages"),
        ({"estimator": 3}, "needs a mapping with 'kind'"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(settings, message):
    with pytest.raises((ValidationError, ConfigError), match=message):
        Learner.build({"kind": "policy_gradient", **settings})


# -- a user's own


class Median(Estimator):
    """The reward less the median of the batch."""

    kind: str = "test_estimators:Median"  # pyright: ignore
    weight: float = 1.0

    def advantages(self, batch, reward_BT, baselines):
        reward_B = reward_BT.sum(1)
        advantage_B = self.weight * (reward_B - reward_B.median())
        return advantage_B[:, None] * batch.mask_BT, dict(baselines)


class Unfinished(Estimator):
    """Lacks its method."""

    kind: str = "test_estimators:Unfinished"  # pyright: ignore


def test_a_users_own_estimator_is_named_by_its_import_path():
    some = Learner.build(
        {"kind": "policy_gradient", "estimator": {"kind": "test_estimators:Median", "weight": 2.0}}
    )
    assert type(some.estimator).__name__ == "Median"
    assert some.critic is None
    moves = batch()
    advantage_BT, _ = some.estimator.advantages(moves, moves.token_rewards(), {})
    assert advantage_BT[:, 0].tolist() == [-2.0, -4.0, 4.0, 0.0, 2.0]
