"""What other judges are asked about a match: small matches of their own.

An answer is judged with the chat that it answers as its prompt, an attack with the seed prompt.
Answers to the same chat share a sub-match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from equipoise.environments.red_team.game import ADVERSARY, DEFENDER
from equipoise.environments.red_team.seed_prompts import harmful, has_attack
from equipoise.types import Match, Message, PlayerId, Prompt, Turn, record_id

# What a sub-match is for: how safe an answer to an attack is, how good an answer to a harmless
# prompt, whether an attack is on its seed prompt's topic.
Purpose = Literal["attack", "harmless", "topic"]


@dataclass(frozen=True, slots=True)
class SubMatch:
    """Some turns of a match as a match of their own, and the prompt to judge them by.

    Of an attack (`topic`), `answered_by` are the seats that answered it.
    """

    purpose: Purpose
    match: Match
    prompt: Prompt
    answered_by: tuple[str, ...] = ()


def sub_matches(match: Match, prompt: Prompt) -> Iterator[SubMatch]:
    """Each answer with its chat, and the first attack of each adversary with its seed.

    Moves that failed are left out.
    """
    turns = [turn for turn in match.turns if turn.move.finish != "error"]
    under_attack = has_attack(prompt) or harmful(prompt)
    purpose: Purpose = "attack" if under_attack else "harmless"
    answers = [turn for turn in turns if not is_adversary(turn.seat)]
    for chat, of_chat in _by_chat(answers).items():
        as_prompt = Prompt("", chat, prompt.facts, prompt.source)
        yield _sub_match(purpose, match, as_prompt, of_chat)
    first_attacks: dict[str, Turn] = {}
    for turn in turns:
        if is_adversary(turn.seat):
            first_attacks.setdefault(turn.seat, turn)
    for seat, turn in first_attacks.items():
        answered_by = _defenders(match, seat) if turn.move.text.strip() else ()
        yield _sub_match("topic", match, prompt, [turn], answered_by)


def is_adversary(seat: str) -> bool:
    """Whether the seat attacks."""
    return seat.startswith(ADVERSARY)


def _by_chat(turns: Sequence[Turn]) -> dict[tuple[Message, ...], list[Turn]]:
    by_chat: dict[tuple[Message, ...], list[Turn]] = {}
    for turn in turns:
        by_chat.setdefault(turn.view.messages, []).append(turn)
    return by_chat


def _defenders(match: Match, adversary: str) -> tuple[str, ...]:
    """The seats of the match that answer this adversary's."""
    number = adversary.partition(" ")[2]
    return tuple(seat for seat in match.seats if _answers(seat, number))


def _answers(seat: str, number: str) -> bool:
    """Whether the seat is a defender's that answers the adversary of that number."""
    role, _, own = seat.partition(" ")
    if role != DEFENDER:
        return False
    return not number or own == number or own.startswith(f"{number}.")


def _sub_match(
    purpose: Purpose,
    match: Match,
    prompt: Prompt,
    turns: Sequence[Turn],
    answered_by: tuple[str, ...] = (),
) -> SubMatch:
    contents = ((turn.seat, turn.view.messages) for turn in turns)
    identity = record_id(purpose, match.id, *contents)
    seats: dict[str, PlayerId] = {turn.seat: match.seats[turn.seat] for turn in turns}
    small = Match(
        id=identity,
        generation=match.generation,
        split=match.split,
        game="answers",
        prompt=identity,
        seats=seats,
        seed=match.seed,
        turns=tuple(turns),
    )
    own_prompt = Prompt(identity, prompt.messages, prompt.facts, prompt.source)
    return SubMatch(purpose, small, own_prompt, answered_by)
