"""The ledger: every record of a run, written and read by what it is about.

Ids are hashes of what made the record, so writing a record again inserts nothing.
"""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from equipoise.ledger.database import Database, to_json
from equipoise.ledger.item_scores import ItemScores
from equipoise.models.resources import Spending
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt

COUNTED = (
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


MEETING = "meeting"  # the `game` of matches that set recorded answers beside each other
# How keys of `replies` begin that are no answer's: requests that brought none and no count, also
# those in flight at a kill; replies that could not be used; requests that never left.
REQUEST = "request:"
UNANSWERED, UNUSABLE, UNSENT = (f"{REQUEST}{how}:" for how in ("unanswered", "unusable", "unsent"))
FAILED = "failed"  # the note of the stage that stopped the run, as a `FailedStage`
WITHIN = "within"  # the fact that names the stage around one that is inside another


class FinishedStage(NamedTuple):
    """A finished stage; `seconds` are its own, without those of stages inside it."""

    key: str
    generation: int
    stage: str
    facts: dict[str, Any]
    seconds: float

    @property
    def within(self) -> str | None:
        """The name of the stage that it is inside of."""
        return self.facts.get(WITHIN)


class FailedStage(NamedTuple):
    """The stage in which a run stopped, the error, and what the stage had found out by then."""

    key: str
    stage: str
    error: str
    facts: dict[str, Any]


class Checkpoint(NamedTuple):
    """A player born in the run: from which player (None: as given), by which learner."""

    player: PlayerId
    parent: str | None
    learner: str
    facts: dict[str, Any]


class Ledger(Database):
    """The records of one run."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._logged: dict[str, list[dict[str, Any]]] = {}  # by stages under way

    # -- writing

    def add_prompts(self, prompts: Iterable[Prompt], split: str, generation: int) -> None:
        """Record which prompts belong to (split, generation)."""
        rows = ((p.id, split, generation, to_json(p)) for p in prompts)
        self._insert("prompts", rows)

    def add_matches(self, matches: Iterable[Match]) -> None:
        """Record played matches."""
        rows = ((m.id, m.generation, m.split, m.prompt, to_json(m)) for m in matches)
        self._insert("matches", rows)

    def add_judgements(self, judgements: Iterable[tuple[Match, Judgement]]) -> None:
        """Record judgements, each with the match that it is about."""
        self._insert("judgements", starmap(_judgement_row, judgements))

    def grow_judgements(self, judgements: Iterable[tuple[Match, Judgement]]) -> None:
        """Record judgements in place of those of the same id, which have fewer votes."""
        rows = starmap(_judgement_row, judgements)
        self._insert("judgements", rows, replacing="id")

    def add_pairs(self, pairs: Iterable[Pair], learner: PlayerId) -> None:
        """Record the pairs that `learner` is taught this generation."""
        rows = ((p.id, p.generation, str(learner), to_json(p)) for p in pairs)
        self._insert("pairs", rows)

    def add_episodes(self, episodes: Iterable[Episode], learner: PlayerId) -> None:
        """Record the moves of `learner` with their rewards."""
        rows = ((e.id, e.generation, str(learner), to_json(e)) for e in episodes)
        self._insert("episodes", rows)

    def add_logprobs(
        self,
        player: PlayerId,
        encoding: str,
        texts: Sequence[str],
        values: Sequence[tuple[float, int]],
    ) -> None:
        """Record the log-probability (nats) and token count of each text key under `player`."""
        rows = (
            (str(player), encoding, text, total, count)
            for text, (total, count) in zip(texts, values, strict=True)
        )
        self._insert("logprobs", rows)

    def reserve(self, account: str, most: Spending) -> str:
        """Record a request to an endpoint before it is sent, at the most that it can cost.

        It survives a kill at once, a power cut from the next record on.
        """
        request = f"{UNANSWERED}{uuid.uuid4().hex}"
        with self._unsynced():
            self._insert("replies", [(request, account, most.tokens, most.money, "{}")])
        return request

    def settle(
        self, request: str, account: str, charge: Spending, reply: dict[str, Any], key: str = ""
    ) -> None:
        """Record what a reserved request brought and cost; an answer under its `key`.

        No `charge.calls`: it was never sent.
        """
        if charge.unanswered:
            key = request
        elif not charge.calls:
            key = request.replace(UNANSWERED, UNSENT)
        row = (key or request.replace(UNANSWERED, UNUSABLE), account, charge.tokens, charge.money)
        self._change("replies", "key", request, (*row, to_json(reply)))

    def add_benchmark_scores(self, stage: str, scores: Iterable[ItemScores]) -> None:
        """Record the scores of each answer in the stage of this key."""
        rows = ((stage, s.item, s.sample, to_json(s)) for s in scores)
        self._insert("benchmark_scores", rows)

    def add_player(
        self, player: PlayerId, parent: PlayerId | None, learner: str, facts: dict[str, Any]
    ) -> None:
        """Record a player's birth: its parent and its learner."""
        origin = str(parent) if parent else None
        row = (player.name, player.generation, origin, learner, to_json(facts))
        self._insert("players", [row])

    def finish(
        self, key: str, generation: int, stage: str, facts: dict[str, Any], seconds: float
    ) -> None:
        """Mark a stage as finished, with what it found out and the lines that it logged."""
        row = (key, generation, stage, to_json(facts), seconds)
        logged = enumerate(self._logged.pop(key, []))
        lines = [(key, n, json.dumps(line)) for n, line in logged]
        failed = self.failed_stage()
        with self.transaction():
            self._insert("stages", [row])
            if failed is not None and failed.key == key:
                self.note(FAILED, "")
            if lines:
                self._insert("metrics", lines)

    def fail(self, key: str, stage: str, error: str, facts: dict[str, Any]) -> None:
        """Note that a stage failed, until it is finished or the run goes on."""
        self.note(FAILED, to_json(FailedStage(key, stage, error, facts)))

    def failed_stage(self) -> FailedStage | None:
        """The stage in which the run stopped, None where it did not fail."""
        text = self.meta(FAILED)
        if not text:
            return None
        failed = msgspec.json.decode(text, type=FailedStage)
        return failed._replace(facts=decode_facts(failed.stage, to_json(failed.facts), whole=False))

    def amend(self, key: str, facts: dict[str, Any] | None = None, new_key: str = "") -> None:
        """Change the facts of a finished stage, or its key; None and "" leave them."""
        [(_, t, stage, known, seconds)] = [row for row in self.stages() if row.key == key]
        row = (new_key or key, t, stage, to_json(known if facts is None else facts), seconds)
        self._change("stages", "key", key, row)

    def log(self, stage: str, line: dict[str, Any]) -> None:
        """A line of metrics of a stage under way, to be recorded when it is finished."""
        self._logged.setdefault(stage, []).append(line)

    # -- stages and players

    def stage_facts(self, key: str) -> dict[str, Any] | None:
        """The facts of the stage `key`, or None when it is not finished."""
        query = "SELECT stage, facts FROM stages WHERE key = ?"
        row = self._db.execute(query, (key,)).fetchone()
        return decode_facts(*row) if row else None

    def has_finished(self, key: str) -> bool:
        """True if the stage `key` has finished, so that a resumed run passes it over."""
        return self.stage_facts(key) is not None

    def stages(self, stage: str | None = None) -> list[FinishedStage]:
        """The finished stages, or those of one name, in order of finishing."""
        query = (
            "SELECT key, generation, stage, facts, seconds FROM stages "
            "WHERE ? IS NULL OR stage = ? ORDER BY rowid"
        )
        return [
            FinishedStage(key, t, name, decode_facts(name, facts), seconds)
            for key, t, name, facts, seconds in self.rows(query, (stage, stage))
        ]

    def metrics(self) -> list[tuple[str, dict[str, Any]]]:
        """(stage, line of metrics) of all finished stages, in order."""
        query = "SELECT stage, record FROM metrics ORDER BY rowid"
        return [(stage, decode_line(record)) for stage, record in self.rows(query)]

    def players(self) -> list[Checkpoint]:
        """Every player born in this run, in order of birth."""
        query = "SELECT name, generation, parent, learner, facts FROM players ORDER BY rowid"
        return [
            Checkpoint(PlayerId(name, age), parent, learner, decode_facts("", facts))
            for name, age, parent, learner, facts in self.rows(query)
        ]

    # -- prompts and matches

    def prompts(self, split: str, generation: int | None = None) -> list[Prompt]:
        """The prompts of a split, or of one generation of it, in order of writing."""
        return self._part("prompts", Prompt, split, generation)

    def matches(self, split: str, generation: int | None = None, limit: int = -1) -> list[Match]:
        """The matches of a split, or of one generation of it, in order of writing."""
        return self._part("matches", Match, split, generation, limit)

    def _part(
        self, table: str, kind: type, split: str, generation: int | None, limit: int = -1
    ) -> list[Any]:
        where = "split = ?"
        values = [split]
        if generation is not None:
            where = "split = ? AND generation = ?"
            values = [split, generation]
        query = f"SELECT record FROM {table} WHERE {where} ORDER BY rowid LIMIT ?"
        return list(self.records(kind, query, (*values, limit)))

    def matches_of(self, ids: Iterable[str]) -> dict[str, Match]:
        """These matches, by id."""
        query = "SELECT record FROM matches WHERE id IN ({ids})"
        decode = msgspec.json.Decoder(Match).decode
        matches = (decode(record) for (record,) in self._rows_among(query, ids))
        return {match.id: match for match in matches}

    def recorded_ids(self, table: str, ids: Iterable[str]) -> set[str]:
        """The ones of `ids` that are recorded in `table` already."""
        query = f"SELECT id FROM {table} WHERE id IN ({{ids}})"
        return {row[0] for row in self._rows_among(query, ids)}

    # -- judgements

    def judgements_of(
        self, matches: Iterable[str], judge: str | None = None
    ) -> dict[str, Judgement]:
        """match id -> its judgement, by the judge of that name (None: the newest)."""
        return {
            judgement.match: judgement
            for judgement in self.every_judgement_of(matches)
            if judge is None or judgement.judge == judge
        }

    def every_judgement_of(self, matches: Iterable[str]) -> Iterator[Judgement]:
        """The judgements of these matches by all judges, in order of writing."""
        query = "SELECT record FROM judgements WHERE match IN ({ids}) ORDER BY rowid"
        decode = msgspec.json.Decoder(Judgement).decode
        for (record,) in self._rows_among(query, matches):
            yield decode(record)

    def judges(self) -> list[tuple[str, str, int, int]]:
        """(judge, part, its judgements there, those of them without any score), oldest first."""
        query = (
            "SELECT judge, split, count(*), count(*) - total(judged) FROM judgements "
            "WHERE split != 'people' GROUP BY judge, split ORDER BY min(rowid)"
        )
        return [(judge, part, n, int(missing)) for judge, part, n, missing in self.rows(query)]

    def without_score(self, judge: str, part: str, most: int = 100) -> list[Judgement]:
        """The first judgements of a judge in a part that have no score."""
        query = (
            "SELECT record FROM judgements WHERE judged = 0 AND judge = ? AND split = ? "
            "ORDER BY rowid LIMIT ?"
        )
        return list(self.records(Judgement, query, (judge, part, most)))

    # -- what learners are taught

    def pairs(self, generation: int, learner: PlayerId) -> list[Pair]:
        """The pairs that `learner` was taught in `generation`, in order of writing."""
        query = "SELECT record FROM pairs WHERE generation = ? AND learner = ? ORDER BY rowid"
        return list(self.records(Pair, query, (generation, str(learner))))

    def episodes(self, learner: PlayerId) -> list[Episode]:
        """The moves of `learner` with their rewards, in order of writing."""
        query = "SELECT record FROM episodes WHERE learner = ? ORDER BY rowid"
        return list(self.records(Episode, query, (str(learner),)))

    def logprobs(
        self, player: PlayerId, encoding: str, texts: Sequence[str]
    ) -> dict[str, tuple[float, int]]:
        """text key -> (log-probability, tokens), of those that `player` has scored already."""
        query = (
            "SELECT text, total, tokens FROM logprobs "
            "WHERE player = ? AND encoding = ? AND text IN ({ids})"
        )
        rows = self._rows_among(query, texts, (str(player), encoding))
        return {text: (total, tokens) for text, total, tokens in rows}

    # -- what endpoints replied

    def reply(self, key: str) -> dict[str, Any] | None:
        """The recorded reply to the question `key`."""
        query = "SELECT record FROM replies WHERE key = ?"
        row = self._db.execute(query, (key,)).fetchone()
        return msgspec.json.decode(row[0], type=dict[str, Any]) if row else None

    def spent(self, account: str) -> Spending:
        """The spending of an account in this run."""
        return self.accounts(account).get(account, Spending())

    def accounts(self, only: str | None = None) -> dict[str, Spending]:
        """The spending of every account in this run, or of one that has any."""
        query = f"""
            SELECT account, count(*), total(tokens), total(cost), total(lost),
                total(tokens * lost), total(cost * lost)
            FROM (SELECT *, key GLOB '{UNANSWERED}*' AS lost FROM replies
                WHERE NOT key GLOB '{UNSENT}*' AND (? IS NULL OR account = ?))
            GROUP BY account ORDER BY account"""
        return {
            account: Spending(calls, int(tokens), money, int(lost), int(lost_tokens), lost_money)
            for account, calls, tokens, money, lost, lost_tokens, lost_money in self.rows(
                query, (only, only)
            )
        }

    # -- benchmarks

    def benchmark_scores(self, stage: str) -> list[ItemScores]:
        """The scores of each answer in the stage of this key; empty where none is recorded."""
        query = "SELECT record FROM benchmark_scores WHERE stage = ? ORDER BY rowid"
        return list(self.records(ItemScores, query, (stage,)))

    def has_begun(self) -> bool:
        """True if anything was played, paid for, or made."""
        sources = ("matches", "players", f"replies WHERE tokens OR NOT key GLOB '{REQUEST}*'")
        queries = [f"SELECT EXISTS(SELECT 1 FROM {source})" for source in sources]
        return any(self._db.execute(query).fetchone()[0] for query in queries)

    def counts(self) -> dict[str, int]:
        """Table -> number of rows, by the newest rowid, for rows are never deleted."""
        queries = {table: f"SELECT max(rowid) FROM {table}" for table in COUNTED}
        return {
            table: self._db.execute(query).fetchone()[0] or 0 for table, query in queries.items()
        }


class _Facts(msgspec.Struct):
    """Facts of stages and births that readers use, where they are there."""

    within: str = ""
    learn: list[str] = []
    answers: int = 0
    unjudged_share: float = 0.0
    reasons: dict[str, int] = {}
    judge: str | None = None
    dropped: dict[str, int] = {}
    cut_pairs: int = 0
    cut_episodes: int = 0
    thoughts: dict[str, dict[str, int]] = {}
    ages: dict[str, int] = {}
    ratings: list[dict[str, Any]] = []
    reward: float | None = None
    parts: dict[str, float | None] = {}
    kl: float | None = None
    steps: float | None = 0
    played_gap: float | None = None
    played_share: float | None = None
    below_precision: str | None = None
    not_compared: str | None = None


REQUIRED = {"turn": ("learn",), "judge": ("answers", "unjudged_share"), "rate": ("ratings",)}
"""Stage -> facts that it always has."""


def decode_facts(stage: str, text: str, whole: bool = True) -> dict[str, Any]:
    """The facts of a stage, or of a birth for "". Raises msgspec.DecodeError for others.

    `whole`: false where the stage is not finished and may lack some.
    """
    facts = msgspec.json.decode(text, type=dict[str, Any])
    msgspec.convert(facts, _Facts)
    for name in REQUIRED.get(stage, ()) if whole else ():
        if name not in facts:
            raise msgspec.ValidationError(f"the facts of a stage '{stage}' lack {name}")
    return facts


def decode_line(text: str) -> dict[str, Any]:
    """A line of metrics, which may hold NaN. Raises msgspec.DecodeError."""
    try:
        return msgspec.convert(json.loads(text), dict[str, Any])
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def _judgement_row(match: Match, judgement: Judgement) -> tuple[Any, ...]:
    return (
        judgement.id,
        judgement.match,
        judgement.judge,
        match.generation,
        match.split,
        judgement.scores is not None,
        to_json(judgement),
    )
