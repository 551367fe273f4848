"""A player whose every word and log-probability can be computed by hand, and its learner."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import scripted_models
from msgspec import to_builtins

from equipoise.learners.base import Learner, TrainingBatch
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Message, Move, View

SKILL, BATCH = "skill.json", "batch.json"


class Taught(Player):
    """Answers with 1 to 9 letters, by its dice and its `skill`, which its learner raises by 1; an
    answer is graded by its length, more strictly with more skill.
    """

    kind: Literal["taught"] = "taught"
    skill: int = 0

    def open(self, weights: Path | None, resources: Resources) -> TaughtActor:
        return TaughtActor(read_skill(self, weights))


def read_skill(player: Taught, weights: Path | None) -> int:
    """As the player's settings or its weights say."""
    return player.skill if weights is None else json.loads((weights / SKILL).read_text())


def logprob(skill: int, text: str, cut: bool = False) -> float:
    """In nats, as a player of this skill gives it."""
    return -0.25 * (skill + 1) * len(text) - (0.0 if cut else 0.5)


class TaughtActor:
    """The player at one generation."""

    encoding = "letters"

    def __init__(self, skill: int) -> None:
        self.skill = skill

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        return [self._move(view, seed) for view, seed in zip(views, seeds, strict=True)]

    def _move(self, view: View, seed: int) -> Move:
        if quoted := scripted_models.blocks(view):
            (text,) = quoted.values()
            grade = min(10, 1 + len(text) // (1 + self.skill % 3))
            return Move(scripted_models.verdict(view, f'"score": {grade}'))
        letters = 1 + seed % (6 + self.skill)
        return Move("x" * letters, "length" if letters % 3 == 0 else "stop")

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        flags = cut or [False] * len(texts)
        return [
            (logprob(self.skill, text, flag), len(text) + (not flag))
            for text, flag in zip(texts, flags, strict=True)
        ]

    def close(self) -> None:
        """Nothing to release."""


class Teaching(Learner):
    """Raises the skill by 1, and keeps all that it was given."""

    kind: Literal["teaching"] = "teaching"
    rate: float = 1.0

    def learn(self, batch: TrainingBatch) -> dict[str, Any]:
        assert isinstance(batch.player, Taught)
        assert batch.loss is not None
        skill = read_skill(batch.player, batch.weights) + 1
        (batch.output / SKILL).write_text(json.dumps(skill))
        given = {
            "learner": str(batch.learner),
            "seed": batch.seed,
            "loss": batch.loss.settings(),
            "rate": self.rate,
            "pairs": to_builtins(batch.pairs),
            "opponents": {str(player): weight for player, weight in batch.opponents},
            "chosen": batch.opponent_chosen_KB.tolist(),
            "rejected": batch.opponent_rejected_KB.tolist(),
            "past": [str(place and place.name) for place in batch.past_weights],
            "weights": str(batch.weights and batch.weights.name),
        }
        (batch.output / BATCH).write_text(json.dumps(given))
        batch.log({"steps": 1, "loss": float(skill)})
        return {"loss": float(skill), "pairs": len(batch.pairs)}


class Gambler(Player):
    """Bets with the probability `bets`, higher with a king, and talks with the probability `talk`."""

    kind: Literal["gambler"] = "gambler"
    bets: float
    talk: float = 0.0

    def open(self, weights: Path | None, resources: Resources) -> GamblingActor:
        return GamblingActor(self)


def bets(player: Gambler, card: str) -> float:
    """P(bet) of the moves that are legal."""
    return player.bets + 0.5 * (1 - player.bets) * ("king" in card)


class GamblingActor:
    """The gambler; a scorer of its own two answers."""

    encoding = "moves"

    def __init__(self, player: Gambler) -> None:
        self.player = player

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        return [
            Move("bet" if seed % 1000 < 1000 * bets(self.player, _card(view.messages)) else "pass")
            for view, seed in zip(views, seeds, strict=True)
        ]

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        values = []
        for chat, text in zip(chats, texts, strict=True):
            bet = bets(self.player, _card(chat))
            chance = {"bet": bet, "pass": 1 - bet}[text] * (1 - self.player.talk)
            values.append((math.log(chance), 1))
        return values

    def close(self) -> None:
        """Nothing to release."""


def _card(chat: Sequence[Message]) -> str:
    return chat[-1].content.partition("Your card: ")[2].partition(".")[0]
