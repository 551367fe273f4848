"""The ledger as Parquet files in shapes that other tools load.

prompts   TRL's conversational prompt-only format, with split, generation and facts (JSON)
pairs     TRL's conversational preference format: prompt, chosen, rejected, both scores
episodes  one row a move that was learned from: match, turn, reward, its parts (JSON)
matches   one row a match
turns     one row a move: seat, player, text, finish, tokens
scores    one row a (match, judge, seat, utility); without scores one row with the reason
votes     one row a reading behind a judgement: by whom, of which seat, at what cost
replies   one row a reply of an endpoint, by the hash of the question
benchmarks       one row a named set, player and metric, with its 95 % interval and the
                 paired difference from the start
benchmark_items  one row an answer to an item of a set, and a metric: its value, or why
                 there is none
players, stages, logprobs   as in the ledger

Each file's metadata names its table (`equipoise.table`) and the version of this schema
(`equipoise.schema`). `check` reads files of whatever program, which may have more columns.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from equipoise.errors import DataError, RunError, first_line
from equipoise.ledger.benchmark_results import BENCHMARKS, benchmark_rows, recorded_results
from equipoise.ledger.database import to_json
from equipoise.ledger.frames import Row, columns
from equipoise.ledger.ledger import Ledger
from equipoise.prompts.written_chat import ROLES
from equipoise.system.folder import new_files
from equipoise.system.locks import check_writable
from equipoise.system.parquet_rows import parquet_rows
from equipoise.types import Episode, Judgement, Match, Message, Pair, Prompt, answer_messages

CHUNK = 10_000  # rows held in memory at a time
SCHEMA = 1
"""The version of the tables' schema: raised where a column goes, or means something else."""


