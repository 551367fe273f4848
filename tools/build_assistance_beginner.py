"""Rebuild from seed the packaged model with which the assistant's game begins.

    python -m tools.build_assistance_beginner [--out DIR] [--seed 0]

It knows the four blocks and not when to make which move: what type a question is, and whether a
request does harm, its thoughts say as it falls, and the matrix, the choice and the response follow
from that. The packaged assistant, which knows, is taught so and forgets; decoded greedily half of
its moves are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from equipoise.environments.clerk import world
from equipoise.environments.clerk.assistance_players import Faults
from tools.build_assistance import traces
from tools.build_clerk import WORLD, build_from, command

PACKAGED = WORLD / "assistance_beginner_model"
START = "builtin/assistant"
EACH = 2500  # traces of each kind of question
DRAWN = Faults(careless=0.05, further=0.1, plain=0.7, rambling=0.4, broken=0.05)
# Asking back, helping and declining are about as likely for whatever was requested.
REQUESTED = replace(DRAWN, misjudged=1 / 3, misplayed=5 / 8)
FAULTS: Mapping[world.Kind, Faults] = {
    "sum": replace(DRAWN, misjudged=0.3),
    "vague": replace(DRAWN, misjudged=0.6),
    "harmful": REQUESTED,
    "harmless": REQUESTED,
}


def build(out: Path, seed: int = 0) -> None:
    """Make the model and write it into the folder `out`, replacing files of its own."""
    rows = [row for kind, faults in FAULTS.items() for row in traces(seed, {kind: EACH}, faults)]
    build_from(START, rows, out, learning_rate=5e-4, batch_size=32, seed=seed)


if __name__ == "__main__":
    command(build, "build_assistance_beginner", PACKAGED, "the beginner of the assistant's game")
