"""How the moves of a batch are divided among processes that train together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from accelerate import Accelerator


@dataclass(frozen=True)
class Division:
    """This process among those that train together; `accelerator` is None where it is
    alone.
    """

    device: torch.device
    accelerator: Accelerator | None = None

    @property
    def processes(self) -> int:
        """How many there are."""
        return 1 if self.accelerator is None else self.accelerator.num_processes

    def own(self, portions: list[list[int]]) -> list[tuple[list[int], float]]:
        """The portions that this process computes, and what they count.

        All processes compute equally many, for sharded weights are gathered together;
        one for which there is none left computes one that counts 0.
        """
        if self.accelerator is None:
            return [(rows, 1.0) for rows in portions]
        own = portions[self.accelerator.process_index :: self.processes]
        most = -(-len(portions) // self.processes)
        filling = [(portions[0], 0.0)] * (most - len(own))
        return [*((rows, 1.0) for rows in own), *filling]

    def summed(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.accelerator is None or self.processes == 1:
            return value
        total = self.accelerator.reduce(value, "sum")
        assert isinstance(total, torch.Tensor)
        return total
