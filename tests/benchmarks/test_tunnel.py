"""The wind tunnel: its games, its rules and its board."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import optimism, tunnel, tunnel_board
from benchmarks.tunnel_flight import Size, fly, judged, measured, resumed
from benchmarks.tunnel_games import (
    FAMILIES,
    Changing,
    Contextual,
    Judged,
    Poker,
    TwoRoles,
    hrc_logits,
)
from benchmarks.tunnel_rules import RULES, STEPS, Rule
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.gpo import contextual_nash_conv

RULE = {rule.name: rule for rule in RULES}
SAME = {
    "multiplicative weights": "multiplicative weights (IPO iterated)",
    "MNPO, two past": "MNPO, two past",
    "INPO": "INPO",
    "SPPO": "SPPO",
    "Nash-MD": "Nash-MD",
    "DPO online": "DPO online",
    "DPO iterated": "DPO iterated",
    "magnetic mirror descent": "magnetic mirror descent",
    "optimistic (OMWU)": "optimistic",
    "optimistic, by its past": "optimistic, by its past",
    "extragradient": "extragradient",
}


@pytest.mark.parametrize("name", SAME)
def test_a_rule_makes_what_the_members_of_the_family_make(name):
    # those of `benchmarks.optimism` are held against the losses' own minimisers elsewhere
    [method] = [method for method in optimism.METHODS if method.label == SAME[name]]
    games = FAMILIES["random"](range(3))
    flight = fly(RULE[name], games, (2.0, 0.05), 4 * method.evaluations)
    others = optimism.Games(games.win_GAA, games.start_RA)
    past = [games.start_RA]
    for _ in range(len(flight.log_TRA) - 1):
        logit_GA = method.move(others, past, 2.0, 0.05)
        past.append(np.log(optimism.softmax(logit_GA)))
    np.testing.assert_allclose(np.exp(flight.log_TRA[-1]), np.exp(past[-1]), atol=1e-6)


def test_the_gap_of_poker_is_that_of_open_spiel():
    games = FAMILIES["kuhn"](range(3))
    assert isinstance(games, Poker)
    policy_GSA = np.exp(games.start_RA).reshape(3, games.states, games.actions)
    for gap, policy_SA in zip(games.gap(np.exp(games.start_RA)), policy_GSA, strict=True):
        own_F = games.flat(policy_SA)
        assert gap * 2 * games.range == pytest.approx(games.tree.nash_conv([own_F, own_F]))


def test_the_gain_of_a_move_in_poker_is_what_its_player_gets_by_making_it():
    games = FAMILIES["kuhn"](range(1))
    assert isinstance(games, Poker)
    policy_SA = np.exp(games.start_RA)
    gain_SA = games.gains(games.start_RA)
    own_F = games.flat(policy_SA)
    before_P = games.value(own_F, own_F)
    state = next(s for s in games.tree.states if s.player == 0)  # reached by chance alone
    at = games.tree.states.index(state)
    sure_F = own_F.copy()
    sure_F[state.first : state.first + 2] = [0, 1]
    bet = games.value(sure_F, own_F)[0] - before_P[0]
    mean = (policy_SA[at] * gain_SA[at]).sum()
    assert bet == pytest.approx((gain_SA[at, 1] - mean) / 3)  # one of three cards


def test_gaps_of_two_roles_and_of_prompts_are_the_solvers():
    two = FAMILIES["two roles"](range(2))
    assert isinstance(two, TwoRoles)
    policy_G2A = np.exp(two.start_RA).reshape(2, 2, -1)
    for gap, win_AA, sides in zip(
        two.gap(np.exp(two.start_RA)), two.row_GAA, policy_G2A, strict=True
    ):
        assert 2 * gap == pytest.approx(nash_conv(win_AA, *sides))
    prompts = FAMILIES["contextual"](range(2))
    assert isinstance(prompts, Contextual)
    policy_GSA = np.exp(prompts.start_RA).reshape(2, 10, -1)
    for gap, payoff_AM, policy_SA in zip(
        prompts.gap(np.exp(prompts.start_RA)), prompts.payoff_GAM, policy_GSA, strict=True
    ):
        wanted = contextual_nash_conv(payoff_AM, policy_SA[:-1], policy_SA[-1])
        assert 2 * gap == pytest.approx(wanted)


def test_preferences_of_hrc_change_with_the_budget_and_end_as_they_are_measured():
    games = FAMILIES["changing"](range(2))
    assert isinstance(games, Changing)
    games.budget = 4
    first_RA = games.wins(games.start_RA)
    games.evaluations = 4
    games.records = []
    last_RA = games.wins(games.start_RA)
    assert np.abs(first_RA - last_RA).max() > 0.05
    end_RA = (games.win_GAA @ np.exp(games.start_RA)[..., None])[..., 0]
    np.testing.assert_allclose(last_RA, end_RA)


def test_hrc_has_a_best_answer_above_a_cycle_and_two_numbers_of_the_general_model_do_not():
    angle_3 = 2 * np.pi * np.arange(3) / 3
    circle_32 = np.stack([np.cos(angle_3), np.sin(angle_3)], axis=1)
    vector_42 = np.concatenate([np.zeros((1, 2)), circle_32])
    ranked_44, cyclic_44 = hrc_logits(np.array([3.0, 0.0, 0.0, 0.0]), vector_42)
    logit_44 = ranked_44 + cyclic_44
    assert (logit_44[0, 1:] > 0).all()
    assert logit_44[1, 2] > 0 and logit_44[2, 3] > 0 and logit_44[3, 1] > 0
    np.testing.assert_allclose(logit_44, -logit_44.T, atol=1e-12)
    both = 0
    for vector_42 in np.random.default_rng(0).normal(size=(20_000, 4, 2)):
        _, logit_44 = hrc_logits(np.zeros(4), vector_42)
        beats = logit_44 > 0
        cycle = beats[1, 2] == beats[2, 3] == beats[3, 1]
        both += bool(beats[0, 1:].all() and cycle)
    assert both == 0


def test_a_judge_that_errs_tells_less_and_one_that_is_saturated_says_more():
    games = FAMILIES["random"](range(2))
    exact_RA = games.gains(games.start_RA)
    noisy = Judged(games, samples=0, flipped=0.2, saturated=False, seed=1)
    np.testing.assert_allclose(noisy.gains(games.start_RA), 0.2 + 0.6 * exact_RA)
    saturated = Judged(games, samples=0, flipped=0.0, saturated=True, seed=1)
    assert set(np.unique(saturated.told_GAA)) == {0.0, 0.5, 1.0}
    few = Judged(games, samples=8, flipped=0.0, saturated=False, seed=1)
    told = []
    for few.evaluations in range(400):
        told.append(few.gains(games.start_RA))
    np.testing.assert_allclose(np.mean(told, axis=0), exact_RA, atol=0.05)
    assert np.std(told, axis=0).min() > 0.05


def test_what_was_asked_lately_is_not_asked_again():
    games = FAMILIES["cyclic"](range(1))
    games.wins(games.start_RA)
    games.wins(games.start_RA.copy())
    games.wins(np.zeros_like(games.start_RA))
    assert games.evaluations == 2


def test_prosper_follows_the_criterion_by_which_its_adversary_gains_most():
    games = FAMILIES["criteria"](range(4))
    policy_GA = np.exp(games.start_RA)
    start_GA = policy_GA
    logit_GA = RULE["PROSPER"].move(games, [games.start_RA], 2.0, 0.05)
    for g in range(4):
        values, gains = [], []
        for win_AA in games.win_CGAA[:, g]:
            kept_A = policy_GA[g] @ win_AA  # P(the policy is preferred to each reply)
            weight_A = start_GA[g] * np.exp(-kept_A / 0.05)
            values.append(-0.05 * np.log(weight_A.sum()))
            gains.append(win_AA @ (weight_A / weight_A.sum()))
        moved_A = logit_GA[g] - games.start_RA[g]
        np.testing.assert_allclose(moved_A, 2.0 * gains[int(np.argmin(values))])


class Forgetful:
    """A rule that counts its moves where no file sees it."""

    def __init__(self):
        self.moves = 0

    def __call__(self, games, past, step, pull):
        self.moves += 1
        return past[-1] + step / self.moves * games.wins(past[-1])


@pytest.mark.long
def test_a_rule_that_keeps_a_memory_of_its_own_does_not_resume():
    rules = [RULE["optimistic (OMWU)"], Rule("forgetful", Forgetful()), RULE["MNPO, two past"]]
    same = dict(resumed([], rules, 12))
    assert same == {"optimistic (OMWU)": True, "forgetful": False, "MNPO, two past": True}


MINE = """
from benchmarks.tunnel_rules import Rule

