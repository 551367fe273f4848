"""The learner in memory, on a tiny random Llama: a table of estimators, gradients, trl, state, and
what goes wrong.
"""

import json
import math
from types import SimpleNamespace

import msgspec
import pytest
import torch
from pydantic import ValidationError
from trl_losses import trl_grpo

from equipoise.errors import ConfigError, EquipoiseError, NoSignal
from equipoise.games.answers import Answers
from equipoise.learners import trainable_model
from equipoise.learners.policy_forward import TokenNumbers
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.policy_trainer import PolicyTrainer, policy_loss, rate_factor
from equipoise.learners.rollouts import rollout_batch
from equipoise.learners.sampled_policy import PolicyUpdate
from equipoise.learners.sharding import ProcessRank, Sharding
from equipoise.learners.trainable_model import TrainableModel
from equipoise.losses import kl as kls
from equipoise.models.activation_checkpoints import has_checkpoints
from equipoise.models.loading import load_model
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Episode, Turn, View, user

SLOW = pytest.mark.slow
UNDIMMED = {"kind": "gae", "lam": 1.0}
# every estimator and every critic, with the KL in the one place or, among the slow tests, in the
# other
ESTIMATORS = [
    pytest.param(
        {**settings, "kl_in": place},
        id=f"{name}-kl in {place}",
        marks=() if (number + turned) % 2 else SLOW,
    )
    for number, (name, settings) in enumerate(
        {
            "gae, own critic": {"estimator": "gae", "critic": "model"},
            "gae, head": {"estimator": "gae", "critic": "head"},
            "group_relative": {"estimator": "group_relative"},
            "leave_one_out": {"estimator": "leave_one_out"},
            "batch": {"estimator": "batch"},
            "role_baseline": {"estimator": "role_baseline"},
        }.items()
    )
    for turned, place in enumerate(("reward", "loss"))
]
ADAPTER = {"lora": {"r": 2, "alpha": 4}}
CHATS = ("How much is three and four?", "When does the train to the lake leave?")


@pytest.fixture
def make(model_folder):
    """make(player={…}, **settings) -> a learner of the tiny Llama at generation 0."""

    def build(player=None, name="policy", resources=None, **settings) -> PolicyTrainer:
        given = {
            "kind": "local",
            "model": str(model_folder("llama")),
            "learns": True,
            "device": "cpu",
            "max_new_tokens": 5,
            "max_length": 128,
            **(player or {}),
        }
        trainer = PolicyGradient.model_validate(
            {"learning_rate": 1e-3, "warmup_steps": 0, **settings}
        )
        return PolicyTrainer(trainer, Player.build(given), name, 3, resources=resources)

    return build


def played(policy_trainer, seed=0, answers=4, pays=lambda n: float(n % 2)):
    """(episodes, turns): so many answers to each chat, sampled from the learner; `pays` is by the
    answer's number.
    """
    views = [View((user(chat),)) for chat in CHATS for _ in range(answers)]
    moves = policy_trainer.actor.act(views, [1000 * seed + n for n in range(len(views))])
    turns = [Turn("first", view, move) for view, move in zip(views, moves, strict=True)]
    episodes = [
        Episode(
            str(n), 0, f"m{n}", 0, "first" if n < answers else "second", str(n // answers), pays(n)
        )
        for n in range(len(turns))
    ]
    return episodes, turns


def learn(policy_trainer, taught, seed=5, lines=None):
    return policy_trainer.learn(
        *taught, seed, (lambda line: None) if lines is None else lines.append
    )


def batch_of(policy_trainer, taught):
    """The batch with what is known of it before the update, its advantages and returns."""
    batch = policy_trainer.prepare(*taught)
    policy_trainer._estimate(batch)
    return batch


def weights(policy_trainer):
    critic = (
        {}
        if policy_trainer.critic is None
        else {f"critic.{k}": v for k, v in policy_trainer.critic.state_dict().items()}
    )
    return {
        name: value.detach().clone()
        for name, value in {**policy_trainer.policy.trained_parameters(), **critic}.items()
    }


def trained(policy_trainer):
    """The parameters that learn, the critic's too."""
    return [
        *policy_trainer.policy.trained_parameters().values(),
        *([] if policy_trainer.critic is None else policy_trainer.critic.parameters()),
    ]


def loss_and_gradient(policy_trainer, batch):
    """What one optimizer step would go by, without the step."""
    found = policy_trainer.optimizer.add_up(policy_trainer._backward(batch))
    gradient = [
        torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in trained(policy_trainer)
    ]
    policy_trainer.optimizer.adamw.zero_grad(set_to_none=True)
    return sum(value for name, value in found.items() if name.endswith("_loss")), torch.cat(
        [g.flatten() for g in gradient]
    )


@torch.no_grad()
def shift(policy_trainer, direction_W):
    """Move the weights."""
    for p, step in zip(
        trained(policy_trainer),
        direction_W.split([p.numel() for p in trained(policy_trainer)]),
        strict=True,
    ):
        p += step.view_as(p)


def chances(policy_trainer, taught):
    """log-probability of each move, in nats."""
    batch = rollout_batch(*taught, policy_trainer.encoding, policy_trainer.device)
    return torch.tensor(
        [sum(row) for row in policy_trainer.actor.retrace(batch.prompts, batch.answers)]
    )


# -- one table


@pytest.mark.long
@pytest.mark.parametrize("settings", ESTIMATORS)
def test_an_update_raises_the_better_paid_moves(make, settings):
    policy_trainer, lines = make(**settings), []
    taught = played(policy_trainer)
    paid = torch.tensor([episode.reward > 0 for episode in taught[0]])
    before = chances(policy_trainer, taught)
    facts = learn(policy_trainer, taught, lines=lines)
    rise = chances(policy_trainer, taught) - before
    assert rise[paid].mean() > 0 > rise[~paid].mean()
    assert str(policy_trainer.learner) == "policy@1"
    assert facts["steps"] == 1
    assert facts["examples"] == 8
    assert facts["reward"] == 0.5
    assert facts["kl"] == pytest.approx(0, abs=1e-5)
    assert facts["sampler_gap"] < 1e-5
    assert ("value_loss" in facts) == (settings["estimator"] == "gae")
    assert ("kl_loss" in facts) == (settings["kl_in"] == "loss")
    assert all(math.isfinite(value) for value in [*facts.values(), *lines[0].values()])
    policy_trainer.assert_agreement(policy_trainer.actor)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": "gae", "critic": "model", "kl_in": "loss", "kl": 0.5},
        {"estimator": "group_relative", "kl": 0.5, "entropy": 0.1},
        # the other critic, and the loss over a constant
        pytest.param({"estimator": "gae", "critic": "head", "entropy": 0.1}, marks=SLOW),
        pytest.param({"estimator": "batch", "over": "constant"}, marks=SLOW),
    ],
    ids=str,
)
def test_the_gradient_is_the_slope_of_the_loss(make, settings):
    policy_trainer = make({"temperature": 0.8}, **settings)
    prepared = batch_of(policy_trainer, played(policy_trainer))
    torch.manual_seed(1)
    size = sum(p.numel() for p in trained(policy_trainer))
    shift(
        policy_trainer, 2e-3 * torch.randn(size)
    )  # away from the old policy, so that ratios are not 1 and values not 0
    _, gradient = loss_and_gradient(policy_trainer, prepared)
    for direction in (
        gradient / gradient.norm(),
        torch.randn(size) / size**0.5 + gradient / gradient.norm(),
    ):
        losses = []
        for step in (1e-3, -2e-3):
            shift(policy_trainer, step * direction)
            losses.append(loss_and_gradient(policy_trainer, prepared)[0])
        shift(policy_trainer, 1e-3 * direction)
        slope = (losses[0] - losses[1]) / 2e-3
        assert slope == pytest.approx(float(gradient @ direction), rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize(
    ("over", "loss_type"), [("answer", "grpo"), ("token", "bnpo"), ("constant", "dr_grpo")]
)
@pytest.mark.parametrize("beta", [0.3, pytest.param(0.0, marks=SLOW)])  # without KL
def test_loss_and_gradient_equal_those_of_trl(make, over, loss_type, beta):
    # trl_losses' trainer has max_completion_length 12 and clips at 0.2 and 0.28
    policy_trainer = make(
        {"max_new_tokens": 12},
        estimator="group_relative",
        over=over,
        kl=beta,
        policy_loss={"kind": "clipped", "clip_high": 0.28},
    )
    dice = torch.Generator().manual_seed(2)
    taught = played(policy_trainer, pays=torch.rand(8, generator=dice).tolist().__getitem__)
    batch = batch_of(policy_trainer, taught)
    shift(
        policy_trainer,
        5e-3 * torch.randn(sum(p.numel() for p in trained(policy_trainer)), generator=dice),
    )
    loss, gradient = loss_and_gradient(policy_trainer, batch)

    reward_GA = batch.reward_B.view(2, 4)
    centred_GA = reward_GA - reward_GA.mean(1, keepdim=True)
    advantage_B = (centred_GA / (reward_GA.std(1, keepdim=True) + 1e-4)).flatten()
    new_BT = torch.zeros_like(batch.old_BT)
    for b, (prompt, answer) in enumerate(
        zip(batch.prompts, batch.answers, strict=True)
    ):  # one by one, all logits
        logits_TV = policy_trainer.model(torch.tensor([[*prompt, *answer]])).logits[
            0, len(prompt) - 1 : -1
        ]
        of_answer = logits_TV.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]
        new_BT = (
            new_BT
            + torch.nn.functional.pad(of_answer, (0, new_BT.shape[1] - len(answer)))[None]
            * (torch.arange(len(batch)) == b)[:, None]
        )
    reference_BT = batch.reference_BT if beta else torch.zeros_like(batch.old_BT)
    expected, _ = trl_grpo(
        loss_type, new_BT, batch.old_BT, reference_BT, advantage_B, batch.mask_BT, beta=beta
    )
    theirs = torch.autograd.grad(expected, trained(policy_trainer))
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    torch.testing.assert_close(
        gradient, torch.cat([g.flatten() for g in theirs]), rtol=1e-3, atol=1e-5
    )


