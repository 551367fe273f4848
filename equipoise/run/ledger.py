"""The match ledger: one SQLite file (WAL) that holds every record of a run. One process
writes; anyone may read.

    meta      key, value                                  schema number; the directory the run was started in
    prompts   id, split, generation, record               what was played, and where it belongs
    matches   id, generation, split, prompt, record       every match with its turns
    judgements id, match, judge, generation, split, judged, record
    pairs     id, generation, learner, record             what a learner was taught
    episodes  id, generation, learner, record             what a learner was paid for its moves
    logprobs  player, encoding, text, total, tokens       answer log-probabilities (nats), by (player, text)
    replies   key, account, tokens, cost, record          what endpoints answered, by the hash of what was asked
    players   name, generation, parent, learner, facts    lineage
    stages    key, generation, stage, facts, seconds      what is finished; the last line written for a stage

`record` and `facts` are JSON: the msgspec form of the types in `equipoise.types`. Ids
are hashes of what made the record, so writing a record again inserts nothing. Rows keep
the order of writing (rowid).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import DiskFull, RunError
from equipoise.models.resources import Spending
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt

SCHEMA = 3

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE prompts (id TEXT, split TEXT NOT NULL, generation INTEGER NOT NULL, record TEXT NOT NULL,
                      UNIQUE (id, split, generation));
CREATE TABLE matches (id TEXT UNIQUE, generation INTEGER NOT NULL, split TEXT NOT NULL, prompt TEXT NOT NULL,
                      record TEXT NOT NULL);
CREATE INDEX matches_by_part ON matches (split, generation);
CREATE TABLE judgements (id TEXT UNIQUE, match TEXT NOT NULL, judge TEXT NOT NULL, generation INTEGER NOT NULL,
                         split TEXT NOT NULL, judged INTEGER NOT NULL, record TEXT NOT NULL);
CREATE INDEX judgements_by_match ON judgements (match);
CREATE INDEX judgements_by_part ON judgements (split, generation, judged);
CREATE INDEX judgements_missing ON judgements (judged) WHERE judged = 0;
CREATE TABLE pairs (id TEXT, generation INTEGER NOT NULL, learner TEXT NOT NULL, record TEXT NOT NULL,
                    UNIQUE (generation, learner, id));
CREATE TABLE episodes (id TEXT, generation INTEGER NOT NULL, learner TEXT NOT NULL, record TEXT NOT NULL,
                       UNIQUE (learner, id));
CREATE TABLE logprobs (player TEXT, encoding TEXT, text TEXT, total REAL NOT NULL, tokens INTEGER NOT NULL,
                       UNIQUE (player, encoding, text));
CREATE TABLE replies (key TEXT PRIMARY KEY, account TEXT NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL,
                      record TEXT NOT NULL);
CREATE TABLE players (name TEXT, generation INTEGER, parent TEXT, learner TEXT NOT NULL, facts TEXT NOT NULL,
                      PRIMARY KEY (name, generation));
CREATE TABLE stages (key TEXT PRIMARY KEY, generation INTEGER NOT NULL, stage TEXT NOT NULL, facts TEXT NOT NULL,
                     seconds REAL NOT NULL);
"""

_encode = msgspec.json.Encoder().encode


def _json(record: Any) -> str:
    return _encode(record).decode()


