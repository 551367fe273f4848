"""What `auto` means, by size and device."""

import pytest

from equipoise.learners.automatic import decide
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.preference_learner import Preference
from equipoise.players.base import Player

LEARNERS = [Preference.model_validate({}), PolicyGradient.model_validate({})]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_a_large_model_on_an_accelerator_saves_memory(learner):
    large = decide(learner, large=True)
    assert (large.precision, large.gradient_checkpointing) == ("bf16", True)
    assert large.max_disagreement == 0.25
    small = decide(learner, large=False)
    assert (small.precision, small.gradient_checkpointing) == ("fp32", False)
    assert small.max_disagreement == 1e-3
    assert decide(learner, large=False, tf32=True).max_disagreement == 0.02
    assert decide(learner, large=True, tf32=True).max_disagreement == 0.25


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_what_is_set_stays(learner):
    chosen = {"precision": "fp32", "gradient_checkpointing": False}
    own = learner.model_validate(chosen | {"max_disagreement": 0.5})
    assert decide(own, large=True) == own
    part = learner.model_validate({"gradient_checkpointing": True})
    assert decide(part, large=False).gradient_checkpointing is True
    assert decide(part, large=True).precision == "bf16"


def test_rounded_weights_may_differ_more():
    rounding = Preference.model_validate({"rounding": "stochastic"})
    assert decide(rounding, large=False).max_disagreement == 0.25


def test_on_a_cpu_nothing_is_saved_and_carried():
    player = Player.build({"kind": "local", "model": "builtin", "device": "cpu"})
    settled = LEARNERS[0].settle(player)
    assert (settled.precision, settled.carried_precision()) == ("fp32", "fp32")
    assert settled.gradient_checkpointing is False
