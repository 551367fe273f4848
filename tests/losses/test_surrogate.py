"""The clipped losses and KL estimators as one table, against finite differences, trl, enumeration,
closed forms.
"""

import math

import pytest
import torch
from trl_losses import trl_grpo

from equipoise.errors import ConfigError, NoSignal
from equipoise.losses import kl
from equipoise.losses import surrogate as pg


def k2(new_BT, reference_BT):
    """½ (log π/π_ref)², of which the docstring of `kl` speaks."""
    return 0.5 * kl.k1(new_BT, reference_BT) ** 2


def mean_loss(loss_BT, mask_BT, over, length=None):
    """The batch's mean loss by its tokens' weights."""
    return (loss_BT.masked_fill(~mask_BT, 0) * pg.token_weights(mask_BT, over, length)).sum()


# name -> loss_BT(of the learner, of the old policy or critic, advantage or return)
LOSSES = {
    "clipped": lambda new, old, goal: pg.clipped_surrogate(new, old, goal, 0.2),
    "clipped-asymmetric": lambda new, old, goal: pg.clipped_surrogate(new, old, goal, 0.2, 0.28),
    "clipped-dual": lambda new, old, goal: pg.clipped_surrogate(new, old, goal, 0.2, dual_clip=1.5),
    "value": lambda new, old, goal: pg.value_loss(new, old, goal, 0.2),
    "value-unclipped": lambda new, old, goal: pg.value_loss(new, old, goal, math.inf),
    "k1": lambda new, old, goal: kl.k1(new, old),
    "k2": lambda new, old, goal: k2(new, old),
    "k3": lambda new, old, goal: kl.k3(new, old),
}
OVERS = [("token", None), ("answer", None), ("constant", 12)]


def batch(seed=0, rows=5, tokens=8, dtype=torch.float64):
    """(new_BT, old_BT, goal_BT, mask_BT): ratios on both sides of every clip, answers of all
    lengths.
    """
    dice = torch.Generator().manual_seed(seed)
    old_BT = -3 * torch.rand(rows, tokens, generator=dice, dtype=dtype)
    new_BT = old_BT + 0.5 * torch.randn(rows, tokens, generator=dice, dtype=dtype)
    goal_BT = torch.randn(rows, tokens, generator=dice, dtype=dtype)
    mask_BT = torch.arange(tokens) < torch.randint(1, tokens + 1, (rows, 1), generator=dice)
    return new_BT, old_BT, goal_BT, mask_BT


# -- one table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_keeps_shape_and_type_and_rows_keep_no_order(loss, dtype):
    new_BT, old_BT, goal_BT, _ = batch(dtype=dtype)
    got_BT, order = loss(new_BT, old_BT, goal_BT), torch.tensor([2, 0, 4, 1, 3])
    assert (got_BT.shape, got_BT.dtype) == (new_BT.shape, dtype)
    assert torch.equal(loss(new_BT[order], old_BT[order], goal_BT[order]), got_BT[order])


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradient_equals_finite_differences(loss):
    new_BT, old_BT, goal_BT, _ = batch(1)
    assert torch.autograd.gradcheck(lambda x: loss(x, old_BT, goal_BT), (new_BT.requires_grad_(),))


@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("k")])
def test_only_the_learner_gets_a_gradient(name):
    new_BT, old_BT, goal_BT, _ = (
        x.requires_grad_() if x.is_floating_point() else x for x in batch(2)
    )
    LOSSES[name](new_BT, old_BT, goal_BT).sum().backward()
    assert new_BT.grad is not None
    assert bool((new_BT.grad != 0).any())
    assert old_BT.grad is None
    assert goal_BT.grad is None


@pytest.mark.parametrize("over", OVERS, ids=lambda over: over[0])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_padding_has_no_say_and_no_gradient(loss, over):
    new_BT, old_BT, goal_BT, mask_BT = batch(3)
    results = []
    for other in (0.0, 0.7):
        filled = [x_BT.masked_fill(~mask_BT, other) for x_BT in (new_BT, old_BT, goal_BT)]
        learner_BT = (filled[0] + 0.3 * ~mask_BT).requires_grad_()
        total = mean_loss(loss(learner_BT, *filled[1:]), mask_BT, *over)
        total.backward()
        results.append((total, learner_BT.grad))
        assert bool((learner_BT.grad[~mask_BT] == 0).all())
        assert bool(learner_BT.grad.isfinite().all())
        assert bool((learner_BT.grad[mask_BT] != 0).any())
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


