"""The plug-in's part of serving: the extension behind the field `steering`."""

from __future__ import annotations

import pytest

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.steering_extension import SteeringExtension
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.serve.engine import Engine, Refused, extension, extension_offers


def steering(option: str | None = None, game: Game | None = None) -> SteeringExtension:
    found = extension("steering", option, game)
    assert isinstance(found, SteeringExtension)
    return found


@pytest.fixture
def engine(fake_engine) -> Engine:
    return fake_engine()


def test_every_wing_lists_what_it_adds_to_serving() -> None:
    assert list(extension_offers()) == ["steering"]


def test_without_an_option_nothing_is_steered(engine: Engine) -> None:
    assert steering().wrap(engine) is engine


def test_a_run_of_the_game_hides_its_blocks(engine: Engine) -> None:
    game = Assistance.model_validate({"kind": "assistance"})
    found = steering(None, game)
    assert found.base.name == "strip"
    assert found.base.text == game.text
    assert found.wrap(engine) is not engine


def test_what_a_request_asks_stands_over_the_option(engine: Engine) -> None:
    found = steering("subscription")
    assert found.base.name == "subscription"
    assert found.wrap(engine, "off") is engine
    with pytest.raises(Refused, match="unknown name"):
        found.wrap(engine, "nothing of the kind")


def test_an_unknown_option_is_the_configuration_s_fault() -> None:
    with pytest.raises(ConfigError, match="-s steering=nothing"):
        steering("nothing")
