"""The base of games: seats, and a referee that asks them to move."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from equipoise.component import Component
from equipoise.types import Judgement, Match, Move, Prompt, View, record_id, user


@dataclass(frozen=True, slots=True)
class Ask:
    """The referee asks `seat` to move on `view`."""

    seat: str
    view: View


Referee = Generator[Ask | list[Ask], Move | list[Move], None]


class Bimatrix(NamedTuple):
    """A finite game of two seats: both seats' moves, and what each gets, [A, M].

    first_sees: the first seat sees the second's move; its moves are plans, an answer to each.
    """

    actions: tuple[tuple[str, ...], tuple[str, ...]]
    first_AM: np.ndarray
    second_AM: np.ndarray
    first_sees: bool = False


class Game(Component):
    """The rules; a referee yields an `Ask` for a move, or a list of asks for a list."""

    KINDS: ClassVar = {"answers": "equipoise.games.answers:Answers"}
    READ: ClassVar = ("seats", "roles", "symmetric", "raw_moves")
    needs_text: ClassVar[bool] = False
    """True if it can be played on prompts with a text alone."""

    @property
    @abstractmethod
    def seats(self) -> tuple[str, ...]:
        """The seats' names in order."""

    @property
    def symmetric(self) -> bool:
        """True if all seats play the same role, so that success has one measure."""
        return len(self.roles) == 1

    @property
    def raw_moves(self) -> bool:
        """True if its rules and its judges are given whole moves, which they read in their own way;
        else they are given the answers in them, without thoughts (`equipoise.answer`).
        """
        return False

    def role(self, seat: str) -> str:
        """The role of a seat; seats of one role are played alike."""
        return seat

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of all seats, each once, in order."""
        return tuple(dict.fromkeys(map(self.role, self.seats)))

    def seats_for(self, prompt: Prompt) -> tuple[str, ...]:
        """The seats that may move in a match on `prompt`."""
        return self.seats

    @property
    def asks_alike(self) -> bool:
        """False if no two seats ever answer the same chat, so that their answers have no common
        question by which they could be compared.
        """
        return True

    def content_warning(self, prompt: Prompt) -> str:
        """A warning to readers before a match on `prompt` is shown; "" where none is needed."""
        return ""

    def stands_for(self, prompt: Prompt) -> Mapping[str, str]:
        """seat -> the text that it was told to hold, for those who judge; {} for nothing."""
        return {}

    def check(self) -> None:
        """Raises DataError where a file that the rules need is missing or faulty."""

    def faults(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """Reasons why it cannot be played on these prompts, one message each."""
        if self.needs_text and not all(prompt.messages for prompt in prompts):
            yield f"game '{self.kind}' takes prompts with a text, and these say nothing"

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """seat -> how often it moves in a match on `prompt`, at most."""
        return dict.fromkeys(self.seats_for(prompt), 1)

    @abstractmethod
    def referee(self, prompt: Prompt) -> Referee:
        """The rules of one match on `prompt`."""

    def first_question(self, prompt: Prompt) -> Prompt:
        """The prompt, or where it has no text, such as a deal of cards, the first question."""
        if prompt.messages:
            return prompt
        ask = next(self.referee(prompt), None)
        if ask is None:
            return prompt
        first = ask[0] if isinstance(ask, list) else ask
        return msgspec.structs.replace(prompt, messages=first.view.messages)

    @property
    def rewriter(self) -> str | None:
        """The role whose text another answers in place of the prompt's; None for none."""
        return None

    def rewritable(self, prompt: Prompt) -> bool:
        """True if a role is asked to write a text in place of this prompt's."""
        return False

    def give_text(self, prompt: Prompt, text: str | None = None) -> Prompt:
        """`prompt` with `text` in its place (None: its own), so that nobody is asked for one."""
        if text is None:
            return prompt
        identity = record_id("given", prompt.id, text)
        messages = (*prompt.messages[:-1], user(text))
        return Prompt(identity, messages, prompt.facts, prompt.source)

    def check_raw(self) -> None:
        """Raises ConfigError where a prompt cannot be asked as it is."""

    def check_replay(self) -> None:
        """Raises ConfigError where a text of an earlier match cannot be given again."""

    def successful_texts(self, match: Match, judgements: Sequence[Judgement]) -> list[str]:
        """The texts of the rewriting role that succeeded by one of these judgements, in order."""
        return []

    @property
    def actions(self) -> tuple[str, ...]:
        """For a finite game: the first seat's moves, in the order of `payoff_AM`. Else empty."""
        return ()

    def payoff_AM(self) -> np.ndarray | None:
        """The first seat's pay-off in a finite game, [A, M], when it plays a against m; or None."""
        return None

    def bimatrix(self) -> Bimatrix | None:
        """For a finite game of two seats: both seats' moves and what each gets. Else None."""
        return None

    def outcome(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Each seat's pay-off in a finite game. Raises ValueError naming an unknown move."""
        raise TypeError(f"{type(self).__name__} is not a finite game")
