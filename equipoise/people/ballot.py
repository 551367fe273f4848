"""A vote on a run's answers, also while it goes on: the answers, which pair to ask about, votes."""

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from equipoise import seeds
from equipoise.answer import public_move
from equipoise.errors import DataError, RunBusy, RunError
from equipoise.games.base import Game
from equipoise.ledger.journal import (
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
from equipoise.ledger.ledger import MEETING, Ledger
from equipoise.ratings.base import Outcome
from equipoise.ratings.bradley_terry import information_gain
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


@dataclass
class Chat:
    """A chat's answers by player; `second_answers` hold the same player's other words."""

    id: str
    prompt: str
    messages: tuple[Message, ...]
    answers: dict[str, RecordedAnswer] = field(default_factory=dict)
    second_answers: dict[str, RecordedAnswer] = field(default_factory=dict)


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
            view, move = turn.view, public_move(turn.move)
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
        """Chats that both answered, in different words, or twice the one named twice."""
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


# -- which two are shown next

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
        again = _shared_pairing(pool, others, voter)
        if again is not None:
            return again
    count = Counter(pair_id(*refs) for refs in pending)
    count.update(vote.pair for vote in others)
    outcomes = [*_outcomes(pool, votes), *_pending_outcomes(pool, pending)]
    return _least_seen_pairing(pool, _by_gain(pool, outcomes, dice), voter, out, count)


def on_the_left(pairing: Pairing, voter: str) -> tuple[RecordedAnswer, RecordedAnswer]:
    """The (left, right) answers for this voter, by dice that are the same on every visit."""
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
    """Pairs of players who share a chat, the most telling first; then each with itself."""
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


def _least_seen_pairing(
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


def _shared_pairing(pool: AnswerPool, others: Sequence[HumanVote], voter: str) -> Pairing | None:
    """The pairing with the fewest votes, of those that others voted on."""
    count = Counter(vote.pair for vote in others)
    refs = {vote.pair: (vote.left, vote.right) for vote in others}
    for pair in sorted(count, key=lambda pair: (count[pair], record_id(voter, pair))):
        one, other = refs[pair]
        if one in pool.by_ref and other in pool.by_ref:
            chat, first = pool.by_ref[one]
            return chat, first, pool.by_ref[other][1]
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

    def __init__(
        self, folder: Path, game: Game, utility: str, pool: AnswerPool, overlap: float
    ) -> None:
        self.folder = folder
        self._game = game
        self._utility = utility
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
            return Question(
                pairing[0].messages,
                left.ref,
                right.ref,
                left.text,
                right.text,
                self._warning(ledger, pairing),
            )

    def vote(
        self, voter: str, left: AnswerRef, right: AnswerRef, choice: Choice, reason: str = ""
    ) -> HumanVote:
        """Record a vote on two answers, once; returns the vote that counts.

        Raises DataError for answers that nobody can be asked about and for a name or a reason that
        cannot be kept, DiskFull.
        """
        voter, reason = check_name(voter), reason.strip()
        if len(reason) > LONGEST_REASON:
            raise DataError(f"a reason has at most {LONGEST_REASON} characters")
        self._check(voter, left, right)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        vote = HumanVote(left, right, choice, voter, reason, now)
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

    def _check(self, voter: str, left: AnswerRef, right: AnswerRef) -> None:
        """Raises DataError unless these answers, in these places, are a question to `voter`."""
        with self._ledger() as ledger:
            self._pool.read(ledger)
        answers = self._pool.by_ref
        if left in answers and right in answers:
            (chat, one), (other_chat, other) = answers[left], answers[right]
            shown = on_the_left((chat, one, other), voter)
            if chat is other_chat and one is not other and shown == (one, other):
                return
        raise DataError("no such two answers of this run are asked about")

    def _warning(self, ledger: Ledger, pairing: Pairing) -> str:
        query = "SELECT record FROM prompts WHERE id = ? LIMIT 1"
        for prompt in ledger.records(Prompt, query, (pairing[0].prompt,)):
            return self._game.content_warning(prompt)
        return ""

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
        game, utility = run.config.game, run.config.utility
        pool = _pool(run.ledger, part, folder)
    check_writable(folder)
    with _hold_vote(folder):
        yield Ballot(folder, game, utility, pool, overlap)


def _pool(ledger: Ledger, part: str, folder: Path) -> AnswerPool:
    for name in (part,) if part else VOTED_PARTS:
        pool = AnswerPool(name)
        pool.read(ledger)
        if pool.has_pairs():
            return pool
    where = f"{part.replace('_', '-')} " if part else ""
    raise RunError(
        f"{folder}: no two players have answered the same {where}prompt in different "
        "words, nor one player the same training prompt, so there is nothing to vote on"
    )


@contextmanager
def _hold_vote(folder: Path) -> Iterator[None]:
    """Keep a second vote away from the run."""

    def busy(holder: str) -> RunError:
        return RunError(f"{folder}: people vote on it already, in another process ({holder})")

    with (
        Folder.open(folder) as run,
        run.inner(FOLDER, make=True) as people,
        hold_lock(people, busy),
    ):
        yield
