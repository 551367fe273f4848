"""The parts of a policy-gradient update by hand, without a model: what a token is paid, what the
loss is made of, how fast the weights move.
"""

from types import SimpleNamespace

import pytest
import torch

from equipoise.errors import ConfigError
from equipoise.learners.policy_forward import TokenNumbers
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.policy_trainer import PolicyOptimizer, policy_loss
from equipoise.learners.rollouts import RolloutBatch, importance_weights, mismatch, rollout_batch
from equipoise.learners.sharding import ProcessRank
from equipoise.learners.trainable_model import Critic
from equipoise.types import Episode, Move, Turn, View, user

LENGTHS = (3, 2, 1)


def batch(**changes) -> RolloutBatch:
    """Three moves of 3, 2 and 1 tokens, paid 4, −1 and 2; π_old e⁻¹, π_ref e⁻³ a token."""
    mask_BT = torch.arange(3)[None] < torch.tensor(LENGTHS)[:, None]
    given = {
        "prompts": [[1]] * 3,
        "answers": [[2] * length for length in LENGTHS],
        "reward_B": torch.tensor([4.0, -1.0, 2.0]),
        "group_B": torch.tensor([0, 0, 1]),
        "roles": ["answer"] * 3,
        "mask_BT": mask_BT,
        "sampled_BT": -1.0 * mask_BT,
        "old_BT": -1.0 * mask_BT,
        "reference_BT": -3.0 * mask_BT,
    }
    return RolloutBatch(**{**given, **changes})


# -- what a token is paid


def test_a_reward_stands_on_the_last_token():
    assert batch().token_rewards().tolist() == [[0, 0, 4], [0, -1, 0], [2, 0, 0]]


def test_what_the_reference_would_not_say_is_charged():
    """log π/π_ref is 2 nats a token, at half a reward each."""
    rewards = batch().token_rewards(0.5).tolist()
    assert rewards == [[-1, -1, 3], [-1, -2, 0], [1, 0, 0]]


def test_one_of_three_moves_has_no_company():
    assert batch().alone == pytest.approx(1 / 3)


def test_a_batch_knows_its_tokens_and_its_longest_move():
    made = batch(prompts=[[1], [1, 2, 3], [1, 2]])
    assert (len(made), made.tokens, made.longest) == (3, 12, 5)
    assert made.by_prompt([2, 1, 0]) == [0, 2, 1]
    part = made.select([2, 0])
    assert part.prompts == [[1, 2], [1]]
    assert part.mask_BT.tolist() == [[True, False, False], [True] * 3]
    assert len(part.value_BT) == 0


def test_what_lies_behind_a_moves_tokens_counts_nowhere():
    noise_BT = torch.tensor([[0, 0, 0], [0, 0, 5.0], [0, -7.0, 9.0]])
    clean, noisy = batch(), batch()
    noisy.old_BT = noisy.old_BT + noise_BT
    assert torch.equal(noisy.token_rewards(0.5), clean.token_rewards(0.5))
    assert mismatch(noisy) == mismatch(clean) == {"sampler_gap": 0, "mismatch_kl": 0}
    for correction in ("truncate", "mask", "none"):
        _, facts = importance_weights(noisy, correction, 2.0)
        assert facts == {"importance_weight": 1, "importance_bounded": 0}


@pytest.mark.parametrize("correction", ["truncate", "mask"])
def test_a_ratio_at_its_limit_is_not_bounded(correction):
    weight_BT, facts = importance_weights(batch(), correction, 1.0)
    assert weight_BT.tolist() == [[1.0] * 3] * 3
    assert facts["importance_bounded"] == 0


def turn(**move) -> Turn:
    return Turn("1", View((user("?"),)), Move("a", token_ids=(5, 6), **move))


def episode(reward: float) -> Episode:
    return Episode("e", 0, "m", 0, "answer", "g", reward)


def test_a_batch_has_the_probabilities_from_before_the_cuts_where_they_are_known():
    encoding = SimpleNamespace(prompt_ids=lambda chat: [1])
    turns = [turn(logprobs=(-0.25, -0.5), uncut=(-1.0, -2.0)), turn(logprobs=(-3.0, -4.0))]
    episodes = [episode(1.0), episode(0.0)]
    made = rollout_batch(episodes, turns, encoding, torch.device("cpu"))
    assert made.sampled_BT.tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    with pytest.raises(ConfigError, match="the reward of match m, turn 0, is nan"):
        rollout_batch([episode(float("nan"))], turns[1:], encoding, torch.device("cpu"))


