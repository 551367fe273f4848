"""Steering added to serving, as a client or the server's setting `-s steering=…` asks."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from equipoise.component import nearest
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.pricing import Pricing
from equipoise.environments.assistance.steering import LARGEST, UNSTEERED, Steering
from equipoise.environments.assistance.steering_engine import SteeringEngine
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.serve.engine import Engine, Extension, Refused
from equipoise.system.yaml_text import read_yaml

FIELD = "steering"  # of a request
CLIENT_SETTINGS = ("pricing", "by", "question", "mode", "level")


class SteeringExtension(Extension):
    """Steers a server's models as a client asks, and as `base` where it asks for nothing."""

    def __init__(self, base: Steering) -> None:
        """Raises DataError for a template that cannot be used."""
        base.check()
        self.base = base

    def wrap(self, engine: Engine, value: Any = None, *, report: bool = False) -> Engine:
        """`engine`, steered; itself if nothing is steered. Raises Refused."""
        steering = self.base
        if value is not None:
            steering = client_steering(value, self.base)
        if steering.mode == "off":
            return engine
        return SteeringEngine(engine, steering, report=report)


def extension(option: Any, game: Game | None) -> SteeringExtension:
    """The steering of `equipoise serve` and `equipoise chat`: their setting `-s steering=…`.

    Without it, a run of the assistant's game asks as its game does and hides the blocks. Raises
    ConfigError for an option that cannot be read, DataError for a template that cannot be used.
    """
    base = Steering.model_validate({"mode": "off"})
    if isinstance(game, Assistance) and game.blocks:
        base = Steering.model_validate({"mode": "strip", "text": game.text})
    return SteeringExtension(base if option is None else option_steering(option, base))


def client_steering(wish: Any, base: Steering) -> Steering:
    """A client's steering: a pricing's name, `strip`, `off`, a pricing, or CLIENT_SETTINGS.

    What it leaves out is as in `base`. It can name no file and no part of its own. Raises Refused.
    """
    settings = wished_settings(wish)
    foreign = [str(key) for key in settings if key not in CLIENT_SETTINGS]
    if foreign:
        raise _refusal(
            f"'{foreign[0]:.40}' is not for clients to set; "
            f"{nearest(foreign[0], list(CLIENT_SETTINGS))}"
        )
    for value in leaves(settings):
        refuse_strange(value)
    if "mode" not in settings and base.mode in UNSTEERED:
        settings["mode"] = "prefix"
    try:
        return Steering.model_validate({**dict(base), **settings})
    except ValidationError as error:
        raise Refused(f"{FIELD}.{first_fault(error)}", param=FIELD) from error


def wished_settings(wish: Any) -> dict[str, Any]:
    if isinstance(wish, Mapping):
        return {"pricing": wish} if "kind" in wish else dict(wish)
    if not isinstance(wish, str):
        raise _refusal("must be a name, a pricing, or an object of settings")
    if wish in UNSTEERED:
        return {"mode": wish}
    pricings = sorted(Pricing.KINDS)
    if wish not in pricings:
        hint = nearest(wish, [*pricings, *UNSTEERED])
        raise _refusal(f"unknown name '{wish:.40}'; {hint}")
    return {"pricing": wish}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from leaves(item)


def refuse_strange(value: Any) -> None:
    """Refuse vast numbers, and a kind with a colon, which would import what it names."""
    if isinstance(value, str) and ":" in value:
        raise _refusal(f"unknown kind '{value:.40}'")
    if not isinstance(value, int | float) or value == 0:
        return
    if not 1 / LARGEST <= abs(value) <= LARGEST:
        raise _refusal("a number is too large or too small to be reckoned with")


def _refusal(message: str) -> Refused:
    return Refused(f"{FIELD}: {message}", param=FIELD)


def option_steering(option: Any, base: Steering) -> Steering:
    """The steering of `-s steering=…`: a name, a YAML file or a mapping. Raises ConfigError."""
    values = option
    try:
        if isinstance(option, str):
            if not option.endswith((".yaml", ".yml")):
                return client_steering(option, base)
            values = read_yaml(Path(option), f"-s steering={option}")
        if not isinstance(values, dict):
            raise ConfigError(
                f"-s steering={option}: must be a mapping of settings, such as "
                "{pricing: subscription}"
            )
        return Steering.model_validate({**dict(base), "mode": "prefix", **values})
    except Refused as error:
        raise ConfigError(f"-s steering={option}: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"-s steering={option}: {first_fault(error)}") from error


def first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    path = ".".join(map(str, fault["loc"]))
    return " ".join(f"{path}: {fault['msg']}".split())[:300]
