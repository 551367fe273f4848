"""Prompts that leave a player no room for an answer: left out before they are dealt."""

from collections.abc import Sequence

from equipoise.errors import UserError
from equipoise.players.base import Player
from equipoise.prompts.base import PromptSource
from equipoise.runs.config import RunConfig
from equipoise.types import Prompt

TOO_LONG = "too_long"
"""The reason why such prompts are in no part, as `PromptSplit.dropped` counts it."""


def without_too_long(source: PromptSource, config: RunConfig) -> PromptSource:
    """The source without the prompts that leave one of the players no room for an answer.

    With `too_long: stop` they stay, and are an error of the plan; with `cut_prompt` each is cut
    where it is read.
    """
    if config.too_long in ("stop", "cut_prompt"):
        return source
    readers = players_that_read(config)
    parts = {"training": source.training, "held_out": source.held_out, "test": source.test}
    fitting: dict[str, list[Prompt]] = {}
    left_out = 0
    for name, prompts in parts.items():
        if prompts is None:
            continue
        unfit = too_long(readers, prompts)
        fitting[name] = prompts
        if unfit:
            fitting[name] = [p for place, p in enumerate(prompts) if place not in unfit]
            left_out += len(unfit)
    dropped = dict(source.dropped)
    if left_out:
        dropped[TOO_LONG] = left_out
    return PromptSource(**fitting, dropped=dropped)


def too_long(readers: Sequence[Player], prompts: Sequence[Prompt]) -> set[int]:
    """The places of prompts that leave a player no room for an answer, or that one reads cut.

    `readers`: the `players_that_read`.

    Prompts without a text are none of them: what their game asks is no row's.
    """
    places: set[int] = set()
    for player in readers:
        places |= player.too_long(prompts)
    return places


def players_that_read(config: RunConfig) -> list[Player]:
    """The players whose room for prompts is known: those with a model that is at hand."""
    known: list[Player] = []
    for player in config.players.values():
        try:
            player.too_long(())
        except UserError:  # which the plan reports
            continue
        if type(player).too_long is not Player.too_long:
            known.append(player)
    return known
