"""Prompts of the game: which of them an adversary rewrites, and attacks that are given.

Two facts of a prompt decide. `harmful`: false for a prompt that is answered as it is and never
attacked; true where the fact is absent. `attack`: a text that stands in place of the adversary's.
"""

from __future__ import annotations

from equipoise.errors import DataError
from equipoise.types import Message, Prompt, record_id, user

ATTACK = "attack"  # the fact that holds a given attack


def harmful(prompt: Prompt) -> bool:
    """Whether the prompt is a seed for attacks: its fact `harmful`, true if absent.

    Raises DataError for a fact that is neither true nor false.
    """
    fact = prompt.facts.get("harmful")
    if fact not in (None, True, False):
        raise DataError(f"prompt {prompt.id}: the fact 'harmful' is {fact!r}, not true or false")
    return fact is None or bool(fact)


def has_attack(prompt: Prompt) -> bool:
    """Whether an attack is given, so that nobody is asked to write one."""
    return ATTACK in prompt.facts


def rewritable(prompt: Prompt) -> bool:
    """Whether an adversary rewrites this prompt."""
    return not has_attack(prompt) and harmful(prompt)


def seed_text(prompt: Prompt) -> str:
    """The text that the adversary starts from: the prompt's last message."""
    return prompt.messages[-1].content


def with_attack(prompt: Prompt, attack: str) -> Prompt:
    """The prompt with its attack given."""
    return Prompt(
        record_id("attack", prompt.id, attack),
        prompt.messages,
        {**prompt.facts, ATTACK: attack},
        prompt.source,
    )


def as_it_stands(prompt: Prompt) -> Prompt:
    """The prompt with its own text as the attack."""
    return with_attack(prompt, seed_text(prompt))


def chat(prompt: Prompt) -> tuple[Message, ...]:
    """What the defender is asked where no adversary writes: the given attack, if any."""
    if not has_attack(prompt):
        return prompt.messages
    return (*prompt.messages[:-1], user(prompt.facts[ATTACK]))
