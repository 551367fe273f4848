"""How exploitable tabular players are: by hand in rock, paper, scissors, and the duality gap of two
players in the two seats of a game, by hand and over a learning run.
"""

import numpy as np
import pytest

from equipoise.blocks.section import Figure
from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Evaluation
from equipoise.evaluation.exact import Finite, TwoSeatMeasures, TwoSeats
from equipoise.evaluation.measures import History, Measurement, Records
from equipoise.games.answers import Answers
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.gpo import gpo
from equipoise.solvers.zero_sum import nash
from equipoise.types import PlayerId

PENNIES = Matrix(name="custom", payoffs=((1.0, -1.0), (-1.0, 1.0)), row_actions=("heads", "tails"))
ROCK, PAPER, EVEN = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]
SEATS = {"row": "defender", "column": "adversary"}
PAYOFF_AM = np.random.default_rng(4).uniform(-1, 1, (4, 3))
UNEVEN = Matrix(
    name="custom",
    payoffs=tuple(map(tuple, PAYOFF_AM.tolist())),
    row_actions=tuple("abcd"),
    column_actions=tuple("xyz"),
)


class Table:
    """An arena of players whose policies are given, oldest first."""

    def __init__(self, game, frozen=(), **policies):
        self.game, self.frozen, self.policies, self.faced = game, frozen, policies, {}

    def learners(self, t):
        return [PlayerId(name, t) for name in self.policies if name not in self.frozen]

    def others(self):
        return [PlayerId(name) for name in self.frozen]

    def past(self, player):
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def opponent_weights(self, player, t):
        return {PlayerId(*who): weight for who, weight in self.faced.get(player.name, {}).items()}

    def probabilities(self, player, actions):
        found = np.asarray(self.policies[player.name][player.generation], float)
        assert len(found) == len(actions)
        return found


def test_by_hand():
    arena = Table(PENNIES, defender=[[1, 0], [0.5, 0.5]], adversary=[[0, 1], [1, 0]])
    facts = TwoSeats(seats=SEATS).measure(arena, 1)
    assert facts.averages == {"defender@1": [0.75, 0.25], "adversary@1": [0.5, 0.5]}
    assert facts.policies == {"defender@1": [0.5, 0.5], "adversary@1": [1.0, 0.0]}
    assert facts.value == pytest.approx(0)
    assert facts.gap == pytest.approx({"defender@1": 0.5, "adversary@1": 0.0})
    assert facts.last_gap == pytest.approx({"defender@1": 0.0, "adversary@1": 1.0})
    assert (facts.exploitability, facts.last_exploitability) == (0.5, 1.0)
    assert facts.actions == {"row": ["heads", "tails"], "column": ["heads", "tails"]}


def test_eq_9_is_the_gain_of_the_best_policy_against_the_mixture_that_is_faced():
    """Rock, before which the opponents are rock and paper: paper gains ½ of a loss and ½ of a tie.

    A KL that is dear leaves nothing to gain, since the start is best then.
    """
    game = Matrix(name="rock_paper_scissors")
    arena = Table(game, policy=[EVEN, ROCK], other=[EVEN, PAPER])
    arena.faced = {"policy": {("policy", 1): 0.5, ("other", 1): 0.5}}
    gains = Finite().measure(arena, 1).deviation_gains
    # rock gets 0 and −1, paper 1 and 0, scissors −1 and 1; `other` faces itself
    assert gains == pytest.approx({"policy@1": 1.0, "other@1": 1.0})
    paid = Finite(tau=0.5).measure(arena, 1).deviation_gains
    reward_A, start_A = np.array([-0.5, 0.5, 0.0]), np.array(EVEN)
    best = 0.5 * np.log(start_A @ np.exp(reward_A / 0.5))
    assert paid["policy@1"] == pytest.approx(best - (-0.5 - 0.5 * np.log(3)))
    arena = Table(game, policy=[EVEN, EVEN])
    assert Finite(tau=1e6).measure(arena, 1).deviation_gains["policy@1"] == pytest.approx(0)


def test_a_gap_in_pay_offs_is_twice_that_in_probabilities():
    """Eq 9 prices P(win); a pay-off is P(win) − P(loss), so τ and the gap are twice its own."""
    dice = np.random.default_rng(5)
    payoff_AA = np.triu(dice.uniform(-1, 1, (3, 3)), 1)
    payoff_AA -= payoff_AA.T
    game = Matrix(name="custom", payoffs=payoff_AA.tolist(), row_actions=tuple("xyz"))
    start_A, policy_A, faced_A = dice.dirichlet(np.ones(3), 3)
    arena = Table(game, policy=[start_A, policy_A], other=[start_A, faced_A])
    arena.faced = {"policy": {("other", 1): 1.0}}
    found = Finite(tau=2 * 0.1).measure(arena, 1).deviation_gains["policy@1"]
    win_A, kl = (1 + payoff_AA) / 2 @ faced_A, policy_A @ np.log(policy_A / start_A)
    best = 0.1 * np.log(start_A @ np.exp(win_A / 0.1))
    assert found == pytest.approx(2 * (best - (policy_A @ win_A - 0.1 * kl)))