def test_answers_share_their_prompt_up_to_a_length():
    """2,048 tokens in all: of four answers of a thousand, two and two."""
    groups = batch(prompts=[[1]] * 4, answers=[[2] * 1000] * 4).by_shared_prompt()
    assert [len(group.answers) for group in groups] == [2, 2]
    for last, counts in ((1047, [2]), (1048, [1, 1])):
        groups = batch(prompts=[[1]] * 2, answers=[[2] * 1000, [2] * last]).by_shared_prompt()
        assert [len(group.answers) for group in groups] == counts


# -- what the loss is made of


def terms(*, logprob=-1.0, value=None, entropy_nats=0.0, kl_weight=0.0, **settings):
    """The loss's terms of one token of advantage 1 with an old probability of e⁻¹."""
    one_BT = torch.ones(1, 1)
    given = {"estimator": "group_relative", "kl": 0, **settings}
    if value is not None:
        given |= {"estimator": "gae", "critic": "head"}
    move = batch(
        prompts=[[1]],
        answers=[[2]],
        reward_B=torch.ones(1),
        mask_BT=one_BT.bool(),
        old_BT=-one_BT,
        reference_BT=-3 * one_BT,
        value_BT=0 * one_BT,
        advantage_BT=one_BT,
        return_BT=3 * one_BT,
    )
    tokens = TokenNumbers(
        logprob * one_BT, None if value is None else value * one_BT, entropy_nats * one_BT
    )
    settings = PolicyGradientSettings.model_validate(given)
    loss, sums = policy_loss(settings, kl_weight, move, tokens, one_BT, one_BT, settings.entropy)
    named = {name: float(value) for name, value in sums.items()}
    share = named.pop("clip_share")
    assert float(loss) == pytest.approx(sum(named.values()))
    return named, share


def test_at_the_old_policy_the_surrogate_is_the_advantage():
    assert terms() == ({"policy_loss": -1.0}, 0.0)


def test_the_upper_clip_may_differ():
    assert terms(logprob=0.0)[0]["policy_loss"] == pytest.approx(-1.2)
    wide, share = terms(logprob=0.0, policy_loss={"kind": "clipped", "clip_high": 0.5})
    assert (wide["policy_loss"], share) == (pytest.approx(-1.5), 1.0)


def test_entropy_is_wanted():
    assert terms(entropy=0.25, entropy_nats=2.0)[0]["entropy_loss"] == -0.5


def test_the_distance_from_the_reference_is_a_cost():
    """k3 of a log-ratio of −2: e⁻² + 2 − 1."""
    named, _ = terms(kl=0.1, kl_in="loss", kl_weight=0.5)
    assert named["kl_loss"] == pytest.approx(0.5 * (torch.e**-2 + 1))


def test_a_value_is_learned_from_the_return_and_moves_a_little_only():
    """From 0 towards 3: at 2 the clipped 0.5 is farther off, and counts."""
    named, _ = terms(value=2.0, value_clip=0.5)
    assert named["value_loss"] == pytest.approx(0.5 * 2.5**2)
    named, _ = terms(value=0.25, value_clip=0.5)
    assert named["value_loss"] == pytest.approx(0.5 * 2.75**2)


def test_each_term_has_its_own_weights():
    """The policy's terms 2 a token, the critic's and the share 3."""
    one_BT = torch.ones(1, 1)
    move = batch(
        **{"prompts": [[1]], "answers": [[2]], "mask_BT": one_BT.bool(), "old_BT": -one_BT},
        **{"reference_BT": -3 * one_BT, "value_BT": 0 * one_BT},
        **{"advantage_BT": one_BT, "return_BT": 3 * one_BT},
    )
    settings = PolicyGradientSettings.model_validate(
        {"estimator": "gae", "critic": "head", "entropy": 0.25, "kl": 0.1, "kl_in": "loss"}
    )
    tokens = TokenNumbers(0 * one_BT, 0 * one_BT, 2 * one_BT)
    loss, sums = policy_loss(settings, 0.5, move, tokens, 2 * one_BT, 3 * one_BT, settings.entropy)
    found = {name: float(value) for name, value in sums.items()}
    assert found == {
        "policy_loss": pytest.approx(-2 * (1 + settings.policy_loss.clip)),
        "kl_loss": pytest.approx(2 * 0.5 * (torch.e**-3 + 2)),
        "entropy_loss": pytest.approx(-2 * 0.25 * 2),
        "value_loss": pytest.approx(3 * 0.5 * 3**2),
        "clip_share": 3,
    }
    assert float(loss) == pytest.approx(sum(found.values()) - 3)


