"""The exact minimisers against closed forms, against scipy, and what they do in games whose answer
is known.
"""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.learners.base import TrainingBatch
from equipoise.learners.tabular_learner import (
    Expectation,
    TabularLearner,
    expectation,
    judged_pairs,
    newton,
    newton_step,
    softmax,
    win_probabilities,
)
from equipoise.losses.base import PreferenceLoss
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.players.scripted import Scripted
from equipoise.players.tabular import Tabular, log_softmax, read_policy, write_policy
from equipoise.types import PlayerId

SIZE = 5
START = (0.3, -0.4, 0.0, 1.0, -0.9)


def custom(payoff_AA):
    names = tuple(map(str, range(len(payoff_AA))))
    return Matrix(name="custom", payoffs=tuple(map(tuple, payoff_AA.tolist())), row_actions=names)


def random_game(seed=0, size=SIZE):
    half_AA = np.random.default_rng(seed).uniform(-0.9, 0.9, (size, size))
    return custom(np.triu(half_AA, 1) - np.triu(half_AA, 1).T)


def bradley_terry_game(reward_A):
    return custom(np.tanh(np.subtract.outer(reward_A, reward_A) / 2))


def learn(tmp_path, settings, game, learner=None, generations=3, start=START):
    """Teach a player with a random past: (the past's log-probabilities, newest first; the new
    one's; the facts).
    """
    dice = np.random.default_rng(7)
    folders = [None]
    for generation in range(1, generations + 1):
        folder = tmp_path / str(generation)
        folder.mkdir(parents=True)
        write_policy(folder, dice.normal(size=len(start)))
        folders.insert(0, folder)
    home = tmp_path / "next"
    home.mkdir()
    player = Tabular(logits=start)
    training_batch = TrainingBatch(
        learner=PlayerId("policy", generations),
        player=player,
        weights=folders[0],
        output=home,
        scratch=tmp_path,
        seed=0,
        game=game,
        loss=PreferenceLoss.build(settings),
        past_weights=folders,
    )
    facts = (learner or TabularLearner()).learn(training_batch)
    past_KA = np.array([log_softmax(player.logits_A(folder, len(start))) for folder in folders])
    return past_KA, log_softmax(read_policy(home)), facts


def assert_policy(log_policy_A, expected_logits_A):
    np.testing.assert_allclose(log_policy_A, log_softmax(expected_logits_A), atol=1e-6)


# -- closed forms


def test_mnpo_with_probability_target_is_multiplicative_weights(tmp_path):
    game = random_game()
    win_AA = win_probabilities(game.payoff_AM())
    settings = {"kind": "mnpo", "target": "probability", "eta": 3.0, "weights": [1, 1, 1]}
    past_KA, log_policy_A, _ = learn(tmp_path, settings, game)
    three_KA = past_KA[:3]
    assert_policy(
        log_policy_A, three_KA.mean(0) + 3.0 / 3 * sum(win_AA @ np.exp(log_A) for log_A in three_KA)
    )


def test_mnpo_with_constant_target_steps_by_one_over_eta(tmp_path):
    game = random_game(1)
    win_AA = win_probabilities(game.payoff_AM())
    settings = {"kind": "mnpo", "eta": 0.5, "weights": [3, 1], "ratio": 0.2}
    past_KA, log_policy_A, _ = learn(tmp_path, settings, game)
    blend_A = 0.6 * past_KA[0] + 0.2 * past_KA[1] + 0.2 * past_KA[-1]
    assert_policy(log_policy_A, blend_A + win_AA @ np.exp(past_KA[0]) / 0.5)


def by_losses(settings, win_AA, start_A, updates):
    """The logits of `updates` exact minimisers, one after the other."""
    past, logits = [PlayerId("policy")], {PlayerId("policy"): np.array(start_A)}
    for generation in range(1, updates + 1):
        loss = PreferenceLoss.build(settings)
        problem = expectation(loss, win_AA, past, logits.__getitem__)
        past.insert(0, PlayerId("policy", generation))
        logits[past[0]] = newton(problem, logits[past[1]], 100)[0]
    return logits[past[0]]


