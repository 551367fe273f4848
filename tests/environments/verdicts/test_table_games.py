"""The small experiments at the table: their recipes are accepted, and their claims have arms."""

import json

import pytest

from benchmarks import verdicts
from benchmarks.claims import TABLE_GAMES
from benchmarks.running import with_settings
from benchmarks.table_games import EXPERIMENTS, HOME, cases, last_view, wrong
from equipoise.environments.clerk import world
from equipoise.environments.clerk.clerk_answers import rate
from equipoise.environments.verdicts.game import Debate

MODELS = {
    "challenge": ["players.proposer.model=builtin/beginner"],
    "prover_verifier": [
        "players.deceiver.model=builtin/beginner",
        "players.verifier.model=builtin/beginner",
    ],
    "debate": ["players.judge.model=builtin/assistant_beginner"],
    "leader_follower": [],
    "anchored": [],
}
SMALL = ["prompts.count=40", "prompts.per_generation=4", "prompts.held_out=8"]


@pytest.mark.long
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_arm_is_planned(name, command, monkeypatch, tmp_path):
    rows = [{"prompt": case.messages[0].content, **case.facts} for case in cases(400)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    MODELS["debate"][1:] = [f"prompts.path={tmp_path / 'cases.jsonl'}"]
    monkeypatch.syspath_prepend(str(HOME))
    monkeypatch.chdir(HOME.parents[1])
    experiment = EXPERIMENTS[name]
    small = [] if name in ("challenge", "debate") else SMALL
    for arm, settings in experiment.arms.items():
        common = MODELS[name] or experiment.common(arm, HOME, None)
        given = with_settings([*small, *common, *settings])
        planned = command("plan", experiment.recipe, *given, "--json")
        assert planned.code == 0, planned.err


def test_a_trial_has_its_arms_and_power_over_its_seeds():
    for name, experiment in EXPERIMENTS.items():
        [claim] = TABLE_GAMES[f"table_{name}"].claims
        assert experiment.name == claim.file == f"table_{name}"
        assert claim.doses
        assert tuple(experiment.seeds) == tuple(TABLE_GAMES[claim.file].seeds)


def test_wrong_answers_are_wrong_and_cases_have_two_options():
    for prompt in world.prompts(3, 60, ("harmful", "harmless")):
        assert not rate(prompt, wrong(prompt, 0)).right
    game = Debate()
    assert not list(game.faults(cases(50)))
    case = cases(1)[0]
    assert case.facts["passage"] == f"Please add {case.facts['answer']}."
    assert "stand for" in last_view(game, case, []).messages[0].content


@pytest.mark.parametrize("name", TABLE_GAMES)
def test_the_page_says_the_word_that_the_raw_result_earns(name):
    page = (HOME.parents[1] / "docs" / "which_game.md").read_text()
    [claim] = TABLE_GAMES[name].claims
    [row] = [line for line in page.splitlines() if f"(`{name}`" in line]
    assert f"**{verdicts.found(claim).word}**" in row
