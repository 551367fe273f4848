"""Policy losses: every member against finite differences, closed forms, its paper and trl."""

import pytest
import torch
from pydantic import ValidationError
from trl_losses import trl_grpo

from equipoise.losses.policy import CISPO, GSPO, Clipped, PolicyLoss, TokenBatch
from equipoise.losses.surrogate import token_weights

MEMBERS = {kind: PolicyLoss.build(kind) for kind in PolicyLoss.packaged_kinds()}


def sampled(seed=0, spread=0.5, rows=5, tokens=8):
    """Answers of unequal lengths, ratios on both sides of 1, advantages of both signs."""
    dice = torch.Generator().manual_seed(seed)
    old_BT = -3 * torch.rand(rows, tokens, generator=dice, dtype=torch.float64)
    change_BT = spread * torch.randn(rows, tokens, generator=dice, dtype=torch.float64)
    advantage_B = torch.tensor([1.0, -0.5, 0.3, -2.0, 0.7], dtype=torch.float64)
    length_B1 = torch.randint(2, tokens + 1, (rows, 1), generator=dice)
    mask_BT = torch.arange(tokens) < length_B1
    new_BT = torch.where(mask_BT, old_BT + change_BT, old_BT)
    advantage_BT = advantage_B[:, None].expand(rows, tokens)
    return TokenBatch(new_BT, old_BT, advantage_BT, mask_BT)


def with_logprobs(batch, logprob_BT):
    return TokenBatch(logprob_BT, batch.old_BT, batch.advantage_BT, batch.mask_BT)


def mean(loss, batch, over):
    weights_BT = token_weights(batch.mask_BT, over)
    return (loss.tokens(batch) * weights_BT).sum()


def gradient(loss, batch, over="answer"):
    logprob_BT = batch.logprob_BT.clone().requires_grad_()
    return torch.autograd.grad(mean(loss, with_logprobs(batch, logprob_BT), over), logprob_BT)[0]


@pytest.mark.parametrize("loss", MEMBERS.values(), ids=MEMBERS)
def test_at_the_old_policy_the_gradient_is_the_plain_policy_gradient(loss):
    batch = sampled()
    batch = with_logprobs(batch, batch.old_BT)
    expected_BT = -batch.advantage_BT * token_weights(batch.mask_BT, "answer")
    torch.testing.assert_close(gradient(loss, batch), expected_BT)
    assert not loss.cut_tokens(batch).any()


@pytest.mark.parametrize("loss", MEMBERS.values(), ids=MEMBERS)
def test_a_gradient_is_proportional_to_the_advantage(loss):
    """So the weights of tokens that another policy sampled may stand in the advantage."""
    batch = sampled(1, spread=0.05)
    tripled = TokenBatch(batch.logprob_BT, batch.old_BT, 3 * batch.advantage_BT, batch.mask_BT)
    torch.testing.assert_close(gradient(loss, tripled), 3 * gradient(loss, batch))


@pytest.mark.parametrize("loss", MEMBERS.values(), ids=MEMBERS)
def test_padding_has_no_gradient_and_is_not_cut(loss):
    batch = sampled(2, spread=3.0)
    assert not gradient(loss, batch)[~batch.mask_BT].any()
    assert not loss.cut_tokens(batch)[~batch.mask_BT].any()


@pytest.mark.parametrize("kind", ["clipped", "gspo"])
def test_a_cut_token_has_no_gradient(kind):
    loss, batch = MEMBERS[kind], sampled(3)
    without_BT = (gradient(loss, batch, "token") == 0) & batch.mask_BT
    assert without_BT.any()
    assert (~without_BT & batch.mask_BT).any()
    assert torch.equal(loss.cut_tokens(batch), without_BT)


def test_clipped_bounds_each_side_by_its_own_setting():
    loss = Clipped(clip=0.1, clip_high=0.5)
    ratio_BT = torch.tensor([[1.3, 1.6, 0.95, 0.8]])
    advantage_BT = torch.tensor([[2.0, 2.0, -2.0, -2.0]])
    batch = TokenBatch(ratio_BT.log(), 0 * ratio_BT, advantage_BT, ratio_BT > 0)
    torch.testing.assert_close(loss.tokens(batch), torch.tensor([[-2.6, -3.0, 1.9, 1.8]]))
    assert loss.cut_tokens(batch).tolist() == [[False, True, False, True]]


