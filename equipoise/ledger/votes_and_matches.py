"""A file of records, one JSON line each, added whole: on disk before `add` returns.

It lies beside the ledger, whose only writer is the driver, so that people can vote and play while a
run goes on. What a killed process left half written is dropped.
"""

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import IO, Generic, Literal, TypeVar

import msgspec

from equipoise.errors import DataError, DiskFull, RunError
from equipoise.ledger.ledger import MEETING, Ledger
from equipoise.ratings.base import Outcome
from equipoise.system.folder import Folder
from equipoise.system.locks import lock
from equipoise.types import Judgement, Match, Prompt, Turn, Vote, record_id

FOLDER = "people"  # below the run's
T = TypeVar("T", bound=msgspec.Struct)


class Journal(Generic[T]):
    """The records of one kind in one file; several processes may add to it."""

    def __init__(self, run: Path, name: str, kind: type[T]) -> None:
        """`name`: the file's, in the folder `people` of the run's folder."""
        self.path = run / FOLDER / name
        self._run = run
        self._decoder = msgspec.json.Decoder(kind)

    def add(self, record: T) -> None:
        """Append a record. Raises DiskFull, and RunError where the file cannot be written."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            with (
                Folder.open(self._run) as run,
                run.inner(FOLDER, make=True) as people,
                people.open_to_append(self.path.name) as file,
            ):
                lock(file)
                end = _whole(file)
                file.truncate(end)
                try:
                    while line:  # a disk that fills takes a part of it
                        line = line[file.write(line) :]
                    os.fsync(file.fileno())
                except OSError as error:
                    file.truncate(end)
                    raise DiskFull(
                        f"{self.path}: cannot write ({error.strerror}); free some space"
                    ) from error
        except PermissionError as error:
            raise RunError(f"{self.path}: cannot be written ({error})") from error

    def read(self) -> list[T]:
        """Every whole record, in order. Raises RunError for a damaged one."""
        with Folder.open(self._run) as run:
            if not run.has(FOLDER):
                return []
            with run.inner(FOLDER) as people:
                text = people.read(self.path.name) if people.has(self.path.name) else b""
        records = []
        for number, line in enumerate(text.split(b"\n")[:-1], 1):
            try:
                records.append(self._decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise RunError(
                    f"{self.path}, line {number}: is damaged ({error}); take the line "
                    "out to go on without it"
                ) from error
        return records


def _whole(file: IO[bytes]) -> int:
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0


HUMAN = "human"  # the judge's name
PEOPLE = "people"  # the part of the matches that people voted on or played
BOTH_BAD = "both_bad"  # the utility: the share of voters who called both answers bad
LONGEST_NAME = 60
LONGEST_REASON = 2000

Choice = Literal["left", "right", "tie", "both_bad"]
CHANCE: Mapping[str, float] = {"left": 1.0, "right": 0.0, "tie": 0.5, BOTH_BAD: 0.5}


class AnswerRef(msgspec.Struct, frozen=True, order=True):
    """The last answer of one seat of a recorded match."""

    match: str
    seat: str


class HumanVote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person's vote on two answers; `at` is the time, in ISO 8601."""

    left: AnswerRef
    right: AnswerRef
    choice: Choice
    voter: str
    reason: str = ""
    at: str = ""

    @property
    def pair(self) -> str:
        """The id of the two answers, whichever was on the left."""
        return pair_id(self.left, self.right)


def pair_id(one: AnswerRef, other: AnswerRef) -> str:
    """The id of two answers, in whatever order."""
    first, second = sorted((one, other))
    return record_id(PEOPLE, first.match, first.seat, second.match, second.seat)


def votes_of(folder: Path) -> Journal[HumanVote]:
    """The votes on a run's answers."""
    return Journal(folder, "votes.jsonl", HumanVote)


def first_votes(votes: Iterable[HumanVote]) -> list[HumanVote]:
    """The votes in order, of each person on each two answers the first."""
    by_voter: dict[tuple[str, str], HumanVote] = {}
    for vote in votes:
        by_voter.setdefault((vote.pair, vote.voter), vote)
    return list(by_voter.values())


def check_name(name: str) -> str:
    """A voter's name without spaces around it.

    Raises DataError for one that is empty, too long, or has control characters or "@".
    """
    name = unicodedata.normalize("NFC", name.strip())
    if not name or len(name) > LONGEST_NAME:
        raise DataError(f"a name has 1 to {LONGEST_NAME} characters")
    if "@" in name or any(unicodedata.category(c)[0] == "C" for c in name):
        raise DataError("a name has no @ and no control characters")
    return name


class Judged(msgspec.Struct, frozen=True):
    """Two answers side by side, what people make of them, and where they were given."""

    match: Match
    judgement: Judgement
    sources: dict[str, AnswerRef]


