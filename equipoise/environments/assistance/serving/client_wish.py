"""The steering that a client asks for, or that the setting `-s steering=…` sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from equipoise.component import nearest
from equipoise.environments.assistance.serving.pricing import Pricing
from equipoise.environments.assistance.serving.steering import LARGEST, UNSTEERED, Steering
from equipoise.errors import ConfigError
from equipoise.serve.engine import Refused

FIELD = "steering"  # of a request
CLIENT_SETTINGS = ("pricing", "by", "question", "mode", "level")


def client_steering(wish: Any, base: Steering) -> Steering:
    """The steering that a client asks for by a pricing's name, `strip`, `off`, a pricing, or
    settings of CLIENT_SETTINGS.

    What it leaves out is as in `base`. It can name no file and no part of its own. Raises Refused.
    """
    settings = _wished_settings(wish)
    foreign = [str(key) for key in settings if key not in CLIENT_SETTINGS]
    if foreign:
        raise _refused(
            f"'{foreign[0]:.40}' is not for clients to set; "
            f"{nearest(foreign[0], list(CLIENT_SETTINGS))}"
        )
    for value in _leaves(settings):
        _refuse_strange(value)
    if "mode" not in settings and base.mode in UNSTEERED:
        settings["mode"] = "prefix"
    try:
        return Steering.model_validate({**dict(base), **settings})
    except ValidationError as error:
        raise Refused(f"{FIELD}.{_first_fault(error)}", param=FIELD) from error


def _wished_settings(wish: Any) -> dict[str, Any]:
    """The settings that a name, a pricing or an object stands for. Raises Refused."""
    if isinstance(wish, Mapping):
        return {"pricing": wish} if "kind" in wish else dict(wish)
    if not isinstance(wish, str):
        raise _refused("must be a name, a pricing, or an object of settings")
    if wish in UNSTEERED:
        return {"mode": wish}
    pricings = sorted(Pricing.KINDS)
    if wish not in pricings:
        hint = nearest(wish, [*pricings, *UNSTEERED])
        raise _refused(f"unknown name '{wish:.40}'; {hint}")
    return {"pricing": wish}


def _leaves(value: Any) -> Iterator[Any]:
    """Every value within nested mappings and lists."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _refuse_strange(value: Any) -> None:
    """A kind with a colon would import what it names, which only the configuration may; nor can
    numbers be vast. Raises Refused.
    """
    if isinstance(value, str) and ":" in value:
        raise _refused(f"unknown kind '{value:.40}'")
    if not isinstance(value, int | float) or value == 0:
        return
    if not 1 / LARGEST <= abs(value) <= LARGEST:
        raise _refused("a number is too large or too small to be reckoned with")


def _refused(message: str) -> Refused:
    return Refused(f"{FIELD}: {message}", param=FIELD)


def option_steering(option: Any, base: Steering) -> Steering:
    """The steering of `-s steering=…`: a name, a YAML file or a mapping of settings.

    Raises ConfigError.
    """
    values = option
    try:
        if isinstance(option, str):
            if not option.endswith((".yaml", ".yml")):
                return client_steering(option, base)
            values = yaml.safe_load(Path(option).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ConfigError(
                f"-s steering={option}: must be a mapping of settings, such as "
                "{pricing: subscription}"
            )
        return Steering.model_validate({**dict(base), "mode": "prefix", **values})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, Refused) as error:
        raise ConfigError(f"-s steering={option}: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"-s steering={option}: {_first_fault(error)}") from error


def _first_fault(error: ValidationError) -> str:
    """In one line, with the path of the setting."""
    fault = error.errors()[0]
    path = ".".join(map(str, fault["loc"]))
    return " ".join(f"{path}: {fault['msg']}".split())[:300]
