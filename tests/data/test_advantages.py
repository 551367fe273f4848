"""The estimators as one table, against plain loops, against trl's arithmetic, and in closed form."""

import math
import random

import pytest
import torch

from equipoise.data import advantages
from equipoise.errors import ConfigError

GROUP_B = torch.tensor([7, 7, 2, 7, 2, 5, 2, 2])
ROLE_B = [
    "attacker",
    "defender",
    "attacker",
    "attacker",
    "defender",
    "judge",
    "defender",
    "attacker",
]

# name -> advantage_BT(reward_BT, value_BT, mask_BT): each estimator of tokens
BY_TOKEN = {
    "gae": lambda r, v, m: advantages.gae(r, v, m, 0.9, 0.8),
    "gae-one-step": lambda r, v, m: advantages.gae(r, v, m, 1.0, 0.0),
    "discounted": lambda r, v, m: advantages.reward_to_go(r, m, 0.9),
    "whitened": lambda r, v, m: advantages.whiten(r, m),
    "whitened-in-place": lambda r, v, m: advantages.whiten(r, m, shift=False),
}
# name -> advantage_B(reward_B, order): each estimator of answers, its rows' other facts taken in
# that order
BY_ANSWER = {
    "group-relative": lambda r, o: advantages.group_relative(r, GROUP_B[o]),
    "group-relative-unscaled": lambda r, o: advantages.group_relative(r, GROUP_B[o], scale=False),
    "leave-one-out": lambda r, o: advantages.leave_one_out(r, GROUP_B[o]),
    "role-baseline": lambda r, o: advantages.role_baseline(r, [ROLE_B[i] for i in o], {})[0],
    "role-baseline-before": lambda r, o: advantages.role_baseline(
        r, [ROLE_B[i] for i in o], {}, after=False
    )[0],
}
SAME = torch.arange(len(ROLE_B))


def batch(seed, rows=5, tokens=9, dtype=torch.float64):
    """(reward_BT, value_BT, mask_BT): rows of all lengths, the first empty, the last with holes."""
    dice = torch.Generator().manual_seed(seed)
    reward_BT, value_BT = torch.randn(2, rows, tokens, generator=dice, dtype=dtype)
    lengths_B = torch.randint(1, tokens + 1, (rows, 1), generator=dice)
    mask_BT = torch.arange(tokens) < lengths_B
    mask_BT[0] = False
    mask_BT[-1] = torch.rand(tokens, generator=dice) < 0.5
    return reward_BT, value_BT, mask_BT


def rewards(dtype=torch.float64):
    return torch.randn(len(ROLE_B), generator=torch.Generator().manual_seed(3), dtype=dtype)


# -- one table of estimators of tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("estimate", BY_TOKEN.values(), ids=BY_TOKEN)
def test_by_token_keeps_shape_and_type_carries_no_gradient_and_is_0_outside_of_the_mask(
    estimate, dtype
):
    reward_BT, value_BT, mask_BT = batch(0, dtype=dtype)
    got_BT = estimate(reward_BT.requires_grad_(), value_BT.requires_grad_(), mask_BT)
    assert (got_BT.shape, got_BT.dtype, got_BT.requires_grad) == (reward_BT.shape, dtype, False)
    assert bool(got_BT.isfinite().all())
    assert bool((got_BT[~mask_BT] == 0).all())
    assert bool((got_BT[mask_BT] != 0).all())


@pytest.mark.parametrize("estimate", BY_TOKEN.values(), ids=BY_TOKEN)
def test_by_token_reads_nothing_outside_of_the_mask(estimate):
    reward_BT, value_BT, mask_BT = batch(1)
    expected_BT = estimate(reward_BT, value_BT, mask_BT)
    for other in (1e6, math.nan, math.inf):
        changed = [x_BT.masked_fill(~mask_BT, other) for x_BT in (reward_BT, value_BT)]
        assert torch.equal(estimate(*changed, mask_BT), expected_BT)


