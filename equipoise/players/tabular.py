"""A player of finite games: one probability for each move, whatever the prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from equipoise.errors import ConfigError, ModelError
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.seeds import uniform
from equipoise.system.effects import Text
from equipoise.types import Message, Move, View, record_id

FILE = "policy.json"


class Tabular(Player):
    """softmax(logits) over the legal moves, from `logits`, `probabilities`, or uniform."""

    kind: Literal["tabular"] = "tabular"
    logits: tuple[float, ...] | None = Field(
        None, min_length=1, description="initial logits in nats, one a move"
    )
    probabilities: tuple[float, ...] | None = Field(
        None, min_length=1, description="initial probabilities, which add up to 1"
    )
    actions: tuple[Text, ...] = Field(
        (), description="the moves' names, for the log-probability of a text"
    )

    @model_validator(mode="after")
    def _one_start(self) -> Tabular:
        if self.logits is not None and self.probabilities is not None:
            raise ValueError("give logits or probabilities, not both")
        if self.probabilities is not None:
            total = sum(self.probabilities)
            if min(self.probabilities) < 0 or not abs(total - 1) < 1e-6:
                raise ValueError(
                    f"probabilities must not be negative and must add up to 1, not {total:g}"
                )
        return self

    def logits_A(self, weights: Path | None, size: int) -> np.ndarray:
        """The logits [A = size] in nats, −inf: never. ConfigError, ModelError for another size."""
        if weights is not None:
            logits_A = read_policy(weights)
        elif self.probabilities is not None:
            with np.errstate(divide="ignore"):
                logits_A = np.log(np.asarray(self.probabilities, np.float64))
        elif self.logits is not None:
            logits_A = np.asarray(self.logits, np.float64)
        else:
            logits_A = np.zeros(size)
        if len(logits_A) != size:
            error = ConfigError if weights is None else ModelError
            raise error(
                f"{weights or 'the tabular player'} is for {len(logits_A)} moves, "
                f"but the game has {size}"
            )
        return logits_A

    def settings_at(self, weights: Path | None) -> dict[str, Any]:
        """The settings with the logits of that folder. Raises ModelError."""
        if weights is None:
            return self.settings()
        logits = read_policy(weights).tolist()
        return {**self.settings(), "logits": logits, "probabilities": None}

    def open(self, weights: Path | None, resources: Resources) -> TabularActor:
        return TabularActor(self, weights)


class TabularActor:
    """A tabular player, ready to move."""

    def __init__(self, player: Tabular, weights: Path | None) -> None:
        self.player = player
        self.weights = weights
        self._logprobs: dict[int, np.ndarray] = {}

    def logprobs_A(self, size: int) -> np.ndarray:
        """The log-probability of each of `size` moves, in nats."""
        if size not in self._logprobs:
            self._logprobs[size] = log_softmax(self.player.logits_A(self.weights, size))
        return self._logprobs[size]

    def probabilities(self, actions: Sequence[str]) -> np.ndarray:
        """The probability of each of `actions`."""
        return np.exp(self.logprobs_A(len(actions)))

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One move per view, by the inverse cumulative distribution at the row's number."""
        moves = []
        number_B = uniform(np.asarray(seeds, np.int64), 0)
        for view, number in zip(views, number_B, strict=True):
            if not view.actions:
                raise ConfigError(
                    "a tabular player needs a finite game: this game names no moves to choose from"
                )
            logprobs_A = self.logprobs_A(len(view.actions))
            cumulative_A = np.exp(logprobs_A).cumsum()
            target = number * cumulative_A[-1]
            choice = int(np.searchsorted(cumulative_A, target, side="right"))
            moves.append(
                Move(
                    view.actions[choice], token_ids=(choice,), logprobs=(float(logprobs_A[choice]),)
                )
            )
        return moves

    @property
    def encoding(self) -> str:
        """Players with the same moves in the same order share it."""
        return record_id("tabular", *self.player.actions)

    def logprobs(
        self, chats: Sequence[tuple[Message, ...]], texts: Sequence[str]
    ) -> list[tuple[float, int]]:
        """The log-probability of each text, a move's name, as one token; else ConfigError."""
        actions = self.player.actions
        for text in texts:
            if text not in actions:
                raise ConfigError(
                    f"a tabular player cannot say how likely '{text}' is; its "
                    f"actions: {list(actions)}"
                )
        logprobs_A = self.logprobs_A(len(actions))
        return [(float(logprobs_A[actions.index(text)]), 1) for text in texts]

    def close(self) -> None:
        """Nothing to release."""


def read_policy(folder: Path) -> np.ndarray:
    """The logits in nats, [A], of a folder of weights. Raises ModelError where it holds none."""
    try:
        policy = json.loads((folder / FILE).read_text())
        logits_A = np.asarray(policy["logits"], np.float64)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{folder / FILE}: no tabular policy ({type(error).__name__}: {error})"
        ) from error
    if logits_A.ndim != 1 or not len(logits_A) or not np.isfinite(logits_A).all():
        raise ModelError(f"{folder / FILE}: 'logits' must be a list of finite numbers")
    return logits_A


def write_policy(folder: Path, logits_A: np.ndarray) -> None:
    """Write a policy's logits, in nats, to `folder`."""
    (folder / FILE).write_text(json.dumps({"logits": logits_A.tolist()}))


def log_softmax(logits_A: np.ndarray) -> np.ndarray:
    """Log-probabilities of moves with these logits, in nats."""
    logits_A = logits_A - logits_A.max()
    return logits_A - np.logaddexp.reduce(logits_A)
