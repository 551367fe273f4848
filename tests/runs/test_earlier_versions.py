"""Runs of an earlier version are read and resumed; recipes are told the new names."""

from pathlib import Path

import pytest

from equipoise.environments.clerk.assistance_players import customer
from equipoise.errors import ConfigError
from equipoise.runs import recipes
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.measure_players import measure
from equipoise.runs.open_run import OpenRun
from equipoise.runs.renamed import renamed

EARLIER = Path(__file__).with_name("config_of_earlier_version.yaml")  # as it wrote it
TODAY = [
    "generations=2",
    "training_ratings=elo",
    "training_matches=own",
    "league_ratings={kind: elo, k: 8}",
    f"players.guest={{kind: scripted, call: '{customer.__module__}:customer'}}",
]


@pytest.fixture
def earlier(tmp_path):
    """A run that was stopped after its first measure, as the earlier version left it."""
    folder = tmp_path / "run"
    resolved = recipes.load("rock_paper_scissors", TODAY)
    with RunDirectory.create(resolved, folder) as run:
        measure(OpenRun(run), 0)
    (folder / "config.yaml").write_text(EARLIER.read_text())
    return folder


def test_its_runs_open_for_reading(earlier):
    with RunDirectory.read(earlier) as run:
        today = recipes.load("rock_paper_scissors", TODAY)
        assert run.config.yaml() == today.yaml()
    assert (earlier / "config.yaml").read_text() == EARLIER.read_text()


def test_its_runs_are_resumed(earlier, tmp_path):
    with RunDirectory.open(earlier) as run:
        run.allow([])
        league(OpenRun(run), run.config.generations)
        resumed = run.ledger.stages("measure")
    with RunDirectory.create(recipes.load("rock_paper_scissors", TODAY), tmp_path / "new") as run:
        league(OpenRun(run), run.config.generations)
        assert [row[:4] for row in run.ledger.stages("measure")] == [row[:4] for row in resumed]
        assert run.config.yaml() == (earlier / "config.yaml").read_text()


def test_kinds_and_packaged_models_have_their_new_names():
    old = {
        "name": "desk",
        "players": {"clerk": {"kind": "local", "model": "builtin/desk"}},
        "prompts": {"kind": "world", "text": "world"},
        "judge": {"kind": "assistance", "tasks": {"clerk": {"kind": "desk"}}},
        "judges": [{"kind": "siege"}],
    }
    assert renamed(old) == {
        "name": "desk",
        "players": {"clerk": {"kind": "local", "model": "builtin/assistant"}},
        "prompts": {"kind": "clerk_questions", "text": "world"},
        "judge": {"kind": "assistance", "tasks": {"clerk": {"kind": "clerk_assistance"}}},
        "judges": [{"kind": "clerk_requests"}],
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("standing", "training_ratings"),
        ("ratings", "league_ratings"),
        ("lessons", "training_matches"),
    ],
)
def test_a_recipe_with_an_old_key_is_told_the_new_one(old, new, tmp_path):
    message = f"unknown key '{old}'; it is called '{new}' now"
    with pytest.raises(ConfigError, match=f"^-s {old}=elo: {message}$"):
        recipes.load("rock_paper_scissors", [f"{old}=elo"])
    file = tmp_path / "mine.yaml"
    file.write_text(f"extends: rock_paper_scissors\n{old}: elo\n")
    with pytest.raises(ConfigError, match=f"mine.yaml: {message}$"):
        recipes.load(file)
