"""The state of a policy trainer on disk: all that the next update depends on; and what an update
changed, for those who sample elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from equipoise.errors import RunError, first_line

FILE = "state.pt"
UPDATE = "update.pt"

# What torch raises of a file that is cut short, or no file of its own.
UNREADABLE = (OSError, RuntimeError, EOFError, UnpicklingError, ValueError, KeyError)

Probe = list[tuple[list[int], list[int]]]


@dataclass(frozen=True)
class PolicyState:
    """What a trainer takes up again.

    weights: the trained ones, by name. critic, optimizer: state dicts. kl: the weight of the KL
    penalty. steps: optimizer steps so far. baselines: of the estimator. probe: prompts and answers
    by which sampler and learner are compared, in token ids.
    """

    weights: dict[str, Any]
    critic: dict[str, Any] | None
    optimizer: dict[str, Any]
    kl: float
    steps: int
    baselines: dict[str, float]
    probe: Probe

    def write(self, folder: Path) -> None:
        """Write the state into `folder`."""
        torch.save(vars(self), folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> PolicyState:
        """The state that was written into `folder`, on the CPU. Raises RunError."""
        return cls(**_read(folder / FILE))


@dataclass(frozen=True)
class PolicyUpdate:
    """What samples, and the probe that it is compared on, as in `PolicyState`."""

    weights: dict[str, Any]
    probe: Probe

    def write(self, folder: Path) -> None:
        """Write the update into `folder`."""
        torch.save(vars(self), folder / UPDATE)

    @classmethod
    def read(cls, folder: Path) -> PolicyUpdate:
        """The update that was written into `folder`, or that part of a state there; what is not
        looked at is not read. Raises RunError.
        """
        file = folder / UPDATE if (folder / UPDATE).is_file() else folder / FILE
        saved = _read(file, mmap=True)
        return cls(saved["weights"], saved["probe"])


def _read(file: Path, *, mmap: bool = False) -> dict[str, Any]:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except UNREADABLE as error:
        raise RunError(f"{file}: is missing or damaged ({first_line(error)})") from error
