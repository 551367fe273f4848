"""The assistant's last response as the judges of tasks see it: a match of one move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.environments.assistance.conversation import (
    AssistantAnswer,
    assistant_answers,
    is_vague,
)
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.types import Match, Move, Prompt, Turn, View, record_id


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A match whose only move is the assistant's last response, on a prompt with the chat as the
    user has it; `answers` are all that the assistant gave in the real match.
    """

    match: Match
    prompt: Prompt
    answers: Sequence[AssistantAnswer]

    @property
    def last(self) -> AssistantAnswer:
        """The answer that is judged."""
        return self.answers[-1]

    def choice(self) -> tuple[Match, Prompt]:
        """The same for the judge of <analyze>: the move is the whole output."""
        identity = record_id("choice", self.match.id)
        prompt = self.prompt
        renamed = Prompt(identity, prompt.messages, prompt.facts, prompt.source)
        (turn,) = self.match.turns
        text = self.last.output.text
        return _single_move(self.match, identity, turn, text), renamed


def judged_response(match: Match, prompt: Prompt, game: Assistance) -> JudgedResponse | None:
    """The last response of a match, or None where the assistant gave none."""
    answers = assistant_answers(match, prompt, game)
    if not answers or answers[-1].turn.move.finish == "error":
        return None
    last = answers[-1]
    identity = record_id("response", match.id)
    facts: dict[str, Any] = {**prompt.facts, "turn": len(answers)}
    vague = is_vague(prompt, match)
    if vague is not None:
        facts["asked_vaguely"] = vague
    turn = Turn(ASSISTANT, View(last.chat), last.turn.move)
    return JudgedResponse(
        _single_move(match, identity, turn, last.output.response or ""),
        Prompt(identity, last.chat, facts, prompt.source),
        answers,
    )


def _single_move(match: Match, identity: str, turn: Turn, text: str) -> Match:
    """A match of the assistant alone, in which its move is `text`."""
    return Match(
        identity,
        match.generation,
        match.split,
        "answers",
        identity,
        {ASSISTANT: match.seats[ASSISTANT]},
        match.seed,
        (Turn(ASSISTANT, turn.view, Move(text, turn.move.finish)),),
    )