def test_a_dual_clip_within_the_range_is_refused():
    with pytest.raises(ValidationError, match=r"must exceed 1 \+ the upper clip, 1.5"):
        Clipped(clip_high=0.5, dual_clip=1.4)


def test_gspo_weighs_every_token_of_an_answer_by_the_geometric_mean_of_its_ratios():
    """Ratios 2 and ½ of one answer cancel; 4 and 1 of the other are 2 in the mean."""
    ratio_BT = torch.tensor([[2.0, 0.5, 9.0], [4.0, 1.0, 1.0]])
    mask_BT = torch.tensor([[True, True, False], [True, True, False]])
    advantage_BT = torch.tensor([[1.0, 3.0, 5.0], [-1.0, -4.0, 5.0]])
    batch = TokenBatch(ratio_BT.log(), 0 * ratio_BT, advantage_BT, mask_BT)
    loss_BT = GSPO(clip=0.4, clip_high=0.7).tokens(batch)
    torch.testing.assert_close(loss_BT[:, :2], torch.tensor([[-1.0, -3.0], [2.0, 8.0]]))
    assert GSPO(clip=0.4, clip_high=0.7).cut_tokens(batch).tolist() == [[False] * 3] * 2


def test_gspo_is_the_papers_objective_of_whole_answers():
    """Eq. 5, differentiated through the mean of the log-ratios itself."""
    batch = sampled(4, spread=0.3)
    loss = GSPO(clip=0.05, clip_high=0.08)
    logprob_BT = batch.logprob_BT.clone().requires_grad_()
    length_B = batch.mask_BT.sum(1)
    log_ratio_B = ((logprob_BT - batch.old_BT) * batch.mask_BT).sum(1) / length_B
    ratio_B, advantage_B = log_ratio_B.exp(), batch.advantage_BT[:, 0]
    cut_B = ratio_B.clamp(0.95, 1.08)
    objective = (ratio_B * advantage_B).minimum(cut_B * advantage_B).mean()
    torch.testing.assert_close(mean(loss, batch, "answer"), -objective)
    expected_BT = torch.autograd.grad(-objective, logprob_BT)[0]
    torch.testing.assert_close(gradient(loss, batch), expected_BT)


def test_cispo_bounds_the_weight_and_keeps_the_gradient():
    """∇ is −weight·A on every token, also where the weight is held: 3, 0.75 and 0.5."""
    ratio_BT = torch.tensor([[8.0, 0.75, 0.25]], dtype=torch.float64)
    advantage_BT = torch.tensor([[2.0, 1.0, -4.0]], dtype=torch.float64)
    batch = TokenBatch(ratio_BT.log(), 0 * ratio_BT, advantage_BT, ratio_BT > 0)
    loss = CISPO(clip=0.5, clip_high=2.0)
    expected_BT = torch.tensor([[-6.0, -0.75, 2.0]], dtype=torch.float64) / 3
    torch.testing.assert_close(gradient(loss, batch, "token"), expected_BT)
    assert loss.cut_tokens(batch).tolist() == [[True, False, True]]
    assert not CISPO(clip_high=9.0).cut_tokens(batch).any()


TRL = {
    "clipped": (Clipped(clip=0.2, clip_high=0.28), "grpo", "answer", {}),
    "gspo": (
        GSPO(clip=0.03, clip_high=0.04),
        "grpo",
        "answer",
        {"clip_low": 0.03, "clip_high": 0.04, "level": "sequence"},
    ),
    "cispo": (CISPO(clip_high=0.5), "cispo", "token", {"clip_high": 1.5}),
}


@pytest.mark.parametrize("kind", TRL)
def test_loss_and_gradient_equal_those_of_trl(kind):
    loss, loss_type, over, settings = TRL[kind]
    batch = sampled(5, spread=0.4)
    logprob_BT = batch.logprob_BT.clone().requires_grad_()
    theirs, _ = trl_grpo(
        loss_type,
        logprob_BT,
        batch.old_BT,
        batch.old_BT,
        batch.advantage_BT[:, 0],
        batch.mask_BT,
        beta=0.0,
        **settings,
    )
    near = {"rtol": 1e-6, "atol": 1e-9}
    torch.testing.assert_close(mean(loss, batch, over), theirs.detach(), **near)
    expected_BT = torch.autograd.grad(theirs, logprob_BT)[0]
    torch.testing.assert_close(gradient(loss, batch, over), expected_BT, **near)
    assert loss.cut_tokens(batch).any()


def test_trl_is_asked_about_every_member():
    assert set(TRL) == set(MEMBERS)