def judged_pairs(ledger: Ledger, votes: Sequence[HumanVote], utility: str) -> list[Judged]:
    """Every two answers that people voted on, in the order of their first votes.

    A seat's `utility` is the mean over voters of 1 where they preferred its answer, 0 where the
    other's, ½ else. Votes on matches of another run's ledger are left out.
    """
    by_pair: dict[str, list[HumanVote]] = {}
    for vote in first_votes(votes):
        by_pair.setdefault(vote.pair, []).append(vote)
    refs = [ref for given in by_pair.values() for ref in (given[0].left, given[0].right)]
    matches = ledger.matches_of({ref.match for ref in refs})
    pairs = []
    for pair, given in by_pair.items():
        first, second = sorted((given[0].left, given[0].right))
        if {first.match, second.match} <= matches.keys():
            match = side_by_side(pair, first, second, matches)
            judgement = _judgement(match, first, given, utility)
            pairs.append(Judged(match, judgement, {"1": first, "2": second}))
    return pairs


def side_by_side(
    pair: str, first: AnswerRef, second: AnswerRef, matches: Mapping[str, Match]
) -> Match:
    """Two recorded answers as the seats 1 and 2 of one match."""
    sources = {"1": matches[first.match], "2": matches[second.match]}
    refs = {"1": first, "2": second}
    turns = {seat: sources[seat].last_turns()[refs[seat].seat] for seat in ("1", "2")}
    return Match(
        id=pair,
        generation=max(source.generation for source in sources.values()),
        split=PEOPLE,
        game=MEETING,
        prompt=sources["1"].prompt,
        seats={seat: sources[seat].seats[refs[seat].seat] for seat in ("1", "2")},
        seed=0,
        turns=tuple(Turn(seat, turn.view, turn.move) for seat, turn in turns.items()),
    )


def _judgement(
    match: Match, first: AnswerRef, given: Sequence[HumanVote], utility: str
) -> Judgement:
    """These voters' judgement of the match whose seat 1 holds the `first` answer."""
    votes = []
    for vote in given:
        left, right = ("1", "2") if vote.left == first else ("2", "1")
        chance = CHANCE[vote.choice]
        reason = ": ".join(
            text for text in ("both bad" * (vote.choice == BOTH_BAD), vote.reason) if text
        )
        votes.append(Vote(vote.voter, left, chance, right, reason))
    bad = fmean(vote.choice == BOTH_BAD for vote in given)
    for_first = fmean(
        float(vote.value or 0.0) if vote.seat == "1" else 1 - float(vote.value or 0.0)
        for vote in votes
    )
    scores = {
        "1": {utility: for_first, BOTH_BAD: bad},
        "2": {utility: 1 - for_first, BOTH_BAD: bad},
    }
    identity = record_id("judgement", match.id, HUMAN)
    return Judgement(identity, match.id, HUMAN, scores, votes=tuple(votes))


def human_outcomes(pairs: Iterable[Judged]) -> list[Outcome]:
    """One outcome a vote, between the generations of players that answered."""
    outcomes = []
    for pair in pairs:
        seats = pair.match.seats
        for vote in pair.judgement.votes:
            first, second = str(seats[vote.seat]), str(seats[vote.other])
            if first != second and vote.value is not None:
                outcomes.append(Outcome(first, second, vote.value))
    return outcomes


class PlayedMatch(msgspec.Struct, frozen=True):
    """A match with a person, its prompt and judgement; `at` is the time, in ISO 8601."""

    match: Match
    prompt: Prompt
    judgement: Judgement | None
    at: str


def played_matches(folder: Path) -> Journal[PlayedMatch]:
    """The matches that people played against a run's players."""
    return Journal(folder, "matches.jsonl", PlayedMatch)


def adopt(folder: Path, ledger: Ledger, utility: str) -> None:
    """Record what people did beside the run that is not recorded yet."""
    _adopt_votes(folder, ledger, utility)
    _adopt_matches(folder, ledger)


def _adopt_matches(folder: Path, ledger: Ledger) -> None:
    played = played_matches(folder).read()
    known = ledger.recorded_ids("matches", [each.match.id for each in played])
    new = [each for each in played if each.match.id not in known]
    if not new:
        return
    dealt = ledger.recorded_ids("prompts", [each.prompt.id for each in new])
    judged = [(e.match, e.judgement) for e in new if e.judgement is not None]
    with ledger.transaction():
        own = [each.prompt for each in new if each.prompt.id not in dealt]
        ledger.add_prompts(own, PEOPLE, 0)
        ledger.add_matches(each.match for each in new)
        ledger.add_judgements(judged)


def _adopt_votes(folder: Path, ledger: Ledger, utility: str) -> None:
    """Record votes as judgements by `human` of side-by-side matches; recorded ones may grow."""
    votes = votes_of(folder).read()
    if not votes:
        return
    pairs = judged_pairs(ledger, votes, utility)
    with ledger.transaction():
        ledger.add_matches(pair.match for pair in pairs)
        ledger.grow_judgements((pair.match, pair.judgement) for pair in pairs)
