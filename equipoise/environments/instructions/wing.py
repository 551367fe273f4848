"""Instructions that a rule can check."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Benchmark": {"ifeval": "equipoise.environments.instructions.ifeval:IFEval"},
    "Judge": {"instructions": "equipoise.environments.instructions.judge:FollowsInstructions"},
    "Prompts": {
        "instructions": (
            "equipoise.environments.instructions.instruction_prompts:InstructionPrompts"
        )
    },
}