@pytest.mark.parametrize("estimate", BY_TOKEN.values(), ids=BY_TOKEN)
def test_by_token_a_mask_of_numbers_is_a_mask_and_rows_keep_no_order(estimate):
    reward_BT, value_BT, mask_BT = batch(2)
    order = torch.tensor([3, 0, 4, 1, 2])
    expected_BT = estimate(reward_BT, value_BT, mask_BT)
    torch.testing.assert_close(
        estimate(reward_BT, value_BT, mask_BT.float()), expected_BT, rtol=0, atol=0
    )
    torch.testing.assert_close(
        estimate(reward_BT[order], value_BT[order], mask_BT[order]), expected_BT[order]
    )


@pytest.mark.parametrize("estimate", BY_TOKEN.values(), ids=BY_TOKEN)
def test_by_token_an_empty_mask_gives_zeros_and_other_shapes_are_refused(estimate):
    reward_BT, value_BT, mask_BT = batch(3)
    assert estimate(reward_BT, value_BT, torch.zeros_like(mask_BT)).abs().sum() == 0
    with pytest.raises(ConfigError, match=r"shapes must agree, got .*mask \[5, 1\]"):
        estimate(reward_BT, value_BT, mask_BT[:, :1])


# -- one table of estimators of answers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("estimate", BY_ANSWER.values(), ids=BY_ANSWER)
def test_by_answer_keeps_shape_and_type_and_carries_no_gradient(estimate, dtype):
    got_B = estimate(rewards(dtype).requires_grad_(), SAME)
    assert (got_B.shape, got_B.dtype, got_B.requires_grad) == ((len(ROLE_B),), dtype, False)
    assert bool(got_B.isfinite().all())
    assert got_B.abs().sum() > 1


@pytest.mark.parametrize("estimate", BY_ANSWER.values(), ids=BY_ANSWER)
def test_by_answer_equal_rewards_are_no_signal(estimate):
    for reward in (
        0.1,
        100.3,
        -1e4 / 3,
    ):  # not to be written in binary: the mean of many is not the number itself
        reward_B = torch.full((len(ROLE_B),), reward, dtype=torch.float32)
        torch.testing.assert_close(
            estimate(reward_B, SAME), torch.zeros(len(ROLE_B)), rtol=0, atol=1e-6
        )


def test_whitening_makes_no_signal_of_equal_rewards():
    reward_BT = torch.full((7, 11), 100.3)
    assert advantages.whiten(reward_BT, torch.ones(7, 11)).abs().max() < 1e-6


@pytest.mark.parametrize("estimate", BY_ANSWER.values(), ids=BY_ANSWER)
def test_by_answer_rows_keep_no_order_and_a_constant_added_to_all_changes_nothing(estimate):
    order, reward_B = torch.tensor([5, 2, 7, 0, 1, 4, 6, 3]), rewards()
    torch.testing.assert_close(estimate(reward_B[order], order), estimate(reward_B, SAME)[order])
    torch.testing.assert_close(estimate(reward_B + 10, SAME), estimate(reward_B, SAME))


@pytest.mark.parametrize("estimate", [advantages.group_relative, advantages.leave_one_out])
def test_groups_do_not_see_each_other_and_one_answer_alone_has_no_advantage(estimate):
    reward_B, changed_B = rewards(), rewards()
    changed_B[GROUP_B == 2] *= -3
    assert torch.equal(
        estimate(changed_B, GROUP_B)[GROUP_B != 2], estimate(reward_B, GROUP_B)[GROUP_B != 2]
    )
    assert estimate(reward_B, GROUP_B)[5] == 0
    with pytest.raises(ConfigError, match=r"reward \[8\], group \[7\]"):
        estimate(reward_B, GROUP_B[:7])


# -- generalised advantage estimation and rewards to go


def plain_gae(reward, value, mask, gamma, lam):
    """The definition, on lists: A_t = Σ_k (γλ)^k δ_{t+k} over the answer tokens of one row."""
    kept = [t for t in range(len(mask)) if mask[t]]
    deltas = []
    for here, t in enumerate(kept):
        after = value[kept[here + 1]] if here + 1 < len(kept) else 0.0
        deltas.append(reward[t] + gamma * after - value[t])
    advantage = [0.0] * len(mask)
    for here, t in enumerate(kept):
        advantage[t] = sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[here:]))
    return advantage


