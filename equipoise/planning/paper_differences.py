"""Differences of a recipe from the paper that it follows, and their reasons.

A recipe's block `published` lists the published settings, element by element; it is no setting of a
run. A recipe that `extends` another has that one's block, with its own merged in over it: an
element that is null is taken away, and so is a block.

    published:
      paper: GTAlign (arXiv 2510.08872)
      code: ulab-uiuc/GTAlign
      elements:
        GAE's λ: {setting: learner.estimator.lam, published: 1.0}
        answers' tokens: {setting: players.assistant.max_new_tokens, published: 8192, why: …}
        judge: {published: Qwen3-32B, ours: rules, why: a run needs no second model}

Our values are read from the recipe, never written beside it, where a setting has them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, model_validator

from equipoise.component import Component, Settings, nearest
from equipoise.errors import ConfigError
from equipoise.players.base import Player
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.recipe_loader import config_error

Matters = Literal["much", "some", "little"]


class PublishedElement(Settings):
    """One choice of a paper or of its code."""

    published: Any = Field(description="the value, or what is done, in words")
    setting: str | None = Field(
        None, description="the setting that has our value: learner.estimator.lam"
    )
    ours: str | None = Field(None, description="what we do, in words; where no setting says it")
    why: str | None = Field(None, description="why ours is another")
    matters: Matters = Field(
        "some", description="how much a difference here moves figures; much is shown first"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.setting is None) == (self.ours is None):
            raise ValueError("give either the setting, or ours in words")
        return self


class Published(Settings):
    """The settings of a paper, for a recipe that follows it."""

    paper: str = Field(min_length=1, description="its short name, with an arXiv number")
    code: str = Field("", description="where its code was released: OWNER/NAME")
    why: str = Field("", description="of every difference that has no reason its own")
    elements: dict[str, PublishedElement] = Field(
        min_length=1, description="element, in plain words -> what was published"
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """An element as published and as in the recipe; `why` is "" where both are equal."""

    element: str
    setting: str | None
    published: Any
    ours: Any
    why: str
    matters: Matters = "some"

    @property
    def same(self) -> bool:
        """True if the recipe does as was published."""
        return self.setting is not None and self.published == self.ours


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """A recipe beside its paper."""

    paper: str
    code: str
    elements: tuple[Compared, ...]

    @property
    def differences(self) -> list[Compared]:
        """The elements in which the recipe is not as published, those that matter much first."""
        places = {"much": 0, "some": 1, "little": 2}
        different = [element for element in self.elements if not element.same]
        return sorted(different, key=lambda element: places[element.matters])

    @property
    def same(self) -> list[Compared]:
        """The elements in which it is."""
        return [element for element in self.elements if element.same]


def compare_with_published(recipe: str | Path) -> PublishedComparison | None:
    """The recipe beside its paper; None where its file names none.

    Raises ConfigError for a faulty block, an unknown setting, and a difference without a reason.
    """
    values = recipe_loader.read_with_published(recipe)
    block = values.pop("published", None)
    if block is None:
        return None
    published = read_block(block, f"{recipe}: published")
    defaults = {"player_defaults": values.get("player_defaults")}
    settings = recipe_loader.with_defaults(values) | defaults
    compared = [
        compare_element(name, element, settings, published.why, str(recipe))
        for name, element in published.elements.items()
    ]
    return PublishedComparison(published.paper, published.code, tuple(compared))


def read_block(block: Any, source: str) -> Published:
    """The block, without the elements that were taken away."""
    filled = dict(block) if isinstance(block, Mapping) else block
    if isinstance(filled, dict) and isinstance(filled.get("elements"), Mapping):
        elements = filled["elements"].items()
        filled["elements"] = {name: value for name, value in elements if value is not None}
    try:
        return Published.model_validate(filled)
    except ValidationError as error:
        raise config_error(error, source, {}) from error


def compare_element(
    name: str, element: PublishedElement, settings: Mapping[str, Any], why: str, recipe: str
) -> Compared:
    place = f"{recipe}: published.elements.{name}"
    ours: Any = element.ours
    if element.setting is not None:
        ours = setting(settings, element.setting, place)
    published = as_json(element.published)
    compared = Compared(name, element.setting, published, ours, "", element.matters)
    if compared.same:
        return compared
    reason = element.why or why
    if not reason:
        raise ConfigError(f"{place}: published is {published!r}, ours {ours!r}; say why")
    return replace(compared, why=reason)


# -- one setting of a recipe that may leave others open


def setting(settings: Mapping[str, Any], path: str, place: str) -> Any:
    """The value of one setting, or its default; the rest may still lack what a user must give.

    Raises ConfigError, which begins with `place`, for an unknown key.
    """
    first, *rest = path.split(".")
    if first == "player_defaults":
        return value_inside(Player, settings.get(first), rest, place)
    return setting_of(RunConfig, settings, [first, *rest], place)


def setting_of(
    model: type[BaseModel], values: Mapping[str, Any], keys: list[str], place: str
) -> Any:
    """The value of the setting of `model` that the keys lead to."""
    first, *rest = keys
    if first not in model.model_fields:
        hint = nearest(first, list(model.model_fields))
        raise ConfigError(f"{place}: no setting '{first}'; {hint}")
    field = model.model_fields[first]
    value = values[first] if first in values else default_of(model, values, first)
    if isinstance(value, Mapping) and isinstance(field.default, str):
        value = {"kind": field.default, **value}
    return value_inside(field.annotation, value, rest, place)


def value_inside(annotation: Any, value: Any, keys: list[str], place: str) -> Any:
    """The value below these keys, in a field's value."""
    if not keys:
        return as_json(value)
    value = as_json(value)
    if isinstance(value, list):
        return value_inside(type_of_values(annotation), value[int(keys[0])], keys[1:], place)
    part = settings_class(annotation)
    if get_origin(annotation) is dict and isinstance(value, Mapping):
        if keys[0] not in value:
            raise ConfigError(f"{place}: no '{keys[0]}'; {nearest(keys[0], [*value])}")
        return value_inside(type_of_values(annotation), value[keys[0]], keys[1:], place)
    if part is None or value is None:
        raise ConfigError(f"{place}: '{keys[0]}' lies in nothing: {value!r}")
    values = {"kind": value} if isinstance(value, str) else value
    if issubclass(part, Component) and "KINDS" in part.__dict__:
        part = part.find(str(values.get("kind")))
    return setting_of(part, values, keys, place)


def default_of(model: type[BaseModel], values: Mapping[str, Any], name: str) -> Any:
    """The value of a setting that is left out, which may depend on the others."""
    field = model.model_fields[name]
    if model is RunConfig or field.default_factory is None:
        return field.get_default(call_default_factory=True)
    return getattr(model.model_validate(values), name)


def type_of_values(annotation: Any) -> Any:
    """The type of the values of a mapping or a sequence."""
    arguments = [kind for kind in get_args(annotation) if kind is not Ellipsis]
    return arguments[-1] if arguments else None


def settings_class(annotation: Any) -> type[Settings] | None:
    """The first class of settings in an annotation such as `Critic | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    for argument in get_args(annotation):
        inner = settings_class(argument)
        if inner is not None:
            return inner
    return None


def as_json(value: Any) -> Any:
    """As JSON has it, so that a tuple equals a list and a key 0 equals "0"."""
    return json.loads(json.dumps(value, default=_settings))


def _settings(value: Any) -> Any:
    if isinstance(value, Component):
        return value.settings()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{value!r} is no plain value")
