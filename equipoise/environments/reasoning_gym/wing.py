"""What this environment adds to the rooms: procedural tasks of the library reasoning-gym."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {"reasoning_gym": "equipoise.environments.reasoning_gym.tasks:SolvesTask"},
    "Prompts": {"reasoning_gym": "equipoise.environments.reasoning_gym.tasks:TaskPrompts"},
}
