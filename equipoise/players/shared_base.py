"""A model in memory that several generations and players share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.models.adapters import load_adapter


class SharedBase:
    """A model in memory, and the adapters that turn it into one generation or another."""

    def __init__(self, name: str, model: Any) -> None:
        """`name` is the model's folder or hub id; `model` a transformers model."""
        self.name = name
        self.model = model
        self._peft: Any = None
        self._adapters: dict[str, str] = {}

    def adapter(self, folder: Path) -> str:
        """The name of the adapter in `folder`, which is read at its first use.

        Raises ModelError.
        """
        key = str(folder.resolve())
        if key not in self._adapters:
            name = f"generation_{len(self._adapters)}"
            self._peft = load_adapter(
                self._peft or self.model, self.name, folder, name
            ).eval()
            self._adapters[key] = name
        return self._adapters[key]

    @contextmanager
    def lend(self, adapter: str | None) -> Iterator[Any]:
        """The model with this adapter active (None: without any), while the context is open."""
        if adapter is not None:
            self._peft.set_adapter(adapter, inference_mode=True)
            yield self.model
        elif self._peft is not None:
            with self._peft.disable_adapter():
                yield self.model
        else:
            yield self.model
