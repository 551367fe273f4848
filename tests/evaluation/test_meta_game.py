"""The game of choosing a player: its table, its solution, its growth."""

import numpy as np
import pytest
from recorded_run import planned_and_played

from equipoise.blocks.section import Table
from equipoise.environments.matrix.game import Matrix
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Evaluation
from equipoise.evaluation.league_measures import LeagueMeasures
from equipoise.evaluation.measures import History, Measurement, Records, Sample
from equipoise.evaluation.meta_game import MetaGame
from equipoise.evaluation.meta_measures import ANYBODY, MetaGameMeasures, _name_members, responses
from equipoise.games.answers import Answers
from equipoise.learners import best_reply
from equipoise.learners.base import Learner, OtherPlayer, TrainingBatch
from equipoise.payoffs.intervals import payoff_interval
from equipoise.planning.new_run import new_run
from equipoise.players.scripted import Scripted
from equipoise.players.tabular import Tabular, read_policy
from equipoise.runs import recipe_loader
from equipoise.runs.loop import league as play
from equipoise.runs.open_run import OpenRun
from equipoise.solvers.base import Solver
from equipoise.types import PlayerId

ROCK, PAPER, SCISSORS = np.eye(3)
CHICKEN = Matrix(name="chicken")
LANES = Matrix(  # general-sum, seats with different moves: both prefer (b, z)
    name="custom",
    row_actions=("a", "b"),
    column_actions=("x", "y", "z"),
    payoffs=((0.0, 0.0, 0.0), (1.0, 1.0, 3.0)),
    column_payoffs=((1.0, 0.0, 0.0), (0.0, 1.0, 4.0)),
)


class League:
    """An arena of players whose policies are given, oldest first."""

    def __init__(self, game, solver, roles=(), **policies):
        self.game, self.solver, self.policies = game, Solver.build(solver), policies
        self.player_of_role = dict(roles)

    def learners(self, t):
        return [PlayerId(name, min(t, len(own) - 1)) for name, own in self.policies.items()]

    def others(self):
        return []

    def past(self, player):
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def players_by_role(self, t):
        by_name = {player.name: player for player in self.learners(t)}
        return {role: by_name[name] for role, name in self.player_of_role.items()}

    def probabilities(self, player, actions):
        return np.asarray(self.policies[player.name][player.generation], float)


def history(arena, generations) -> History[MetaGameMeasures]:
    measured = tuple(Measurement(t, MetaGame().measure(arena, t)) for t in range(generations))
    return History(tuple(arena.policies), measured, arena.game)


def test_one_league_grows_to_the_equilibrium():
    arena = League(Matrix(), "zero_sum", policy=[ROCK, PAPER, SCISSORS])
    grown = history(arena, 3)
    last = grown.last.measures
    assert last.payoff == Matrix().payoff_AM().tolist()
    assert list(last.mixture.values()) == pytest.approx([1 / 3] * 3)
    assert last.exploitability == pytest.approx(0, abs=1e-12)
    assert [m.measures.exploitability for m in grown.measurements][:2] == [1, 1]
    assert responses(grown.measurements) == [{}, {"policy@1": 1.0}, {"policy@2": 1.0}]
    growth, payoffs, _ = MetaGameMeasures.sections(grown, Records([], Sample([], []), {}))
    (table,) = growth.blocks
    assert isinstance(table, Table)
    assert [row[2:4] for row in table.rows] == [("1", "1"), ("4", "3"), ("9", "5")]
    assert table.rows[1][1] == "policy@1 +1"
    assert "policy@1 100.0 %" in table.rows[1][6]
    assert payoffs.blocks
    labels = [line.label for line in MetaGameMeasures.headlines(grown)]
    assert "exploitability of the mixture" in labels


