"""A vote on a run's answers, also while it goes on: the answers, which pair to ask about, votes."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from equipoise import seeds
from equipoise.answer import public_move
from equipoise.errors import DataError, RunBusy, RunError
from equipoise.ledger.ledger import MEETING, Ledger
from equipoise.ledger.votes_and_matches import (
    CHANCE,
    FOLDER,
    LONGEST_REASON,
    AnswerRef,
    Choice,
    HumanVote,
    adopt,
    check_name,
    first_votes,
    pair_id,
    votes_of,
)
from equipoise.ratings.base import Outcome
from equipoise.ratings.bradley_terry import information_gain
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import LEDGER, RunDirectory
from equipoise.system.folder import Folder
from equipoise.system.locks import check_writable, hold_lock
from equipoise.types import Match, Message, PlayerId, Prompt, record_id

VotedPart = Literal["held_out", "train", "test"]
VOTED_PARTS: tuple[VotedPart, ...] = ("held_out", "train", "test")


# -- the answers that can be asked about


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """An answer, and the generation of the player that gave it."""

    ref: AnswerRef
    player: str
    text: str

    def differs_from(self, other: RecordedAnswer) -> bool:
        """True if the other answer has different words."""
        return self.text.strip() != other.text.strip()


@dataclass
class Chat:
    """A chat's answers by player; `second_answers` hold the same player's other words."""

    id: str
    prompt: str
    messages: tuple[Message, ...]
    answers: dict[str, RecordedAnswer] = field(default_factory=dict)
    second_answers: dict[str, RecordedAnswer] = field(default_factory=dict)


class Pairing(NamedTuple):
    """Two answers to a chat."""

    chat: Chat
    one: RecordedAnswer
    other: RecordedAnswer

    @property
    def id(self) -> str:
        """The id of the two answers."""
        return pair_id(self.one.ref, self.other.ref)


class AnswerPool:
    """The answers of a part of a run, read as far as they are recorded.

    Left out are failed and empty answers, moves of finite games, and matches that only set recorded
    answers side by side. Two training answers of one player are a question, too: votes on them
    teach.
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
            messages = turn.view.messages
            move = public_move(turn.move)
            if not messages or turn.view.actions:
                continue
            if not move.text.strip() or move.finish == "error":
                continue
            texts: list[str] = []
            for message in messages:
                texts += (message.role, message.content)
            identity = record_id("chat", *texts)
            chat = self.chats.setdefault(identity, Chat(identity, match.prompt, messages))
            player = str(match.seats[seat])
            answer = RecordedAnswer(AnswerRef(match.id, seat), player, move.text)
            first = chat.answers.setdefault(player, answer)
            if first is answer:
                self.by_ref[answer.ref] = chat, answer
                self.chats_of.setdefault(player, set()).add(identity)
            elif self.with_itself and first.differs_from(answer):
                second = chat.second_answers.setdefault(player, answer)
                self.by_ref[second.ref] = chat, second

    def pairs(self, one: str, other: str) -> Iterator[Pairing]:
        """Chats that both answered, in different words, or twice the one named twice."""
        for identity in self.chats_of[one] & self.chats_of[other]:
            chat = self.chats[identity]
            others = chat.answers
            if one == other:
                others = chat.second_answers
            first = chat.answers[one]
            second = others.get(other)
            if second is not None and first.differs_from(second):
                yield Pairing(chat, first, second)

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
        for chat in self.chats.values():
            texts = {answer.text.strip() for answer in chat.answers.values()}
            if chat.second_answers or len(texts) > 1:
                return True
        return False