@pytest.mark.parametrize("ratio", [0.0, 0.2])
def test_optimistic_members_move_by_twice_the_gain_less_the_last(ratio):
    """By either target; g_{−1} is g_0 by the probability one, 0 by the constant one."""
    win_AA, start_A = win_probabilities(random_game(1).payoff_AM()), np.array(START)
    for target, last_A in (("probability", win_AA @ softmax(start_A)), ("constant", 0.0)):
        logits_A = start_A
        for _ in range(6):
            gain_A = win_AA @ softmax(logits_A)
            logits_A = (1 - ratio) * logits_A + ratio * start_A + 3.0 * (2 * gain_A - last_A)
            last_A = gain_A
        eta = 3.0 if target == "probability" else 1 / 3.0
        settings = {"kind": "optimistic", "target": target, "eta": eta, "ratio": ratio}
        assert_policy(log_softmax(by_losses(settings, win_AA, start_A, 6)), logits_A)


@pytest.mark.parametrize("settings", [{"eta": 1 / 3}, {"target": "probability", "eta": 3.0}])
def test_extragradient_takes_its_step_by_the_gain_against_the_half_step(settings):
    win_AA, logits_A = win_probabilities(random_game(2).payoff_AM()), np.array(START)
    for _ in range(3):
        half_A = logits_A + 3.0 * win_AA @ softmax(logits_A)
        logits_A = logits_A + 3.0 * win_AA @ softmax(half_A)
    got_A = by_losses({"kind": "extragradient", **settings}, win_AA, START, 6)
    assert_policy(log_softmax(got_A), logits_A)


def test_mnpo_anchor_is_not_a_rival(tmp_path):
    game = random_game(2)
    win_AA = win_probabilities(game.payoff_AM())
    settings = {"kind": "mnpo", "target": "probability", "eta": 2.0, "weights": [1], "ratio": 0.5}
    past_KA, log_policy_A, _ = learn(tmp_path, settings, game)
    assert_policy(
        log_policy_A, 0.5 * past_KA[0] + 0.5 * past_KA[-1] + 2.0 * win_AA @ np.exp(past_KA[0])
    )


@pytest.mark.parametrize(("target", "step"), [("tau", 1 / 0.2), ("eta", 1 / 0.8)])
def test_inpo_is_a_mirror_step_with_an_anchor(tmp_path, target, step):
    game = random_game(3)
    win_AA = win_probabilities(game.payoff_AM())
    past_KA, log_policy_A, _ = learn(
        tmp_path, {"kind": "inpo", "tau": 0.2, "eta": 0.8, "target": target}, game
    )
    assert_policy(
        log_policy_A, 0.25 * past_KA[-1] + 0.75 * past_KA[0] + step * win_AA @ np.exp(past_KA[0])
    )


def test_inpo_with_target_eta_rests_at_the_regularised_equilibrium(tmp_path):
    game, tau, start = Matrix(name="biased_rock_paper_scissors"), 0.2, (1.0, 0.0, -1.0)
    win_AA = win_probabilities(game.payoff_AM())
    policy_A = np.array(start)
    for _ in range(4000):
        policy_A = 0.95 * policy_A + 0.05 * (np.array(start) + win_AA @ softmax(policy_A) / tau)
    folder = tmp_path / "equilibrium"
    folder.mkdir()
    write_policy(folder, policy_A)
    training_batch = TrainingBatch(
        learner=PlayerId("policy", 1),
        player=Tabular(logits=start),
        weights=folder,
        output=tmp_path,
        scratch=tmp_path,
        seed=0,
        game=game,
        past_weights=[folder, None],
        loss=PreferenceLoss.build({"kind": "inpo", "target": "eta", "tau": tau, "eta": 1.0}),
    )
    TabularLearner().learn(training_batch)
    assert_policy(log_softmax(read_policy(tmp_path)), policy_A)


