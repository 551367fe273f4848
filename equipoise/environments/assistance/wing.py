"""What this environment adds to the rooms: the assistant and its user."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {
        "assistance": "equipoise.environments.assistance.evaluation:AssistanceEvaluation"
    },
    "Judge": {
        "assistance": "equipoise.environments.assistance.judge:AssistanceJudge",
        "solution": "equipoise.environments.assistance.tasks.solution:Solution",
        "ambiguity": "equipoise.environments.assistance.tasks.ambiguity:Ambiguity",
        "writing": "equipoise.environments.assistance.tasks.writing:Writing",
        "safety": "equipoise.environments.assistance.tasks.safety:Safety",
        "frontier": "equipoise.environments.assistance.tasks.frontier:Frontier",
        "chosen_outcome": "equipoise.environments.assistance.tasks.frontier:Choice",
    },
    "Game": {"assistance": "equipoise.environments.assistance.game:Assistance"},
    "Player": {"two_writers": "equipoise.environments.assistance.two_writers:TwoWriters"},
}
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "assistance": {
        "welfare": "equipoise.environments.assistance.command:welfare",
        "traces": "equipoise.environments.assistance.traces_command:traces",
    }
}
# `option` is the help of `-s steering=…`; `wish` and `report` name settings and commands of a
# conversation (steer, blocks), and `report` the key of a request's object `equipoise` that asks for
# what is hidden.
SERVING: Mapping[str, Mapping[str, str]] = {
    "steering": {
        "extension": "equipoise.environments.assistance.serving.steering_extension:extension",
        "option": "how answers are steered where nothing is wished: a pricing's name, strip, off, "
        "a YAML file, or {pricing: subscription, text: assistance}; by default strip for a run of "
        "the assistant's game, else off",
        "wish": "steer",
        "wish_help": "a pricing, strip or off, as /steer takes it",
        "report": "blocks",
        "report_help": "show the hidden blocks after each answer",
    }
}