class Ledger:
    """The records of one run. Opened by `Ledger.create` or `Ledger.open`; close it, or
    use it as a context manager.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path

    @classmethod
    def create(cls, path: Path, **meta: str) -> Ledger:
        """A new, empty ledger at `path`, with `meta` about the run."""
        ledger = cls(_connect(path), path)
        with ledger.transaction() as db:
            for statement in TABLES.split(";"):
                db.execute(statement)
            db.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                {"schema": str(SCHEMA), **meta}.items(),
            )
        return ledger

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """The ledger at `path`. Raises RunError when it is absent, is no ledger, or has
        another schema.
        """
        if not path.exists():
            raise RunError(f"{path}: no ledger here; is {path.parent} a run directory?")
        ledger = cls(_connect(path), path)
        try:
            (found,) = ledger._db.execute(
                "SELECT value FROM meta WHERE key = 'schema'"
            ).fetchone()
        except (sqlite3.DatabaseError, TypeError) as error:
            raise RunError(f"{path}: not an Equipoise ledger ({error})") from error
        if found != str(SCHEMA):
            raise RunError(
                f"{path}: written by another version of Equipoise (ledger schema {found}, this one reads {SCHEMA}); "
                "use that version, or start a new run"
            )
        return ledger

    def close(self) -> None:
        """Close the file; what was added is on disk already."""
        self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Transactions nest: the outermost one commits. Raises DiskFull
        when nothing can be written.
        """
        if self._db.in_transaction:
            yield self._db
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and (
                "full" in str(error) or "disk I/O" in str(error)
            ):
                raise DiskFull(
                    f"{self.path}: cannot write ({error}); free some space, then `equipoise resume {self.path.parent}`"
                ) from error
            raise

    def meta(self, key: str) -> str:
        """What the ledger says of its run under `key`."""
        return self._db.execute(
            "SELECT value FROM meta WHERE key = ?", (key,)
        ).fetchone()[0]

    # -- writing

    def add_prompts(
        self, prompts: Iterable[Prompt], split: str, generation: int
    ) -> None:
        """Record which prompts belong to (split, generation)."""
        self._insert(
            "prompts", 4, ((p.id, split, generation, _json(p)) for p in prompts)
        )

    def add_matches(self, matches: Iterable[Match]) -> None:
        """Record played matches."""
        self._insert(
            "matches",
            5,
            ((m.id, m.generation, m.split, m.prompt, _json(m)) for m in matches),
        )

    def add_judgements(self, judgements: Iterable[tuple[Match, Judgement]]) -> None:
        """Record judgements, each with the match that it is about."""
        self._insert(
            "judgements",
            7,
            (
                (
                    j.id,
                    j.match,
                    j.judge,
                    m.generation,
                    m.split,
                    j.scores is not None,
                    _json(j),
                )
                for m, j in judgements
            ),
        )

    def add_pairs(self, pairs: Iterable[Pair], learner: PlayerId) -> None:
        """Record what `learner` is taught this generation."""
        self._insert(
            "pairs", 4, ((p.id, p.generation, str(learner), _json(p)) for p in pairs)
        )

    def add_episodes(self, episodes: Iterable[Episode], learner: PlayerId) -> None:
        """Record what `learner` was paid for its moves."""
        self._insert(
            "episodes",
            4,
            ((e.id, e.generation, str(learner), _json(e)) for e in episodes),
        )

    def add_logprobs(
        self,
        player: PlayerId,
        encoding: str,
        texts: Sequence[str],
        values: Sequence[tuple[float, int]],
    ) -> None:
        """Record the log-probability (nats) and token count of each text key under
        `player`.
        """
        rows = (
            (str(player), encoding, text, total, count)
            for text, (total, count) in zip(texts, values, strict=True)
        )
        self._insert("logprobs", 5, rows)

    def add_reply(
        self, key: str, account: str, reply: dict[str, Any], tokens: int, cost: float
    ) -> None:
        """Record what an endpoint answered, and what it cost the account; at once, for
        it may have been paid for.
        """
        self._insert("replies", 5, [(key, account, tokens, cost, _json(reply))])

    def add_player(
        self,
        player: PlayerId,
        parent: PlayerId | None,
        learner: str,
        facts: dict[str, Any],
    ) -> None:
        """Record a player's birth: from whom, and by which learner."""
        row = (
            player.name,
            player.generation,
            str(parent) if parent else None,
            learner,
            _json(facts),
        )
        self._insert("players", 5, [row])

    def finish(
        self,
        key: str,
        generation: int,
        stage: str,
        facts: dict[str, Any],
        seconds: float,
    ) -> None:
        """Mark a stage as finished, with what it found."""
        self._insert("stages", 5, [(key, generation, stage, _json(facts), seconds)])

    def _insert(
        self, table: str, columns: int, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        with self.transaction() as db:
            db.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES ({','.join('?' * columns)})",
                rows,
            )

    # -- reading

    def finished(self, key: str) -> dict[str, Any] | None:
        """What the stage `key` found, or None when it is not finished."""
        row = self._db.execute(
            "SELECT facts FROM stages WHERE key = ?", (key,)
        ).fetchone()
        return msgspec.json.decode(row[0]) if row else None

    def stages(
        self, stage: str | None = None
    ) -> list[tuple[str, int, str, dict[str, Any], float]]:
        """(key, generation, stage, facts, seconds) of finished stages, in order of
        finishing.
        """
        rows = self._db.execute(
            "SELECT key, generation, stage, facts, seconds FROM stages WHERE ? IS NULL OR stage = ? ORDER BY rowid",
            (stage, stage),
        )
        return [
            (key, g, name, msgspec.json.decode(facts), seconds)
            for key, g, name, facts, seconds in rows
        ]

    def prompts(self, split: str, generation: int | None = None) -> list[Prompt]:
        """The prompts of a split, or of one generation of it, in order of writing."""
        return self._records("prompts", Prompt, split, generation)

    def matches(
        self, split: str, generation: int | None = None, limit: int = -1
    ) -> list[Match]:
        """The matches of a split, or of one generation of it, in order of writing."""
        return self._records("matches", Match, split, generation, limit)

    def matches_of(self, ids: Iterable[str]) -> dict[str, Match]:
        """These matches, by id."""
        decode = msgspec.json.Decoder(Match).decode
        found: dict[str, Match] = {}
        for part, marks in _parts(list(ids)):
            for (record,) in self._db.execute(
                f"SELECT record FROM matches WHERE id IN ({marks})", part
            ):
                match = decode(record)
                found[match.id] = match
        return found

    def reply(self, key: str) -> dict[str, Any] | None:
        """The recorded answer to the question `key`."""
        row = self._db.execute(
            "SELECT record FROM replies WHERE key = ?", (key,)
        ).fetchone()
        return msgspec.json.decode(row[0]) if row else None

    def spent(self, account: str) -> Spending:
        """What an account has spent in this run."""
        calls, tokens, cost = self._db.execute(
            "SELECT count(*), total(tokens), total(cost) FROM replies WHERE account = ?",
            (account,),
        ).fetchone()
        return Spending(calls, int(tokens), cost)

    def accounts(self) -> dict[str, Spending]:
        """What every account has spent in this run."""
        rows = self._db.execute(
            "SELECT account, count(*), total(tokens), total(cost) FROM replies GROUP BY account ORDER BY account"
        )
        return {
            account: Spending(calls, int(tokens), cost)
            for account, calls, tokens, cost in rows
        }

    def judgements_of(
        self, matches: Iterable[str], judge: str | None = None
    ) -> dict[str, Judgement]:
        """The judgements of these matches, by match id: of the judge of that name, or
        of whoever spoke last.
        """
        ids = list(matches)
        found: dict[str, Judgement] = {}
        decode = msgspec.json.Decoder(Judgement).decode
        for part, marks in _parts(ids):
            for (record,) in self._db.execute(
                f"SELECT record FROM judgements WHERE match IN ({marks}) ORDER BY rowid",
                part,
            ):
                judgement = decode(record)
                if judge is None or judgement.judge == judge:
                    found[judgement.match] = judgement
        return found

    def _records(
        self,
        table: str,
        kind: type,
        split: str,
        generation: int | None,
        limit: int = -1,
    ) -> list[Any]:
        decode = msgspec.json.Decoder(kind).decode
        where, values = "split = ?", [split]
        if generation is not None:
            where, values = "split = ? AND generation = ?", [split, generation]
        rows = self._db.execute(
            f"SELECT record FROM {table} WHERE {where} ORDER BY rowid LIMIT ?",
            (*values, limit),
        )
        return [decode(record) for (record,) in rows]

    def known(self, table: str, ids: Sequence[str]) -> set[str]:
        """Which of `ids` are recorded in `table` already."""
        found: set[str] = set()
        for part, marks in _parts(ids):
            found.update(
                row[0]
                for row in self._db.execute(
                    f"SELECT id FROM {table} WHERE id IN ({marks})", part
                )
            )
        return found

    def pairs(self, generation: int, learner: PlayerId) -> list[Pair]:
        """What `learner` was taught in `generation`, in order of writing."""
        decode = msgspec.json.Decoder(Pair).decode
        rows = self._db.execute(
            "SELECT record FROM pairs WHERE generation = ? AND learner = ? ORDER BY rowid",
            (generation, str(learner)),
        )
        return [decode(record) for (record,) in rows]

    def episodes(self, learner: PlayerId) -> list[Episode]:
        """What `learner` was paid for its moves, in order of writing."""
        decode = msgspec.json.Decoder(Episode).decode
        rows = self._db.execute(
            "SELECT record FROM episodes WHERE learner = ? ORDER BY rowid",
            (str(learner),),
        )
        return [decode(record) for (record,) in rows]

    def logprobs(
        self, player: PlayerId, encoding: str, texts: Sequence[str]
    ) -> dict[str, tuple[float, int]]:
        """The recorded (log-probability, tokens) of those text keys that `player` has
        scored already.
        """
        found: dict[str, tuple[float, int]] = {}
        for part, marks in _parts(texts):
            rows = self._db.execute(
                f"SELECT text, total, tokens FROM logprobs WHERE player = ? AND encoding = ? AND text IN ({marks})",
                (str(player), encoding, *part),
            )
            found.update({text: (total, tokens) for text, total, tokens in rows})
        return found

    def players(self) -> list[tuple[PlayerId, str | None, str, dict[str, Any]]]:
        """(player, parent, learner, facts) of every player born in this run, in order
        of birth.
        """
        rows = self._db.execute(
            "SELECT name, generation, parent, learner, facts FROM players ORDER BY rowid"
        )
        return [
            (PlayerId(n, g), parent, learner, msgspec.json.decode(f))
            for n, g, parent, learner, f in rows
        ]

    def counts(self) -> dict[str, int]:
        """How many rows each table has; at once, for rows are never deleted and the
        newest bears their number.
        """
        tables = (
            "prompts",
            "matches",
            "judgements",
            "pairs",
            "episodes",
            "logprobs",
            "replies",
            "players",
            "stages",
        )
        return {
            t: self._db.execute(f"SELECT max(rowid) FROM {t}").fetchone()[0] or 0
            for t in tables
        }

    def unjudged(self) -> int:
        """How many judgements say nothing but why not."""
        return self._db.execute(
            "SELECT count(*) FROM judgements WHERE judged = 0"
        ).fetchone()[0]

    def judged(self) -> list[tuple[str, int, int, int]]:
        """(split, generation, judgements, judged) per part."""
        return self._db.execute(
            "SELECT split, generation, count(*), sum(judged) FROM judgements GROUP BY split, generation"
        ).fetchall()

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a reading query, for export and reports."""
        yield from self._db.execute(query)


def _connect(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=30)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.DatabaseError as error:
        if "full" in str(error) or "disk I/O" in str(error):
            raise DiskFull(
                f"{path}: cannot write ({error}); free some space"
            ) from error
        raise RunError(f"{path}: cannot open the ledger ({error})") from error
    return db


def _parts(
    values: Sequence[str], size: int = 500
) -> Iterator[tuple[Sequence[str], str]]:
    """`values` in slices that fit one statement, each with its question marks."""
    for start in range(0, len(values), size):
        part = values[start : start + size]
        yield part, ",".join("?" * len(part))
