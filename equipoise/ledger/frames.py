"""A run's records as rows of data frames: measurements, matches, judgements, pairs, ratings.

Rows are read from the ledger and the plain settings alone, so that a run can be read where its
models, its judges or a user's own parts are not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, TypeAlias

import msgspec

from equipoise.answer import answer_of, public_move
from equipoise.errors import UserError
from equipoise.ledger.ledger import MEETING, Ledger
from equipoise.types import Judgement, Match, Pair, PlayerId, Prompt, text_of

Row = dict[str, Any]
Frame: TypeAlias = Any
"""A `pandas.DataFrame` where pandas is installed, else a `pyarrow.Table`."""


def columns(listed: str) -> dict[str, str]:
    """Column -> its type, from `"name other:int third:float"`; a column without one is text."""
    pairs = (column.partition(":") for column in listed.split())
    return {name: kind or "text" for name, _, kind in pairs}


SEAT = columns("match generation:int split prompt prompt_text seat player name")
MATCHES = SEAT | columns("answer thoughts finish error turns:int tokens:int")
JUDGEMENTS = SEAT | columns("judge score:float margin:float reason answer")
PAIRS = columns(
    "pair generation:int player name match prompt prompt_text chosen rejected "
    "score_chosen:float score_rejected:float"
)
RATINGS = columns("generation:int by player name rating:float low:float high:float")
MEASURES = columns("generation:int player name")
INTERVAL = frozenset({"mean", "low", "high", "n"})
ADDED = "added"  # the field of the measures beside those of `evaluate`
OWN = {"scores": "score", "win_rates": "win_rate", "judges": "judge"}
"""Facts that are kept for each player -> the column of one player's own."""


def frame(columns: Mapping[str, str], rows: Iterable[Row]) -> Frame:
    """The rows as a data frame; what is missing is null.

    Args: columns: name -> text, int, float or bool; further columns are numbers, and stand behind
    these in the order in which they first occur. Raises UserError without pandas and pyarrow.
    """
    if find_spec("pyarrow") is None:
        raise UserError(
            "data frames need pandas or pyarrow, and neither is installed; "
            "pip install pandas pyarrow"
        )
    import pyarrow as pa

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    listed = list(rows)
    names = {name: types[kind] for name, kind in columns.items()}
    for row in listed:
        for name, value in row.items():
            whole = isinstance(value, int)
            names.setdefault(name, pa.int64() if whole else pa.float64())
    table = pa.table(
        {name: pa.array([row.get(name) for row in listed], kind) for name, kind in names.items()}
    )
    return table if find_spec("pandas") is None else table.to_pandas()


# -- rows


def match_rows(
    ledger: Ledger, split: str | None, generation: int | None, raw_moves: bool = False
) -> Iterator[Row]:
    """One row a seat of a match: the player, and its last answer without thoughts.

    raw_moves: the game reads whole moves, so that they are shown whole.
    """
    texts = _prompt_texts(ledger)
    for match in _matches(ledger, split, generation):
        if match.game == MEETING:  # repeats answers that are recorded already
            continue
        for seat in match.seats:
            moves = [turn.move for turn in match.turns if turn.seat == seat]
            last = moves[-1] if moves else None
            if last is not None and not raw_moves:
                last = public_move(last)
            yield {
                **_seat_columns(match, seat, texts),
                "answer": last and last.text,
                "thoughts": (last and last.thoughts) or None,
                "finish": last and last.finish,
                "error": (last and last.error) or None,
                "turns": len(moves),
                "tokens": sum(move.tokens for move in moves),
            }


def judgement_rows(
    ledger: Ledger, utility: str, split: str | None, generation: int | None, raw_moves: bool = False
) -> Iterator[Row]:
    """Rows of a judged seat: score (its `utility`), margin over the others', other utilities.

    raw_moves: as in `match_rows`.
    """
    texts = _prompt_texts(ledger)
    matches = {match.id: match for match in _matches(ledger, split, generation)}
    query = "SELECT record FROM judgements ORDER BY rowid"
    for judgement in ledger.records(Judgement, query):
        match = matches.get(judgement.match)
        if match is None:
            continue
        last = {
            turn.seat: turn.move.text if raw_moves else answer_of(turn.move).text
            for turn in match.turns
        }
        scores = judgement.by_seat(utility)
        for seat in match.seats:
            others = {
                f"utility_{name}": value
                for name, value in judgement.utilities(seat).items()
                if name != utility
            }
            score = scores.get(seat)
            yield {
                **_seat_columns(match, seat, texts),
                "judge": judgement.judge,
                "score": score,
                "margin": _margin(match, seat, scores),
                "reason": None if score is not None else judgement.reason or "no score",
                "answer": last.get(seat),
                **others,
            }


def pair_rows(ledger: Ledger, generation: int | None) -> Iterator[Row]:
    """One row a pair of answers that a learner was taught, in its generation's turn."""
    decode = msgspec.json.Decoder(Pair).decode
    query = "SELECT learner, record FROM pairs WHERE ?1 IS NULL OR generation = ?1 ORDER BY rowid"
    for learner, record in ledger.rows(query, (generation,)):
        pair = decode(record)
        yield {
            "pair": pair.id,
            "generation": pair.generation,
            "player": learner,
            "name": PlayerId.parse(learner).name,
            "match": pair.match,
            "prompt": pair.prompt,
            "prompt_text": pair.messages[-1].content if pair.messages else None,
            "chosen": text_of(pair.chosen) if pair.has("chosen") else None,
            "rejected": text_of(pair.rejected) if pair.has("rejected") else None,
            "score_chosen": pair.chosen_score if pair.has("chosen") else None,
            "score_rejected": pair.rejected_score if pair.has("rejected") else None,
        }


