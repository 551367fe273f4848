"""The recorded answers that people can be shown: players' answers to the same chats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from equipoise.runs.ledger import MEETING, Ledger
from equipoise.runs.people.votes import AnswerRef
from equipoise.types import Match, Message, record_id


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """An answer, and the generation of the player that gave it."""

    ref: AnswerRef
    player: str
    text: str


@dataclass
class Chat:
    """A chat that players answered: player -> its first answer, in order of recording.

    `second_answers`: player -> its first one in other words, where two answers of one player are
    asked about.
    """

    id: str
    prompt: str
    messages: tuple[Message, ...]
    answers: dict[str, RecordedAnswer] = field(default_factory=dict)
    second_answers: dict[str, RecordedAnswer] = field(default_factory=dict)


class AnswerPool:
    """The answers of a part of a run, read as far as they are recorded.

    Left out are failed and empty answers, moves of finite games, and matches that only set recorded
    answers side by side. Of training prompts two answers of one player are a question, too: they
    say nothing of the players, but votes on them teach.
    """

    def __init__(self, part: str) -> None:
        self.part = part
        self.with_itself = part == "train"
        self._row = 0  # the last one read
        self.chats: dict[str, Chat] = {}
        self.by_ref: dict[AnswerRef, tuple[Chat, RecordedAnswer]] = {}
        self.chats_of: dict[str, set[str]] = {}  # player -> ids of its chats

    def read(self, ledger: Ledger) -> None:
        """Take in what was recorded since the last time."""
        query = "SELECT rowid, record FROM matches WHERE split = ? AND rowid > ? ORDER BY rowid"
        decode = msgspec.json.Decoder(Match).decode
        for row, record in ledger.rows(query, (self.part, self._row)):
            match = decode(record)
            if match.game != MEETING:
                self._add(match)
            self._row = row

    def _add(self, match: Match) -> None:
        for seat, turn in match.last_turns().items():
            view, move = turn.view, turn.move
            answers = view.messages and not view.actions and move.text.strip()
            if not answers or move.finish == "error":
                continue
            texts = (part for m in view.messages for part in (m.role, m.content))
            identity = record_id("chat", *texts)
            chat = self.chats.setdefault(identity, Chat(identity, match.prompt, view.messages))
            player = str(match.seats[seat])
            answer = RecordedAnswer(AnswerRef(match.id, seat), player, move.text)
            if chat.answers.setdefault(player, answer) is answer:
                self.by_ref[answer.ref] = chat, answer
                self.chats_of.setdefault(player, set()).add(identity)
            elif self.with_itself and _differ(chat.answers[player], answer):
                second = chat.second_answers.setdefault(player, answer)
                self.by_ref[second.ref] = chat, second

    def pairs(self, one: str, other: str) -> Iterator[tuple[Chat, RecordedAnswer, RecordedAnswer]]:
        """The chats that both players answered, in different words, with the answers; those that
        one player answered in two ways, where it is named twice.
        """
        for identity in self.chats_of[one] & self.chats_of[other]:
            chat = self.chats[identity]
            others = chat.answers if one != other else chat.second_answers
            if other in others and _differ(chat.answers[one], others[other]):
                yield chat, chat.answers[one], others[other]

    def players(self) -> Sequence[str]:
        """Those whose answers can be asked about, by name."""
        shared: set[str] = set()
        for chat in self.chats.values():
            shared |= chat.second_answers.keys()
            if len(chat.answers) > 1:
                shared |= chat.answers.keys()
        return sorted(shared)

    def has_pairs(self) -> bool:
        """Whether there are two answers to one chat, in different words, to ask about."""
        return any(
            chat.second_answers
            or len({answer.text.strip() for answer in chat.answers.values()}) > 1
            for chat in self.chats.values()
        )


def _differ(one: RecordedAnswer, other: RecordedAnswer) -> bool:
    return one.text.strip() != other.text.strip()
