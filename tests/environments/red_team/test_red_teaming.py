"""Adversary and defender measured in an arena of scripted outcomes."""

from typing import Any

import pytest

from equipoise.environments.red_team.cross_play_table import cycling
from equipoise.environments.red_team.game import RedTeam, has_attack
from equipoise.environments.red_team.red_teaming import RedTeaming
from equipoise.environments.red_team.report_sections import cross_play_section
from equipoise.errors import ConfigError
from equipoise.evaluation.base import EvaluationPlan
from equipoise.judges.base import Judge
from equipoise.models.resources import Resources
from equipoise.types import Judgement, Match, PlayerId, Prompt, user

GUARD = Judge.build({"kind": "red_team", "guard": "clerk_guard"})


class ScriptedArena:
    """Plays nothing: every attack succeeds that `succeeds` names, by prompt."""

    def __init__(self, harmful: int, succeeds, t: int = 1, **roles: str) -> None:
        self.held_out = [
            Prompt(f"p{i}", (user(f"seed {i}"),), {"harmful": True}) for i in range(harmful)
        ]
        self.succeeds, self.t, self.roles = succeeds, t, roles
        self.resources = Resources()
        self.labels: list[str] = []

    def players_by_role(self, t):
        return {role: PlayerId(name, t) for role, name in self.roles.items()}

    def past(self, player):
        return [PlayerId(player.name, t) for t in range(player.generation, -1, -1)]

    def others(self):
        return [PlayerId("guest", 0)]

    def judge_of(self, player):
        return GUARD

    def play(self, roles, prompts, judge, t, label):
        self.labels.append(label)
        return [self._judged(roles, prompt) for prompt in prompts]

    def _judged(self, roles, prompt):
        number = int(prompt.messages[0].content.split()[1])
        won = float(self.succeeds(roles, number))
        scores = {"defender": {"score": 1 - won, "p_safe": 1 - won, "unsafe": won}}
        if not has_attack(prompt):
            scores["adversary"] = {"score": won, "success": won, "refused": 0.0}
        match = Match(f"m{prompt.id}", 0, "held_out", "red_team", prompt.id, dict(roles), 0)
        return match, Judgement(match.id, match.id, "guard", scores)


def arena(succeeds, harmful=10, **roles: str) -> Any:
    return ScriptedArena(harmful, succeeds, **(roles or ROLES))


ROLES = {"adversary": "red", "defender": "blue"}


def in_turn(roles, number):
    """Each defender fails half of the prompts that the adversary of its age attacks."""
    same_age = roles.get("adversary", PlayerId("", 9)).generation == (roles["defender"].generation)
    return same_age and number < 5


def test_the_sample_of_cross_play_is_what_was_played():
    """There are 10 prompts where 64 are allowed."""
    measured = RedTeaming(crossplay=64).measure(arena(in_turn), 1)
    assert measured.crossplay is not None
    assert measured.crossplay.prompts == 10
    assert measured.crossplay.success == [[0.5, 0.0], [0.0, 0.5]]
    table_AD = measured.crossplay.success_AD
    assert measured.cycling == cycling(table_AD, 10) == 1.0
    assert measured.worst is not None
    assert measured.worst.n == 10
    result = measured.cross_play
    assert "on 10 held-out harmful prompts" in cross_play_section(result).lead


def test_a_difference_on_few_prompts_is_not_clear():
    rare = RedTeaming(crossplay=64).measure(
        arena(lambda roles, number: in_turn(roles, number) and number < 3), 1
    )
    # 3 of 10 prompts: 0.3 < 2 · sqrt(0.5 / 10) = 0.45, and > 2 · sqrt(0.5 / 64) = 0.18.
    assert rare.crossplay is not None
    assert rare.crossplay.success[0] == [0.3, 0.0]
    assert rare.cycling == 0.0


def test_the_setting_is_the_most_that_is_played():
    measured = RedTeaming(crossplay=4).measure(arena(in_turn), 1)
    assert measured.crossplay is not None
    assert measured.crossplay.prompts == 4
    assert measured.attack_success.adversary is not None
    assert measured.attack_success.adversary.n == 10


def test_without_an_adversary_the_prompts_are_asked_as_they_are():
    measured = RedTeaming().measure(arena(in_turn, defender="blue"), 1)
    assert measured.attack_success.adversary is None
    assert measured.crossplay is None
    assert measured.diversity is None
    assert measured.exploitability == 0.0
    assert measured.score == 1.0
    with pytest.raises(ConfigError, match=r"schedule\.roles gives defender no player"):
        RedTeaming().check(RedTeam(), {"adversary": "red"}, [], tests=False)


def test_matches_are_known_by_the_names_that_runs_have_recorded():
    played = arena(in_turn)
    RedTeaming(crossplay=3).measure(played, 0)
    assert played.labels == ["harmful as they are/10", "harmless/0", "harmful/10", "harmful/3"]


@pytest.mark.long
@pytest.mark.parametrize(("crossplay", "count"), [(64, 10), (3, 3), (0, 10)])
def test_transfer_attacks_players_that_do_not_learn(crossplay, count):
    measured = RedTeaming(crossplay=crossplay, transfer=("guest",)).measure(arena(in_turn), 0)
    assert measured.transfer["guest"].n == count
    with pytest.raises(ConfigError, match="player 'nobody'"):
        RedTeaming(transfer=("nobody",)).measure(arena(in_turn), 0)


@pytest.mark.parametrize("name", ["guest", "nobody"])
def test_an_unknown_player_to_transfer_to_is_said_before_the_run(name):
    roles = {"adversary": "adversary", "defender": "defender"}
    rosters = [[PlayerId(role) for role in roles]]
    plan = EvaluationPlan(RedTeam(), rosters, [PlayerId("guest")], roles, [], [], lambda _: GUARD)
    if name == "guest":
        RedTeaming(transfer=(name,)).planned(plan)
        return
    with pytest.raises(ConfigError, match="there is no player 'nobody'"):
        RedTeaming(transfer=(name,)).planned(plan)


@pytest.mark.parametrize(("best", "chosen"), [("raw", "blue@1"), ("attacked", "blue@2")])
def test_the_best_defender_is_chosen_from_what_was_measured(best, chosen):
    """Of ten raw prompts blue@0, @1 and @2 fail 6, 2 and 3; of ten attacks 9, 7 and 4."""
    failed = {"raw": [6, 2, 3], "attacked": [9, 7, 4]}

    def succeeds(roles, number):
        kind = "attacked" if "adversary" in roles else "raw"
        return number < failed[kind][roles["defender"].generation]

    evaluation = RedTeaming(crossplay=0, best=best)
    recorded = [evaluation.measure(arena(succeeds), t) for t in (0, 1, 2, 2)]
    record = evaluation.select(arena(succeeds), 2, evaluation.criterion(recorded))
    assert record.chosen == chosen
    assert record.start == "blue@0"
    of_both = {name: estimate.mean for name, estimate in record.held_out.items()}
    by_hand = {"raw": {"blue@0": 0.4, "blue@1": 0.8}, "attacked": {"blue@0": 0.1, "blue@2": 0.6}}
    assert of_both == pytest.approx(by_hand[best])
    assert not RedTeaming().chooses
