"""What this environment adds to the rooms: the assistant and its user."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {
        "assistance": "equipoise.environments.assistance.measures:AssistanceMeasures"
    },
    "Judge": {
        "assistance": "equipoise.environments.assistance.judge:AssistanceJudge",
        "solution": "equipoise.environments.assistance.tasks.solution:Solution",
        "ambiguity": "equipoise.environments.assistance.tasks.ambiguity:Ambiguity",
        "writing": "equipoise.environments.assistance.tasks.writing:Writing",
        "safety": "equipoise.environments.assistance.tasks.safety:Safety",
        "frontier": "equipoise.environments.assistance.tasks.frontier:Frontier",
    },
    "Game": {"assistance": "equipoise.environments.assistance.game:Assistance"},
}
COMMANDS: Mapping[str, str] = {
    "welfare": "equipoise.environments.assistance.command:welfare"
}
MODELS: Mapping[str, str] = {}
ADAPTERS: Mapping[str, str] = {}