# -- the clipped surrogate


@pytest.mark.parametrize(
    ("ratio", "advantage", "settings", "loss", "is_clipped"),
    [
        (1.0, 2.0, {}, -2.0, False),
        (1.1, 2.0, {}, -2.2, False),
        (1.5, 2.0, {}, -2.4, True),  # good and already likelier: no more
        (0.5, 2.0, {}, -1.0, False),  # good and less likely: all the way back
        (0.5, -2.0, {}, 1.6, True),  # bad and already less likely: no more
        (1.5, -2.0, {}, 3.0, False),  # bad and likelier: all the way back
        (1.25, 2.0, {"clip_high": 0.28}, -2.5, False),
        (1.5, 2.0, {"clip_high": 0.28}, -2.56, True),
        (0.5, -2.0, {"clip_high": 0.28}, 1.6, True),
        (5.0, -2.0, {"dual_clip": 3.0}, 6.0, True),  # bad and far likelier: bounded
        (2.0, -2.0, {"dual_clip": 3.0}, 4.0, False),
        (5.0, 2.0, {"dual_clip": 3.0}, -2.4, True),
        (1.5, 0.0, {"dual_clip": 3.0}, 0.0, False),
        (0.5, 0.0, {}, 0.0, False),  # neither good nor bad: nothing is cut off
        (5.0, 0.0, {"dual_clip": 3.0}, 0.0, False),
    ],
)
def test_clipped_in_closed_form(ratio, advantage, settings, loss, is_clipped):
    new = torch.tensor([[math.log(ratio) - 1]], dtype=torch.float64, requires_grad=True)
    old, gain = (
        torch.tensor([[-1.0]], dtype=torch.float64),
        torch.tensor([[advantage]], dtype=torch.float64),
    )
    got = pg.clipped_surrogate(new, old, gain, 0.2, **settings)
    got.sum().backward()
    assert got.item() == pytest.approx(loss)
    assert pg.ratio(new, old).item() == pytest.approx(ratio)
    assert pg.is_clipped(new, old, gain, 0.2, **settings).item() is is_clipped
    assert new.grad.item() == pytest.approx(0.0 if is_clipped else -ratio * advantage)


@pytest.mark.parametrize(
    "settings", [{}, {"clip_high": 0.4}, {"dual_clip": 1.3}, {"clip_high": 0.4, "dual_clip": 1.5}]
)
def test_is_clipped_says_where_there_is_no_gradient(settings):
    new_BT, old_BT, goal_BT, mask_BT = batch(4, rows=20)
    new_BT.requires_grad_()
    pg.clipped_surrogate(new_BT, old_BT, goal_BT, 0.2, **settings).sum().backward()
    flat_BT = new_BT.grad == 0
    assert torch.equal(pg.is_clipped(new_BT, old_BT, goal_BT, 0.2, **settings), flat_BT)
    assert 0 < float(flat_BT[mask_BT].double().mean()) < 1


def test_at_the_old_policy_the_gradient_is_the_plain_policy_gradient_even_where_both_are_one_tensor():
    new_BT, _, goal_BT, _ = batch(5)
    new_BT.requires_grad_()
    pg.clipped_surrogate(new_BT, new_BT, goal_BT, 0.2).sum().backward()
    torch.testing.assert_close(new_BT.grad, -goal_BT)


def test_refuses_a_dual_clip_within_the_range_and_shapes_that_would_broadcast():
    x_BT = torch.zeros(3, 3)
    with pytest.raises(ConfigError, match=r"dual_clip: 1.2 must exceed 1 \+ the upper clip, 1.28"):
        pg.clipped_surrogate(x_BT, x_BT, x_BT, 0.2, 0.28, dual_clip=1.2)
    with pytest.raises(AssertionError, match="one advantage a token"):
        pg.clipped_surrogate(x_BT, x_BT, torch.zeros(3), 0.2)


