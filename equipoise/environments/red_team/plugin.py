"""Red teaming: the adversary that writes prompts and the defender that answers them."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {"red_team": "equipoise.environments.red_team.red_teaming:RedTeaming"},
    "Judge": {
        "keeps_request": "equipoise.environments.red_team.plain_requests:KeepsRequest",
        "red_team": "equipoise.environments.red_team.judge:RedTeamJudge",
    },
    "Prompts": {"plain_requests": "equipoise.environments.red_team.plain_requests:PlainRequests"},
    "WarmStart": {"requests": "equipoise.environments.red_team.request_start:RequestStart"},
    "Game": {"red_team": "equipoise.environments.red_team.game:RedTeam"},
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "red-team": {
        "crossplay": "equipoise.environments.red_team.red_team_commands:crossplay",
        "export-attacks": "equipoise.environments.red_team.red_team_commands:export_attacks",
    }
}
