"""Everybody plays everybody, in every seat."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import equipoise
from equipoise.environments.text_games.game_league import GameLeague, _win_rate
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.environments.text_games.text_arena import TextArena
from equipoise.errors import ConfigError
from equipoise.evaluation.base import EvaluationPlan
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge
from equipoise.payoffs.table import Meeting
from equipoise.ratings.base import Ratings
from equipoise.runs.directory import RunDirectory
from equipoise.solvers.base import Solver
from equipoise.types import Judgement, Match, PlayerId, Prompt, user

pytest.importorskip("pyspiel")
UNIFORM = "random_player:any_legal_move"


def measured(folder: Path, people: dict, **game: object) -> dict:
    recipe = {
        "name": "league",
        "generations": 0,
        "players": {name: {"kind": "scripted", **player} for name, player in people.items()},
        "prompts": {"kind": "deals", "count": 9, "per_generation": 1, "held_out": 30},
        "game": {"kind": "open_spiel", **game},
        "schedule": "round_robin",
        "judge": "game_outcome",
        "evaluate": "game_league",
    }
    path = folder / "league.yaml"
    path.write_text(yaml.safe_dump(recipe))
    equipoise.run(str(path), out=folder / "run")
    with RunDirectory.read(folder / "run") as run:
        [stage] = run.ledger.stages("measure")
    return stage.facts


@pytest.mark.long  # a whole run
def test_two_players_take_turns_in_the_seats(tmp_path):
    players = {"fool": {"text": "call"}, "uniform": {"call": UNIFORM}}
    found = measured(tmp_path, players)
    names = list(found["players"])
    fool, uniform = (next(i for i, n in enumerate(names) if w in n) for w in players)
    assert found["payoff"][fool][uniform] < -0.9, "an illegal move loses"
    assert found["count"][fool][uniform] == 60
    assert found["mixture"][names[uniform]] == pytest.approx(1)


@pytest.mark.long  # a whole run
def test_one_of_three_seats_is_played_by_each(tmp_path):
    players = {"fool": {"text": "call"}, "uniform": {"call": UNIFORM}}
    found = measured(tmp_path, players, players=3)
    names = list(found["players"])
    fool, uniform = (next(i for i, n in enumerate(names) if w in n) for w in players)
    assert found["count"][fool][uniform] == 30 * 6
    assert found["payoff"][fool][uniform] < 0


def test_a_win_rate_stays_within_none_and_all():
    won = [Meeting("a@1", "a@0", 1.0, str(prompt)) for prompt in range(5)]
    tied = [Meeting("a@0", "a@1", 0.0, "tie"), Meeting("a@1", "b@0", -1.0, "other")]
    rate = _win_rate([*won, *tied], "a@1", "a@0")
    assert rate.mean == pytest.approx(5.5 / 6)
    assert rate.n == 6
    assert 0 < rate.low < rate.mean < rate.high <= 1


@pytest.mark.parametrize(
    ("game", "roles", "message"),
    [
        (Answers(), {}, "two seats or more"),
        (TextArena(name="Sudoku-v0", players=1), {}, "measured by held_out"),
        (OpenSpiel(), {"player 0": "a", "player 1": "b"}, "different players"),
    ],
)
def test_what_has_no_league_is_refused(game, roles, message):
    with pytest.raises(ConfigError, match=message):
        GameLeague().check(game, roles, [], False)


OUTCOME = Judge.build("game_outcome")
STRENGTH = {"a@0": 0, "b@0": 1, "a@1": 2, "a@2": 1}


class StrongerWins:
    """An arena in which the stronger player is paid 1 and the other 0, wherever it sits; of the
    last prompt nothing is paid.
    """

    def __init__(self, players: int = 2) -> None:
        self.game = OpenSpiel(players=players)
        self.utility, self.solver = "score", Solver.build("zero_sum")
        self.ratings, self.player_of_role = Ratings.build("bradley_terry"), {}
        self.held_out = [Prompt(f"p{i}", (user("deal"),)) for i in range(3)]
        self.played: list[tuple[dict[str, str], int, str]] = []

    def learners(self, t):
        return [PlayerId("a", t)]

    def others(self):
        return [PlayerId("b")]

    def past(self, player):
        return [PlayerId(player.name, t) for t in range(player.generation, -1, -1)]

    def judge_of(self, player):
        return OUTCOME

    def play(self, roles, prompts, judge, t, label):
        self.played.append(({seat: str(p) for seat, p in roles.items()}, len(prompts), label))
        strength = {seat: STRENGTH[str(player)] for seat, player in roles.items()}
        best = max(strength.values())
        paid = {seat: {"score": float(own == best)} for seat, own in strength.items()}
        met = []
        for n, prompt in enumerate(prompts):
            name = f"{len(self.played)}-{n}"
            match = Match(name, t, "held_out", "open_spiel", prompt.id, dict(roles), n)
            scores = None if prompt.id == "p2" else paid
            met.append((match, Judgement(name, name, judge.name, scores)))
        return met


def test_a_league_is_everybodys_generations_and_each_learner_meets_its_start():
    arena = StrongerWins()
    found = GameLeague(samples=2).measure(arena, 2).facts({})
    assert list(found["players"]) == ["a@0", "a@1", "a@2", "b@0"]
    assert found["payoff"] == [[0, -1, -1, -1], [1, 0, 1, 1], [1, -1, 0, 0], [1, -1, 0, 0]]
    # two of three deals are paid, each in both seats, twice
    assert found["count"][0][1] == found["count"][2][3] == 8
    assert found["count"][0][0] == 0
    first, second = arena.game.seats
    assert arena.played[:2] == [
        ({first: "a@0", second: "a@1"}, 6, "league ×2/3"),
        ({first: "a@1", second: "a@0"}, 6, "league ×2/3"),
    ]
    assert len(arena.played) == 2 * 6
    # against a@0, which it always beats, and not a@1, to which it always loses
    assert found["win_rates"]["a@2"]["mean"] == 1.0
    assert found["win_rates"]["a@2"]["n"] == 8
    assert not GameLeague().measure(StrongerWins(), 0).facts({})["win_rates"]


def test_of_three_seats_each_player_has_every_single_one_once():
    arena = StrongerWins(players=3)
    found = GameLeague().measure(arena, 0).facts({})
    seats = arena.game.seats
    alone = [(dict.fromkeys(seats, "b@0") | {one: "a@0"}) for one in seats]
    many = [(dict.fromkeys(seats, "a@0") | {one: "b@0"}) for one in seats]
    assert [roles for roles, *_ in arena.played] == alone + many
    assert found["payoff"] == [[0, -1], [1, 0]]
    assert found["count"][0][1] == 12


@pytest.mark.parametrize(("players", "seatings"), [(2, 2), (3, 6)])
def test_the_plan_counts_every_two_in_every_seating(players, seatings):
    game = OpenSpiel(players=players)
    prompts = [Prompt(f"p{i}", (user("deal"),)) for i in range(5)]
    rosters = [[PlayerId("a", t)] for t in range(3)]
    plan = EvaluationPlan(game, rosters, [PlayerId("b")], {}, prompts, [], lambda name: OUTCOME)
    work = GameLeague(samples=2).planned(plan)
    pairs = 6  # of four members
    assert work.matches == pairs * 5 * 2 * seatings
    moves = sum(sum(game.moves(prompt).values()) for prompt in prompts)
    assert work.moves == pairs * moves * 2 * seatings > work.matches
    assert work.judged == [(OUTCOME, work.matches, players)]
