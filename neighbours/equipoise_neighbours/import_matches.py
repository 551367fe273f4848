"""Matches that were played and judged elsewhere, as a run of their own in which nobody learns."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice, zip_longest
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from equipoise.api.handle import Run
from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError
from equipoise.judges.base import Recorded
from equipoise.ledger.database import to_json
from equipoise.ledger.journal import BOTH_BAD
from equipoise.planning.new_run import new_run
from equipoise.prompts.prompt_files import read
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.judge_matches import count_unjudged
from equipoise.runs.measure_players import measure
from equipoise.runs.open_run import OpenRun
from equipoise.runs.rate_players import rate
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turn, View, record_id

MOST_PLAYERS = 300  # ratings and equilibria of all pairs stay a matter of seconds
MOST_TURNS = 1_000  # of one match
LONGEST_TEXT = 1_000_000  # characters of one message
LONGEST_NAME = 200
Scores = dict[str, dict[str, float]]
BAD = ("tie (bothbad)", "both_bad")
WINS = {"model_a": (1.0, 0.0), "model_b": (0.0, 1.0), **dict.fromkeys(("tie", *BAD), (0.5, 0.5))}
"""What LMArena's voters may say -> what both models get."""


class Record(NamedTuple):
    """A match as another program recorded it. `players`: seat -> its player's name there; `judged`:
    judge -> its scores of the seats, or the reason why there are none; `dealt`: what tells its
    prompt from others that say the same, or say nothing.
    """

    game: str
    players: Mapping[str, str]
    turns: Sequence[Turn]
    judged: Mapping[str, Scores | str]
    dealt: str = ""


Rows = Iterator[tuple[str, Any]]
"""Rows of files, each with its place for messages."""


def record_matches(
    files: Sequence[Path],
    source: str,
    folder: Path,
    limit: int | None = None,
    overwrite: bool = False,
) -> dict[str, int]:
    """Record other programs' matches as a new run in `folder`, and rate their players; the numbers
    of players, of matches, and of those that are judged.

    Args: source: one of `SOURCES`; limit: the first so many matches, None: all. Raises ConfigError,
    RunError, and DataError that names the row, before anything is written.
    """
    if source not in SOURCES:
        raise ConfigError(f"--from {source}: {nearest(source, list(SOURCES))}")
    records = list(islice(_records(source, _rows(files, source == "equipoise")), limit))
    names = _names(records)
    judges = Counter(judge for record in records for judge in record.judged)
    if not judges:
        raise DataError(f"{files[0]}: no match is judged")
    config = recipe_loader.load(_settings(folder.name, names, judges.most_common(1)[0][0]))
    with new_run(config, folder, overwrite) as run:
        judged = _write(run, records, names, source)
    return {"players": len(names), "matches": len(records), "judged": judged}


def import_matches(
    files: str | Path | Sequence[str | Path],
    source: str,
    out: str | Path,
    *,
    limit: int | None = None,
    overwrite: bool = False,
) -> Run:
    """Make a run of matches that other programs played and judged, and rate their players.

    Args: source: lmarena, textarena, verifiers or equipoise (a folder that `export` wrote); limit:
    the first so many matches, None: all. Raises ConfigError, DataError that names the row, and
    RunError where a run is there already, before anything is written.
    """
    paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
    record_matches(paths, source, Path(out), limit, overwrite)
    return Run(out)


def _settings(name: str, names: Mapping[str, str], judge: str) -> dict[str, Any]:
    return {
        "name": name,
        "generations": 0,
        "players": {own: {"kind": "recorded", "model": model} for model, own in names.items()},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": {"kind": "answers", "samples": 2},
        "judge": {"kind": "recorded", "source": judge},
        "evaluate": "sets",
    }


def _write(
    run: RunDirectory, records: Sequence[Record], names: Mapping[str, str], source: str
) -> int:
    """Write all matches with their judgements and ratings; the number of those with scores."""
    matches: list[Match] = []
    by_judge: dict[str, list[tuple[Match, Judgement]]] = {}
    prompts: dict[str, Prompt] = {}
    for number, record in enumerate(records):
        first = record.turns[0].view.messages if record.turns else ()
        identity = record_id("imported", source, record.game, to_json(first), record.dealt)
        prompts[identity] = Prompt(identity, first, {}, source)
        seats = {seat: PlayerId(names[name]) for seat, name in record.players.items()}
        own = record_id("imported", source, number, identity)
        match = Match(own, 0, "train", record.game, identity, seats, 0, tuple(record.turns))
        matches.append(match)
        for judge, given in record.judged.items():
            scores, reason = (None, given) if isinstance(given, str) else (given, "")
            key = record_id("judgement", own, judge)
            judgement = Judgement(key, own, judge, scores, reason)
            by_judge.setdefault(judge, []).append((match, judgement))
    with OpenRun(run) as opened:
        with run.ledger.transaction():
            run.ledger.add_prompts(prompts.values(), "train", 0)
            run.ledger.add_matches(matches)
            run.ledger.finish("0/play", 0, "play", {"matches": len(matches)}, 0.0)
            for judge, pairs in by_judge.items():
                run.ledger.add_judgements(pairs)
                given = {match.id: judgement for match, judgement in pairs}
                by = Recorded(source=judge)
                facts = count_unjudged(opened, by, [match for match, _ in pairs], given)
                run.ledger.finish(f"0/judge/{judge}", 0, "judge", facts, 0.0)
        judged = by_judge[run.config.judge.name]
        rate(opened, [match for match, _ in judged], [judgement for _, judgement in judged], 0)
        measure(opened, 0)
    return len({match.id for rows in by_judge.values() for match, given in rows if given.scores})


