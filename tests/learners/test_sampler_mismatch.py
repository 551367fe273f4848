"""A policy trainer whose moves an engine samples: each generation goes there as an adapter, what
differs is measured, and importance weights correct it.
"""

import math

import pytest
import torch

from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_trainer import PolicyTrainer
from equipoise.learners.rollouts import RolloutBatch, importance_weights, mismatch
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings, choose, kept_mass
from equipoise.players.base import Player
from equipoise.types import Episode, Turn, View, user

LOG2 = math.log(2)


def batch(old, sampled) -> RolloutBatch:
    """One move, whose last column is padding."""
    mask_BT = torch.ones(1, len(old), dtype=torch.bool)
    mask_BT[0, -1] = False
    return RolloutBatch(
        prompts=[[1]],
        answers=[[2] * (len(old) - 1)],
        reward_B=torch.ones(1),
        group_B=torch.zeros(1),
        roles=["first"],
        mask_BT=mask_BT,
        sampled_BT=torch.tensor([sampled]),
        old_BT=torch.tensor([old]),
    )


BATCH = batch([-1.0, -1.0, -1.0, -2.0], [-1.0, -1.0 - 2 * LOG2, -1.0 + 2 * LOG2, -5.0])


def test_the_distance_is_of_tokens_alone():
    facts = mismatch(BATCH)
    assert facts["sampler_gap"] == pytest.approx(4 * LOG2 / 3)
    # ratio − 1 − log ratio at ratios 1, 4 and 1/4
    assert facts["mismatch_kl"] == pytest.approx(((3 - 2 * LOG2) + (2 * LOG2 - 0.75)) / 3)


@pytest.mark.parametrize(
    ("correction", "weights", "bounded"),
    [("truncate", [1, 2, 0.25], 1 / 3), ("mask", [1, 0, 0], 2 / 3), ("none", [1, 1, 1], 0)],
)
def test_importance_weights_are_bounded(correction, weights, bounded):
    weight_BT, facts = importance_weights(BATCH, correction, 2.0)
    assert weight_BT[0, :3].tolist() == pytest.approx(weights)
    assert facts["importance_weight"] == pytest.approx(sum(weights) / 3)
    assert facts["importance_bounded"] == pytest.approx(bounded)


def test_truncated_weights_make_the_mean_that_of_the_policy():
    """Samples of another distribution, weighed, have the policy's mean where no ratio is bounded:
    the sum over all tokens, exactly.
    """
    policy_V = torch.tensor([0.5, 0.3, 0.2])
    other_V = torch.tensor([0.4, 0.4, 0.2])
    reward_V = torch.tensor([1.0, -2.0, 3.0])
    rows = batch([*policy_V.log().tolist(), 0.0], [*other_V.log().tolist(), 0.0])
    weight_BT, _ = importance_weights(rows, "truncate", 2.0)
    assert (other_V * weight_BT[0, :3] * reward_V).sum() == pytest.approx(
        float((policy_V * reward_V).sum())
    )


@pytest.mark.parametrize(
    "cuts", [{"top_k": 7}, {"top_p": 0.8}, {"top_k": 20, "top_p": 0.6}, {"min_p": 0.1, "top_k": 9}]
)
def test_the_kept_mass_is_what_the_cuts_add(cuts):
    generator = torch.Generator().manual_seed(0)
    logits_BV = 3 * torch.randn(50, 320, generator=generator)
    settings = SamplingSettings(0.7, **cuts)
    number_B = torch.rand(50, dtype=torch.float64, generator=generator)
    _, logprob_B, uncut_B = choose(logits_BV, number_B, settings)
    mass_B = kept_mass(logits_BV / 0.7, settings)
    assert torch.allclose(logprob_B + mass_B, uncut_B, atol=1e-5)


@pytest.fixture
def trainer(model_folder, tmp_path):
    """trainer(server, **settings) -> a learner of the tiny Llama; server None: sampled in this
    process.
    """

    def build(server, **settings) -> PolicyTrainer:
        sampler = "local"
        if server is not None:
            sampler = {"kind": "vllm", "base_url": server.url, "patience": 20}
        given = {
            "kind": "local",
            "model": str(model_folder("llama")),
            "lora": {"r": 2, "alpha": 4},
            "learns": True,
            "device": "cpu",
            "max_new_tokens": 5,
            "max_length": 128,
            "sampler": sampler,
            **settings.pop("player", {}),
        }
        learner = PolicyGradient.model_validate(
            {"learning_rate": 1e-2, "warmup_steps": 0, "estimator": "group_relative", **settings}
        )
        return PolicyTrainer(
            learner, Player.build(given), "policy", 3, Resources(), tmp_path / "sent"
        )

    return build


def update(trainer, seed=0):
    """One update on moves that the trainer's actor makes; its facts."""
    views = [View((user("How much is three and four?"),))] * 4
    moves = trainer.actor.act(views, [100 * seed + n for n in range(4)])
    turns = [Turn("first", view, move) for view, move in zip(views, moves, strict=True)]
    episodes = [Episode(str(n), 0, f"m{n}", 0, "first", "0", float(n % 2)) for n in range(4)]
    return trainer.learn(episodes, turns, 5, lambda line: None)


@pytest.mark.long
def test_a_learner_through_an_engine_learns_what_it_learns_here(vllm_server, trainer, tmp_path):
    server = vllm_server("llama")
    here, there = trainer(None), trainer(server)
    for seed in range(3):
        mine, its = update(here, seed), update(there, seed)
        assert its["mismatch_kl"] < 1e-8
        assert its["sampler_gap"] < 1e-4
        assert its["importance_weight"] == pytest.approx(1, abs=1e-4)
        assert its["policy_loss"] == pytest.approx(mine["policy_loss"], abs=1e-4)
        assert "importance_weight" not in mine
        assert "mismatch_kl" in mine
    # generation 0 is the base; each later one was sent under a name of its own
    names = [name.split(":")[1] for name in server.adapters]
    assert names == ["policy@1", "policy@2"]
    assert sorted(path.name for path in (tmp_path / "sent").iterdir()) == ["1", "2"]


@pytest.mark.long
def test_cuts_do_not_count_as_mismatch(vllm_server, trainer):
    cut = {"top_k": 20, "top_p": 0.7, "temperature": 0.8}
    facts = update(trainer(vllm_server("llama"), player=cut))
    assert facts["mismatch_kl"] < 1e-8
    assert facts["sampler_gap"] < 1e-4


@pytest.mark.long
def test_a_mismatch_is_corrected_and_does_not_stop_the_run(vllm_server, trainer):
    """An engine in another precision: here, one of rounded weights."""
    server = vllm_server("llama")
    server.base.model.bfloat16().float()
    facts = update(trainer(server, sampler_correction="mask", sampler_limit=1.01))
    assert facts["sampler_gap"] > 1e-3  # more than the in-process sampler is allowed
    assert 0 < facts["mismatch_kl"] < 0.1
    assert facts["importance_bounded"] > 0
