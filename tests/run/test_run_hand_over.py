"""A run whose players would not play what was trained stops at the hand-over."""

from small import SMALL, settings

from equipoise.run.directory import RunDirectory


def test_weights_that_lose_their_updates_stop_the_run(command):
    short = settings(players__policy__dtype="bfloat16", learner__learning_rate=1e-6)
    refused = command("run", "quickstart", *SMALL, *short, "--out", "short")
    assert refused.code == 2
    assert "players.policy: as it plays, policy@1 differs" in refused.err
    assert "set players.policy.dtype: auto" in refused.err


def test_a_hand_over_is_recorded(command, tmp_path):
    assert command("run", "quickstart", *SMALL, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        (learned,) = run.ledger.stages("learn")
    assert learned.facts["played_gap"] < 1e-4
    assert 0.99 < learned.facts["played_share"] < 1.01


def test_rounding_of_whole_weights_is_refused_for_an_adapter(command):
    adapter = settings(players__policy__lora={"r": 2}, learner__rounding="stochastic")
    refused = command("plan", "quickstart", *adapter)
    assert refused.code == 2 and "learner.rounding: rounds whole weights" in refused.err