@pytest.mark.parametrize("reference", ["initial", "previous"])
def test_ipo_tilts_its_reference_by_one_over_tau(tmp_path, reference):
    game = random_game(4)
    win_AA = win_probabilities(game.payoff_AM())
    offline = TabularLearner(sampler="initial")
    past_KA, log_policy_A, _ = learn(
        tmp_path, {"kind": "ipo", "tau": 0.3, "reference": reference}, game, offline
    )
    anchor_A = past_KA[-1 if reference == "initial" else 0]
    assert_policy(log_policy_A, anchor_A + win_AA @ np.exp(past_KA[-1]) / 0.3)


def test_distill_dpo_tilts_its_reference_by_the_reward(tmp_path):
    game = random_game(5)
    win_AA = win_probabilities(game.payoff_AM())
    past_KA, log_policy_A, _ = learn(tmp_path, {"kind": "distill_dpo", "beta": 0.4}, game)
    assert_policy(log_policy_A, past_KA[-1] + win_AA @ np.exp(past_KA[-1]) / 0.4)


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({"kind": "dpo", "beta": 0.5}, {-1: 1.0}),
        ({"kind": "dno", "beta": 0.5}, {0: 1.0}),
        (
            {"kind": "mnpo", "distance": "sigmoid", "beta": 0.5, "weights": [1, 3]},
            {0: 0.25, 1: 0.75},
        ),
    ],
    ids=str,
)
def test_sigmoid_members_recover_the_reward_of_bradley_terry_preferences(
    tmp_path, settings, weights
):
    reward_A = np.array([0.0, 1.0, -0.5, 2.0, 0.3])
    past_KA, log_policy_A, _ = learn(tmp_path, settings, bradley_terry_game(reward_A))
    assert_policy(
        log_policy_A, sum(weight * past_KA[k] for k, weight in weights.items()) + reward_A / 0.5
    )


def test_sppo_minimises_over_normalised_policies_and_is_multiplicative_weights_to_first_order(
    tmp_path,
):
    game, errors = random_game(6), []
    win_AA = win_probabilities(game.payoff_AM())
    for eta in (0.2, 0.1):
        past_KA, log_policy_A, _ = learn(tmp_path / str(eta), {"kind": "sppo", "eta": eta}, game)
        wins_A = win_AA @ np.exp(past_KA[0])
        miss_A = np.exp(past_KA[0]) * (log_policy_A - past_KA[0] - eta * (wins_A - 0.5))
        np.testing.assert_allclose(miss_A, np.exp(log_policy_A) * miss_A.sum(), atol=1e-9)
        errors.append(np.abs(log_policy_A - log_softmax(past_KA[0] + eta * wins_A)).max())
    assert errors[1] < 0.003
    assert errors[0] / errors[1] > 3.5


@pytest.mark.parametrize(
    "settings", [{"kind": "mnpo", "eta": 0.1, "weights": [1]}, {"kind": "ipo", "tau": 0.1}], ids=str
)
@pytest.mark.parametrize(
    "start", [(0.0, -30.0, 1.0, -60.0, 0.5), (0.0, -50.0, -200.0, -400.0, -600.0)]
)
def test_a_move_that_is_hardly_ever_sampled_is_solved_for_too(tmp_path, settings, start):
    game = random_game(8)
    win_AA = win_probabilities(game.payoff_AM())
    past_KA, log_policy_A, _ = learn(tmp_path, settings, game, generations=0, start=start)
    assert_policy(log_policy_A, past_KA[0] + win_AA @ np.exp(past_KA[0]) / 0.1)


def test_a_move_whose_probability_underflows_keeps_its_logit(tmp_path):
    game = random_game(8, 3)
    past_KA, log_policy_A, facts = learn(
        tmp_path, {"kind": "mnpo"}, game, generations=0, start=(0.0, 0.5, -700.0)
    )
    assert np.isfinite(log_policy_A).all()
    assert log_policy_A[2] < -600
    assert facts["distance"] < 1e-9
    step_A = win_probabilities(game.payoff_AM()) @ np.exp(past_KA[0]) / 0.1
    assert_policy(log_policy_A[:2], (past_KA[0] + step_A)[:2])


