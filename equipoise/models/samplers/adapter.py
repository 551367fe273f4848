"""A generation's adapter as an engine knows it: a name that no other weights ever have."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

PREFIX = "equipoise:"
"""Begins the name of every adapter of ours, so that an engine's others are left alone."""


@dataclass(frozen=True, slots=True)
class EngineAdapter:
    """An adapter's folder, and its name at the engine."""

    name: str
    folder: Path

    @classmethod
    def of(cls, player: str, folder: Path) -> EngineAdapter:
        """The adapter of `player`, written `name@generation`.

        The name holds a hash of the weights. So an engine that knows the name has the weights, and
        prompts that it has read with one adapter are never taken for those of another.
        """
        digest = hashlib.blake2b(digest_size=8)
        for file in sorted(folder.glob("adapter_*")):
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
        return cls(f"{PREFIX}{player}:{digest.hexdigest()}", folder.resolve())


def is_ours(name: str) -> bool:
    """Whether an adapter's name at an engine is one that we gave."""
    return name.startswith(PREFIX)
