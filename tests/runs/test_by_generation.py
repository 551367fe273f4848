"""Settings that change from generation to generation."""

import numpy as np
import pytest
from small_runs import FINITE, quickstart, settings

from equipoise.errors import ConfigError
from equipoise.learners.tabular_learner import expectation, newton, win_probabilities
from equipoise.losses.base import PreferenceLoss
from equipoise.planning.new_run import new_run
from equipoise.report.model_card import model_card
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId


def ratios(config):
    return [config.loss_at("policy", t).ratio for t in range(config.generations)]


@pytest.mark.parametrize(
    "schedule", ["{0: 0.25, 2: 0.75}", "[0.25, 0.25, 0.75]"], ids=["by key", "list"]
)
def test_a_schedule_is_followed_and_survives_a_round_trip(schedule):
    overrides = ["generations=4", "loss.kind=mnpo", f"loss.ratio={schedule}"]
    config = recipe_loader.load("mnpo", [*overrides, "policy.model=builtin", "prompts.path=x"])
    assert ratios(config) == [0.25, 0.25, 0.75, 0.75]
    again = recipe_loader.build(recipe_loader.parse_yaml(config.yaml(), "again"), "again")
    assert again == config
    assert again.yaml() == config.yaml()


def test_a_learners_own_schedule_and_that_of_all():
    overrides = [
        "judges={alice: exact, bob: exact}",
        "players.alice.model=builtin",
        "players.bob.model=builtin",
        "prompts.path=x",
        "learner.learning_rate={0: 1e-6, 1: 5e-7}",
        "learners={bob: {epochs: [1, 2]}}",
    ]
    config = recipe_loader.load("mnpo_heterogeneous", overrides)
    alice, bob = ([config.learner_at(name, t) for t in range(2)] for name in ("alice", "bob"))
    assert [trainer.learning_rate for trainer in alice] == [1e-6, 5e-7]
    assert [trainer.epochs for trainer in bob] == [1, 2]
    assert [trainer.learning_rate for trainer in bob] == [1e-6, 5e-7]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["loss.ratio={1: 0.5}"], "generations count from 0"),
        (["loss.ratio={0: 0.5, 1: 2.0}"], "less than or equal to 1"),
        (["by_generation={loss: {ratio: {0: 0.5}}}"], "take one of them away"),
        (["by_generation={loss: {rate: {0: 0.5}}}"], "no setting 'rate'"),
        (["by_generation={los: {ratio: {0: 0.5}}}"], "did you mean 'loss'"),
        (["loss.ratio={a: 0.5}"], "valid number"),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_refused(overrides, message):
    base = ["policy.model=builtin", "prompts.path=x"]
    with pytest.raises(ConfigError, match=message):
        recipe_loader.load("mnpo", [*base, *overrides])


def test_weights_that_a_later_generations_loss_meets_must_be_kept():
    overrides = [
        "generations=5",
        "loss.max_history=[1, 4]",
        "policy.model=builtin",
        "prompts.path=x",
    ]
    assert recipe_loader.load("mnpo_as_released", [*overrides, "keep=4"]).keep == 4
    with pytest.raises(ConfigError, match="meets 4 past generations, but only 2 are kept"):
        recipe_loader.load("mnpo_as_released", [*overrides, "keep=2"])


@pytest.mark.parametrize(
    ("schedule", "keep", "words"),
    [
        ("against_history", 4, "5 must be kept"),
        ("{kind: against_history, max_history: 1}", 1, "2 must be kept"),
        ("prioritised", 9, "all must be kept"),
        ("mixture", 9, "all must be kept"),
    ],
)
def test_generations_that_play_again_are_kept(schedule, keep, words):
    few = ["loss=dpo", f"schedule={schedule}", "evaluate=held_out"]
    with pytest.raises(ConfigError, match=f"keep: schedule: .*{words}"):
        recipe_loader.load("quickstart", [*few, f"keep={keep}"])
    if words[0] != "a":
        assert recipe_loader.load("quickstart", [*few, f"keep={keep + 1}"]).keep == keep + 1


def test_a_learner_in_memory_keeps_its_settings():
    overrides = ["learner.learning_rate=[1e-6, 1e-7]"]
    with pytest.raises(ConfigError, match="stays in memory"):
        recipe_loader.load("gpo_clerks", overrides)


@pytest.mark.long
def test_each_generation_learns_by_its_own_values(command, tmp_path):
    """On a finite game, where a generation is the exact minimiser of its own loss."""
    overrides = settings(
        loss={"kind": "inpo", "tau": 0.05, "eta": {0: 0.5, 2: 5.0}}, learner="tabular"
    )
    assert command("run", *FINITE, *overrides, "--out", "run").code == 0
    with RunDirectory.read(tmp_path / "run") as run:
        win_AA = win_probabilities(run.config.game.payoff_AM())
        learner = run.config.players["policy"]
    folders = tmp_path / "run" / "players" / "policy"

    def logits(player: PlayerId) -> np.ndarray:
        weights = folders / str(player.generation) if player.generation else None
        return learner.logits_A(weights, len(win_AA))

    for t, eta in enumerate([0.5, 0.5, 5.0]):
        past = [PlayerId("policy", g) for g in range(t, -1, -1)]
        loss = PreferenceLoss.build({"kind": "inpo", "tau": 0.05, "eta": eta})
        problem = expectation(loss, win_AA, past, logits)
        expected_A, _ = newton(problem, logits(past[0]), 100)
        found_A = logits(PlayerId("policy", t + 1))
        assert found_A - found_A.mean() == pytest.approx(expected_A, abs=1e-6)


def test_a_card_says_what_its_own_generation_was_trained_with(tmp_path):
    config = quickstart(generations=2, loss={"kind": "dpo", "beta": [0.1, 0.7]})
    with new_run(config, tmp_path / "run") as run:
        for t in range(2):
            run.ledger.finish(f"{t}/turn", t, "turn", {"learn": ["policy"]}, 0.0)
        cards = [str(model_card(run, PlayerId("policy", age))) for age in (1, 2)]
    assert "beta: 0.1" in cards[0]
    assert "beta: 0.7" in cards[1]


def test_each_player_may_have_a_loss_of_its_own():
    overrides = [f"{name}.model=builtin" for name in ("armo", "athene", "skywork")]
    config = recipe_loader.load("mnpo_heterogeneous_three", [*overrides, "prompts.path=x"])
    etas = {
        name: [config.loss_at(name, t).eta for t in range(3)]
        for name in ("armo", "athene", "skywork")
    }
    assert etas == {
        "armo": [0.0075, 0.005, 0.005],
        "athene": [0.005, 0.005, 0.005],
        "skywork": [0.0075, 0.01, 0.01],
    }
    assert [config.loss_at(name, 1).beta for name in etas] == [10, 1, 3]
    assert [config.loss_at(name, 1).max_history for name in etas] == [2, 4, 4]
    assert [config.loss_at(name, 1).ratio for name in etas] == [0.85] * 3


def test_a_loss_of_nobody_is_refused():
    overrides = ["policy.model=builtin", "prompts.path=x", "losses={alice: {eta: 0.5}}"]
    with pytest.raises(ConfigError, match="losses: 'alice' does not learn"):
        recipe_loader.load("mnpo", overrides)