def test_a_newton_step_goes_down_whatever_the_curvature():
    slope_A = np.array([1.0, -2.0, 1.0])
    for hessian_AA in (
        np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]]),
        np.array([[2.0, -1, -1], [-1, -3, 4], [-1, 4, -3]]),
        np.array([[2.0, -2, 0], [-2, 2, 0], [0, 0, 0]]),
    ):
        assert slope_A @ newton_step(slope_A, hessian_AA) < 0
    np.testing.assert_allclose(
        np.ptp(newton_step(slope_A, 3 * np.eye(3) - 1) - (-slope_A / 3)), 0, atol=1e-12
    )


# -- another minimiser


# KTO's value is not convex, so that two minimisers need not meet.
@pytest.mark.parametrize("kind", sorted(set(PreferenceLoss.KINDS) - {"kto"}))
def test_newton_agrees_with_scipy(kind):
    torch.set_num_threads(1)
    loss = PreferenceLoss.build(
        {"kind": kind, **({"eta": 2.0} if kind in ("mnpo", "sppo") else {})}
    )
    dice = np.random.default_rng(3)
    past = [PlayerId("policy", generation) for generation in (2, 1, 0)]
    logits = {player: dice.normal(size=SIZE) for player in past}
    win_AA = win_probabilities(random_game(9).payoff_AM())
    problem = Expectation(
        loss,
        judged_pairs(win_AA, softmax(logits[past[0]])),
        [(logits[player], weight) for player, weight in loss.opponents(OpponentPool(past))],
        win_AA @ softmax(logits[past[0]]),
    )
    found_A, facts = newton(problem, logits[past[0]], 100)
    other = minimize(
        problem.gradient, logits[past[0]], jac=True, method="BFGS", options={"gtol": 1e-10}
    )
    assert facts["distance"] < 1e-6
    assert facts["loss"] == pytest.approx(other.fun, rel=1e-9)
    np.testing.assert_allclose(softmax(found_A), softmax(other.x), atol=1e-5)


@pytest.mark.long
def test_gradient_descent_goes_to_the_same_place(tmp_path):
    game, settings = random_game(10), {"kind": "mnpo", "eta": 1.0}
    _, exact_A, facts = learn(tmp_path / "exact", settings, game)
    descent = TabularLearner(solver="gradient", iterations=3000, learning_rate=0.5)
    _, log_policy_A, other = learn(tmp_path / "gradient", settings, game, descent)
    np.testing.assert_allclose(log_policy_A, exact_A, atol=1e-6)
    assert other["loss"] == pytest.approx(facts["loss"])


def test_a_minimiser_at_infinity_is_approached_and_told(tmp_path):
    sure = custom(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    _, log_policy_A, facts = learn(
        tmp_path, {"kind": "dpo"}, sure, TabularLearner(iterations=5), 1, (0.0, 0.0)
    )
    assert np.isfinite(log_policy_A).all()
    assert log_policy_A[0] - log_policy_A[1] > 10
    assert facts["distance"] > 1


# -- facts and refusals


def test_facts_are_of_the_new_policy(tmp_path):
    past_KA, log_policy_A, facts = learn(tmp_path, {"kind": "mnpo"}, random_game())
    policy_A = np.exp(log_policy_A)
    assert facts["entropy"] == pytest.approx(-(policy_A * log_policy_A).sum())
    assert facts["kl"] == pytest.approx((policy_A * (log_policy_A - past_KA[0])).sum())
    assert facts["distance"] < 1e-9
    assert set(facts) == {"loss", "distance", "entropy", "kl"}


def test_pairs_are_a_distribution_in_which_winners_are_as_likely_as_they_win():
    win_AA = win_probabilities(random_game().payoff_AM())
    pair_AA = judged_pairs(win_AA, softmax(np.array(START)))
    assert pair_AA.sum() == pytest.approx(1)
    np.testing.assert_allclose(pair_AA / (pair_AA + pair_AA.T), win_AA)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (Matrix(name="prisoners_dilemma"), "symmetric zero-sum"),
        (
            Matrix(
                name="custom", payoffs=((0.0, 1.0),), row_actions=("a",), column_actions=("b", "c")
            ),
            "same moves",
        ),
        (custom(np.array([[0.0, 3.0], [-3.0, 0.0]])), "payoff_scale to at least that"),
    ],
)
def test_games_that_are_no_preference_are_refused(tmp_path, game, message):
    with pytest.raises(ConfigError, match=message):
        learn(tmp_path, {"kind": "mnpo"}, game, start=(0.0, 0.0))