@pytest.mark.parametrize(
    ("value", "loss", "gradient"),
    [
        (1.1, 0.5 * 0.9**2, -0.9),
        (1.5, 0.5 * 0.8**2, 0.0),
        (0.5, 0.5 * 1.5**2, -1.5),
        (3.5, 0.5 * 1.5**2, 1.5),
    ],
)
def test_clipped_value_in_closed_form(value, loss, gradient):
    new, old, goal = torch.tensor([[[value]], [[1.0]], [[2.0]]], dtype=torch.float64)
    got = pg.value_loss(new.requires_grad_(), old, goal, 0.2)
    assert got.item() == pytest.approx(loss)
    assert torch.autograd.grad(got.sum(), new)[0].item() == pytest.approx(gradient)


# -- averages


def test_weights_in_closed_form():
    mask_BT = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]])
    assert pg.token_weights(mask_BT, "token").tolist() == (mask_BT / 6).tolist()
    assert pg.token_weights(mask_BT, "answer").tolist() == [
        [0.125] * 4,
        [0.0, 0.25, 0.0, 0.25],
        [0.0] * 4,
    ]
    assert pg.token_weights(mask_BT, "constant", 8).tolist() == (mask_BT / 24).tolist()


@pytest.mark.parametrize("over", OVERS, ids=lambda over: over[0])
def test_micro_batches_add_up_to_the_mean_of_the_batch(over):
    loss_BT, _, _, mask_BT = batch(6, rows=7)
    weights_BT = pg.token_weights(mask_BT, *over)
    whole = mean_loss(loss_BT, mask_BT, *over)
    for sizes in ([7], [1] * 7, [3, 3, 1]):
        parts = zip(loss_BT.split(sizes), weights_BT.split(sizes), strict=True)
        torch.testing.assert_close(sum((loss * weight).sum() for loss, weight in parts), whole)


@pytest.mark.parametrize("over", OVERS[:2], ids=lambda over: over[0])
def test_the_mean_of_a_constant_is_the_constant(over):
    mask_BT = batch(7)[3]
    assert mean_loss(torch.full(mask_BT.shape, 3.0), mask_BT, *over).item() == pytest.approx(3.0)


def test_refuses_a_length_that_is_missing_or_not_read_and_a_batch_of_nothing():
    mask_BT = torch.ones(2, 3)
    for over, length in [("constant", None), ("constant", 0), ("token", 3)]:
        with pytest.raises(ConfigError, match=f"over: {over} with length: {length}"):
            pg.token_weights(mask_BT, over, length)
    with pytest.raises(NoSignal, match="without a single answer token"):
        pg.token_weights(torch.zeros(2, 3), "token")


# -- trl


@pytest.mark.parametrize(
    ("loss_type", "over"),
    [("grpo", OVERS[1]), ("bnpo", OVERS[0]), ("dapo", OVERS[0]), ("dr_grpo", OVERS[2])],
)
@pytest.mark.parametrize(("beta", "dual_clip"), [(0.0, None), (0.3, None), (0.0, 1.5)])
def test_loss_gradient_and_clip_share_equal_trl(loss_type, over, beta, dual_clip):
    new_BT, old_BT, reference_BT, mask_BT = batch(8)
    advantage_B = torch.tensor([1.0, -0.5, 0.3, -2.0, 0.0], dtype=torch.float64)
    new_BT.requires_grad_()
    arguments = (old_BT, reference_BT, advantage_B, mask_BT)
    expected, share = trl_grpo(loss_type, new_BT, *arguments, beta=beta, delta=dual_clip)

    advantage_BT = advantage_B[:, None].expand_as(new_BT)
    loss_BT = pg.clipped_surrogate(new_BT, old_BT, advantage_BT, 0.2, 0.28, dual_clip=dual_clip)
    got = mean_loss(loss_BT + beta * kl.k3(new_BT, reference_BT), mask_BT, *over)
    near = {"rtol": 1e-6, "atol": 1e-9}  # of weights in float32
    torch.testing.assert_close(got, expected, **near)
    gradients = [torch.autograd.grad(loss, new_BT)[0] for loss in (got, expected)]
    torch.testing.assert_close(*gradients, **near)
    # trl counts the two sides of the range and not what the dual clip holds
    clipped_BT = pg.is_clipped(new_BT, old_BT, advantage_BT, 0.2, 0.28)
    assert clipped_BT[mask_BT].double().mean().item() == pytest.approx(share)