# -- which two are shown next

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
    """Two answers to one chat that `voter` has not seen; None where there are none left.

    The players are those whose next match tells most (`information_gain`), of equal ones any; the
    chat is one with the fewest votes on these players' answers. Two answers of one player come
    last, the newest generations' first. Equal arguments give the same two.

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
        again = shared_pairing(pool, others, voter)
        if again is not None:
            return again
    count = Counter(pair_id(*refs) for refs in pending)
    count.update(vote.pair for vote in others)
    outcomes = list(voted_outcomes(pool, votes))
    outcomes += pending_outcomes(pool, pending)
    players = by_gain(pool, outcomes, dice)
    return least_seen_pairing(pool, players, voter, out, count)


def on_the_left(pairing: Pairing, voter: str) -> tuple[RecordedAnswer, RecordedAnswer]:
    """The (left, right) answers for this voter, by dice that are the same on every visit."""
    answers = (pairing.one, pairing.other)
    first, second = sorted(answers, key=lambda answer: answer.ref)
    pair = pair_id(first.ref, second.ref)
    if seeds.child(0, "side", pair, voter) % 2:
        return second, first
    return first, second


def voted_outcomes(pool: AnswerPool, votes: Sequence[HumanVote]) -> Iterator[Outcome]:
    """Outcomes of the votes on answers of the pool."""
    for vote in votes:
        if vote.left in pool.by_ref and vote.right in pool.by_ref:
            _, first = pool.by_ref[vote.left]
            _, second = pool.by_ref[vote.right]
            yield Outcome(first.player, second.player, CHANCE[vote.choice])


def pending_outcomes(pool: AnswerPool, pending: Sequence[Refs]) -> Iterator[Outcome]:
    """Outcomes of the pairings that others look at, as if they were half won."""
    for one, other in pending:
        _, first = pool.by_ref[one]
        _, second = pool.by_ref[other]
        yield Outcome(first.player, second.player, 0.5)


def by_gain(
    pool: AnswerPool, outcomes: Sequence[Outcome], dice: np.random.Generator
) -> list[tuple[str, str]]:
    """Pairs of players who share a chat, the most telling first; then each with itself."""
    names = pool.players()
    known = set(names)
    among = [each for each in outcomes if {each.first, each.second} <= known]
    gain_NN = information_gain(among, names)
    ranked = []
    for j, other in enumerate(names):
        for i, one in enumerate(names[:j]):
            # Gains that differ by rounding alone are equal, and chance decides.
            gain = round(gain_NN[i, j], 9)
            ranked.append((-gain, dice.random(), (one, other)))
    ranked.sort()
    ordered = [pair for _, _, pair in ranked]
    if pool.with_itself:
        newest_first = sorted(names, key=lambda name: -PlayerId.parse(name).generation)
        ordered += [(name, name) for name in newest_first]
    return ordered


def least_seen_pairing(
    pool: AnswerPool,
    players: Sequence[tuple[str, str]],
    voter: str,
    out: Collection[str],
    count: Counter[str],
) -> Pairing | None:
    """The least-seen pairing of the first two players that have one left."""
    for first, second in players:
        left: dict[str, Pairing] = {}
        for pairing in pool.pairs(first, second):
            if pairing.id not in out:
                left[pairing.id] = pairing
        if left:
            least = min(left, key=lambda pair: (count[pair], record_id(voter, pair)))
            return left[least]
    return None


def shared_pairing(pool: AnswerPool, others: Sequence[HumanVote], voter: str) -> Pairing | None:
    """The pairing with the fewest votes, of those that others voted on."""
    count = Counter(vote.pair for vote in others)
    refs = {vote.pair: (vote.left, vote.right) for vote in others}
    for pair in sorted(count, key=lambda pair: (count[pair], record_id(voter, pair))):
        left, right = refs[pair]
        if left in pool.by_ref and right in pool.by_ref:
            chat, first = pool.by_ref[left]
            _, second = pool.by_ref[right]
            return Pairing(chat, first, second)
    return None


# -- the vote


@dataclass(frozen=True, slots=True)
class Question:
    """Two answers to a chat, as one voter sees them; `warning` is shown before, "" for none."""

    messages: tuple[Message, ...]
    left: AnswerRef
    right: AnswerRef
    left_text: str
    right_text: str
    warning: str

    @property
    def pair(self) -> str:
        """The id of the two answers."""
        return pair_id(self.left, self.right)


class Ballot:
    """Asks people about pairs of a run's answers and keeps their votes; see `open_ballot`.

    A vote is on disk when `vote` returns. The same person is asked the same again.
    """

    def __init__(self, folder: Path, config: RunConfig, pool: AnswerPool, overlap: float) -> None:
        self.folder = folder
        self.title = config.name
        self._game = config.game
        self._utility = config.utility
        self._pool = pool
        self._overlap = overlap
        self._journal = votes_of(folder)
        self._votes = first_votes(self._journal.read())
        self._known = {(vote.pair, vote.voter): vote for vote in self._votes}
        self._shown: dict[str, tuple[AnswerRef, AnswerRef]] = {}  # to each voter

    @property
    def part(self) -> str:
        """The part of the run whose answers are shown."""
        return self._pool.part

    def count(self, voter: str = "") -> int:
        """The number of votes, of one voter or (without a name) of all."""
        return sum(not voter or vote.voter == voter for vote in self._votes)

    def question(self, voter: str, skipped: Collection[str] = ()) -> Question | None:
        """The next question to `voter`, None for none, without the `skipped` pair ids.

        Raises DataError for a name that cannot be one.
        """
        voter = check_name(voter)
        with self._ledger() as ledger:
            self._pool.read(ledger)
            pending = [refs for name, refs in self._shown.items() if name != voter]
            pairing = choose(
                self._pool,
                self._votes,
                voter,
                pending=pending,
                skipped=skipped,
                overlap=self._overlap,
            )
            if pairing is None:
                self._shown.pop(voter, None)
                return None
            left, right = on_the_left(pairing, voter)
            self._shown[voter] = left.ref, right.ref
            warning = ""
            query = "SELECT record FROM prompts WHERE id = ? LIMIT 1"
            for prompt in ledger.records(Prompt, query, (pairing.chat.prompt,)):
                warning = self._game.content_warning(prompt)
        return Question(
            messages=pairing.chat.messages,
            left=left.ref,
            right=right.ref,
            left_text=left.text,
            right_text=right.text,
            warning=warning,
        )

    def vote(
        self, voter: str, left: AnswerRef, right: AnswerRef, choice: Choice, reason: str = ""
    ) -> HumanVote:
        """Record a vote on two answers, once; returns the vote that counts.

        Raises DataError for answers that nobody can be asked about and for a name or a reason that
        cannot be kept, DiskFull.
        """
        voter = check_name(voter)
        reason = reason.strip()
        if len(reason) > LONGEST_REASON:
            raise DataError(f"a reason has at most {LONGEST_REASON} characters")
        if not self.is_question(voter, left, right):
            raise DataError("no such two answers of this run are asked about")
        now = datetime.datetime.now(datetime.UTC)
        moment = now.isoformat(timespec="seconds")
        vote = HumanVote(left, right, choice, voter, reason, moment)
        earlier = self._known.get((vote.pair, voter))
        if earlier is not None:
            return earlier
        self._journal.add(vote)
        self._known[vote.pair, voter] = vote
        self._votes.append(vote)
        return vote

    def record(self) -> bool:
        """Take the votes into the ledger; False while the run is played, which will do so later."""
        try:
            with RunDirectory.hold_lock(self.folder), Ledger.open(self.folder / LEDGER) as ledger:
                adopt(self.folder, ledger, self._utility)
        except RunBusy:
            return False
        return True

    def is_question(self, voter: str, left: AnswerRef, right: AnswerRef) -> bool:
        """Tell whether these answers, in these places, are a question to `voter`."""
        with self._ledger() as ledger:
            self._pool.read(ledger)
        answers = self._pool.by_ref
        if left not in answers or right not in answers:
            return False
        chat, one = answers[left]
        other_chat, other = answers[right]
        if chat is not other_chat or one is other:
            return False
        shown = on_the_left(Pairing(chat, one, other), voter)
        return shown == (one, other)

    def _ledger(self) -> Ledger:
        return Ledger.open(self.folder / LEDGER, reading=True)


@contextmanager
def open_ballot(
    folder: Path, part: str = "", overlap: float = 0.1, trust: bool = False
) -> Iterator[Ballot]:
    """A vote on the run in `folder`, held by this process alone.

    Args: part: held_out, train or test, "" for the first of them with two answers to choose from;
    overlap: share of a voter's questions that somebody else has decided already, in [0, 1].

    Raises RunError where there is no run, no two answers to choose from, where another process
    holds the vote, or nothing can be written.
    """
    with RunDirectory.read(folder, trust) as run:
        config = run.config
        pool = first_pool(run.ledger, part, folder)
    check_writable(folder)
    with hold_vote(folder):
        yield Ballot(folder, config, pool, overlap)


def first_pool(ledger: Ledger, part: str, folder: Path) -> AnswerPool:
    """The answers of the part, "" for the first part with pairs. Raises RunError without any."""
    parts = VOTED_PARTS
    where = ""
    if part:
        parts = (part,)
        where = f"{part.replace('_', '-')} "
    for name in parts:
        pool = AnswerPool(name)
        pool.read(ledger)
        if pool.has_pairs():
            return pool
    raise RunError(
        f"{folder}: no two players have answered the same {where}prompt in different "
        "words, nor one player the same training prompt, so there is nothing to vote on"
    )


@contextmanager
def hold_vote(folder: Path) -> Iterator[None]:
    """Keep a second vote away from the run."""

    def busy(holder: str) -> RunError:
        return RunError(f"{folder}: people vote on it already, in another process ({holder})")

    with (
        Folder.open(folder) as run,
        run.inner(FOLDER, make=True) as people,
        hold_lock(people, busy),
    ):
        yield
