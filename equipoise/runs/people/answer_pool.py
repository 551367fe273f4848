"""Recorded answers that people can be asked about, and the choice of the two that are shown next:
those that tell most about the players.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from equipoise import seeds
from equipoise.ratings.base import Outcome
from equipoise.ratings.bradley_terry import information_gain
from equipoise.runs.ledger import MEETING, Ledger
from equipoise.runs.people.journal import CHANCE, AnswerRef, HumanVote, first_votes, pair_id
from equipoise.types import Match, Message, PlayerId, record_id


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
        """The players whose answers can be asked about, by name."""
        shared: set[str] = set()
        for chat in self.chats.values():
            shared |= chat.second_answers.keys()
            if len(chat.answers) > 1:
                shared |= chat.answers.keys()
        return sorted(shared)

    def has_pairs(self) -> bool:
        """True if there are two answers to one chat, in different words, to ask about."""
        return any(
            chat.second_answers
            or len({answer.text.strip() for answer in chat.answers.values()}) > 1
            for chat in self.chats.values()
        )


def _differ(one: RecordedAnswer, other: RecordedAnswer) -> bool:
    return one.text.strip() != other.text.strip()


Pairing = tuple[Chat, RecordedAnswer, RecordedAnswer]
Refs = tuple[AnswerRef, AnswerRef]


def choose(
    pool: AnswerPool,
    votes: Sequence[HumanVote],
    voter: str,
    *,
    pending: Sequence[Refs] = (),
    skipped: Collection[str] = (),
    overlap: float = 0.1,
) -> Pairing | None:
    """Two answers to one chat that `voter` has not seen; None where there are none left. Equal
    arguments give the same two.

    The players are those whose next match tells most (`information_gain`), of equal ones any; the
    chat is one with the fewest votes on these players' answers. Where the pool asks about two
    answers of one player, these come last, the newest generations' first.

    Args: pending: what others are looking at, which counts as if it were voted on; skipped: ids of
    pairs that the voter would not decide; overlap: share of a voter's questions on which somebody
    else has voted already, so that people's agreement can be told.
    """
    votes = first_votes(votes)
    own = {vote.pair for vote in votes if vote.voter == voter}
    out = own | set(skipped)
    others = [vote for vote in votes if vote.pair not in out]
    dice = seeds.generator(0, "choose", voter, len(own), len(skipped))
    if dice.random() < overlap:
        again = _voted_on(pool, others, voter)
        if again is not None:
            return again
    count = Counter(pair_id(*refs) for refs in pending)
    count.update(vote.pair for vote in others)
    outcomes = [*_outcomes(pool, votes), *_pending_outcomes(pool, pending)]
    return _least_seen(pool, _by_gain(pool, outcomes, dice), voter, out, count)


def on_the_left(pairing: Pairing, voter: str) -> tuple[RecordedAnswer, RecordedAnswer]:
    """The two answers as this voter sees them: left, right. By chance, but the same whenever the
    page is opened.
    """
    _, one, other = pairing
    first, second = sorted((one, other), key=lambda answer: answer.ref)
    swap = seeds.child(0, "side", pair_id(first.ref, second.ref), voter) % 2
    return (second, first) if swap else (first, second)


def _outcomes(pool: AnswerPool, votes: Sequence[HumanVote]) -> Iterator[Outcome]:
    for vote in votes:
        if vote.left in pool.by_ref and vote.right in pool.by_ref:
            first = pool.by_ref[vote.left][1].player
            second = pool.by_ref[vote.right][1].player
            yield Outcome(first, second, CHANCE[vote.choice])


def _pending_outcomes(pool: AnswerPool, pending: Sequence[Refs]) -> Iterator[Outcome]:
    """Outcomes of the pairings that others look at, as if they were half won."""
    for one, other in pending:
        first, second = pool.by_ref[one][1], pool.by_ref[other][1]
        yield Outcome(first.player, second.player, 0.5)


def _by_gain(
    pool: AnswerPool, outcomes: Sequence[Outcome], dice: np.random.Generator
) -> list[tuple[str, str]]:
    """Every two players who share a chat, those first whose match tells most; then each with
    itself.
    """
    names = pool.players()
    known = set(names)
    among = [each for each in outcomes if {each.first, each.second} <= known]
    gain_NN = information_gain(among, names)
    pairs = [(i, j) for j in range(len(names)) for i in range(j)]
    # Gains that differ by rounding alone are equal, and chance decides.
    key = {(i, j): (-round(gain_NN[i, j], 9), dice.random()) for i, j in pairs}
    ordered = [(names[i], names[j]) for i, j in sorted(pairs, key=key.__getitem__)]
    if pool.with_itself:
        age = {name: -PlayerId.parse(name).generation for name in names}
        ordered += [(name, name) for name in sorted(names, key=age.__getitem__)]
    return ordered


def _least_seen(
    pool: AnswerPool,
    players: Sequence[tuple[str, str]],
    voter: str,
    out: Collection[str],
    count: Counter[str],
) -> Pairing | None:
    """The least-seen pairing of the first two players that have one left."""
    for one, other in players:
        left: list[tuple[int, str, Pairing]] = []
        for pairing in pool.pairs(one, other):
            identity = pair_id(pairing[1].ref, pairing[2].ref)
            if identity not in out:
                order = record_id(voter, identity)
                left.append((count[identity], order, pairing))
        if left:
            return min(left, key=lambda each: each[:2])[2]
    return None


def _voted_on(pool: AnswerPool, others: Sequence[HumanVote], voter: str) -> Pairing | None:
    """The pairing with the fewest votes, of those that others voted on."""
    count = Counter(vote.pair for vote in others)
    refs = {vote.pair: (vote.left, vote.right) for vote in others}
    for pair in sorted(count, key=lambda pair: (count[pair], record_id(voter, pair))):
        one, other = refs[pair]
        if one in pool.by_ref and other in pool.by_ref:
            chat, first = pool.by_ref[one]
            return chat, first, pool.by_ref[other][1]
    return None