def _names(records: Sequence[Record]) -> dict[str, str]:
    """Model -> its name as a player, an identifier. Raises DataError for too many or too few."""
    models = sorted({name for record in records for name in record.players.values()})
    if not 2 <= len(models) <= MOST_PLAYERS:
        raise DataError(f"the files name {len(models)} players; 2 to {MOST_PLAYERS} can be rated")
    names: dict[str, str] = {}
    for model in models:
        kept = "".join(c if f"m{c}".isidentifier() else " " for c in model)
        plain = re.sub(r"\W+", "_", kept).strip("_") or "player"
        plain = plain if plain.isidentifier() else f"m_{plain}"
        numbered = (f"{plain}__{n}" for n in count(2))
        taken = set(names.values())
        names[model] = next(name for name in chain([plain], numbered) if name not in taken)
    return names


# -- rows


def _rows(files: Sequence[Path], folders: bool) -> Rows:
    for file in files:
        if not file.exists():
            raise DataError(f"{file}: there is no such file")
        if file.is_dir() != folders:
            raise DataError(
                f"{file}: must be a {'folder that `export` wrote' if folders else 'file'}"
            )
        yield from _exported(file) if folders else read(file)


def _records(source: str, rows: Rows) -> Iterator[Record]:
    """The records in the rows, checked. Raises DataError that names the row."""
    where = ""

    def noted() -> Iterator[Any]:
        nonlocal where
        for place, row in rows:
            where = place
            yield row

    try:
        for record in SOURCES[source](noted()):
            if fault := _fault(record):
                raise DataError(f"{where}: {fault}")
            yield record
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DataError(f"{where}: is no record of {source}: {reason}") from error


def _fault(record: Record) -> str:
    """Why a record cannot be used, or ""."""
    for name in (record.game, *record.players.values(), *record.judged):
        if not (isinstance(name, str) and name.isprintable() and 1 <= len(name) <= LONGEST_NAME):
            return f"a name must have 1 to {LONGEST_NAME} printable characters"
    scored = [given for given in record.judged.values() if not isinstance(given, str)]
    seats = {turn.seat for turn in record.turns}.union(*scored)
    if absent := seats - record.players.keys():
        return f"nobody sits in the seat '{min(absent)}'"
    for utilities in (each for given in scored for each in given.values()):
        if not all(map(isfinite, utilities.values())):
            return "a score is no finite number"
    if len(record.turns) > MOST_TURNS:
        return f"has more than {MOST_TURNS} turns"
    for turn in record.turns:
        texts = (turn.move.text, *(message.content for message in turn.view.messages[-1:]))
        if any(len(text) > LONGEST_TEXT for text in texts):
            return f"a message has more than {LONGEST_TEXT:,} characters"
    return ""


def _message(given: Mapping[str, Any]) -> Message:
    """A message; newer files give its content in parts, images among them."""
    content = given.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text") or "" for part in content)
    return Message(str(given["role"]), content)


def _scores(values: Mapping[str, float], reason: str) -> Scores | str:
    """Each seat's score, or the reason why there is none."""
    return {seat: {"score": float(value)} for seat, value in values.items()} or reason


# -- sources


def _lmarena(rows: Iterable[Any]) -> Iterator[Record]:
    """Two models' answers and a person's vote a row."""
    for number, row in enumerate(rows):
        turns = []
        for seat, side in (("1", "a"), ("2", "b")):
            chat = tuple(map(_message, row.get(f"conversation_{side}") or ()))
            turns += [
                Turn(seat, View(chat[:i]), Move(message.content))
                for i, message in enumerate(chat)
                if message.role == "assistant"
            ]
        winner = row.get("winner")
        if winner not in (None, *WINS):
            raise ValueError(f"winner '{winner}' must be one of {', '.join(WINS)}")
        bad = {BOTH_BAD: 1.0} if winner in BAD else {}
        won = zip("12", WINS.get(winner or "", ()), strict=False)
        scores: Scores = {seat: {"score": value, **bad} for seat, value in won}
        players = {"1": row["model_a"], "2": row["model_b"]}
        judged: dict[str, Scores | str] = {"lmarena": scores or "no vote is recorded"}
        yield Record("arena", players, turns, judged, "" if turns else str(number))