def test_a_kl_in_the_reward_is_not_in_the_loss():
    assert terms(kl=0.1, kl_in="reward", kl_weight=0.5)[0] == {"policy_loss": -1.0}


# -- how fast the weights move


def test_a_step_leaves_no_gradients_and_moves_by_the_rates():
    made = optimizer(warmup_steps=2, critic_learning_rate=0.5, weight_decay=0.0)
    policy, critic = (group["params"] for group in made.adamw.param_groups)
    before = [weight.detach().clone() for weight in (*policy, *critic)]
    for weight in (*policy, *critic):
        weight.grad = torch.ones_like(weight)
    assert made.clip() == pytest.approx([3**0.5] * 2)
    made.step()
    moved = [
        (old - new).detach().flatten() for old, new in zip(before, (*policy, *critic), strict=True)
    ]
    for group, rate in ((moved[:2], 0.5), (moved[2:], 0.25)):  # AdamW's first step, half warm
        torch.testing.assert_close(torch.cat(group), torch.full((3,), rate), atol=1e-4, rtol=0)
    assert made.steps == 1
    assert all(weight.grad is None for weight in (*policy, *critic))


def test_sums_and_gradients_of_two_processes_are_added_up():
    """The other process computes what this one does."""
    made = optimizer()
    made.rank = SimpleNamespace(processes=2, add_up=lambda value: 2 * value)
    weight, bias = made.policy.trained_parameters().values()
    weight.grad = torch.ones_like(weight)
    sums = {"policy_loss": torch.tensor(1.5), "value_loss": torch.tensor(-1.0)}
    assert made.add_up(sums) == {"policy_loss": 3.0, "value_loss": -2.0}
    assert weight.grad.tolist() == [[2, 2]]
    assert bias.grad.tolist() == [0]
    made.rank = ProcessRank(torch.device("cpu"))
    assert made.add_up(sums) == {"policy_loss": 1.5, "value_loss": -1.0}
    assert weight.grad.tolist() == [[2, 2]]


def optimizer(**settings) -> PolicyOptimizer:
    layer = torch.nn.Linear(2, 1)
    policy = SimpleNamespace(trained_parameters=lambda: dict(layer.named_parameters()))
    given = {"estimator": "gae", "critic": "head", "learning_rate": 1.0, **settings}
    return PolicyOptimizer(
        PolicyGradientSettings.model_validate(given),
        policy,  # pyright: ignore[reportArgumentType]
        Critic(None, 2),
        SimpleNamespace(num_processes=1),  # pyright: ignore[reportArgumentType]
    )


def rates(made: PolicyOptimizer) -> list[float]:
    return [group["lr"] for group in made.adamw.param_groups]


def test_the_first_step_of_a_warm_up_moves_the_weights():
    made = optimizer(warmup_steps=4, critic_learning_rate=0.5)
    seen = []
    for _ in range(5):
        made.step()
        seen.append(rates(made))
    assert seen == [[0.25, 0.125], [0.5, 0.25], [0.75, 0.375], [1, 0.5], [1, 0.5]]


def test_a_restored_optimizer_goes_on_where_it_was():
    made = optimizer(warmup_steps=4)
    made.step()
    other = optimizer(warmup_steps=4)
    other.restore(made.adamw.state_dict(), made.steps)
    other.step()
    assert rates(other)[0] == 0.5


def test_gradients_are_cut_to_their_largest_norm():
    made = optimizer(max_grad_norm=1.0, warmup_steps=0)
    for weight in made.policy.trained_parameters().values():
        weight.grad = torch.full_like(weight, 10.0)
    before, _ = made.clip()
    assert before == pytest.approx(10 * 3**0.5)
    squares = sum(float((w.grad**2).sum()) for w in made.policy.trained_parameters().values())
    assert squares == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "adapter", "bytes_each"),
    [
        ({"kl": 0.0}, False, 0),
        ({"kl": 0.1, "precision": "fp32"}, False, 4),  # the reference
        ({"kl": 0.1, "precision": "bf16"}, False, 2),
        ({"kl": 0.1}, True, 0),  # which is the base without its adapter
        ({"kl": 0.0, "critic": "model"}, True, 16),
        ({"kl": 0.1, "critic": "model", "optimizer": "adamw_8bit"}, False, 14),
    ],
)
def test_what_is_kept_beside_a_policy(settings, adapter, bytes_each):
    made = PolicyGradient.model_validate({"estimator": "gae", "critic": "head", **settings})
    assert made.extra_bytes(1000, adapter) == 1000 * bytes_each