@pytest.mark.parametrize("seed", range(20))
def test_gae_equals_a_plain_loop_over_random_masks(seed):
    dice = random.Random(seed)
    rows, tokens, gamma, lam = (
        dice.randint(1, 5),
        dice.randint(1, 12),
        dice.random(),
        dice.random(),
    )
    reward, value = (
        [[dice.gauss(0, 1) for _ in range(tokens)] for _ in range(rows)] for _ in range(2)
    )
    mask = [[dice.random() < 0.6 for _ in range(tokens)] for _ in range(rows)]
    expected = [plain_gae(*row, gamma, lam) for row in zip(reward, value, mask, strict=True)]
    reward_BT, value_BT = (
        torch.tensor(reward, dtype=torch.float64),
        torch.tensor(value, dtype=torch.float64),
    )
    got_BT = advantages.gae(reward_BT, value_BT, torch.tensor(mask), gamma, lam)
    torch.testing.assert_close(got_BT, torch.tensor(expected, dtype=torch.float64))


def test_gae_with_lambda_1_is_the_return_minus_the_value_and_with_lambda_0_the_next_step_alone():
    reward_BT, value_BT, mask_BT = batch(4)
    returns_BT = advantages.reward_to_go(reward_BT, mask_BT, 0.9)
    got_BT = advantages.gae(reward_BT, value_BT, mask_BT, 0.9, 1.0)
    torch.testing.assert_close(got_BT[mask_BT], (returns_BT - value_BT)[mask_BT])
    reward_BT, value_BT = (
        torch.tensor([[0.0, 0.0, 1.0, 9.0]]),
        torch.tensor([[0.25, 0.5, 0.75, 9.0]]),
    )
    got_BT = advantages.gae(reward_BT, value_BT, torch.tensor([[1, 1, 1, 0]]), 0.5, 0.0)
    assert got_BT.tolist() == [[0.0, -0.125, 0.25, 0.0]]


def test_rewards_to_go_step_over_what_is_no_answer():
    reward_BT, mask_BT = (
        torch.tensor([[1.0, 50.0, 2.0, 4.0, 50.0]]),
        torch.tensor([[1, 0, 1, 1, 0]]),
    )
    assert advantages.reward_to_go(reward_BT, mask_BT, 0.5).tolist() == [[3.0, 0.0, 4.0, 4.0, 0.0]]


def test_a_reward_at_the_end_reaches_every_token():
    reward_BT, mask_BT = torch.zeros(2, 4), torch.ones(2, 4, dtype=torch.bool)
    reward_BT[:, -1] = torch.tensor([3.0, -1.0])
    got_BT = advantages.gae(reward_BT, torch.zeros(2, 4), mask_BT, 1.0, 0.95)
    torch.testing.assert_close(got_BT[0], 3 * 0.95 ** torch.tensor([3.0, 2.0, 1.0, 0.0]))
    assert advantages.reward_to_go(reward_BT, mask_BT, 1.0).tolist() == [[3.0] * 4, [-1.0] * 4]


# -- whitening


def test_whitened_has_mean_0_and_deviation_1_over_the_answer_tokens():
    reward_BT, _, mask_BT = batch(5)
    got = advantages.whiten(reward_BT, mask_BT)[mask_BT]
    assert abs(float(got.mean())) < 1e-12
    assert abs(float(got.std()) - 1) < 1e-6
    kept = advantages.whiten(reward_BT, mask_BT, shift=False)[mask_BT]
    torch.testing.assert_close(kept, got + reward_BT[mask_BT].mean())


def test_a_single_token_has_no_spread():
    mask_BT = torch.tensor([[0, 1, 0]])
    assert advantages.whiten(torch.tensor([[9.0, 5.0, 9.0]]), mask_BT).tolist() == [[0.0, 0.0, 0.0]]
    assert advantages.whiten(torch.tensor([[9.0, 5.0, 9.0]]), mask_BT, shift=False).tolist() == [
        [0.0, 5.0, 0.0]
    ]


# -- groups


def test_group_relative_in_closed_form():
    reward_B, group_B = (torch.tensor([1.0, 0.0, 1.0, 0.0, 7.0]), torch.tensor([0, 0, 0, 0, 1]))
    deviation = math.sqrt(4 * 0.25 / 3)
    expected_B = torch.tensor([0.5, -0.5, 0.5, -0.5, 0.0])
    torch.testing.assert_close(
        advantages.group_relative(reward_B, group_B), expected_B / (deviation + 1e-4)
    )
    torch.testing.assert_close(
        advantages.group_relative(reward_B, group_B, scale=False), expected_B
    )