def move(games, past, step, pull):
    return past[-1] + step * games.wins(past[-1])

rule = Rule("mine", move)
"""


@pytest.mark.long
def test_a_file_gets_its_row_by_one_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tunnel_board, "RAW", tmp_path / "board.json")
    few = ["--games", "3", "--reserved", "2", "--evaluations", "12"]
    few += ["--families", "random", "kuhn"]
    tunnel.main([*few, "--rules", "uniform", "INPO", "--json", str(tmp_path / "board.json")])
    (tmp_path / "mine.py").write_text(MINE)
    file = tmp_path / "own.json"
    tunnel.main([*few, "--rule", str(tmp_path / "mine.py"), "--json", str(file)])
    told = capsys.readouterr().out
    assert "mine" in told and "INPO" in told
    board = tunnel_board.Board.of(json.loads(file.read_text())["figures"])
    assert board.rules == ["mine"]
    assert board.resumed == {"mine": True}
    own = measured(RULE["multiplicative weights"], "random", Size(3, 2, 12))
    assert board.mean("random", "mine", "last") == pytest.approx(np.mean(own["last"]))
    assert board.cells["kuhn", "mine"]["policies"] == 1
    both = tunnel_board.Board.of(json.loads((tmp_path / "board.json").read_text())["figures"])
    assert both.rules == ["uniform", "INPO"]
    assert both.rank("INPO", "last") == 1 and both.rank("uniform", "last") is None
    [row] = [row for row in both.gap_rows("last") if row[0] == "INPO"]
    assert len(row) == len(both.families()) + 2


def test_an_action_of_an_equilibrium_that_is_not_played_any_more_is_lost():
    pure = Rule("pure", lambda games, past, step, pull: 1000.0 * np.eye(9)[[0] * len(past[0])])
    own = measured(pure, "cyclic", Size(2, 1, 8))
    assert own["lost"] == pytest.approx(8 / 9)
    assert own["entropy"] == pytest.approx(0, abs=1e-6)
    told = judged(RULE["uniform"], "noisy judge", Size(2, 1, 8))
    assert told["family"] == "noisy judge" and len(told["last"]) == 2


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("x = 1", "it has no `rule`"),
        (
            "from benchmarks.tunnel_rules import Rule, stay\nrule = Rule('INPO', stay)",
            "a row already",
        ),
        (None, "no such file"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_to_write(tmp_path, text, wrong, capsys):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        tunnel.main(["--rule", str(file)])
    assert stopped.value.code == 2
    assert wrong in capsys.readouterr().err


def test_a_rule_that_makes_no_numbers_is_named():
    broken = Rule("broken", lambda games, past, step, pull: past[-1] * np.nan, steps=STEPS[:1])
    with pytest.raises(ValueError, match="broken: must make finite logits"):
        fly(broken, FAMILIES["random"](range(1)), (1.0, 0.0), 8)


def test_the_board_of_the_page_has_every_rule_in_every_family():
    if not Path(tunnel_board.RAW).is_file():
        pytest.skip("the raw file is not made yet")
    board, _ = tunnel_board.recorded()
    assert board.rules == [rule.name for rule in RULES]
    assert board.families() == list(FAMILIES)
    assert all(board.resumed.values())
