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
from equipoise.games.answers import Answers
from equipoise.payoffs.table import Meeting
from equipoise.runs.directory import RunDirectory

pytest.importorskip("pyspiel")
UNIFORM = "equipoise.environments.text_games.game:any_legal_move"


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
    assert rate.mean == pytest.approx(5.5 / 6) and rate.n == 6
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
