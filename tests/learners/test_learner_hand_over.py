"""What plays is what was trained, or the run stops and says what to set."""

import math

import numpy as np
import pytest
import torch

from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import round_stochastically
from equipoise.learners.preference_learner import Preference
from equipoise.losses.base import PreferenceLoss
from equipoise.models.packing import PromptAnswers
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.sampling.arrival_check import HandOver, compare, has_probes, slope, write_probes
from equipoise.types import Pair, PlayerId, user

NEWBORN = PlayerId("policy", 1)
PAIRS = [
    Pair(str(n), 0, str(n), (user(f"Yes or no, {n}?"),), "It is seven.", "no", 1.0, 0.0)
    for n in range(8)
]


@pytest.fixture
def learn(model_folder, tmp_path):
    """learn(lora=…, **settings) -> (the player as it plays, the folder of its next generation)."""

    def run(lora=None, **settings):
        player = Player.build(
            {
                "kind": "local",
                "model": str(model_folder("llama")),
                "device": "cpu",
                "learns": True,
                "lora": lora,
            }
        )
        trainer = Preference.model_validate(
            {"batch_size": 2, "learning_rate": 1e-5, "save_steps": 0, **settings}
        )
        output = tmp_path / f"home{len(list(tmp_path.iterdir()))}"
        output.mkdir()
        trainer.learn(
            TrainingBatch(
                learner=PlayerId("policy"),
                player=player,
                weights=None,
                output=output,
                scratch=tmp_path / "scratch",
                seed=1,
                game=Answers(),
                loss=PreferenceLoss.build("simpo"),
                pairs=PAIRS,
            )
        )
        return player.carrying(trainer.carried_precision()), output

    return run


def handed_over(player: Local, weights, **play) -> HandOver:
    plays = player.model_copy(update=play)
    before = plays.open(None, Resources())
    return compare(weights, before, plays.open(weights, Resources()))


