"""The recipe kuhn_poker, small: what it measures is what OpenSpiel says of its model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from small_runs import settings, start, wait_for_record

import equipoise
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.players.base import Player
from equipoise.runs.directory import RunDirectory

pytest.importorskip("pyspiel")
pytestmark = pytest.mark.long  # a run that learns
SETTINGS = {"generations": 2, "prompts.per_generation": 24, "commit_every": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("kuhn") / "run"
    equipoise.run("kuhn_poker", settings=SETTINGS, out=out)
    return out


def measured(folder: Path) -> list[dict]:
    with RunDirectory.read(folder) as opened:
        return [stage.facts for stage in opened.ledger.stages("measure")]


def test_nash_conv_is_that_of_the_model_by_another_reading(run):
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import tabular_policy_from_callable

    from equipoise.models.resources import Resources

    with RunDirectory.read(run) as opened:
        player = opened.config.playing["policy"]
        game = opened.config.game
    assert isinstance(player, Player)
    assert isinstance(game, OpenSpiel)
    actor = player.open(run / "players" / "policy" / "2", Resources())

    def chances(state) -> dict[int, float]:
        moves = game.legal_moves(state)
        chat = game.view(state).messages
        scores = actor.logprobs([chat] * len(moves), list(moves))
        total = sum(math.exp(score) for score, _ in scores)
        chosen = zip(moves.values(), scores, strict=True)
        return {move: math.exp(score) / total for move, (score, _) in chosen}

    expected = nash_conv(game.spiel, tabular_policy_from_callable(game.spiel, chances))
    last = measured(run)[-1]
    assert last["exploitability"] == pytest.approx(expected, abs=1e-4)
    assert last["players"] == ["policy@0", "policy@1", "policy@2"]
    assert sum(last["mixture"].values()) == pytest.approx(1)
    assert last["uniform"] == pytest.approx(11 / 12)
    assert 0 <= last["illegal"]["policy@2"] < 0.5
    start = measured(run)[0]
    assert start["average"] == start["nash_conv"], "of one generation"


@pytest.mark.slow  # two processes of their own
def test_a_killed_and_resumed_run_measures_the_same(run, tmp_path):
    options = settings(**{key.replace(".", "__"): v for key, v in SETTINGS.items()})
    process = start("run", "kuhn_poker", "--out", "killed", *options, cwd=tmp_path)
    wait_for_record(process, tmp_path / "killed", "0/measure")
    process.kill()
    process.wait()
    resumed = start("resume", "killed", cwd=tmp_path)
    assert resumed.wait() == 0
    assert measured(tmp_path / "killed") == measured(run)


def test_the_command_measures_a_generation_of_a_run_alike(run, command):
    on = "{kind: nash_conv, game: {kind: open_spiel, rules: ''}}"
    done = command("evaluate", f"{run}@policy@2", "--on", on, "--json")
    [result] = json.loads(done.out)
    last = measured(run)[-1]
    value = result["metrics"]["nash_conv"]["mean"]
    assert value == pytest.approx(last["exploitability"], abs=1e-4)
    assert "uniform play: 0.9167" in result["note"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["game.name=leduc_poker", "evaluate.largest=50"], "more than 50 positions"),
        (["game.name=kuhn"], "did you mean 'kuhn_poker'?"),
        (["game.players=1"], "by 2 to 10, not by 1"),
        (["game={kind: textarena, name: Kuhn}"], "'nash_conv' measures games of"),
        (["game.forms=tagged"], "unknown key 'forms'; did you mean 'form'?"),
    ],
)
def test_a_plan_refuses_what_cannot_be_played(command, options, message):
    settings = [part for option in options for part in ("-s", option)]
    done = command("plan", "kuhn_poker", *settings)
    assert done.code == 2
    assert message in done.err


def test_the_page_shows_the_policy_and_both_averages(run):
    page = (run / "report.html").read_text()
    assert "NashConv of the average" in page
    assert "Policy of policy@2" in page
