"""The wing's part of serving: the extension behind the field `steering`."""

from __future__ import annotations

import pytest

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.steering_extension import SteeringExtension
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.serve.engine import Refused, extension, extension_offers
from equipoise.serve.upstream import UpstreamEngine


def steering(option: str | None = None, game: Game | None = None) -> SteeringExtension:
    found = extension("steering", option, game)
    assert isinstance(found, SteeringExtension)
    return found


@pytest.fixture
def engine() -> UpstreamEngine:
    return object.__new__(UpstreamEngine)


def test_every_wing_lists_what_it_adds_to_serving() -> None:
    assert list(extension_offers()) == ["steering"]


def test_without_an_option_nothing_is_steered(engine: UpstreamEngine) -> None:
    assert steering().wrap(engine) is engine
    assert steering().describe() == "off"


def test_a_run_of_the_game_hides_its_blocks(engine: UpstreamEngine) -> None:
    game = Assistance.model_validate({"kind": "assistance"})
    found = steering(None, game)
    assert found.describe() == "strip"
    assert found.base.text == game.text
    assert found.wrap(engine) is not engine


def test_a_wish_stands_over_the_option(engine: UpstreamEngine) -> None:
    found = steering("subscription")
    assert (found.describe(), found.describe("off")) == ("subscription", "off")
    assert found.wrap(engine, "off") is engine
    with pytest.raises(Refused, match="unknown name"):
        found.wrap(engine, "nothing of the kind")


def test_an_unknown_option_is_the_configuration_s_fault() -> None:
    with pytest.raises(ConfigError, match="-s steering=nothing"):
        steering("nothing")
