"""What this environment adds to the rooms: the adversary that writes prompts and the defender that
answers them.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {"red_team": "equipoise.environments.red_team.evaluation:RedTeaming"},
    "Judge": {"red_team": "equipoise.environments.red_team.judge:RedTeamJudge"},
    "Game": {"red_team": "equipoise.environments.red_team.game:RedTeam"},
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "red-team": {
        "crossplay": "equipoise.environments.red_team.cross_play_command:crossplay",
        "export-attacks": "equipoise.environments.red_team.export_attacks_command:export_attacks",
    }
}