# -- KL


def exact(logits_A, reference_A, estimator):
    """(expectation of the estimator, of its gradient) under the policy, by enumeration of the A
    tokens.
    """
    logprob_A, fixed_A = logits_A.log_softmax(-1), reference_A.log_softmax(-1)
    value_A = estimator(logprob_A[None], fixed_A[None])[0]
    chances_A = logprob_A.exp().detach()  # the samples are held fixed, as autograd holds them
    return (chances_A * value_A).sum(), torch.autograd.grad((chances_A * value_A).sum(), logits_A)[
        0
    ]


@pytest.fixture
def tokens():
    dice = torch.Generator().manual_seed(11)
    logits_A, reference_A = torch.randn(2, 6, generator=dice, dtype=torch.float64)
    return logits_A.requires_grad_(), reference_A


def divergence(first_A, second_A):
    """KL(first ‖ second) of two rows of logits, in nats."""
    first_A, second_A = first_A.log_softmax(-1), second_A.log_softmax(-1)
    return (first_A.exp() * (first_A - second_A)).sum()


@pytest.mark.parametrize("estimator", [kl.k1, kl.k3])
def test_k1_and_k3_are_unbiased(tokens, estimator):
    value, _ = exact(*tokens, estimator)
    torch.testing.assert_close(value, divergence(*tokens))


def test_k2_is_biased_and_nearly_right_near_the_reference(tokens):
    even_A, skewed_A = torch.tensor([[0.5, 0.5], [0.99, 0.01]], dtype=torch.float64).log()
    expected = (math.log(0.5 / 0.99) ** 2 + math.log(50) ** 2) / 4  # 3.94, of a divergence of 1.61
    assert exact(even_A.requires_grad_(), skewed_A, k2)[0].item() == pytest.approx(expected)
    assert expected > 2 * divergence(even_A, skewed_A)
    logits_A, reference_A = tokens
    near_A = (reference_A + 1e-3 * (logits_A - reference_A)).detach().requires_grad_()
    assert exact(near_A, reference_A, k2)[0].item() == pytest.approx(
        divergence(near_A, reference_A).item(), rel=0.01
    )


def test_gradients_are_those_that_the_docstring_names(tokens):
    logits_A, reference_A = tokens
    backward, forward = (divergence(logits_A, reference_A), divergence(reference_A, logits_A))
    towards_A, forward_A = (torch.autograd.grad(loss, logits_A)[0] for loss in (backward, forward))
    torch.testing.assert_close(exact(*tokens, kl.k1)[1], torch.zeros_like(logits_A))
    torch.testing.assert_close(exact(*tokens, k2)[1], towards_A)
    torch.testing.assert_close(exact(*tokens, kl.k3)[1], forward_A)
    assert not torch.allclose(towards_A, forward_A)


def test_k3_is_never_negative_and_0_only_at_the_reference():
    new_BT, old_BT, _, _ = batch(9, rows=50)
    assert bool((kl.k3(new_BT, old_BT) > 0).all())
    assert bool((kl.k1(new_BT, old_BT) < 0).any())
    assert kl.k3(old_BT, old_BT).abs().max() == 0
    tiny = kl.k3(
        torch.tensor([[1e-3]]), torch.zeros(1, 1)
    ).item()  # float32: exp(x) − 1 would lose most of it
    assert tiny == pytest.approx(5e-7, rel=0.1)


@pytest.mark.parametrize(
    ("measured", "factor"), [(6.0, 1.0), (6.6, 1.01), (60.0, 1.02), (5.4, 0.99), (0.0, 0.98)]
)
def test_the_coefficient_follows_the_kl_by_a_fifth_at_most(measured, factor):
    assert kl.next_coefficient(0.2, measured, target=6.0, horizon=1000, count=100) == pytest.approx(
        0.2 * factor
    )
