"""Players with fixed answers, a Python function that gives them, or none but those recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from equipoise.component import import_object
from equipoise.errors import ConfigError
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.players.server_reply import without_surrogates
from equipoise.system.effects import Code, Text
from equipoise.types import Move, View


class Scripted(Player):
    """Answers `text` always, one of `texts` by the row's seed, or with `call(view, seed)`."""

    kind: Literal["scripted"] = "scripted"
    text: Text | None = Field(None, description="the only answer")
    texts: tuple[Text, ...] | None = Field(
        None, min_length=1, description="answers, chosen by the row's seed modulo their number"
    )
    call: Code | None = Field(
        None, description="import path module:function of (View, seed: int) -> str"
    )

    @model_validator(mode="after")
    def _one_script(self) -> Scripted:
        scripts = (self.text, self.texts, self.call)
        if sum(script is not None for script in scripts) != 1:
            raise ValueError("give exactly one of text, texts and call")
        if self.call is not None and not callable(import_object(self.call)):
            raise PydanticCustomError("import", "'{path}' cannot be called", {"path": self.call})
        return self

    def open(self, weights: Path | None, resources: Resources) -> ScriptedActor:
        """The actor; it has no weights."""
        return ScriptedActor(self)


class ScriptedActor:
    """A scripted player, ready to move."""

    def __init__(self, player: Scripted) -> None:
        self.player = player
        self._call: Callable[[View, int], Any] | None = (
            import_object(player.call) if player.call else None
        )

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One answer per view; an error move where the function raises or returns no text."""
        return [self._move(view, seed) for view, seed in zip(views, seeds, strict=True)]

    def _move(self, view: View, seed: int) -> Move:
        if self._call is None:
            texts = self.player.texts or (self.player.text or "",)
            return Move(texts[seed % len(texts)])
        try:
            text = self._call(view, seed)
        # A user's function may raise anything, and the run goes on.
        except Exception as error:  # noqa: BLE001
            return self._error(f"raised {type(error).__name__}: {error}")
        if not isinstance(text, str):
            return self._error(f"returned {type(text).__name__}, not a text")
        return Move(without_surrogates(str(text)))

    def _error(self, reason: str) -> Move:
        return Move("", "error", error=f"{self.player.call} {reason}")

    def close(self) -> None:
        """Nothing to release."""


class Recorded(Player):
    """A player of matches that were imported (`equipoise import-matches`); it plays no more."""

    kind: Literal["recorded"] = "recorded"
    model: Text = Field(description="its name where it played")

    def open(self, weights: Path | None, resources: Resources) -> Actor:
        """Raises ConfigError: it cannot play."""
        raise ConfigError(f"'{self.model}' has only its imported matches and cannot play")
