"""Procedural tasks of the library reasoning-gym."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {"reasoning_gym": "equipoise.environments.reasoning_gym.gym_tasks:SolvesTask"},
    "Prompts": {"reasoning_gym": "equipoise.environments.reasoning_gym.gym_tasks:TaskPrompts"},
}
