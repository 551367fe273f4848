"""Kinds, commands and serving that the assistant and its user add to the rooms."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {
        "assistance": "equipoise.environments.assistance.assistance_evaluation:AssistanceEvaluation"
    },
    "Judge": {
        "assistance": "equipoise.environments.assistance.judge:AssistanceJudge",
        "solution": "equipoise.environments.assistance.gtalign_tasks:Solution",
        "ambiguity": "equipoise.environments.assistance.gtalign_tasks:Ambiguity",
        "writing": "equipoise.environments.assistance.gtalign_tasks:Writing",
        "safety": "equipoise.environments.assistance.gtalign_tasks:Safety",
        "frontier": "equipoise.environments.assistance.gtalign_tasks:Frontier",
        "chosen_outcome": "equipoise.environments.assistance.gtalign_tasks:Choice",
    },
    "Game": {"assistance": "equipoise.environments.assistance.game:Assistance"},
    "Prompts": {
        "everyday_requests": "equipoise.environments.assistance.everyday_requests:EverydayRequests"
    },
    "WarmStart": {
        "assistance": "equipoise.environments.assistance.assistance_start:AssistanceStart"
    },
    "Player": {"two_writers": "equipoise.environments.assistance.two_writers:TwoWriters"},
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "assistance": {
        "welfare": "equipoise.environments.assistance.assistance_commands:welfare",
        "dominance": "equipoise.environments.assistance.assistance_commands:dominance",
        "traces": "equipoise.environments.assistance.assistance_commands:traces",
    }
}
# `option` is the help of `-s steering=…`; `report` is the key of a request's object `equipoise`
# that asks for what is hidden.
SERVING: Mapping[str, Mapping[str, str]] = {
    "steering": {
        "extension": "equipoise.environments.assistance.steering_extension:extension",
        "option": "how answers are steered where a request says nothing: a pricing's name, strip, "
        "off, a YAML file, or {pricing: subscription, text: assistance}; by default strip for a "
        "run of the assistant's game, else off",
        "report": "blocks",
    }
}