def test_leave_one_out_is_the_reward_minus_the_mean_of_the_others():
    got_B = advantages.leave_one_out(
        torch.tensor([1.0, 2.0, 6.0, 5.0, 3.0]), torch.tensor([4, 4, 4, 9, 9])
    )
    torch.testing.assert_close(got_B, torch.tensor([1 - 4, 2 - 3.5, 6 - 1.5, 5 - 3, 3 - 5]))


@pytest.mark.parametrize("scale", [True, False])
def test_group_relative_equals_trl(scale):
    # The arithmetic is that of trl 1.16's GRPOTrainer._generate_and_score_completions
    # ("sum_then_normalize", scale_rewards "group" or "none"), which cannot be called without a
    # model; its nanstd divides by n - 1 as std does.
    reward_PG = torch.randn(5, 4, generator=torch.Generator().manual_seed(8))
    expected_PG = reward_PG - reward_PG.mean(dim=1, keepdim=True)
    if scale:
        expected_PG = expected_PG / (reward_PG.std(dim=1, keepdim=True) + 1e-4)
    got_B = advantages.group_relative(
        reward_PG.flatten(), torch.arange(5).repeat_interleave(4), scale=scale
    )
    torch.testing.assert_close(got_B, expected_PG.flatten())


def test_leave_one_out_equals_trl():
    # The arithmetic is that of trl 1.16's RLOOTrainer._generate_and_score_completions.
    reward_PG = torch.randn(5, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    expected_B = (reward_PG - (reward_PG.sum(dim=1, keepdim=True) - reward_PG) / 3).flatten()
    got_B = advantages.leave_one_out(reward_PG.flatten(), torch.arange(5).repeat_interleave(4))
    torch.testing.assert_close(got_B, expected_B)


# -- roles


def test_role_baseline_of_one_answer_is_the_papers_equation():
    before = {"attacker": 0.5, "judge": 2.0}
    advantage_B, after = advantages.role_baseline(
        torch.tensor([1.0]), ["attacker"], before, decay=0.9
    )
    assert after == pytest.approx({"attacker": 0.9 * 0.5 + 0.1 * 1.0, "judge": 2.0})
    assert advantage_B.tolist() == pytest.approx([1.0 - 0.55])
    advantage_B, again = advantages.role_baseline(
        torch.tensor([1.0]), ["attacker"], before, decay=0.9, after=False
    )
    assert advantage_B.tolist() == [0.5]
    assert again == after
    assert before == {"attacker": 0.5, "judge": 2.0}


def test_role_baseline_of_equal_rewards_is_that_of_one_answer_after_the_other():
    together = advantages.role_baseline(torch.full((6,), 1.0), ["a"] * 6, {"a": -2.0}, decay=0.8)[1]
    one_by_one = {"a": -2.0}
    for _ in range(6):
        _, one_by_one = advantages.role_baseline(torch.ones(1), ["a"], one_by_one, decay=0.8)
    assert together == pytest.approx(one_by_one)


def test_role_baseline_starts_at_the_mean_of_the_role_and_keeps_the_roles_apart():
    reward_B = torch.tensor(
        [1.0, -1.0, 3.0, -3.0]
    )  # a zero-sum game with an advantage of the first mover
    advantage_B, baseline = advantages.role_baseline(reward_B, ["first", "second"] * 2, {})
    assert advantage_B.tolist() == [-1.0, 1.0, 1.0, -1.0]
    assert baseline == {"first": 2.0, "second": -2.0}


@pytest.mark.parametrize(("decay", "expected"), [(0.0, 3.0), (1.0, 0.5)])
def test_role_baseline_forgets_at_once_or_never(decay, expected):
    _, baseline = advantages.role_baseline(
        torch.tensor([2.0, 4.0]), ["a", "a"], {"a": 0.5}, decay=decay
    )
    assert baseline == {"a": expected}


def test_role_baseline_refuses_what_cannot_be():
    with pytest.raises(ConfigError, match="2 rewards but 1 roles"):
        advantages.role_baseline(torch.zeros(2), ["a"], {})
    with pytest.raises(ConfigError, match="decay"):
        advantages.role_baseline(torch.zeros(1), ["a"], {}, decay=1.5)
