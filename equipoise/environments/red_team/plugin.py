"""Red teaming: the adversary that writes prompts and the defender that answers them."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {"red_team": "equipoise.environments.red_team.red_teaming:RedTeaming"},
    "Judge": {"red_team": "equipoise.environments.red_team.judge:RedTeamJudge"},
    "Game": {"red_team": "equipoise.environments.red_team.game:RedTeam"},
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "red-team": {
        "crossplay": "equipoise.environments.red_team.red_team_commands:crossplay",
        "export-attacks": "equipoise.environments.red_team.red_team_commands:export_attacks",
    }
}