def test_payoff_scale_makes_a_preference_of_larger_stakes(tmp_path):
    stakes_AA = np.array([[0.0, 3.0], [-3.0, 0.0]])
    learner = TabularLearner(payoff_scale=6.0)
    past_KA, log_policy_A, _ = learn(
        tmp_path, {"kind": "ipo"}, custom(stakes_AA), learner, 0, (0.5, 0.0)
    )
    assert_policy(log_policy_A, past_KA[0] + (0.5 + stakes_AA / 12) @ np.exp(past_KA[0]) / 0.1)


def test_players_that_are_not_tabular_and_moves_without_probability_are_refused(tmp_path):
    loss = PreferenceLoss.build("mnpo")
    game = Matrix()
    for player, message in (
        (Scripted(text="rock"), "trains a tabular player"),
        (Tabular(probabilities=(1.0, 0.0, 0.0)), "probabilities of 0"),
    ):
        training_batch = TrainingBatch(
            PlayerId("policy"), player, None, tmp_path, tmp_path, 0, game, loss, past_weights=[None]
        )
        with pytest.raises(ConfigError, match=message):
            TabularLearner().learn(training_batch)


def test_settings_that_the_solver_does_not_read_are_refused():
    assert TabularLearner(solver="gradient").learning_rate == 1.0
    with pytest.raises(ValueError, match="learning_rate is read by solver: gradient only"):
        TabularLearner(learning_rate=0.1)
    assert TabularLearner.model_validate(TabularLearner().settings()) == TabularLearner()


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "mnpo"},
        {"kind": "mnpo", "ratio": 0.25, "target": "probability"},
        {"kind": "mnpo_released", "length": "sum"},
        {"kind": "sppo"},
        {"kind": "inpo"},
        {"kind": "dpo"},
        {"kind": "rdpo"},
    ],
    ids=str,
)
def test_an_indifferent_judge_leaves_the_policy_where_it_is(tmp_path, settings):
    """Three generations on a game in which every move ties, exactly."""
    game = custom(np.zeros((SIZE, SIZE)))
    folders = [None]
    for t in range(3):
        home = tmp_path / str(t)
        home.mkdir()
        batch = TrainingBatch(
            learner=PlayerId("policy", t),
            player=Tabular(logits=START),
            weights=folders[0],
            output=home,
            scratch=tmp_path,
            seed=0,
            game=game,
            loss=PreferenceLoss.build(settings),
            past_weights=list(folders),
        )
        TabularLearner().learn(batch)
        folders.insert(0, home)
        learned_A = log_softmax(read_policy(home))
        np.testing.assert_allclose(learned_A, log_softmax(np.array(START)), atol=1e-6)


def test_gradient_descent_begins_where_the_loss_begins(tmp_path):
    """Extragradient's second half step goes on from the policy before the first."""
    game, settings = random_game(10), {"kind": "extragradient", "eta": 1.0}
    still = TabularLearner(solver="gradient", iterations=1, learning_rate=1e-9)
    for generations in (1, 2):
        place = tmp_path / str(generations)
        past_KA, log_policy_A, _ = learn(place, settings, game, still, generations)
        before = PreferenceLoss.build(settings).init_from(
            OpponentPool([PlayerId("policy", g) for g in range(generations, -1, -1)])
        )
        np.testing.assert_allclose(
            log_policy_A, past_KA[generations - before.generation], atol=1e-6
        )
        assert before.generation == (0 if generations == 1 else 2)