# -- what must not matter


@pytest.mark.long
@pytest.mark.parametrize("critic", ["head", pytest.param("model", marks=SLOW)])
def test_neither_micro_batches_nor_shared_prompts_nor_checkpointing_change_the_gradient(
    make, critic
):
    policy_trainer = make(critic=critic, kl_in="loss", entropy=0.01)
    taught = played(policy_trainer)
    prepared = batch_of(policy_trainer, taught)
    loss, gradient = loss_and_gradient(policy_trainer, prepared)
    assert policy_trainer.forward.shared is True
    others = [
        (make(critic=critic, kl_in="loss", entropy=0.01, batch_size=size), None) for size in (1, 3)
    ]
    others += [
        (policy_trainer, False),
        *(
            (make(critic=critic, kl_in="loss", entropy=0.01, gradient_checkpointing=again), None)
            for again in (True, "selective")
        ),
    ]
    for other, shares in others:
        other.forward.decide_sharing(prepared)
        assert other.forward.shared is True
        if shares is not None:
            other.forward.shared = shares
        found, slope = loss_and_gradient(other, prepared)
        assert found == pytest.approx(loss, abs=1e-6)
        torch.testing.assert_close(slope, gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("again", [True, False])
def test_checkpointed_layers_are_computed_twice_and_have_no_dropout(make, again):
    policy_trainer = make(estimator="group_relative", gradient_checkpointing=again)
    prepared, calls = batch_of(policy_trainer, played(policy_trainer)), []
    inner = policy_trainer.model.model.layers[0].mlp
    inner.register_forward_pre_hook(
        lambda module, _: calls.append(module.training)
    )  # a recomputation ends early
    loss_and_gradient(policy_trainer, prepared)
    assert calls == [False] * (1 + again)
    assert played(policy_trainer, seed=1)[1]  # with a cache again


@pytest.mark.parametrize(
    ("count", "minibatches", "sizes"), [(8, 1, [8]), (9, 4, [2, 2, 2, 3]), (3, 5, [1, 1, 1])]
)
def test_steps_are_cut_evenly_and_lose_nobody(make, count, minibatches, sizes):
    policy_trainer = make(estimator="batch", minibatches=minibatches, epochs=2)
    parts = list(policy_trainer._minibatches(count, 4))
    assert sorted(map(len, parts[: len(sizes)])) == sizes
    assert len(parts) == 2 * len(sizes)
    for epoch in (parts[: len(sizes)], parts[len(sizes) :]):
        assert sorted(row for part in epoch for row in part) == list(range(count))
    if count > 3:
        assert parts[: len(sizes)] != parts[len(sizes) :], "each epoch has its order"


@pytest.mark.parametrize("temperature", [0.7, pytest.param(1.3, marks=SLOW)])
def test_the_sampler_and_the_learner_give_a_token_one_probability(make, temperature):
    policy_trainer = make({"temperature": temperature}, estimator="batch")
    taught = played(policy_trainer)
    batch = batch_of(policy_trainer, taught)
    told = policy_trainer.actor.retrace(batch.prompts, batch.answers)
    for row, said, own in zip(taught[1], told, batch.old_BT.tolist(), strict=True):
        assert list(row.move.logprobs) == pytest.approx(said, abs=1e-5)
        assert own[: len(said)] == pytest.approx(said, abs=1e-5)
    assert learn(policy_trainer, taught)["sampler_gap"] < 1e-5


@pytest.mark.parametrize(
    "cut",
    [
        {"top_k": 20, "top_p": 0.8},
        # each cut alone
        pytest.param({"top_p": 0.6}, marks=SLOW),
        pytest.param({"top_k": 3}, marks=SLOW),
    ],
)
def test_sampler_and_learner_are_compared_before_the_cuts(make, cut):
    policy_trainer = make(cut, estimator="batch")
    episodes, turns = played(policy_trainer)
    told = policy_trainer.actor.retrace(
        *[
            getattr(batch_of(policy_trainer, (episodes, turns)), name)
            for name in ("prompts", "answers")
        ]
    )
    for turn, uncut in zip(turns, told, strict=True):
        assert list(turn.move.uncut) == pytest.approx(uncut, abs=1e-5)
        assert sum(turn.move.uncut) < sum(turn.move.logprobs)
    stale = [
        msgspec.structs.replace(
            turn,
            move=msgspec.structs.replace(
                turn.move, uncut=tuple(value - 0.1 for value in turn.move.uncut)
            ),
        )
        for turn in turns
    ]
    with pytest.raises(EquipoiseError, match=r"differ by 0\.1 nats"):
        learn(policy_trainer, (episodes, stale))
    assert learn(policy_trainer, (episodes, turns))["sampler_gap"] < 1e-5


def test_the_samplers_cuts_are_undone(make):
    cut = {"top_k": 20, "top_p": 0.8, "min_p": 0.02, "temperature": 0.8}
    policy_trainer = make(cut, estimator="batch", batch_size=3)
    taught = played(policy_trainer)
    forward = policy_trainer.forward
    before, after = (
        rollout_batch(*taught, policy_trainer.encoding, policy_trainer.device, uncut=uncut)
        for uncut in (True, False)
    )
    assert [len(rows) for rows in forward.portions(after)] == [3, 3, 2]
    assert (after.sampled_BT > before.sampled_BT).any()
    forward.complete(after)
    told_BT = after.sampled_BT
    forward.undo_cuts(after, 0, 1.0)
    assert after.sampled_BT is told_BT
    forward.undo_cuts(after, 20, 0.8, 0.02)
    torch.testing.assert_close(after.sampled_BT, before.sampled_BT, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("weight", "learns"), [(0.0, True), (0.1, False), (0.1, True)])
def test_entropy_is_computed_where_it_is_learned(make, weight, learns):
    policy_trainer = make({"temperature": 0.5}, estimator="batch", kl=0, entropy=weight)
    batch = policy_trainer.prepare(*played(policy_trainer, answers=1))
    assert len(batch.reference_BT) == len(batch.value_BT) == 0
    with torch.set_grad_enabled(learns):
        tokens = policy_trainer.forward.tokens(batch)
    assert tokens.value_BT is None
    assert (tokens.entropy_BT is not None) == (weight > 0 and learns)
    for b, (prompt, answer) in enumerate(zip(batch.prompts, batch.answers, strict=True)):
        logits_TV = policy_trainer.model(torch.tensor([[*prompt, *answer]])).logits[0]
        p_TV = torch.distributions.Categorical(logits=logits_TV[len(prompt) - 1 : -1] / 0.5)
        wide_T = torch.nn.functional.pad(
            torch.stack([p_TV.log_prob(torch.tensor(answer)), p_TV.entropy()]),
            (0, batch.mask_BT.shape[1] - len(answer)),
        )
        torch.testing.assert_close(tokens.logprob_BT[b], wide_T[0], atol=1e-4, rtol=0)
        if tokens.entropy_BT is not None:
            torch.testing.assert_close(tokens.entropy_BT[b], wide_T[1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("estimator", ["group_relative", "leave_one_out"])
def test_moves_without_company_in_their_group_teach_nothing(make, estimator):
    policy_trainer = make(estimator=estimator)
    episodes, turns = played(policy_trainer)
    alone = [msgspec.structs.replace(episode, group=str(n)) for n, episode in enumerate(episodes)]
    with pytest.raises(NoSignal, match=r"game\.answers"):
        learn(policy_trainer, (alone, turns))


def test_how_many_moves_have_no_company_is_said(make):
    policy_trainer = make(estimator="group_relative")
    episodes, turns = played(policy_trainer)
    apart = [msgspec.structs.replace(episodes[0], group="own"), *episodes[1:]]
    assert learn(policy_trainer, (apart, turns))["alone"] == 1 / len(episodes)


def test_the_bound_on_bad_tokens_is_in_the_loss(make):
    """Where a bad token has become five times as likely, its loss is 3 in place of 5."""
    policy_trainer = make(estimator="batch", policy_loss={"kind": "clipped", "dual_clip": 3.0})
    batch = batch_of(policy_trainer, played(policy_trainer))
    batch.advantage_BT = -torch.ones_like(batch.advantage_BT)
    likelier = TokenNumbers(batch.old_BT + math.log(5), None, None)
    weight_BT = batch.mask_BT / batch.mask_BT.sum()
    numbers = [
        policy_loss(settings, 0.0, batch, likelier, weight_BT, weight_BT, 0.0)[0].item()
        for settings in (policy_trainer.settings, make(estimator="batch").settings)
    ]
    assert numbers == pytest.approx([3, 5], rel=1e-4)
    with pytest.raises(ValueError, match="dual_clip: must exceed"):
        make(estimator="batch", policy_loss={"kind": "clipped", "dual_clip": 1.1})


@pytest.mark.parametrize(
    ("temperature", "likelihood", "read"),
    [(0.5, "player", 0.5), (0, "player", 1), (0.5, "model", 1), (0, "model", 1)],
)
def test_a_policy_is_read_at_its_temperature_or_its_own(make, temperature, likelihood, read):
    made = make({"temperature": temperature}, estimator="batch", likelihood=likelihood)
    assert made.forward.temperature == read


def test_a_gap_may_be_as_large_as_it_is_set(make):
    policy_trainer = make(estimator="batch", max_disagreement=0.5)
    policy_trainer._assert_small(0.5, "the probe")
    for gap in (0.51, math.nan):
        with pytest.raises(EquipoiseError, match=r"on the probe, more than .* = 0\.5:"):
            policy_trainer._assert_small(gap, "the probe")


def test_probabilities_that_are_no_numbers_are_told_from_others(make):
    policy_trainer = make(estimator="batch")
    learn(policy_trainer, played(policy_trainer, answers=1))
    with torch.no_grad():
        policy_trainer.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(EquipoiseError, match="its log-probabilities are no numbers any more"):
        policy_trainer.assert_agreement(policy_trainer.actor)


# -- an update's facts


@pytest.mark.long
def test_a_sampler_of_the_likeliest_tokens_is_not_compared(make):
    policy_trainer = make({"temperature": 0}, estimator="batch", whiten_advantages=False)
    facts = learn(policy_trainer, played(policy_trainer, answers=1))
    assert "sampler_gap" not in facts
    assert "mismatch_kl" not in facts
    assert "whitened" not in facts
    assert facts["reward_deviation"] == 0.5
    assert facts["kl_weight"] == 0.01
    assert "alone" not in facts
    other = make({"temperature": 0}, estimator="batch", likelihood="model")
    assert "importance_weight" not in learn(other, played(other))
    other = make({"temperature": 1, "top_p": 0.9}, estimator="batch", likelihood="model")
    assert learn(other, played(other))["importance_weight"] < 1


@pytest.mark.long
def test_what_is_told_of_an_update_is_what_it_was(make):
    lines = []
    policy_trainer = make(
        {"max_new_tokens": 10}, estimator="batch", epochs=2, minibatches=2, probes=3
    )
    taught = played(policy_trainer, answers=2, pays=lambda n: float(n))
    batch = policy_trainer.prepare(*taught)
    facts = learn(policy_trainer, taught, lines=lines)
    assert policy_trainer.probe == [(batch.prompts[b], batch.answers[b][:8]) for b in range(3)]
    assert (facts["steps"], facts["examples"], facts["reward"]) == (4, 4, 1.5)
    assert facts["reward_deviation"] == pytest.approx(1.25**0.5)
    assert facts["length"] == sum(map(len, batch.answers)) / 4
    (line,) = lines
    assert line.pop("tokens_per_second") > 0
    assert line == {"step": 4, **{k: v for k, v in facts.items() if k != "examples"}}
    again = played(policy_trainer, seed=1, answers=2)
    learn(policy_trainer, again, lines=lines)
    assert policy_trainer.probe[0] == (batch.prompts[0], batch.answers[0][:8])
    assert (lines[1]["step"], lines[1]["steps"]) == (8, 4)
    assert str(policy_trainer.learner) == "policy@2"
    few = make(estimator="batch", probes=30)
    learn(few, played(few, answers=1))
    assert len(few.probe) == 2


def test_what_lies_behind_a_move_is_in_no_distance(make):
    policy_trainer = make(estimator="batch")
    batch = policy_trainer.prepare(*played(policy_trainer))
    batch.mask_BT[0, 2:] = False
    expected = policy_trainer._assess(batch)
    batch.old_BT = batch.old_BT + 0.5 * ~batch.mask_BT
    assert policy_trainer._assess(batch) == expected
    assert abs(expected["kl"]) < 1e-5


@pytest.mark.parametrize(("floor", "whitened"), [(0.5, True), (0.51, False)])
def test_rewards_that_differ_just_enough_are_whitened(make, floor, whitened):
    policy_trainer = make(critic="head", estimator=UNDIMMED, kl=0, whiten_floor=floor)
    taught = played(policy_trainer)
    assert policy_trainer._assess(policy_trainer.prepare(*taught))["whitened"] == whitened
    batch = batch_of(policy_trainer, taught)
    spread = batch.advantage_BT[batch.mask_BT].std().item()
    assert (spread == pytest.approx(1, abs=0.01)) == whitened


@pytest.mark.parametrize("place", ["reward", "loss"])
def test_the_distance_is_charged_in_one_place(make, place):
    """A reference one nat a token less likely, at half a reward a nat."""
    policy_trainer = make(
        critic="head", estimator=UNDIMMED, kl=0.5, kl_in=place, whiten_advantages=False
    )
    batch = policy_trainer.prepare(*played(policy_trainer, answers=2))
    batch.reference_BT = batch.old_BT - 1.0 * batch.mask_BT
    policy_trainer._estimate(batch)
    mask_BT = batch.mask_BT.float()
    to_come_BT = mask_BT.flip(1).cumsum(1).flip(1) * mask_BT
    expected_BT = batch.reward_B[:, None] * mask_BT
    if place == "reward":
        expected_BT = expected_BT - 0.5 * to_come_BT
    torch.testing.assert_close(batch.advantage_BT, expected_BT, atol=1e-4, rtol=0)
    torch.testing.assert_close(batch.return_BT, expected_BT, atol=1e-4, rtol=0)


def test_a_part_that_only_fills_up_teaches_nothing(make):
    """The second of two processes has no part of its own left, and computes one for nothing."""
    policy_trainer = make(estimator="batch", batch_size=8, kl_in="loss", entropy=0.1)
    batch = batch_of(policy_trainer, played(policy_trainer))
    policy_trainer.rank = ProcessRank(policy_trainer.device, 2, 1)
    sums = policy_trainer._backward(batch)
    assert {name: value.item() for name, value in sums.items()} == dict.fromkeys(
        ("policy_loss", "kl_loss", "entropy_loss", "clip_share"), 0
    )
    assert all(not w.grad.any() for w in trained(policy_trainer) if w.grad is not None)


def test_the_first_process_alone_writes(make, tmp_path):
    policy_trainer = make(critic="head")
    learn(policy_trainer, played(policy_trainer, answers=1))
    policy_trainer._first = False
    policy_trainer.save_state(tmp_path)
    policy_trainer.save_update(tmp_path)
    assert not list(tmp_path.iterdir())
    policy_trainer._first = True
    policy_trainer.save_update(tmp_path)
    update = PolicyUpdate.read(tmp_path)
    expected = policy_trainer.policy.trained_parameters()
    assert update.probe == policy_trainer.probe
    assert update.weights.keys() == expected.keys()
    assert all(torch.equal(update.weights[name], expected[name]) for name in expected)
    policy_trainer.save_state(tmp_path)
    other = make(critic="head")
    other.load(tmp_path, 1)
    found = weights(other)
    assert all(torch.equal(value, found[name]) for name, value in weights(policy_trainer).items())
    assert (str(other.learner), other.probe) == ("policy@1", policy_trainer.probe)
    assert other.optimizer.steps == policy_trainer.optimizer.steps == 1


# -- the models that are trained


@pytest.mark.long
def test_what_nothing_asks_for_is_not_kept(make, adapter_folder):
    given = {**ADAPTER, "adapter": str(adapter_folder("llama", 1)[1])}
    with make(estimator="batch", kl=0).policy.reference() as model:
        assert model is None
    resources = Resources()
    policy = make(given, resources=resources, estimator="batch").policy
    assert set(policy.model.peft_config) == {"policy", "policy_as_given"}
    policy = make(given, resources=resources, estimator="batch", kl=0).policy
    assert set(policy.model.peft_config) == {"policy"}
    policy = make(ADAPTER, estimator="batch").policy
    assert set(policy.model.peft_config) == {"policy"}


@pytest.mark.long
def test_what_only_samples_keeps_no_reference_and_no_checkpoints(make, adapter_folder):
    made = make(estimator="batch", gradient_checkpointing=True)
    assert has_checkpoints(made.model)
    given = (made.settings, made.player, "policy", 3, made.device, Resources())
    sampling = TrainableModel(*given, trained=False)
    assert not has_checkpoints(sampling.model)
    with sampling.reference() as model:
        assert model is None
    start = make({**ADAPTER, "adapter": str(adapter_folder("llama", 1)[1])}, estimator="batch")
    given = (start.settings, start.player, "policy", 3, start.device, Resources())
    assert set(TrainableModel(*given, trained=False).model.peft_config) == {"policy"}


@pytest.mark.parametrize("sharding", [None, Sharding()])
def test_a_reference_that_is_divided_is_read_on_the_cpu(make, monkeypatch, sharding):
    """Each process would read all of it; what divides it is stood in for."""
    read, made = [], make(estimator="batch")
    monkeypatch.setattr(
        trainable_model, "load_model", lambda *given, **how: read.append(how["device"]) or "start"
    )
    monkeypatch.setattr(trainable_model, "place_model", lambda *given: given)
    monkeypatch.setattr(trainable_model, "SharedBase", lambda *given: SimpleNamespace(peft=made))
    where = torch.device("meta")
    policy = TrainableModel(made.settings, made.player, "ann", 3, where, Resources(), sharding)
    assert read == ["meta" if sharding is None else "cpu"]
    with policy.reference() as model:
        assert model == (sharding, "start", where)


@pytest.mark.long
def test_a_fresh_adapter_is_drawn_by_its_seed(make):
    def drawn(seed):
        torch.manual_seed(seed + 17)
        made = make(ADAPTER, estimator="batch")
        given = (made.settings, made.player, "policy", seed, made.device, Resources())
        return TrainableModel(*given).trained_parameters()

    one, same, other = drawn(1), drawn(1), drawn(2)
    torch.manual_seed(5)
    again = make(ADAPTER, estimator="batch").policy.trained_parameters()
    torch.manual_seed(6)
    twin = make(ADAPTER, estimator="batch").policy.trained_parameters()
    for name in one:
        assert torch.equal(one[name], same[name])
        assert torch.equal(again[name], twin[name])
        assert "lora_A" not in name or not torch.equal(one[name], other[name])


@pytest.mark.parametrize("start", [True, False], ids=["given", "fresh"])
def test_a_reference_is_frozen_and_leaves_the_learners_adapter_in_force(
    make, adapter_folder, tmp_path, start
):
    folder = str(adapter_folder("llama", 1)[1]) if start else None
    policy = make({**ADAPTER, "adapter": folder}, estimator="batch").policy
    names = policy.trained_parameters().keys()
    assert names
    assert all("lora_" in name and ".policy." in name for name in names)
    with policy.reference() as model:
        assert not start or not any(weight.requires_grad for weight in model.parameters())
        assert not start or model.active_adapter == "policy_as_given"
    assert policy.model.active_adapter == "policy"
    assert policy.trained_parameters().keys() == names
    policy.save(tmp_path)
    found = {path.name for path in tmp_path.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= found
    assert "policy" not in found


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_frozen_base_and_a_reference_have_the_learners_precision(make, precision):
    short = torch.bfloat16 if precision == "bf16" else torch.float32
    adapter = make(ADAPTER, estimator="batch", precision=precision).policy
    assert adapter.model.get_base_model().model.embed_tokens.weight.dtype == short
    whole = make(estimator="batch", precision=precision).policy
    assert {weight.dtype for weight in whole.trained_parameters().values()} == {torch.float32}
    with whole.reference() as model:
        assert {weight.dtype for weight in model.parameters()} == {short}


@pytest.mark.long
def test_a_critic_is_the_policys_model_or_another_under_a_head_of_zeros(make, model_folder):
    other = str(model_folder("plain"))
    own, given = make(critic="model"), make(critic="model", critic_model=other)
    for made, folder in ((own, str(model_folder("llama"))), (given, other)):
        expected = load_model(folder, dtype="float32", device="cpu").get_input_embeddings().weight
        assert torch.equal(made.critic.body.embed_tokens.weight, expected)
        assert all(weight.requires_grad for weight in made.critic.parameters())
        assert made.critic.head.weight.shape == (1, 32)
        assert not made.critic.head.weight.any()
        assert made.critic.head.bias.tolist() == [0]
        assert not has_checkpoints(made.critic.body)
    assert make(critic="head").critic.body is None
    asked = []
    own.critic.body.register_forward_pre_hook(
        lambda module, given, how: asked.append(how["use_cache"]), with_kwargs=True
    )
    own.prepare(*played(own, answers=1))
    assert asked
    assert not any(asked)
    saving = make(critic="model", gradient_checkpointing=True)
    assert has_checkpoints(saving.critic.body)


@pytest.mark.parametrize("critic", ["model", "head"])
def test_gradients_of_checkpointed_layers_can_be_asked_for(make, critic):
    """As of others: checkpoints that enter the backward pass anew refuse it."""
    policy_trainer = make(critic=critic, kl=0, gradient_checkpointing=True)
    batch = policy_trainer.prepare(*played(policy_trainer, answers=1))
    policy_trainer.forward.enable_checkpointing()
    tokens = policy_trainer.forward.tokens(batch)
    weights = policy_trainer.policy.trained_parameters().values()
    found = torch.autograd.grad(tokens.logprob_BT.sum(), list(weights), allow_unused=True)
    assert sum(float(g.abs().sum()) for g in found if g is not None) > 0
    if critic == "model":
        torch.nn.init.ones_(policy_trainer.critic.head.weight)
        value_BT = policy_trainer.forward.tokens(batch).value_BT
        body = list(policy_trainer.critic.body.parameters())
        assert any(g is not None for g in torch.autograd.grad(value_BT.sum(), body))


# -- adapters


@pytest.mark.long
def test_a_fresh_adapters_reference_is_the_model_without_it(make):
    policy_trainer = make({"lora": {"r": 2, "alpha": 4}}, estimator="batch", learning_rate=1e-2)
    first = played(policy_trainer)
    assert learn(policy_trainer, first)["kl"] == pytest.approx(0, abs=1e-6)
    policy_trainer.assert_agreement(policy_trainer.actor)
    taught = played(policy_trainer, seed=1)
    batch = batch_of(policy_trainer, taught)
    base = policy_trainer.player.open(None, Resources())
    assert (batch.old_BT - batch.reference_BT).abs().max() > 1e-2
    for own, said in zip(
        batch.reference_BT.tolist(), base.retrace(batch.prompts, batch.answers), strict=True
    ):
        assert own[: len(said)] == pytest.approx(said, abs=1e-5)
    assert all("lora_" in name for name in policy_trainer.policy.trained_parameters())


@pytest.mark.long
def test_a_given_adapters_reference_is_a_frozen_copy_of_it(make, adapter_folder):
    _, folder = adapter_folder("llama", 1)
    player = {"lora": {"r": 2, "alpha": 4}, "adapter": str(folder)}
    policy_trainer = make(player, estimator="batch", learning_rate=1e-2)
    learn(policy_trainer, played(policy_trainer))
    batch = batch_of(policy_trainer, played(policy_trainer, seed=1))
    start = policy_trainer.player.open(policy_trainer.player.start, Resources())
    assert (batch.old_BT - batch.reference_BT).abs().max() > 1e-2
    for own, said in zip(
        batch.reference_BT.tolist(), start.retrace(batch.prompts, batch.answers), strict=True
    ):
        assert own[: len(said)] == pytest.approx(said, abs=1e-5)


@pytest.mark.long
def test_two_learners_with_adapters_share_one_base_and_nothing_else(make, adapter_folder):
    _, folder = adapter_folder("llama", 1)
    resources, lora = Resources(), {"lora": {"r": 2, "alpha": 4}}
    settings = {"estimator": "batch", "learning_rate": 1e-2}
    ann = make(lora, name="ann", resources=resources, **settings)
    ben = make({**lora, "adapter": str(folder)}, name="ben", resources=resources, **settings)
    alone = make(lora, name="ann", **settings)
    assert ann.model.get_base_model() is ben.model.get_base_model()
    learn(alone, played(alone))
    learn(ben, played(ben))
    before = weights(ben)
    taught = played(ann)
    assert learn(ann, taught)["kl"] == pytest.approx(0, abs=1e-6)
    assert all(torch.equal(value, before[name]) for name, value in weights(ben).items())
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(ann).values(), weights(alone).values(), strict=True)
    )
    batch = batch_of(ben, played(ben, seed=1))
    start = ben.player.open(ben.player.start, Resources())
    for own, said in zip(
        batch.reference_BT.tolist(), start.retrace(batch.prompts, batch.answers), strict=True
    ):
        assert own[: len(said)] == pytest.approx(said, abs=1e-5)
    for policy_trainer in (ann, ben):
        policy_trainer.assert_agreement(policy_trainer.actor)


@pytest.mark.long
@pytest.mark.parametrize("player", [{}, {"lora": {"r": 2, "alpha": 4}}], ids=["whole", "adapter"])
def test_what_is_saved_is_what_plays(make, player, tmp_path):
    policy_trainer = make(player, estimator="batch", learning_rate=1e-2)
    taught = played(policy_trainer)
    learn(policy_trainer, taught)
    policy_trainer.save(tmp_path)
    actor = policy_trainer.player.open(tmp_path, Resources())
    policy_trainer.assert_agreement(actor)
    views = [turn.view for turn in taught[1]]
    seeds = list(range(len(views)))
    assert [move.token_ids for move in actor.act(views, seeds)] == [
        m.token_ids for m in policy_trainer.actor.act(views, seeds)
    ]


# -- state


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {
            "critic": "model",
            "kl_target": 0.5,
            "kl_horizon": 50,
            "warmup_steps": 5,
            "epochs": 2,
            "minibatches": 2,
        },
        {"estimator": "role_baseline", "kl": 0.1},
        # less state than the first has
        pytest.param({"critic": "head"}, marks=SLOW),
        pytest.param(
            {"estimator": "group_relative", "kl_target": 0.5, "kl_horizon": 50}, marks=SLOW
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "player", [ADAPTER, pytest.param({}, marks=SLOW)], ids=["adapter", "whole"]
)
def test_an_update_after_loading_is_the_uninterrupted_one_bit_for_bit(
    make, settings, player, tmp_path
):
    policy_trainer = make(player, **settings)
    for seed in range(2):
        learn(policy_trainer, played(policy_trainer, seed))
    policy_trainer.save_state(tmp_path)
    third = played(policy_trainer, 2)
    calm = learn(policy_trainer, third)
    other = make(player, **settings)
    other.load(tmp_path, 2)
    assert [turn.move for turn in played(other, 2)[1]] == [turn.move for turn in third[1]]
    assert learn(other, third) == calm
    assert other.learner == policy_trainer.learner
    assert (other.kl_weight, other.optimizer.steps, other.baselines, other.probe) == (
        policy_trainer.kl_weight,
        policy_trainer.optimizer.steps,
        policy_trainer.baselines,
        policy_trainer.probe,
    )
    found = weights(other)
    assert all(torch.equal(value, found[name]) for name, value in weights(policy_trainer).items())


# -- its parts


@pytest.mark.long
def test_the_entropy_bonus_raises_entropy(make):
    for weight in (0.0, 0.1):
        policy_trainer = make(estimator="batch", kl=0, entropy=weight)
        taught = played(policy_trainer, pays=lambda n: 1.0)  # all alike: nothing else to learn
        ids = torch.tensor(
            [rollout_batch(*taught, policy_trainer.encoding, policy_trainer.device).prompts[0]]
        )
        before = policy_trainer.model(ids).logits[0, -1].detach().softmax(-1)
        learn(policy_trainer, taught)
        after = policy_trainer.model(ids).logits[0, -1].detach().softmax(-1)
        rise = float((torch.special.entr(after) - torch.special.entr(before)).sum())
        assert rise > 0.01 if weight else rise == 0


def test_the_weight_of_the_kl_follows_its_target(make):
    policy_trainer = make(
        estimator="batch", kl=0.2, kl_target=0.01, kl_horizon=100, learning_rate=1e-2
    )
    facts = learn(policy_trainer, played(policy_trainer))
    assert (
        policy_trainer.kl_weight == kls.next_coefficient(0.2, facts["kl"], 0.01, 100, 8) < 0.2
    )  # nothing has been learned: less weight
    lower, facts = (policy_trainer.kl_weight, learn(policy_trainer, played(policy_trainer, 1)))
    assert facts["kl"] > 0.01
    assert facts["kl_weight"] == lower
    assert (
        policy_trainer.kl_weight == kls.next_coefficient(lower, facts["kl"], 0.01, 100, 8) > lower
    )


def test_reference_and_policy_are_read_at_the_players_temperature(make):
    """Before it has learned, a policy is its reference at any temperature; the longer prompt's
    moves come first here, and are read last.
    """
    policy_trainer = make({"temperature": 0.5}, estimator="batch")
    episodes, turns = played(policy_trainer, answers=2)
    batch = policy_trainer.prepare(episodes[::-1], turns[::-1])
    torch.testing.assert_close(batch.reference_BT, batch.old_BT)
    torch.testing.assert_close(batch.sampled_BT, batch.old_BT, atol=1e-4, rtol=0)
    assert not any(module.training for module in policy_trainer.model.modules())


@pytest.mark.long
@pytest.mark.parametrize("correction", ["truncate", "none"])
def test_the_models_own_likelihood_is_weighed_by_what_sampled(make, correction):
    """As GPO's release, which samples at .8 and top-p .9, and learns at temperature 1 (`none`)."""
    player = {"temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.3}
    settings = {"estimator": "batch", "likelihood": "model", "sampler_correction": correction}
    policy_trainer, plain = make(player, **settings), make(player, estimator="batch")
    episodes, turns = played(policy_trainer)
    batch = policy_trainer.prepare(episodes, turns)
    own = policy_trainer.actor.retrace(batch.prompts, batch.answers, 1.0)
    for old_T, own_T, turn in zip(batch.old_BT.tolist(), own, turns, strict=True):
        assert old_T[: len(own_T)] == pytest.approx(own_T, abs=1e-4)
        assert turn.move.logprobs != turn.move.uncut
    sampled_BT = [list(turn.move.logprobs) for turn in turns]
    assert [
        row[: len(kept)] for row, kept in zip(batch.sampled_BT.tolist(), sampled_BT, strict=True)
    ] == [pytest.approx(kept) for kept in sampled_BT]
    policy_trainer._estimate(batch)
    before_BT = batch.advantage_BT.clone()
    facts = policy_trainer._correct(batch)
    ratio_BT = (batch.old_BT - batch.sampled_BT).exp().clamp(max=2.0) * batch.mask_BT
    weight_BT = ratio_BT if correction == "truncate" else 1.0
    torch.testing.assert_close(batch.advantage_BT, before_BT * weight_BT)
    assert (facts["importance_weight"] == 1) == (correction == "none")
    learn(policy_trainer, (episodes, turns))
    policy_trainer.assert_agreement(policy_trainer.actor)
    at_temperature = plain.prepare(*played(plain))
    assert plain._correct(at_temperature) == {}
    torch.testing.assert_close(at_temperature.sampled_BT, at_temperature.old_BT, atol=1e-4, rtol=0)


def test_the_critic_is_taught_the_return_and_the_policy_what_exceeded_it(make):
    """A critic that expects ½ of every move: over λ = 1 the return is what was paid."""
    settings = {"critic": "head", "estimator": UNDIMMED, "kl": 0}
    policy_trainer = make(**settings, whiten_advantages=False)
    torch.nn.init.constant_(policy_trainer.critic.head.bias, 0.5)
    taught = played(policy_trainer, answers=2, pays=lambda n: float(n))
    batch = batch_of(policy_trainer, taught)
    paid_BT = batch.reward_B[:, None] * batch.mask_BT
    torch.testing.assert_close(batch.return_BT, paid_BT)
    torch.testing.assert_close(batch.advantage_BT, paid_BT - 0.5 * batch.mask_BT)


@pytest.mark.long
@pytest.mark.parametrize("paid", [0.0, 1.0])
def test_a_batch_without_a_success_is_not_whitened(make, paid):
    """A critic that is a little off: noise where nothing succeeded, and only there."""

    def learned(**settings):
        policy_trainer = make(critic="model", estimator=UNDIMMED, kl=0, **settings)
        torch.nn.init.normal_(policy_trainer.critic.head.weight, std=0.02)
        taught = played(policy_trainer, pays=lambda n: paid * (n == 0))
        batch = batch_of(policy_trainer, taught)
        return batch.advantage_BT[batch.mask_BT], learn(policy_trainer, taught)

    torch.manual_seed(0)
    advantage_N, facts = learned()
    assert facts["whitened"] == paid
    assert (advantage_N.std() > 0.99) == bool(paid)
    torch.manual_seed(0)
    raw_N, unwhitened = learned(whiten_advantages=False)
    assert "whitened" not in unwhitened
    assert torch.equal(advantage_N, raw_N) == (not paid)
    torch.manual_seed(0)
    always_N, always = learned(whiten_floor=0)
    assert always["whitened"] == 1
    assert always_N.std() > 0.99
    if not paid:
        assert facts["grad_norm"] < always["grad_norm"] / 3


@pytest.mark.parametrize("paid", [1.0, 1e-3])
def test_the_reward_to_go_is_normalised_where_rewards_differ(make, paid):
    policy_trainer = make(estimator="batch", kl=0)
    batch = batch_of(policy_trainer, played(policy_trainer, pays=lambda n: paid * n))
    advantage_N = batch.advantage_BT[batch.mask_BT]
    assert advantage_N.mean().item() == pytest.approx(0, abs=1e-6)
    paid_N = (batch.reward_B[:, None] * batch.mask_BT)[batch.mask_BT]
    scale = paid_N.std().item() if paid == 1 else 1.0
    torch.testing.assert_close(advantage_N, (paid_N - paid_N.mean()) / scale)


@pytest.mark.long
def test_the_critic_learns_what_moves_are_paid(make):
    policy_trainer = make(
        critic="head",
        learning_rate=1e-6,
        critic_learning_rate=3e-2,
        value_clip=10.0,
        estimator=UNDIMMED,
    )
    losses = [
        learn(policy_trainer, played(policy_trainer, seed, pays=lambda n: 1.0))["value_loss"]
        for seed in range(20)
    ]
    assert losses[0] == pytest.approx(0.5, abs=0.01)
    assert losses[-1] < 0.1


# -- what goes wrong


def test_samples_of_another_policy_are_refused(make):
    policy_trainer = make(estimator="batch", learning_rate=1e-2)
    taught = played(policy_trainer)
    learn(policy_trainer, taught)
    with pytest.raises(EquipoiseError, match=r"policy@1: .*nats a token on the answers"):
        learn(policy_trainer, taught)
    with pytest.raises(
        EquipoiseError,
        match=r"differ by [\d.]+ nats a token on the probe, more than learner.max_dis",
    ):
        policy_trainer.assert_agreement(policy_trainer.player.open(None, Resources()))
    policy_trainer.assert_agreement(policy_trainer.actor)


def test_told_log_probabilities_that_are_not_the_learners_are_refused(make):
    policy_trainer = make(estimator="batch")
    episodes, turns = played(policy_trainer)
    wrong = [
        msgspec.structs.replace(
            t, move=msgspec.structs.replace(t.move, logprobs=(-1.0,) * len(t.move.logprobs))
        )
        for t in turns
    ]
    with pytest.raises(EquipoiseError, match="do not hold the same weights"):
        learn(policy_trainer, (episodes, wrong))


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_named(make, reward):
    policy_trainer = make(estimator="batch")
    with pytest.raises(ConfigError, match=f"the reward of match m3, turn 0, is {reward}"):
        learn(policy_trainer, played(policy_trainer, pays=lambda n: reward if n == 3 else 1.0))


def test_nothing_to_learn_from_is_said(make):
    with pytest.raises(NoSignal, match="no episode"):
        learn(make(estimator="batch"), ([], []))


@pytest.mark.long
@pytest.mark.parametrize(
    ("estimator", "rate"),
    [
        ("gae", 1e2),
        ("batch", 1e30),
        # the other rates
        pytest.param("gae", 1e30, marks=SLOW),
        pytest.param("batch", 1e2, marks=SLOW),
    ],
)
def test_an_absurd_learning_rate_stops_with_a_word_about_it(make, estimator, rate):
    policy_trainer = make(estimator=estimator, learning_rate=rate)

    def go_on():
        for seed in range(5):
            learn(policy_trainer, played(policy_trainer, seed))
            policy_trainer.assert_agreement(policy_trainer.actor)

    with pytest.raises(EquipoiseError, match=r"learner\.learning_rate|learner\.max_disagreement"):
        go_on()


def test_a_runaway_policy_is_stopped(make):
    policy_trainer = make(estimator="batch", learning_rate=1e-2, max_kl=1e-3)
    learn(policy_trainer, played(policy_trainer))
    with pytest.raises(
        EquipoiseError,
        match=r"policy@1: it is .* nats an answer away .* raise learner.kl \(now 0.01\)",
    ):
        learn(policy_trainer, played(policy_trainer, 1))


def test_a_broken_critic_is_seen(make):
    policy_trainer = make(critic="head")
    with torch.no_grad():
        policy_trainer.critic.head.bias.fill_(math.nan)
    with pytest.raises(EquipoiseError, match="no number any more"):
        learn(policy_trainer, played(policy_trainer))


def test_a_player_that_is_no_model_here_is_refused():
    with pytest.raises(ConfigError, match=r"'policy_gradient'.*'local'.*players\.rock"):
        PolicyTrainer(PolicyGradient.model_validate({}), Player.build("tabular"), "rock", 0)


@pytest.mark.long
def test_two_precisions_live_in_one_process(make):
    for precision in ("bf16", "fp32"):
        policy_trainer = make(estimator="batch", precision=precision)
        assert learn(policy_trainer, played(policy_trainer))["sampler_gap"] < (
            0.1 if precision == "bf16" else 1e-5
        )
        policy_trainer.assert_agreement(policy_trainer.actor)


def test_learning_rates_fall_with_the_square_root_after_the_warm_up():
    def factors(**settings):
        read = PolicyGradientSettings(warmup_steps=100, **settings)
        return [rate_factor(read, step) for step in (1, 50, 100, 400, 10_000)]

    assert factors(scheduler="inverse_sqrt") == [0.01, 0.5, 1, 0.5, 0.1]
    assert factors() == [0.01, 0.5, 1, 1, 1]
    with pytest.raises(ValidationError, match="inverse_sqrt falls from the end of"):
        PolicyGradientSettings(warmup_steps=0, scheduler="inverse_sqrt")


def test_adamw_is_as_it_is_set(make):
    learner = make(betas=(0.9, 0.95), epsilon=1e-6)
    policy, critic = learner.optimizer.adamw.param_groups
    assert policy["betas"] == critic["betas"] == (0.9, 0.95)
    assert (policy["eps"], critic["eps"]) == (1e-6, 1e-8)
    assert policy["fused"]
    assert not make(optimizer="adamw").optimizer.adamw.defaults["fused"]
    with pytest.raises(ValidationError, match=r"betas: must lie in \[0, 1\)"):
        PolicyGradientSettings(betas=(0.9, 1.0))


@pytest.mark.parametrize("name", ["default", "pop"])
def test_a_learner_may_have_a_name_that_torch_or_peft_has(make, name, tmp_path):
    made = make(ADAPTER, estimator="batch")
    given = (made.settings, made.player, name, 3, made.device, Resources())
    TrainableModel(*given).save(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").is_file()


def test_what_a_learner_does_not_read_or_a_critic_cannot_is_a_fault(model_folder, tmp_path):
    def faults(player=(), **settings):
        local = {"kind": "local", "model": str(model_folder("llama")), "learns": True}
        trainer = PolicyGradient.model_validate(settings)
        return [*trainer.faults(Player.build({**local, **dict(player)}), Answers())]

    (unread,) = faults({"lora": {"r": 2, "dropout": 0.1}})
    assert unread.startswith("lora.dropout")
    (gone,) = faults(critic_model=str(tmp_path / "gone"))
    assert gone.startswith("critic_model")
    assert "gone" in gone
    (other,) = faults(critic_model="builtin")
    assert "has other tokens than" in other
    assert not faults({"lora": {"r": 2}}, critic_model=str(model_folder("llama")))


# -- terms and bounds beside the rewards


def test_rewards_and_advantages_are_cut(make):
    """A reward of 9 counts as one of .5, and an advantage of −.75 as one of −.4."""
    settings = {"estimator": "leave_one_out", "kl": 0}
    pays = [0.0, 0.5, -0.25, 0.5, 0.5, 0.0, -0.5, 0.25].__getitem__
    large = [0.0, 9.0, -0.25, 0.5, 0.5, 0.0, -7.0, 0.25].__getitem__
    expected = batch_of(plain := make(**settings), played(plain, pays=pays)).advantage_BT
    cut = batch_of(cutting := make(**settings, reward_clip=0.5), played(cutting, pays=large))
    assert torch.equal(cut.advantage_BT, expected)
    assert not torch.equal(batch_of(plain, played(plain, pays=large)).advantage_BT, expected)
    narrow = batch_of(bound := make(**settings, advantage_clip=0.4), played(bound, pays=pays))
    assert torch.equal(narrow.advantage_BT, expected.clamp(-0.4, 0.4))
    assert expected.abs().max() > 0.4


@pytest.mark.long
@pytest.mark.parametrize(("target", "sign"), [(0.5, -1), (50.0, 1)])
def test_the_entropy_is_pulled_to_its_target(make, target, sign):
    """Nothing is paid, so that the entropy alone moves the policy: down to .5 nats, up to 50."""
    policy_trainer = make(estimator="leave_one_out", kl=0, entropy=0.3, entropy_target=target)
    taught = played(policy_trainer, pays=lambda n: 1.0)
    facts = learn(policy_trainer, taught)
    after = policy_trainer.prepare(*taught)
    entropy = float(after.entropy_BT[after.mask_BT].mean())
    assert (entropy - facts["entropy"]) * sign > 0
    assert facts["entropy_loss"] == pytest.approx(-0.3 * sign * facts["entropy"], rel=1e-5)


def test_an_entropy_target_without_its_weight_is_refused():
    with pytest.raises(ValidationError, match="pulled to with the weight `entropy`, which is 0"):
        PolicyGradient.model_validate({"estimator": "batch", "entropy_target": 3})


GIVEN = [
    {"prompt": CHATS[1], "completion": "At five."},
    {"prompt": CHATS[0], "completion": "It is seven."},
    {"prompt": "yes or no", "completion": "yes"},
]


@pytest.mark.long
def test_given_answers_are_learned_beside_rewards(make, tmp_path):
    """Nothing is paid; the loss is what the player that samples gives these answers, and rises."""
    file = tmp_path / "given.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in GIVEN))
    given = {"path": str(file), "weight": 0.5, "rows": 2}
    settings = {"estimator": "leave_one_out", "kl": 0, "batch_size": 1, "pretraining": given}
    policy_trainer = make(**settings)
    order = [policy_trainer.pretraining.of_step(step) for step in range(3)]
    rows = [row for step in order for row in step]
    assert sorted(map(id, rows[:3])) == sorted(map(id, rows[3:]))
    sums = policy_trainer.forward.given_answers(order[0]).detach()
    tokens = sum(row.counts()[0] for row in order[0])
    facts = learn(policy_trainer, played(policy_trainer, pays=lambda n: 1.0))
    assert facts["pretraining_loss"] == pytest.approx(-0.5 * float(sums.sum()) / tokens, rel=1e-4)
    assert facts["policy_loss"] == pytest.approx(0, abs=1e-6)
    assert policy_trainer.forward.given_answers(order[0]).sum() > sums.sum()
    expected = load_model(policy_trainer.player.model)
    for row, total in zip(order[0], sums, strict=True):
        ids = torch.tensor([[*row.prompt, *row.answers[0]]])
        logprob_TV = expected(ids).logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)
        by_hand = logprob_TV.gather(1, torch.tensor(row.answers[0])[:, None]).sum()
        assert float(total) == pytest.approx(float(by_hand), abs=1e-3)


def test_a_file_of_given_answers_that_is_not_there_is_a_fault(make, tmp_path):
    settings = PolicyGradient.model_validate(
        {"estimator": "batch", "pretraining": {"path": str(tmp_path / "none.jsonl")}}
    )
    (fault,) = settings.faults(make().player, Answers.model_validate({}))
    assert fault.startswith("pretraining: ")
    assert "none.jsonl" in fault