def _textarena(rows: Iterable[Any]) -> Iterator[Record]:
    """A game a row: who played, what `env.close()` returned, and each step where it was kept."""
    for number, row in enumerate(rows):
        turns = [
            Turn(
                f"player {step['player_id']}",
                View((Message("user", str(step["observation"])),)),
                Move(str(step["action"])),
            )
            for step in row.get("steps") or ()
        ]
        seats = {f"player {seat}": name for seat, name in row["agents"].items()}
        rewards = {f"player {seat}": value for seat, value in (row["rewards"] or {}).items()}
        scores = _scores(rewards, "no rewards are recorded")
        yield Record(row["env_id"], seats, turns, {"textarena": scores}, str(number))


def _verifiers(rows: Iterable[Any]) -> Iterator[Record]:
    """Episodes of several agents as they are; of one agent, the i-th of every model on a task."""
    alone: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for row in rows:
        game, traces = row["env"]["id"], row["traces"]
        names = [trace["agent"]["name"] for trace in traces]
        if len(set(names)) < len(names):
            raise ValueError("an agent has several traces; one a seat is read")
        if len(traces) > 1:
            seated = dict(zip(names, traces, strict=True))
            yield _episode(game, seated, _fault_of(row), row["task"]["hash"])
        for trace in traces if len(traces) == 1 else ():
            of_task = alone.setdefault((game, row["task"]["hash"]), {})
            model = trace["agent"]["config"]["model"]
            of_task.setdefault(model, []).append({**trace, "fault": _fault_of(row)})
    for (game, task), by_model in alone.items():
        for each in zip_longest(*by_model.values()):
            seated = {str(i): trace for i, trace in enumerate(filter(None, each), 1)}
            faults = (trace["fault"] for trace in seated.values())
            yield _episode(game, seated, next(filter(None, faults), ""), task)


def _fault_of(row: Mapping[str, Any]) -> str:
    """Why an episode failed, "" where it did not."""
    rows = (row, *row["traces"])
    errors = [
        f"{each['type']}: {each['message']}" for one in rows for each in one.get("errors", ())
    ]
    return "" if row["ok"] else ": ".join(["the episode failed", *errors[:1]])


def _episode(game: str, traces: Mapping[str, Any], fault: str, task: str) -> Record:
    """One match of the traces, by seat; the reward is the weighted sum, as in verifiers."""
    turns, scores = [], {}
    for seat, trace in traces.items():
        nodes = trace["nodes"]
        for node in nodes:
            chat: list[Message] = []
            parent = node.get("parent")
            while parent is not None and len(chat) < MOST_TURNS:
                chat.append(_message(nodes[parent]["message"]))
                parent = nodes[parent].get("parent")
            if node.get("sampled"):
                move = Move(_message(node["message"]).content)
                turns.append(Turn(seat, View(tuple(chat[::-1])), move))
        rewards = [each for each in trace["rewards"].values() if each is not None]
        if rewards and not fault:
            scores[seat] = sum(float(each["score"]) * each.get("weight", 1.0) for each in rewards)
    players = {seat: trace["agent"]["config"]["model"] for seat, trace in traces.items()}
    judged = {"verifiers": _scores(scores, fault or "no reward is recorded")}
    return Record(game, players, turns, judged, task)


def _exported(folder: Path) -> Rows:
    """One mapping a match of an exported run: its rows of matches, turns, scores and prompts."""
    tables: dict[str, dict[str, list[Any]]] = {}
    for table, key in {"prompts": "id", "turns": "match", "scores": "match"}.items():
        rows = tables[table] = {}
        for _, row in read(folder / f"{table}.parquet"):
            rows.setdefault(row.get(key), []).append(row)
    for where, row in read(folder / "matches.parquet"):
        own = {table: tables[table].get(row.get("id"), []) for table in ("turns", "scores")}
        of_match = tables["prompts"].get(row.get("prompt"), [{}])[0]
        yield where, {**row, **own, "asked": of_match.get("prompt") or ()}


def _equipoise(rows: Iterable[Any]) -> Iterator[Record]:
    """Matches of another run by `equipoise export`; each generation is a player of its own."""
    for row in rows:
        view = View(tuple(map(_message, row["asked"])))
        turns = [
            Turn(each["seat"], view, Move(each["text"], each["finish"], error=each["error"]))
            for each in row["turns"]
        ]
        judged: dict[str, Scores | str] = {}
        for each in row["scores"]:
            if each["value"] is None:
                judged[each["judge"]] = each["reason"] or "no reason is recorded"
            elif not isinstance(scores := judged.setdefault(each["judge"], {}), str):
                scores.setdefault(each["seat"], {})[each["utility"]] = each["value"]
        seats = msgspec.json.decode(row["seats"], type=dict[str, str])
        yield Record(row["game"], seats, turns, judged, str(row.get("prompt")))


SOURCES: Mapping[str, Callable[[Iterable[Any]], Iterator[Record]]] = {
    "lmarena": _lmarena,
    "textarena": _textarena,
    "verifiers": _verifiers,
    "equipoise": _equipoise,
}
"""The program that wrote the records -> their reader."""