@pytest.mark.long
@pytest.mark.parametrize("solver", ["projected_replicator", "alpha_rank"])
def test_roles_of_a_general_sum_game_have_leagues_of_their_own(solver):
    arena = League(
        LANES,
        solver,
        {"row": "ann", "column": "ben"},
        ann=[[1, 0], [0, 1]],
        ben=[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    )
    measures = MetaGame().measure(arena, 2)
    assert measures.members == {"row": ["ann@0", "ann@1"], "column": ["ben@0", "ben@1", "ben@2"]}
    assert measures.payoffs["column"] == LANES.bimatrix().second_AM.tolist()
    assert measures.role_mixtures["row"]["ann@1"] > 0.99
    assert measures.role_mixtures["column"]["ben@2"] > 0.99
    assert measures.values == pytest.approx({"row": 3, "column": 4}, abs=0.1)
    assert measures.exploitability == pytest.approx(0, abs=0.1)
    assert measures.numbers()["value_row"] == measures.values["row"]


def test_chicken_in_one_league():
    arena = League(CHICKEN, "projected_replicator", policy=[[1, 0], [0, 1]])
    measures = MetaGame().measure(arena, 1)
    assert measures.policies[ANYBODY] == pytest.approx([0.9, 0.1], abs=0.01)


def test_what_cannot_be_measured_so_is_refused():
    def check(game, roles=(), exact=None):
        MetaGame(exact=exact).check(game, dict(roles), [], False)

    check(Matrix())
    check(LANES, {"row": "a", "column": "b"})
    with pytest.raises(ConfigError, match="names none for column"):
        check(LANES, {"row": "a"})
    with pytest.raises(ConfigError, match="seats of 'answers'"):
        check(Answers(samples=2))
    with pytest.raises(ConfigError, match="needs a game of two seats"):
        check(Answers(samples=3))
    with pytest.raises(ConfigError, match=r"evaluate.exact: 'answers'"):
        check(Answers(samples=2), {"answerer": "a", "answer": "b"}, exact=True)
    with pytest.raises(ConfigError, match="held_out: is 0"):
        arena = League(Matrix(), "zero_sum", policy=[ROCK])
        arena.held_out = []
        Evaluation.build({"kind": "meta_game", "exact": False}).measure(arena, 0)
    with pytest.raises(ConfigError, match="seats with the same moves"):
        MetaGame().measure(League(LANES, "zero_sum", policy=[[1, 0]]), 0)


def batch(folder, met, game=LANES, roles=("row", "column")) -> TrainingBatch:
    return TrainingBatch(
        learner=PlayerId("ann", 0),
        player=Tabular(),
        weights=None,
        output=folder,
        scratch=folder,
        seed=0,
        game=game,
        mixture_of_role=met,
    )


def test_the_best_reply_to_a_mixture_by_hand(tmp_path):
    """Against x a third and z two thirds of the time, a gets 0 and b 7/3."""
    met = {
        "column": [
            (OtherPlayer(Tabular(probabilities=(1, 0, 0)), None), 1 / 3),
            (OtherPlayer(Tabular(probabilities=(0, 0, 1)), None), 2 / 3),
        ]
    }
    reply = Learner.build("best_reply")
    facts = reply.learn(batch(tmp_path, met))
    assert facts == pytest.approx({"value": 7 / 3, "gain": 7 / 6})
    actor = Tabular().open(tmp_path, None)
    assert actor.probabilities(("a", "b")).tolist() == [0, 1]
    assert read_policy(tmp_path)[1] == 0
    with pytest.raises(ConfigError, match="set schedule: psro"):
        reply.learn(batch(tmp_path, {}))
    assert "trains tabular players" in next(reply.faults(Scripted(texts=("a",)), LANES))
    assert "finite game of two seats" in next(reply.faults(Tabular(), Answers(samples=2)))


def test_the_second_seat_replies_by_its_own_pay_offs(tmp_path):
    """Against b a quarter of the time it gets ¾ for x, ¼ for y and 1 for z; the first would get 0, 0
    and more.
    """
    met = {"row": [(OtherPlayer(Tabular(probabilities=(0.75, 0.25)), None), 1.0)]}
    assert best_reply.rewards(batch(tmp_path, met)) == pytest.approx([0.75, 0.25, 1.0])
    facts = Learner.build("best_reply").learn(batch(tmp_path, met))
    assert facts == pytest.approx({"value": 1.0, "gain": 1 / 3})
    assert Tabular().open(tmp_path, None).probabilities(("x", "y", "z")).tolist() == [0, 0, 1]


def test_a_played_table_is_that_of_the_rules(tmp_path):
    """Three players that each have one move of a biased rock, paper, scissors; nobody learns."""
    moves = ("rock", "paper", "scissors")
    config = {
        "generations": 0,
        "players": {move: {"kind": "scripted", "text": move} for move in moves},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 3},
        "game": {"kind": "matrix", "name": "biased_rock_paper_scissors"},
        "judge": "matrix",
        "evaluate": {"kind": "meta_game", "exact": False, "samples": 2},
    }
    with new_run(recipe_loader.build(config, "test"), tmp_path / "run") as run:
        play(OpenRun(run), 0)
        found = MetaGameMeasures.read(run.ledger.stage_facts("0/measure"))
        planned, played = planned_and_played(run)
    assert planned == played
    assert played["held_out_matches"] == 9 * 3 * 2
    assert found.players == [f"{move}@0" for move in moves]
    rules_AA = np.array([[0, -0.5, 1], [0.5, 0, -0.1], [-1, 0.1, 0]])
    assert found.payoffs[ANYBODY] == pytest.approx(rules_AA)
    assert np.all(np.array(found.judged[ANYBODY]) == 2 * 3 * 2)
    assert list(found.mixture.values()) == pytest.approx([1 / 16, 10 / 16, 5 / 16])


def test_the_largest_member_of_a_mixture_is_named_first():
    assert _name_members({"a@0": 0.25, "b@0": 0.75, "c@0": 0.0}) == "b@0 75.0 %, a@0 25.0 %"


def test_what_a_player_gets_is_as_sure_as_its_prompts_are_many():
    def measured(samples):
        count = 4 * samples**2
        return LeagueMeasures(
            players=["a", "b"],
            judges={},
            payoff=[[0.0, 1.0], [-1.0, 0.0]],
            se=[[0.0, 0.0], [0.0, 0.0]],
            count=[[0, count], [count, 0]],
            clusters=[[0, 4], [4, 0]],
            mixture={},
            gap={},
            exploitability=0.0,
            cycle_share=0.0,
            cyclic_triples=0.0,
            ratings=[],
            scores={},
            win_rates={},
        ).gets("a", "b")

    assert measured(1).low == measured(4).low == payoff_interval(1.0, 0.0, 4).low
    assert measured(4).n == 64
