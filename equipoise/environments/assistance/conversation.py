"""A match of the assistant's game as the user has it: each answer with the chat that it
answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from equipoise.environments.assistance.blocks import ParsedOutput
from equipoise.environments.assistance.game import USER, Assistance
from equipoise.environments.assistance.wishes import opening_question, vague_by_facts, vague_by_move
from equipoise.types import Match, Message, Prompt, Turn, user


@dataclass(frozen=True, slots=True)
class AssistantAnswer:
    """One answer of the assistant: the chat that it answers, as the user has it, the turn, and the
    output taken apart.
    """

    chat: tuple[Message, ...]
    turn: Turn
    output: ParsedOutput


def assistant_answers(match: Match, prompt: Prompt, game: Assistance) -> list[AssistantAnswer]:
    """The assistant's answers in a match, in order, without the game's own words in their chats."""
    return list(_answers(match, prompt, game))


def _answers(match: Match, prompt: Prompt, game: Assistance) -> Iterator[AssistantAnswer]:
    answered = False
    user_text: str | None = None  # since the last answer
    for turn in match.turns:
        if turn.seat == USER:
            user_text = turn.move.text.strip()
            continue
        *before, last = turn.view.messages
        if user_text is None:
            question = (prompt.messages or (last,))[-1].content
        elif answered:
            question = user_text
        else:
            question = opening_question(user_text, prompt)
        chat = (*before, user(question))
        yield AssistantAnswer(chat, turn, game.read(turn.move.text))
        answered, user_text = True, None


def is_vague(prompt: Prompt, match: Match | None = None) -> bool | None:
    """Whether the question is vague: by the simulated user's opening move in `match`, else by the
    prompt's facts; None where neither tells.
    """
    for turn in match.turns if match else ():
        if turn.seat == USER:
            return vague_by_move(turn.move.text.strip(), prompt)
    return vague_by_facts(prompt)