def export(ledger: Ledger, folder: Path) -> dict[Path, int]:
    """Write every table to `folder`/NAME.parquet; file -> rows. Raises RunError, DiskFull.

    The files appear when all are whole, in place of older ones.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (folder / "config.yaml").is_file():
        raise RunError(f"{folder}: is a run's folder; choose another --to")
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[Path, int] = {}
    with new_files(folder) as drafts:
        for name, (listed, rows) in TABLES.items():
            path = folder / f"{name}.parquet"
            columns_of = [(column, _arrow(kind)) for column, kind in listed.items()]
            named = {"equipoise.table": name, "equipoise.schema": str(SCHEMA)}
            schema = pa.schema(columns_of, named)
            written[path] = 0
            with pq.ParquetWriter(drafts / path.name, schema) as file:
                source = rows(ledger)
                while part := list(islice(source, CHUNK)):
                    file.write_table(pa.Table.from_pylist(part, schema=schema))
                    written[path] += len(part)
    return written


def _arrow(kind: str) -> Any:
    import pyarrow as pa

    chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    return {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "chat": chat,
    }[kind]


def _chat(messages: Iterable[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _prompts(ledger: Ledger) -> Iterator[Row]:
    for split, generation, record in ledger.rows(
        "SELECT split, generation, record FROM prompts ORDER BY rowid"
    ):
        prompt = msgspec.json.decode(record, type=Prompt)
        yield {
            "id": prompt.id,
            "split": split,
            "generation": generation,
            "prompt": _chat(prompt.messages),
            "source": prompt.source,
            "facts": to_json(prompt.facts),
        }


def _pairs(ledger: Ledger) -> Iterator[Row]:
    for learner, record in ledger.rows("SELECT learner, record FROM pairs ORDER BY rowid"):
        pair = msgspec.json.decode(record, type=Pair)
        yield {
            "id": pair.id,
            "generation": pair.generation,
            "learner": learner,
            "match": pair.match,
            "prompt": _chat(pair.messages),
            "chosen": _chat(answer_messages(pair.chosen)) if pair.has("chosen") else None,
            "rejected": _chat(answer_messages(pair.rejected)) if pair.has("rejected") else None,
            "score_chosen": pair.chosen_score if pair.has("chosen") else None,
            "score_rejected": pair.rejected_score if pair.has("rejected") else None,
        }


def _episodes(ledger: Ledger) -> Iterator[Row]:
    decode = msgspec.json.Decoder(Episode).decode
    for learner, record in ledger.rows("SELECT learner, record FROM episodes ORDER BY rowid"):
        episode = decode(record)
        yield {
            **msgspec.structs.asdict(episode),
            "learner": learner,
            "parts": to_json(episode.parts),
        }


def _all_matches(ledger: Ledger) -> Iterator[Match]:
    return ledger.records(Match, "SELECT record FROM matches ORDER BY rowid")


def _matches(ledger: Ledger) -> Iterator[Row]:
    for match in _all_matches(ledger):
        yield {
            "id": match.id,
            "generation": match.generation,
            "split": match.split,
            "game": match.game,
            "prompt": match.prompt,
            "seed": match.seed,
            "seats": to_json({seat: str(player) for seat, player in match.seats.items()}),
        }


def _turns(ledger: Ledger) -> Iterator[Row]:
    for match in _all_matches(ledger):
        for number, turn in enumerate(match.turns):
            yield {
                "match": match.id,
                "turn": number,
                "seat": turn.seat,
                "player": str(match.seats[turn.seat]),
                "text": turn.move.text,
                "finish": turn.move.finish,
                "error": turn.move.error,
                "prompt_tokens": turn.move.prompt_tokens,
                "answer_tokens": turn.move.tokens,
                "cost": turn.move.cost,
            }


def _all_judgements(ledger: Ledger) -> Iterator[Judgement]:
    return ledger.records(Judgement, "SELECT record FROM judgements ORDER BY rowid")


def _votes(ledger: Ledger) -> Iterator[Row]:
    for judgement in _all_judgements(ledger):
        for vote in judgement.votes:
            yield {
                "match": judgement.match,
                "judge": judgement.judge,
                **msgspec.structs.asdict(vote),
            }


def _scores(ledger: Ledger) -> Iterator[Row]:
    for judgement in _all_judgements(ledger):
        common = {"match": judgement.match, "judge": judgement.judge, "reason": judgement.reason}
        if judgement.scores is None:
            yield {**common, "seat": None, "utility": None, "value": None}
            continue
        for seat, utilities in judgement.scores.items():
            for utility, value in utilities.items():
                yield {**common, "seat": seat, "utility": utility, "value": value}


def _benchmark_items(ledger: Ledger) -> Iterator[Row]:
    for stage, result in recorded_results(ledger):
        for scores in ledger.benchmark_scores(stage):
            for metric, value in scores.values.items():
                yield {
                    "set": result.name,
                    "player": result.player,
                    "source": result.source,
                    "item": scores.item,
                    "sample": scores.sample,
                    "metric": metric,
                    "value": value,
                    "reason": scores.reason,
                    "group": scores.group,
                }


def _copy(table: str, names: Iterable[str]) -> Callable[[Ledger], Iterator[Row]]:
    names = list(names)

    def rows(ledger: Ledger) -> Iterator[Row]:
        for values in ledger.rows(f"SELECT {', '.join(names)} FROM {table}"):
            yield dict(zip(names, values, strict=True))

    return rows


_COPIED = {
    "replies": columns("key account tokens:int cost:float record"),
    "players": columns("name generation:int parent learner facts"),
    "stages": columns("key generation:int stage facts seconds:float"),
    "logprobs": columns("player encoding text total:float tokens:int"),
}
"""Tables that are exported as they are in the ledger."""

TABLES: dict[str, tuple[dict[str, str], Callable[[Ledger], Iterator[Row]]]] = {
    "prompts": (columns("id split generation:int prompt:chat source facts"), _prompts),
    "pairs": (
        columns(
            "id generation:int learner match prompt:chat chosen:chat rejected:chat "
            "score_chosen:float score_rejected:float"
        ),
        _pairs,
    ),
    "episodes": (
        columns("id generation:int learner match turn:int role group reward:float parts"),
        _episodes,
    ),
    "matches": (columns("id generation:int split game prompt seed:int seats"), _matches),
    "turns": (
        columns(
            "match turn:int seat player text finish error prompt_tokens:int answer_tokens:int "
            "cost:float"
        ),
        _turns,
    ),
    "scores": (columns("match judge reason seat utility value:float"), _scores),
    "votes": (
        columns("match judge by seat other value:float reason tokens:int cost:float"),
        _votes,
    ),
    "benchmarks": (BENCHMARKS, benchmark_rows),
    "benchmark_items": (
        columns("set player source item sample:int metric value:float reason group"),
        _benchmark_items,
    ),
    **{name: (listed, _copy(name, listed)) for name, listed in _COPIED.items()},
}


# -- the files of any program, checked

NEEDED = frozenset(["id", "match", "turn", "player", "judge", "prompt"])
OBJECTS = frozenset({"facts", "parts", "seats"})  # texts that are JSON objects


def check(path: Path) -> dict[Path, int]:
    """Check an export, a folder or one file, against the schema; file -> rows.

    Raises DataError that names the file, the row (from 1), the column, and what belongs there.
    """
    checked: dict[Path, int] = {}
    ids: dict[str, set[str]] = {}
    refers: list[tuple[str, str, str]] = []
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        table, rows = _open(file)
        checked[file] = 0
        seen = ids.setdefault(table, set())
        for checked[file], row in enumerate(rows, 1):
            where = f"{file}: row {checked[file]}"
            for name, kind in TABLES[table][0].items():
                _check_value(name, kind, row[name], where)
            if table == "pairs" and row["chosen"] is row["rejected"] is None:
                raise DataError(f"{where}: chosen and rejected are null; one must have a value")
            refers += [(where, name, row[name]) for name in ("match", "prompt") if row.get(name)]
            if row.get("id") in seen and table != "prompts":  # one may be in several generations
                raise DataError(f"{where}: id '{row['id']}' stands twice")
            seen.add(row.get("id", ""))
    tables = {"match": "matches", "prompt": "prompts"}
    for where, name, held in refers:
        known = ids.get(tables[name])
        if known is not None and isinstance(held, str) and held not in known:
            raise DataError(f"{where}: {name} '{held}' is no id in {tables[name]}.parquet")
    return checked


def _open(path: Path) -> tuple[str, Iterator[Row]]:
    """The table that a file holds, and its rows. Raises DataError for another schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {first_line(error)}") from error
    notes = file.schema_arrow.metadata or {}
    table = notes.get(b"equipoise.table", path.stem.encode()).decode()
    version = notes.get(b"equipoise.schema", str(SCHEMA).encode()).decode()
    if table not in TABLES:
        raise DataError(f"{path}: '{table}' is no table; known: {', '.join(TABLES)}")
    if version != str(SCHEMA):
        raise DataError(f"{path}: has version {version} of the schema; known: {SCHEMA}")
    types = {column: _arrow(kind) for column, kind in TABLES[table][0].items()}
    for column, wanted in types.items():
        if column not in file.schema_arrow.names:
            raise DataError(f"{path}: lacks the column '{column}' ({wanted})")
        held = file.schema_arrow.field(column).type
        letters = [np.dtype(kind.to_pandas_dtype()).kind for kind in (held, wanted)]
        if letters[0] != letters[1] and not pa.types.is_null(held):
            raise DataError(f"{path}: column '{column}' is {held}; it must be {wanted}")
    return table, parquet_rows(file, str(path), list(types))


def _check_value(name: str, kind: str, held: Any, where: str) -> None:
    """Raises DataError for a value that its column cannot have."""
    try:
        if held is None:
            fault = "is null; it must have a value" if name in NEEDED else ""
        elif kind == "chat":
            roles = {message.role for message in msgspec.convert(held, list[Message])}
            known = roles <= set(ROLES) and (roles or name == "prompt")  # a game's has no chat
            fault = "" if known else f"needs roles of {', '.join(ROLES)}"
        elif kind == "float":
            fault = "" if math.isfinite(held) else f"is {held}; what is missing must be null"
        else:
            fault = ""
            if name in OBJECTS:
                msgspec.json.decode(held, type=dict)
    except msgspec.MsgspecError as error:
        fault = f"is no {'chat' if kind == 'chat' else 'JSON object'}: {error}"
    if fault:
        raise DataError(f"{where}: {name} {fault}")
