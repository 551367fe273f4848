"""Stand-ins for what a release imports and this machine lacks; each is a named repair."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from typing import Any


class Placeholder:
    """A class in place of one that is imported, subclassed or named in a signature, not used."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    def __class_getitem__(cls, _: Any) -> type:
        return cls


class StandInModule(types.ModuleType):
    """A module that has every name, each a placeholder."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Placeholder,), {})
        setattr(self, name, made)
        return made


class Repairs:
    """The stand-ins of one process, and what is said of them."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def absent(self, *modules: str) -> None:
        """Stand in for modules that cannot be imported."""
        for name in modules:
            try:
                importlib.import_module(name)
                continue
            except ImportError:
                pass
            module = StandInModule(name)
            module.__path__ = []  # type: ignore[attr-defined]
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], last, module)
            self.told.append(f"{name} is not installed here, and stood in for; nothing calls it")

    def lost(self, module: str, **names: Any) -> None:
        """Give a module back names that its installed version has no more."""
        there = importlib.import_module(module)
        for name, value in names.items():
            try:
                getattr(there, name)
                continue
            except (AttributeError, ImportError, RuntimeError):
                pass
            setattr(there, name, value)
            self.told.append(f"{module}.{name}: gone from the installed version, and put back")
