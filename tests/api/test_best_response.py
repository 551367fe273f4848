"""What can still beat a player: a fresh one is trained against it, in a run of its own."""

import shutil

import numpy as np
import pytest
from small_runs import SMALL, settings

import equipoise
from equipoise.api.best_response import exploit_settings, prepare
from equipoise.environments.matrix.game import KNOWN
from equipoise.errors import ConfigError
from equipoise.evaluation.measures import Measures
from equipoise.evaluation.role_cross_play import RoleLeague, RoleMeasures
from equipoise.planning.checks import check_run
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

PAYOFFS = np.array(KNOWN["biased_rock_paper_scissors"][1])
FEW = settings(
    generations=1,
    prompts__per_generation=6,
    prompts__held_out=8,
    evaluate__crossplay=2,
    learner__batch_size=6,
)


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """A league of rock and paper, in which paper is best; its folder is only read."""
    folder = tmp_path_factory.mktemp("paper") / "run"
    equipoise.run("psro_matrix", {"generations": 1}, folder, progress=False)
    return folder


def run_status(command):
    return command("status", "league", "--json").facts


@pytest.mark.long
def test_of_a_matrix_game_the_best_reply_is_found(paper, command, tmp_path):
    run = shutil.copytree(paper, tmp_path / "league")
    done = command("best-response", "league@policy@1", "--json")
    assert done.code == 0, done.err
    facts = done.facts
    assert facts["gets"]["mean"] == pytest.approx(PAYOFFS[2, 1])  # scissors
    assert facts["at_start"]["mean"] == pytest.approx(PAYOFFS[0, 1])
    assert facts["league"] == {
        "by": "policy@0",
        "gets": {**facts["league"]["gets"], "mean": PAYOFFS[0, 1]},
    }
    assert facts["against"] == {"run": str(run), "player": "policy@1"}
    assert facts["budget"] == {"updates": 1, "samples": 1, "tokens": 1}
    assert facts["finished"]
    assert facts["exploiter"] == "exploiter@1"

    assert run_status(command)["best_responses"] == [facts]
    assert "exploiter@1 against policy@1" in command("status", "league").out
    own = command("status", facts["run"], "--json").facts
    assert own["best_response"] == facts
    assert command("report", "league").code == 0
    page = (run / "report.html").read_text()
    assert "What can still beat it" in page
    assert "exploiter@1" in page

    again = command("best-response", "league@policy", "--json")
    assert again.facts == facts  # what is recorded is not done again
    other = command("best-response", "league@policy@1", "-s", "seed=5")
    assert other.code == 2
    assert "holds another run; choose another --out" in other.err
    shown = command("best-response", "league@policy@1", "--out", "elsewhere")
    assert shown.code == 0
    assert "exploiter@1 gets" in shown.out
    runs = [each["run"] for each in run_status(command)["best_responses"]]
    assert runs == [facts["run"], str(tmp_path / "elsewhere")]
    (tmp_path / "elsewhere").rename(tmp_path / "moved")
    assert run_status(command)["best_responses"] == [facts]


@pytest.mark.long
def test_a_killed_one_goes_on_and_says_that_it_is_unfinished(paper, tmp_path):
    shutil.copytree(paper, tmp_path / "league")
    run = equipoise.open_run(tmp_path / "league")
    with RunDirectory.read(run.path) as opened:
        folder = prepare(opened, "policy@1", "", "", (), None, False, False)
    (waiting,) = run.status()["best_responses"]  # as a kill before its first match
    assert not waiting["finished"]
    assert waiting["gets"] is None
    assert waiting["budget"] == {"updates": 0, "samples": 0, "tokens": 0}
    done = run.best_response("policy@1", progress=False)
    assert done.path == folder
    assert done.status()["best_response"]["finished"]


@pytest.mark.long
def test_a_language_model_learns_against_a_frozen_defender(red_team_run, command, tmp_path):
    run = tmp_path / "siege"
    shutil.copytree(red_team_run, run)
    done = command("best-response", "siege@defender", *FEW, "--json")
    assert done.code == 0, done.err
    facts = done.facts
    assert facts["role"] == "adversary"
    assert facts["unit"] == "attack success"
    assert 0 <= facts["gets"]["mean"] <= 1
    assert facts["gets"]["n"] > 0
    assert facts["league"]["by"].startswith("adversary@")
    assert facts["budget"]["updates"] == 1
    assert facts["budget"]["samples"] == 6
    assert facts["budget"]["tokens"] > 6
    with RunDirectory.read(run / "best_responses" / "defender@1") as exploiter:
        config = exploiter.config
        assert not config.players["defender"].learns
        assert config.players["defender"].model == str(run / "players/defender/1")
        assert config.shaping == ()
        assert [b.player for b in exploiter.ledger.players()] == [PlayerId("exploiter", 1)]


@pytest.mark.slow
def test_in_one_league_the_two_meet_on_every_prompt(command):
    """It begins from another generation of the run, and learns by the run's own loss."""
    assert command("run", "quickstart", *SMALL, "--out", "clerk").code == 0
    begun = ("--start", "policy@1")
    done = command("best-response", "clerk@policy@0", *begun, *SMALL, "--json")
    assert done.code == 0, done.err
    facts = done.facts
    assert facts["role"] == ""
    assert facts["start"] == "policy@1"
    assert facts["league"]["by"] == "policy@1"
    assert -1 <= facts["gets"]["mean"] <= 1
    assert facts["gets"]["low"] is not None
    # 12 prompts, five answers each, of which the exploiter gives three or two
    assert facts["budget"]["updates"] == 1
    assert 24 <= facts["budget"]["samples"] <= 36


