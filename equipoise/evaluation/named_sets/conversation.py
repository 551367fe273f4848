"""How an item is asked: its prompt, then each further turn after the answer before."""

from __future__ import annotations

from typing import Literal

from equipoise.evaluation.named_sets.records import Item
from equipoise.games.base import Ask, Game, Referee
from equipoise.types import Message, Prompt, View, record_id, user

TURNS = "further_turns"  # the fact of a prompt that holds them


class Conversation(Game):
    """One player answers a prompt and, in the same chat, every further turn of it."""

    kind: Literal["benchmark"] = "benchmark"

    @property
    def seats(self) -> tuple[str, ...]:
        """The only one."""
        return ("1",)

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """One for the prompt and one for each further turn."""
        return {"1": 1 + len(prompt.facts.get(TURNS, ()))}

    def referee(self, prompt: Prompt) -> Referee:
        """Ask the prompt, then the turns, each below all that was said before."""
        messages = prompt.messages
        move = yield Ask("1", View(messages))
        for turn in prompt.facts.get(TURNS, ()):
            assert not isinstance(move, list)
            messages = (*messages, Message("assistant", move.text), user(turn))
            move = yield Ask("1", View(messages))


def asked_prompt(item: Item) -> Prompt:
    """The prompt from which the item's conversation is played; the item's own where it has a single
    turn.
    """
    if not item.turns:
        return item.prompt
    prompt = item.prompt
    facts = {**prompt.facts, TURNS: list(item.turns)}
    identity = record_id("conversation", prompt.id, *item.turns)
    return Prompt(identity, prompt.messages, facts, prompt.source)