def rating_rows(ledger: Ledger) -> Iterator[Row]:
    """Rows of rated players, `by` "matches" of a generation or "league" of a measurement."""
    for _, generation, _, facts, _ in ledger.stages("rate"):
        ages = _ages(ledger, generation)
        for rating in facts["ratings"]:
            player = PlayerId(rating["name"], ages.get(rating["name"], 0))
            yield _rating_row(generation, "matches", player, rating)
    for _, generation, _, facts, _ in ledger.stages("measure"):
        for rating in facts.get("ratings", ()):
            player = PlayerId.parse(rating["name"])
            yield _rating_row(generation, "league", player, rating)


def _rating_row(
    generation: int, by: str, player: PlayerId, rating: Mapping[str, float | None]
) -> Row:
    return {
        "generation": generation,
        "by": by,
        "player": str(player),
        "name": player.name,
        "rating": rating["value"],
        "low": rating["low"],
        "high": rating["high"],
    }


def _ages(ledger: Ledger, generation: int) -> dict[str, int]:
    """The number of times that each learner had learned when that generation began."""
    ages: dict[str, int] = {}
    for _, t, _, facts, _ in ledger.stages("turn"):
        for name in facts["learn"] if t < generation else ():
            ages[name] = ages.get(name, 0) + 1
    return ages


def _matches(ledger: Ledger, split: str | None, generation: int | None) -> Iterator[Match]:
    query = (
        "SELECT record FROM matches WHERE (?1 IS NULL OR split = ?1) "
        "AND (?2 IS NULL OR generation = ?2) ORDER BY rowid"
    )
    return ledger.records(Match, query, (split, generation))


def _prompt_texts(ledger: Ledger) -> dict[str, str]:
    prompts = ledger.records(Prompt, "SELECT record FROM prompts")
    return {prompt.id: prompt.messages[-1].content for prompt in prompts if prompt.messages}


def _seat_columns(match: Match, seat: str, texts: Mapping[str, str]) -> Row:
    return {
        "match": match.id,
        "generation": match.generation,
        "split": match.split,
        "prompt": match.prompt,
        "prompt_text": texts.get(match.prompt),
        "seat": seat,
        "player": str(match.seats[seat]),
        "name": match.seats[seat].name,
    }


def _margin(match: Match, seat: str, scores: Mapping[str, float]) -> float | None:
    """Score less the mean of other players' seats; None where there is none."""
    own = match.seats[seat]
    others: Sequence[float] = [
        score for other, score in scores.items() if match.seats[other] != own
    ]
    return scores[seat] - fmean(others) if seat in scores and others else None


def measured_rows(ledger: Ledger) -> Iterator[Row]:
    """One row for each learner at each measurement: `generation`, `player`, `name`, all numbers.

    Facts kept for each player give the player's own; one with a 95 % interval has the columns NAME,
    NAME_low, NAME_high and NAME_n (values behind it); generations' numbers stand in every row.
    """
    for _, generation, _, facts, _ in ledger.stages("measure"):
        for name, age in facts.get("ages", {}).items():
            player = str(PlayerId(name, age))
            row: Row = {"generation": generation, "player": player, "name": name}
            own = dict(_numbers(facts, player, own=True))
            of_all = dict(_numbers(facts, player, own=False))
            # What a player has of its own stands above what is said of all.
            yield {**row, **own, **{k: v for k, v in of_all.items() if k not in own}}


def _numbers(
    facts: Mapping[str, Any], player: str, own: bool, path: str = ""
) -> Iterator[tuple[str, float | int]]:
    """(column, number) of everything that is known of the player (`own`), or of all."""
    for key, value in facts.items():
        if key == "ages":
            continue
        if not isinstance(value, Mapping):
            if not own and isinstance(value, int | float):
                yield _column_name(path, key), float(value)
            continue
        if player in value:
            if own:
                column = _column_name(path, OWN.get(key, key))
                yield from _value(column, value[player])
        elif value.keys() == INTERVAL:
            if not own:
                yield from _value(_column_name(path, key), value)
        elif not any("@" in str(inner) for inner in value):
            inner_path = path if key == ADDED else _column_name(path, key)
            yield from _numbers(value, player, own, inner_path)


def _value(column: str, value: Any) -> Iterator[tuple[str, float | int]]:
    """A number, or a mean with its interval; what is not known is left out."""
    if isinstance(value, int | float):
        yield column, float(value)
    elif isinstance(value, Mapping) and value.keys() == INTERVAL:
        names = {"mean": column, **{k: f"{column}_{k}" for k in ("low", "high", "n")}}
        for key, name in names.items():
            if value[key] is not None:
                yield name, value[key] if key == "n" else float(value[key])


def _column_name(path: str, key: str) -> str:
    return f"{path}_{key}" if path else key
