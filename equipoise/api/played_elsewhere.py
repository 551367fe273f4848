"""Matches that were played and judged elsewhere, as a run of their own in which nobody learns."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, islice
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from equipoise.api.handle import Run
from equipoise.api.imported_records import MOST_TURNS, READERS, Record, Rows, exported_rows
from equipoise.api.released_records import RELEASES, Released
from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError
from equipoise.judges.base import Recorded
from equipoise.ledger.database import to_json
from equipoise.planning.new_run import new_run
from equipoise.prompts.prompt_files import read
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.judge_matches import count_unjudged
from equipoise.runs.measure_players import measure
from equipoise.runs.open_run import OpenRun
from equipoise.runs.rate_players import rate
from equipoise.types import Judgement, Match, PlayerId, Prompt, record_id

MOST_PLAYERS = 300  # ratings and equilibria of all pairs stay a matter of seconds
LONGEST_TEXT = 1_000_000  # characters of one message
LONGEST_NAME = 200


def record_matches(
    files: Sequence[Path],
    source: str,
    folder: Path,
    limit: int | None = None,
    overwrite: bool = False,
) -> dict[str, int]:
    """Record other programs' matches as a new run in `folder`, and rate their players; the numbers
    of players, of matches, and of those that are judged.

    Args: source: one of `READERS` or `RELEASES`; limit: the first so many matches, None: all.
    Raises ConfigError, RunError, and DataError that names the row, before anything is written.
    """
    known = [*RELEASES, *READERS]
    if source not in known:
        raise ConfigError(f"--from {source}: {nearest(source, known)}")
    ratings: Mapping[str, float] = {}
    if source in RELEASES:
        released = _released(source, files)
        records = [record for _, record in released.records][:limit]
        ratings = released.ratings
    else:
        records = list(islice(_records(source, _rows(files, source == "equipoise")), limit))
    names = _names(records, least=1 if source in RELEASES else 2)
    judges = Counter(judge for record in records for judge in record.judged)
    if not judges:
        raise DataError(f"{files[0]}: no match is judged")
    seats = max(len(record.players) for record in records)
    settings = _settings(folder.name, names, judges.most_common(1)[0][0], seats)
    config = recipe_loader.load(settings)
    with new_run(config, folder, overwrite) as run:
        judged = _write(run, records, names, source)
        if ratings:
            kept = {names[name]: value for name, value in ratings.items() if name in names}
            run.ledger.finish("0/reputations", 0, "reputations", {"recorded": kept}, 0.0)
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

    Args: source: mnpo, sparta or gtalign (what these releases write while they run), lmarena,
    textarena, verifiers, or equipoise (a folder that `export` wrote); limit: the first so many
    matches, None: all. Raises ConfigError, DataError that names the row, and
    RunError where a run is there already, before anything is written.
    """
    paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
    record_matches(paths, source, Path(out), limit, overwrite)
    return Run(out)


def _settings(name: str, names: Mapping[str, str], judge: str, seats: int) -> dict[str, Any]:
    return {
        "name": name,
        "generations": 0,
        "players": {own: {"kind": "recorded", "model": model} for model, own in names.items()},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": {"kind": "answers", "samples": seats},
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
        prompts[identity] = Prompt(identity, first, dict(record.facts), record.source or source)
        seats = {seat: PlayerId(names[name]) for seat, name in record.players.items()}
        own = record_id("imported", source, number, identity)
        match = Match(own, 0, "train", record.game, identity, seats, 0, tuple(record.turns))
        matches.append(match)
        for judge, given in record.judged.items():
            scores, reason = (None, given) if isinstance(given, str) else (given, "")
            key = record_id("judgement", own, judge)
            votes = [
                msgspec.structs.replace(vote, by=str(PlayerId(names[vote.by])))
                for vote in record.votes.get(judge, ())
            ]
            judgement = Judgement(key, own, judge, scores, reason, tuple(votes))
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


def _names(records: Sequence[Record], least: int) -> dict[str, str]:
    """Model -> its name as a player, an identifier. Raises DataError for too many or too few."""
    known: set[str] = set()
    for record in records:
        known.update(record.players.values())
        for votes in record.votes.values():
            known.update(vote.by for vote in votes)
    models = sorted(known)
    if not least <= len(models) <= MOST_PLAYERS:
        raise DataError(
            f"the files name {len(models)} players; {least} to {MOST_PLAYERS} can be rated"
        )
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
        yield from exported_rows(file) if folders else read(file)


def _released(source: str, files: Sequence[Path]) -> Released:
    """The records of a release's files, checked. Raises DataError that names the row."""
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: there is no such file")
    released = RELEASES[source](files)
    for where, record in released.records:
        if fault := _fault(record):
            raise DataError(f"{where}: {fault}")
    if not released.records:
        raise DataError(f"{files[0]}: holds no answer")
    return released


def _records(source: str, rows: Rows) -> Iterator[Record]:
    """The records in the rows, checked. Raises DataError that names the row."""
    where = ""

    def noted() -> Iterator[Any]:
        nonlocal where
        for place, row in rows:
            where = place
            yield row

    try:
        for record in READERS[source](noted()):
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