@pytest.mark.long
def test_what_nobody_can_be_trained_against_is_refused(red_team_run, paper, command, tmp_path):
    """Before anything is written or sampled: one message, code 2."""
    siege, league = red_team_run, paper
    one_seat = tmp_path / "one_seat"
    with new_run(recipe_loader.load("gtalign_clerks"), one_seat):
        pass
    clerk = tmp_path / "clerk"
    other = {"players.other": {"kind": "scripted", "text": "no"}}
    with new_run(recipe_loader.load("quickstart", other), clerk):
        pass
    faults = {
        (f"{siege}@defender@9",): "no generation '9' of defender; there are 0, 1",
        (f"{siege}@defender@all",): "defender@all are several players; name one",
        (f"{siege}@defender@²",): "no generation '²' of defender; there are 0, 1",
        (f"{siege}@defendr",): "no player 'defendr'; did you mean 'defender'?",
        (f"{siege}",): "name a player, as in",
        ("nowhere@policy",): "there is no run in nowhere",
        (f"{one_seat}@assistant",): "game 'assistance' has one seat",
        (f"{siege}@defender", "--start", "no/such/model"): "no/such/model",
        (f"{clerk}@other",): "begin as 'other' of the run was given: 'preference' trai",
        (f"{siege}@defender", "--role", "advesary"): "did you mean 'adversary'?",
        (f"{league}@policy", "--role", "judge"): "game 'matrix' has the roles row",
    }
    wrong = []
    for arguments, message in faults.items():
        refused = command("best-response", *arguments, "--out", tmp_path / "out")
        if refused.code != 2 or message not in refused.err:
            wrong.append((arguments, refused.code, refused.err))
    assert not wrong
    assert not (tmp_path / "out").exists()


def test_what_a_player_gets_is_read_off_every_kind_of_measure():
    cell = {"mean": 0.25, "low": 0.1, "high": 0.4, "n": 9}
    roles = RoleMeasures.read(
        {
            "players": ["a@0", "b@1"],
            "scores": {},
            "roles": {
                "asker": {
                    "judge": "x",
                    "players": ["a@0"],
                    "others": ["b@1"],
                    "cells": [[cell]],
                    "scores": {},
                    "win_rates": {},
                }
            },
        }
    )
    assert isinstance(roles.roles["asker"], RoleLeague)
    assert roles.gets("a@0", "b@1").mean == 0.25
    assert roles.gets("b@1", "a@0") is None
    assert Measures().gets("a@0", "b@1") is None


EVERY_GAME = {
    "quickstart": SMALL,
    "gpo_clerks": settings(prompts__per_generation=6, prompts__held_out=8, prompts__count=40),
    "sparta_clerks": settings(prompts__per_generation=6, prompts__held_out=4, prompts__test=4),
    "kuhn_poker": settings(prompts__count=40, prompts__per_generation=12, prompts__held_out=4),
    "psro_kuhn": [],
    "gpo_contextual": [],
    "rock_paper_scissors": [],
}


@pytest.mark.long
@pytest.mark.parametrize("recipe", EVERY_GAME)
def test_every_player_of_every_game_can_have_one(recipe, tmp_path):
    overrides = [text for text in EVERY_GAME[recipe] if text != "-s"]
    with new_run(recipe_loader.load(recipe, overrides), tmp_path / "run") as run:
        for name in run.config.players:
            values, _ = exploit_settings(run, PlayerId(name), "", "")
            assert check_run(recipe_loader.load(values)).config.learning == ["exploiter"]


@pytest.mark.long
def test_a_game_of_one_seat_is_refused_by_its_setting(tmp_path):
    reason = r"'assistance' has one seat.*; set game: answers"
    with (
        new_run(recipe_loader.load("gtalign_clerks"), tmp_path / "run") as run,
        pytest.raises(ConfigError, match=reason),
    ):
        exploit_settings(run, PlayerId("assistant"), "", "")


def served(url, **more):
    """A run of two served models that only meet; a judge by rule."""
    return {
        "extends": "arena",
        "player_defaults": {"base_url": url, "max_new_tokens": 9},
        "players": {"ann": {"model": "a"}, "bob": {"model": "b"}},
        "prompts": {"kind": "clerk_questions", "count": 30, "held_out": 5, "shrink": True},
        "game": {"kind": "answers", "samples": 1},
        "judge": "shorter",
        **more,
    }


@pytest.mark.long
def test_served_models_have_one_that_begins_as_a_model_here(openai_server, command, tmp_path):
    openai_server.answer = lambda body: "a long answer" if body["model"] == "a" else "no"
    equipoise.run(served(openai_server.url), out=tmp_path / "run", progress=False)
    refused = command("best-response", "run@bob")
    assert refused.code == 2
    assert "'bob' is served elsewhere" in refused.err
    assert "--start MODEL" in refused.err
    few = settings(generations=1, prompts__per_generation=4, prompts__held_out=4)
    done = command("best-response", "run@bob", "--start", "builtin", *few, "--json")
    assert done.code == 0, done.err
    # nothing is shorter
    assert done.facts["finished"]
    assert done.facts["gets"]["mean"] <= 0
    config = equipoise.open_run(done.facts["run"]).config
    assert config.learning == ["exploiter"]
    assert set(config.players) == {"exploiter", "bob"}
    assert config.game.samples == 2
    assert config.loss.kind == "dpo"
    assert config.players["exploiter"].max_new_tokens == 9
    assert config.learner.learning_rate == 2e-4  # by the size of its model