@pytest.mark.long
@pytest.mark.parametrize(
    ("precision", "lora"),
    [
        ("fp32", {"r": 2}),
        ("bf16", None),
        # each precision with the other sort of weights
        pytest.param("fp32", None, marks=pytest.mark.slow),
        pytest.param("bf16", {"r": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_player_in_its_learners_precision_plays_what_was_trained(learn, lora, precision):
    player, weights = learn(lora, precision=precision, learning_rate=1e-3)
    hand_over = handed_over(player, weights)
    assert hand_over.share == pytest.approx(1, abs=0.01 if precision == "fp32" else 0.1)
    hand_over.check(NEWBORN, 1e-3 if precision == "fp32" else 0.25)


@pytest.mark.long
def test_a_player_in_bfloat16_stops_the_run(learn):
    player, weights = learn()
    hand_over = handed_over(player, weights, dtype="bfloat16")
    with pytest.raises(
        ConfigError, match=r"policy@1 differs by .*dtype: auto.*rounding: stochastic"
    ):
        hand_over.check(NEWBORN, 1e-3)


@pytest.mark.long
def test_weights_rounded_at_random_keep_what_was_learned(learn):
    """On average over the dice; a single draw has the rounding's noise."""
    player, weights = learn(rounding="stochastic")
    assert (player.dtype, player.precision) == ("bfloat16", None)
    handed_over(player, weights).check(NEWBORN, math.inf)


def test_stochastic_rounding_keeps_the_mean_and_what_bfloat16_holds():
    weight = torch.tensor([1.0, -0.3, 3.14159, 1e-20, 0.0, 1 + 2**-10])
    dice = torch.Generator().manual_seed(0)
    draws = torch.stack([round_stochastically(weight, dice) for _ in range(4000)])
    assert torch.equal(draws, draws.bfloat16().float())
    spacing = 2.0**-7 * weight.abs()
    error = (draws.double().mean(0) - weight).abs()
    assert (error <= 4 * spacing / math.sqrt(4 * 4000)).all()
    exact = torch.tensor([1.0, -0.5, 0.0])
    assert torch.equal(round_stochastically(exact, dice), exact)


def test_share_is_the_slope_and_not_known_where_nothing_was_learned():
    learned = np.array([1.0, -2.0, 3.0, 0.5])
    assert slope(learned, 0.25 * learned, 0.1) == pytest.approx((0.25, 0.0))
    assert all(map(math.isnan, slope(1e-9 * learned, learned, 0.1)))
    assert all(map(math.isnan, slope(learned[:2], learned[:2], 0.1)))
    noise = np.array([1.0, -1.0, -1.0, 1.0])
    value, error = slope(learned, learned + noise, 0.1)
    residual = learned + noise - value * learned
    power = (learned**2).sum()
    assert value == pytest.approx(1 + learned @ noise / power)
    assert error == pytest.approx(math.sqrt((residual**2).sum() / 3 / power))


def test_a_slope_takes_three_points_that_moved_more_than_a_little():
    one, two = np.ones(3), np.array([2.0, 2.0, 2.0])
    assert slope(one, two, 2.9) == (2.0, 0.0)
    for x_A, still in ((one, 3.0), (one[:2], 0.0)):
        assert all(map(math.isnan, slope(x_A, two[: len(x_A)], still)))
    share, error = slope(one, np.array([0.0, 2.0, 4.0]), 0.0)
    assert share == pytest.approx(2.0)
    assert error == pytest.approx(math.sqrt(8 / 2 / 3))  # of three residuals, through the origin


class Says:
    """A player that gives each answer a sum of its own."""

    def __init__(self, *sums):
        self.sums, self.asked = sums, None

    def token_sums(self, prompts, answers):
        self.asked = (prompts, answers)
        return self.sums


PROBES = [PromptAnswers([1, 2], [[3], [4, 5]]), PromptAnswers([6], [[7, 8]])]


def test_what_is_compared_is_what_the_learner_wrote(tmp_path):
    """Of five tokens: Δ (1, 2, 0) is played where the learner's is (1, 1, -1)."""
    assert not has_probes(tmp_path)
    write_probes(tmp_path, PROBES, [[-2.5, -3.5], [-2.5]], [[-1.5, -2.5], [-3.5]])
    assert has_probes(tmp_path)
    before, after = Says(-2.0, -3.0, -2.0), Says(-1.0, -1.0, -2.0)
    found = compare(tmp_path, before, after)
    assert before.asked == after.asked == ([[1, 2], [1, 2], [6]], [[3], [4, 5], [7, 8]])
    assert found.gap == pytest.approx(3.5 / 5)
    assert found.share == pytest.approx(1.0)
    assert found.share_error == pytest.approx(math.sqrt(2 / 2 / 3))
    assert set(found.facts()) == {"played_gap", "below_precision"}, "one error is more than a half"


def test_what_moved_less_than_rounding_is_not_told(tmp_path):
    for moved, known in ((1.01e-5, True), (0.99e-5, False)):
        start = [[-1 - 5 * moved, -2.0], [-3.0]]
        write_probes(tmp_path, PROBES, start, [[-1.0, -2.0], [-3.0]])
        found = compare(tmp_path, Says(-1 - 5 * moved, -2.0, -3.0), Says(-1.0, -2.0, -3.0))
        assert math.isnan(found.share) == (not known)
        assert found.gap == 0
        assert ("played_share" in found.facts()) == known
        assert ("below_precision" in found.facts()) == (not known)


@pytest.mark.parametrize("exact", [True, False])
def test_a_change_below_the_noise_of_a_short_learner_does_not_stop_the_run(tmp_path, exact):
    """The sides are .01 nats apart under the same weights; the learner saw a change of .003."""
    noise = np.array([0.02, -0.02, 0.02])
    start = np.array([-1.0, -2.0, -3.0])
    learned = np.array([0.003, -0.002, 0.004])
    end = start + learned
    write_probes(tmp_path, PROBES, [start[:2], start[2:]], [end[:2], end[2:]], exact=exact)
    played = compare(tmp_path, Says(*start + noise), Says(*start + noise))
    if exact:  # what an exact learner saw is no noise
        with pytest.raises(ConfigError, match="0% of what was learned is played"):
            played.check(NEWBORN, 0.25)
    else:
        played.check(NEWBORN, 0.25)
        assert "below_precision" in played.facts()


def test_a_training_that_wrote_no_start_is_judged_by_its_gap(tmp_path):
    write_probes(tmp_path, PROBES, None, [[-1.0, -2.0], [-3.0]])
    found = compare(tmp_path, Says(-2.0, -3.0, -2.0), Says(-1.0, -1.0, -3.0))
    assert found.gap == pytest.approx(1 / 5)
    assert math.isnan(found.share)


def test_a_share_has_to_be_too_low_by_three_errors():
    for share, error in ((0.9, 0.0), (0.6, 0.101), (1.2, 0.0)):
        HandOver(1e-3, share, error).check(NEWBORN, 1e-3)
    for share, error in ((0.89, 0.0), (0.6, 0.099)):
        with pytest.raises(ConfigError, match="of what was learned is played"):
            HandOver(1e-3, share, error).check(NEWBORN, 1e-3)
    with pytest.raises(ConfigError) as caught:
        HandOver(0.02, math.nan, math.nan).check(NEWBORN, 1e-3)
    assert "is played" not in str(caught.value)


def test_a_gap_alone_stops_the_run_and_a_noisy_share_does_not():
    HandOver(1e-4, math.nan, math.nan).check(NEWBORN, 1e-3)
    HandOver(1e-4, 0.5, 0.3).check(NEWBORN, 1e-3)
    with pytest.raises(ConfigError, match=r"differs by 0\.02 nats"):
        HandOver(0.02, math.nan, math.nan).check(NEWBORN, 1e-3)
    with pytest.raises(ConfigError, match="1% of what was learned is played"):
        HandOver(1e-4, 0.01, 0.01).check(NEWBORN, 1e-3)


def test_what_is_set_is_left_and_others_play_in_their_own_precision(model_folder):
    player = Local(model=str(model_folder("llama")), device="cpu")
    assert player.carrying(None) == player
    fixed = replace_dtype(player, "bfloat16")
    assert fixed.carrying("fp32") == fixed
    assert (player.carrying("fp32").dtype, player.carrying("fp32").precision) == ("float32", None)
    assert (player.carrying("bf16").dtype, player.carrying("bf16").precision) == ("float32", "bf16")
    adapted = Local(model=str(model_folder("llama")), lora={"r": 2})
    assert adapted.carrying("bf16").dtype == "bfloat16"


def replace_dtype(player: Local, dtype: str) -> Local:
    return player.model_copy(update={"dtype": dtype})