@pytest.mark.parametrize("seed", range(5))
def test_the_shares_add_up_to_the_duality_gap(seed):
    dice = np.random.default_rng(seed)
    rows, columns = dice.dirichlet(np.ones(4), 3), dice.dirichlet(np.ones(3), 3)
    arena = Table(UNEVEN, attacker=columns, guard=rows)
    facts = TwoSeats(seats={"row": "guard", "column": "attacker"}).measure(arena, 2)
    assert facts.exploitability == pytest.approx(
        nash_conv(PAYOFF_AM, rows.mean(0), columns.mean(0))
    )
    assert facts.last_exploitability == pytest.approx(nash_conv(PAYOFF_AM, rows[2], columns[2]))
    for whole, shares in (("exploitability", "gap"), ("last_exploitability", "last_gap")):
        assert set(getattr(facts, shares)) == {"guard@2", "attacker@2"}
        assert min(getattr(facts, shares).values()) >= 0
        assert sum(getattr(facts, shares).values()) == pytest.approx(
            getattr(facts, whole), abs=1e-8
        )
    assert facts.value == pytest.approx(nash(PAYOFF_AM)[2])


def test_at_the_equilibrium_there_is_no_gap_and_a_frozen_player_keeps_its_policy():
    row_A, column_M, _ = nash(PAYOFF_AM)
    arena = Table(UNEVEN, frozen=("adversary",), defender=[row_A, row_A], adversary=[column_M])
    facts = TwoSeats(seats=SEATS).measure(arena, 1)
    assert facts.exploitability == pytest.approx(0, abs=1e-8)
    assert list(facts.gap) == ["defender@1", "adversary@0"]


def test_the_averages_of_a_longer_run_are_closer():
    game = Matrix(name="custom", payoffs=((1.5, -1.0), (-1.0, 1.0)), row_actions=("heads", "tails"))
    played = [gpo(game.payoff_AM(), rounds=rounds).average for rounds in (8, 512)]
    few, many = (
        TwoSeats(seats=SEATS)
        .measure(Table(game, defender=[each.row_A], adversary=[each.column_M]), 0)
        .exploitability
        for each in played
    )
    assert many < few / 4


@pytest.mark.parametrize(
    ("arena", "seats", "message"),
    [
        (Table(Answers(samples=2)), None, "finite game of two seats.*'answers'"),
        (Table(Matrix(name="prisoners_dilemma")), None, "needs a constant-sum game"),
        (Table(PENNIES, defender=[[1, 0]]), None, "evaluate.seats.column: .*'adversary'"),
        (Table(PENNIES), {"row": "defender"}, "seats, row, column"),
    ],
)
def test_what_cannot_be_measured_is_named(arena, seats, message):
    with pytest.raises(ConfigError, match=message):
        TwoSeats(seats=seats or SEATS).measure(arena, 0)


def test_the_kind_is_known():
    assert isinstance(Evaluation.build("bimatrix"), TwoSeats)


def test_the_headlines_share_the_gap():
    first, last = (
        TwoSeatMeasures(
            actions={},
            value=0.5,
            policies={},
            averages={},
            gap={f"row@{t}": gap},
            last_gap={f"row@{t}": 0.5},
            exploitability=2 * gap,
            last_exploitability=1.0,
        )
        for t, gap in ((0, 0.5), (4, 0.125))
    )
    measurements = (Measurement(0, first), Measurement(4, last))
    history = History(("row", "spectator"), measurements, PENNIES)
    lines = list(TwoSeatMeasures.headlines(history))
    assert [line.label for line in lines] == [
        "exploitability of row's average policy",
        "exploitability of row@4 alone",
        "exploitability of the average policies",
    ]
    assert lines[-1].value == "0.2500"
    note = "what both best replies gain together; 1.0000 at the start"
    assert lines[-1].note == note
    [section] = TwoSeatMeasures.sections(history, Records())
    [figure] = [block for block in section.blocks if isinstance(block, Figure)][:1]
    assert "both best replies" in figure.note


def test_averages_and_last_iterates_by_hand():
    """The average of `turns` is (4, 4, 1)/9, against which paper gains a third."""
    arena = Table(Matrix(), stays=[ROCK] * 3, turns=[ROCK, PAPER, EVEN])
    measured = Finite().measure(arena, 2)
    assert measured.averages["turns@2"] == pytest.approx([4 / 9, 4 / 9, 1 / 9])
    assert measured.policies["turns@2"] == pytest.approx(EVEN)
    assert measured.gap == pytest.approx({"stays@2": 1.0, "turns@2": 1 / 3})
    assert measured.last_gap == pytest.approx({"stays@2": 1.0, "turns@2": 0.0})
    # The most exploitable learner's counts.
    assert (measured.exploitability, measured.last_exploitability) == (1.0, 1.0)


def test_exploitability_is_of_the_averages():
    measured = Finite().measure(Table(Matrix(), turns=[ROCK, PAPER, EVEN]), 2)
    assert measured.exploitability == pytest.approx(1 / 3)
    assert measured.last_exploitability == pytest.approx(0)


def test_seats_of_different_moves_are_refused():
    game = Matrix(
        name="custom",
        payoffs=((1.0, 0.0, 0.5),),
        row_actions=("a",),
        column_actions=("x", "y", "z"),
    )
    with pytest.raises(ConfigError, match="both seats have the same moves"):
        Finite().measure(Table(game, one=[[1.0]]), 0)
