"""The state of a policy trainer on disk: all that the next update depends on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FILE = "state.pt"


@dataclass(frozen=True)
class PolicyState:
    """What a trainer takes up again.

    weights: the trained ones, by name. critic, optimizer: state dicts. kl: the weight
    of the KL penalty. steps: optimizer steps so far. baselines: of the estimator.
    probe: prompts and answers by which sampler and learner are compared, in token ids.
    """

    weights: dict[str, Any]
    critic: dict[str, Any] | None
    optimizer: dict[str, Any]
    kl: float
    steps: int
    baselines: dict[str, float]
    probe: list[tuple[list[int], list[int]]]

    def write(self, folder: Path) -> None:
        """Write the state into `folder`."""
        torch.save(vars(self), folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> PolicyState:
        """The state that was written into `folder`, on the CPU."""
        state = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        return cls(**state)
