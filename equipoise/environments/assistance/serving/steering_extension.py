"""What the assistant's game adds to serving: models whose answers are steered."""

from __future__ import annotations

from typing import Any

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.serving.client_wish import client_steering, option_steering
from equipoise.environments.assistance.serving.steering import Steering
from equipoise.environments.assistance.serving.steering_engine import SteeringEngine
from equipoise.games.base import Game
from equipoise.serve.engine import Engine
from equipoise.serve.extension import Extension


class SteeringExtension(Extension):
    """Steers a server's models as a client wishes, and as `base` where it wishes nothing."""

    def __init__(self, base: Steering) -> None:
        """Raises DataError for a template that cannot be used."""
        base.check()
        self.base = base

    def wrap(self, engine: Engine, wish: Any = None, *, report: bool = False) -> Engine:
        """`engine`, steered; itself where it is not. Raises Refused."""
        steering = self._steering(wish)
        if steering.mode == "off":
            return engine
        return SteeringEngine(engine, steering, report=report)

    def describe(self, wish: Any = None) -> str:
        """The pricing's kind, or the mode where nothing is steered. Raises Refused."""
        return self._steering(wish).name

    def _steering(self, wish: Any) -> Steering:
        return self.base if wish is None else client_steering(wish, self.base)


def extension(option: Any, game: Game | None) -> SteeringExtension:
    """The steering of `equipoise serve` and `equipoise chat`: their setting `-s steering=…`.

    Without it, a run of the assistant's game asks as its game does and hides the blocks; else
    nothing is steered. Raises ConfigError for an option that cannot be read, DataError for a
    template that cannot be used.
    """
    base = Steering.model_validate({"mode": "off"})
    if isinstance(game, Assistance) and game.blocks:
        base = Steering.model_validate({"mode": "strip", "text": game.text})
    return SteeringExtension(base if option is None else option_steering(option, base))
