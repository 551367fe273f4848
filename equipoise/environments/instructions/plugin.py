"""Instructions that a rule can check."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Benchmark": {"ifeval": "equipoise.environments.instructions.instruction_prompts:IFEval"},
    "Judge": {"instructions": "equipoise.environments.instructions.checkers:FollowsInstructions"},
    "Prompts": {
        "instructions": (
            "equipoise.environments.instructions.instruction_prompts:InstructionPrompts"
        )
    },
}
