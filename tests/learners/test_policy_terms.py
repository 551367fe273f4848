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
from equipoise.learners.rollouts import RolloutBatch, rollout_batch
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
    loss, sums = policy_loss(settings, kl_weight, move, tokens, one_BT, one_BT)
    named = {name: float(value) for name, value in sums.items()}
    share = named.pop("clip_share")
    assert float(loss) == pytest.approx(sum(named.values()))
    return named, share


def test_at_the_old_policy_the_surrogate_is_the_advantage():
    assert terms() == ({"policy_loss": -1.0}, 0.0)


def test_the_upper_clip_may_differ():
    assert terms(logprob=0.0, clip=0.2)[0]["policy_loss"] == pytest.approx(-1.2)
    wide, share = terms(logprob=0.0, clip=0.2, clip_high=0.5)
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


# -- how fast the weights move


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
