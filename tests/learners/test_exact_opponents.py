"""Learners that answer opponents exactly refuse those that they cannot, before a run."""

import pytest

from equipoise.errors import ConfigError
from equipoise.planning.checks import check_run
from equipoise.runs import recipe_loader

ROCK = {"kind": "scripted", "text": "rock"}
TABULAR = {"kind": "tabular", "learns": True}
LANES = {
    "kind": "matrix",
    "name": "custom",
    "row_actions": ["a", "b"],
    "column_actions": ["x", "y", "z"],
    "payoffs": [[1, 0, 1], [0, 1, 0]],
}


@pytest.mark.parametrize(
    ("recipe", "changes", "words"),
    [
        ("psro_matrix", {"players.other": ROCK}, "tabular players, not 'scripted' (players.other)"),
        ("psro_matrix", {"schedule": "self_play"}, "set schedule: psro"),
        ("psro_matrix", {"game": LANES}, "seats with the same moves"),
        (
            "psro_matrix",
            {
                "players": {"policy": None, "rower": TABULAR, "other": ROCK},
                "schedule": {"kind": "psro", "roles": {"row": "rower", "column": "other"}},
            },
            "not 'scripted' (players.other)",
        ),
        (
            "gpo_matrix",
            {"players.adversary": {**ROCK, "texts": None}},
            "tabular players, not 'scripted' (players.adversary)",
        ),
        (
            "gpo_matrix",
            {"learner.seats": {"row": "defender", "column": "nobody"}},
            "'nobody' for 'defender'",
        ),
    ],
)
def test_what_cannot_be_answered_exactly_is_refused(recipe, changes, words):
    with pytest.raises(ConfigError) as caught:
        check_run(recipe_loader.load(recipe, changes))
    assert words in str(caught.value)


def test_a_league_for_each_role_may_have_different_moves():
    players = {"policy": None, "rower": TABULAR, "keeper": TABULAR}
    roles = {"row": "rower", "column": "keeper"}
    changes = {"players": players, "game": LANES, "schedule": {"kind": "psro", "roles": roles}}
    check_run(recipe_loader.load("psro_matrix", changes))
