"""A run whose players would not play what was trained stops at the hand-over."""

import pytest
from small_runs import SMALL, settings

from equipoise.learners.preference_learner import Preference
from equipoise.report.page import hand_over_rows
from equipoise.runs.directory import RunDirectory
from equipoise.sampling.arrival_check import FILE


@pytest.mark.long
def test_weights_that_lose_their_updates_stop_the_run(command):
    short = settings(players__policy__dtype="bfloat16", learner__learning_rate=1e-6)
    refused = command("run", "quickstart", *SMALL, *short, "--out", "short")
    assert refused.code == 2
    assert "players.policy: as it plays, policy@1 differs" in refused.err
    assert "set players.policy.dtype: auto" in refused.err


@pytest.mark.long
def test_a_step_below_the_noise_of_bfloat16_is_said_and_stops_nothing(command, tmp_path):
    """Learner and player multiply in bfloat16 and are .001 nats apart before anything is learned."""
    short = settings(
        players__policy__lora={"r": 2},
        learner__precision="bf16",
        learner__learning_rate=1e-6,
        learner__batch_size=32,
    )
    assert command("run", "quickstart", *SMALL, *short, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        (learned,) = run.ledger.stages("learn")
        ((_, _, share),) = hand_over_rows(run)
    assert "below what the precision can show" in learned.facts["below_precision"]
    assert share == learned.facts["below_precision"]
    assert "played_share" not in learned.facts


@pytest.mark.long
def test_a_hand_over_is_recorded(command, tmp_path):
    assert command("run", "quickstart", *SMALL, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        (learned,) = run.ledger.stages("learn")
        ((player, gap, share),) = hand_over_rows(run)
    assert learned.facts["played_gap"] < 1e-4
    assert 0.99 < learned.facts["played_share"] < 1.01
    assert (player, share) == ("policy@1", "100.0 %")
    assert gap.endswith(" nats a token")
    assert ">share of it that plays</th>" in (tmp_path / "run/report.html").read_text()


def test_rounding_of_whole_weights_is_refused_for_an_adapter(command):
    adapter = settings(players__policy__lora={"r": 2}, learner__rounding="stochastic")
    refused = command("plan", "quickstart", *adapter)
    assert refused.code == 2
    assert "learner.rounding: rounds whole weights" in refused.err


class WithoutProbes(Preference):
    """A learner of one's own that writes nothing to be compared by."""

    def learn(self, batch):
        facts = super().learn(batch)
        (batch.output / FILE).unlink()
        return facts


@pytest.mark.long
def test_a_player_that_cannot_be_compared_is_said(command, tmp_path):
    mute = settings(learner={"kind": f"{__name__}:WithoutProbes"})
    assert command("run", "quickstart", *SMALL[:-2], *mute, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        (learned,) = run.ledger.stages("learn")
        ((_, shown, _),) = hand_over_rows(run)
    why = learned.facts["not_compared"]
    assert why.startswith("policy@1 plays uncompared with its learner: ")
    assert "wrote no probes" in why
    assert "played_gap" not in learned.facts
    assert why in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert shown == why


@pytest.mark.long
def test_at_learning_rate_0_the_released_margin_is_0(command, tmp_path):
    """In every generation: the history begins with the policy that sampled, so shares add up to
    one. The rate is too small to move a float32 weight.
    """
    still = settings(generations=3, loss="mnpo_released", learner__learning_rate=1e-30)
    assert command("run", "quickstart", *SMALL, *still, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        margins = [stage.facts["margin"] for stage in run.ledger.stages("learn")]
    assert len(margins) == 3
    assert margins == pytest.approx([0.0] * 3, abs=1e-4)
