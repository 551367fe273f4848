"""A vote on a run's answers, while it goes on too: questions to people, and their votes."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from equipoise.errors import DataError, RunBusy, RunError
from equipoise.games.base import Game
from equipoise.runs.directory import LEDGER, RunDirectory
from equipoise.runs.ledger import Ledger
from equipoise.runs.people.answer_pool import AnswerPool, Pairing, choose, on_the_left
from equipoise.runs.people.journal import (
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
from equipoise.system.locks import check_writable, hold_lock
from equipoise.types import Message, Prompt

VotedPart = Literal["held_out", "train", "test"]
VOTED_PARTS: tuple[VotedPart, ...] = ("held_out", "train", "test")


@dataclass(frozen=True, slots=True)
class Question:
    """Two answers to a chat, as one voter sees them; `warning` is what a reader is told before they
    are shown, "" for nothing.
    """

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
    """Asks people about pairs of a run's answers and keeps their votes.

    Made by `open_ballot`. A vote is on disk when `vote` returns; what was asked needs no keeping,
    for the same person is asked the same again.
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
        """The next question to `voter`; None where nothing is left. `skipped` are ids of pairs
        (`pair_id`) that this voter would not decide.

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
        """Record what `voter` said of two answers; of the same two, only the first time.

        Returns the vote that counts. Raises DataError for answers that nobody can be asked about
        and for a name or a reason that cannot be kept, DiskFull.
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
        """Take the votes into the ledger, and say whether that was possible: while the run is
        played, it will do so itself when it is next opened.
        """
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
        for (record,) in ledger.rows(query, (pairing[0].prompt,)):
            return self._game.content_warning(msgspec.json.decode(record, type=Prompt))
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
    with _held(folder):
        yield Ballot(folder, game, utility, pool, overlap)


def _pool(ledger: Ledger, part: str, folder: Path) -> AnswerPool:
    """The answers of the part, or of the first that has some to choose from."""
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
def _held(folder: Path) -> Iterator[None]:
    """Keep a second vote away from the run."""
    home = folder / FOLDER
    home.mkdir(exist_ok=True)

    def busy(holder: str) -> RunError:
        return RunError(f"{folder}: people vote on it already, in another process ({holder})")

    with hold_lock(home / ".lock", busy):
        yield
