"""How the moves of a batch are divided among processes that train together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True)
class Division:
    """This process, the `index`-th of `processes` that train together."""

    device: torch.device
    processes: int = 1
    index: int = 0

    def own(self, portions: list[list[int]]) -> list[tuple[list[int], float]]:
        """The portions that this process computes, and what they count.

        All processes compute equally many, for sharded weights are gathered together; one for which
        there is none left computes one that counts 0.
        """
        own = portions[self.index :: self.processes]
        most = -(-len(portions) // self.processes)
        filling = [(portions[0], 0.0)] * (most - len(own))
        return [*((rows, 1.0) for rows in own), *filling]

    def summed(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.processes > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value
