"""Scores from what the official judges of AlpacaEval, Arena-Hard and MT-Bench write.

Every judgement is read, so that a result has intervals with prompts as clusters and can be compared
item by item with another generation's.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.component import nearest
from equipoise.errors import DataError, shorten
from equipoise.evaluation.harnesses.base import (
    Scores,
    comparable,
    estimate_of,
    metric_means,
    number,
    read_json,
    read_lines,
    read_text,
)
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores
from equipoise.types import record_id

# -- AlpacaEval

LEADERBOARD = "leaderboard.csv"  # lies beside the annotations


class _Annotation(msgspec.Struct):
    """A row of annotations.json; `preference` is 1 for the first, 2 for the second generator, 1.5
    (or 0) a draw, or a weight between.
    """

    instruction: str
    generator_1: str
    generator_2: str
    preference: float | None = None
    annotator: str = ""


def alpaca_eval(path: Path, model: str = "") -> list[Scores]:
    """AlpacaEval's annotations.json, with leaderboard.csv beside it for the length-controlled win
    rate; or leaderboard.csv alone. Shares, not per cent.

    Raises DataError, also where the model's annotations are against several references, by several
    annotators, or of one instruction twice: they are not one win rate.
    """
    if path.suffix == ".csv":
        row, name = _leaderboard_row(path, model)
        metrics = _leaderboard_metrics(row, path)
        return [Scores(_alpaca_result(metrics, name, "", count(row)))]
    by_model = _annotations(path)
    if not by_model:
        raise DataError(f"{path}: holds no annotations")
    name = choose_model(by_model, model, path)
    return [_annotated_scores(path, name, by_model[name], _leaderboard_beside(path))]


def alpaca_eval_models(path: Path, model: str = "") -> Iterator[tuple[str, Scores]]:
    """(model, its scores) of AlpacaEval's annotations.json, of this model alone where one is named.

    Raises DataError as `alpaca_eval`.
    """
    by_model = _annotations(path)
    board = _leaderboard_beside(path)
    for name, rows in by_model.items():
        if model in ("", name):
            yield name, _annotated_scores(path, name, rows, board)


def _annotations(path: Path) -> dict[str, list[_Annotation]]:
    """Model -> the annotations of its answers."""
    by_model: dict[str, list[_Annotation]] = {}
    for row in read_json(path, list[_Annotation], "annotations of AlpacaEval"):
        by_model.setdefault(row.generator_2, []).append(row)
    return by_model


def _annotated_scores(
    path: Path, name: str, own: Sequence[_Annotation], board: Mapping[str, Mapping[str, Any]]
) -> Scores:
    """The scores of a model by the annotations of its answers, and its row of the leaderboard."""
    _require_one("reference models", {row.generator_1 for row in own}, name, path)
    _require_one("annotators", {row.annotator for row in own}, name, path)
    questions = Counter(row.instruction for row in own)
    repeated, times = questions.most_common(1)[0]
    if times > 1:
        raise DataError(
            f"{path}: annotates {times} answers of '{name}' to one instruction "
            f"({shorten(repeated)!r}); leave one of each in the file"
        )
    items = [_alpaca_item(row) for row in own]
    metrics = metric_means(items)
    if name in board:
        official = _leaderboard_metrics(board[name], path.with_name(LEADERBOARD))
        metrics = {**official, **metrics}
    key = comparable("alpaca_eval", own[0].annotator, [row.item for row in items])
    unscored = sum(row.values["win_rate"] is None for row in items)
    judge = own[0].annotator
    result = _alpaca_result(metrics, name, judge, len(items), unscored, key)
    return Scores(result, items)


def _require_one(kind: str, names: set[str], model: str, path: Path) -> None:
    """Raise DataError where annotations of a model mix several of a kind."""
    if len(names) > 1:
        listed = ", ".join(sorted(name or "one without a name" for name in names))
        raise DataError(
            f"{path}: the annotations of '{model}' have several {kind} ({listed}), which are not "
            "one win rate; leave the rows of one in the file and import it, then those of another"
        )


def _alpaca_item(row: _Annotation) -> ItemScores:
    preference = row.preference
    if preference is None or not (preference == 0 or 1 <= preference <= 2):
        value, reason = None, f"no preference ({preference})"
    else:
        value, reason = (0.5 if preference == 0 else preference - 1), ""
    return ItemScores(
        item=record_id(row.instruction)[:16], values={"win_rate": value}, reason=reason
    )


def _alpaca_result(
    metrics: dict[str, Estimate], model: str, judge: str, n: int, unscored: int = 0, key: str = ""
) -> BenchmarkResult:
    controlled = "length_controlled_win_rate"
    return BenchmarkResult(
        name="alpaca_eval",
        benchmark="alpaca_eval",
        source="alpaca_eval",
        headline=controlled if controlled in metrics else "win_rate",
        metrics=metrics,
        n=n,
        answers=n,
        unscored=unscored,
        judge=judge,
        settings={"answers": model, "judge": {"model": judge}},
        key=key,
    )


def _leaderboard(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a leaderboard by the model's name, which has no heading."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    if "win_rate" not in (rows.fieldnames or ()):
        raise DataError(f"{path}: is no leaderboard of AlpacaEval: no column win_rate")
    first = (rows.fieldnames or ("",))[0]
    return {str(row[first]): dict(row) for row in rows}


def _leaderboard_beside(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of the leaderboard beside annotations; none where there is no such file."""
    board = path.with_name(LEADERBOARD)
    return _leaderboard(board) if board.is_file() else {}


def _leaderboard_row(path: Path, model: str) -> tuple[dict[str, Any], str]:
    rows = _leaderboard(path)
    name = choose_model(rows, model, path)
    return rows[name], name


def _leaderboard_metrics(row: Mapping[str, Any], path: Path) -> dict[str, Estimate]:
    """win rate -> its interval by its standard error; per cent become shares."""
    columns = {
        "win_rate": ("win_rate", "standard_error"),
        "length_controlled_win_rate": ("length_controlled_winrate", "lc_standard_error"),
    }
    n = count(row)
    metrics = {}
    for metric, (column, error) in columns.items():
        value, se = percent(row.get(column)), percent(row.get(error))
        if value is not None:
            metrics[metric] = estimate_of(value, se, n)
    if "win_rate" not in metrics:
        raise DataError(f"{path}: the win rate is no number")
    return metrics


def percent(text: Any) -> float | None:
    """A share of a number in per cent; None where there is none."""
    try:
        value = number(float(text))
    except (TypeError, ValueError):
        return None
    return None if value is None else value / 100


def count(row: Mapping[str, Any]) -> int:
    """The number of comparisons that a row of the leaderboard stands for."""
    value = percent(row.get("n_total"))
    return 0 if value is None else round(100 * value)


# -- Arena-Hard

# The label of a game -> what the answer shown first gets; a strong verdict counts three times
# (lmarena/arena-hard-auto, show_result.py).
LABELS = {
    "A>>B": (1.0,) * 3,
    "A>B": (1.0,),
    "A=B": (0.5,),
    "B=A": (0.5,),
    "B>A": (0.0,),
    "A<B": (0.0,),
    "B>>A": (0.0,) * 3,
    "A<<B": (0.0,) * 3,
    "B<A": (1.0,),
    "B<<A": (1.0,) * 3,
}


class _Game(msgspec.Struct):
    score: str | None = None


class _Battle(msgspec.Struct):
    """A line of model_judgment/JUDGE/MODEL.jsonl: the baseline is shown first in the first game,
    the model in the second.
    """

    model: str
    judge: str
    games: list[_Game | None]
    uid: str = ""
    question_id: str = ""
    category: str = ""


def arena_hard(path: Path, model: str = "") -> list[Scores]:
    """Arena-Hard's judgements of one model against the baseline, of version 0.1 and 2.

    The win rate is the mean over verdicts, strong ones counting three times. Questions with a game
    that has no verdict count nowhere. Raises DataError.
    """
    rows = read_lines(path, _Battle, "a judgement of Arena-Hard")
    name = choose_model({row.model for row in rows}, model, path)
    own = [row for row in rows if row.model == name]
    items = [item for row in own for item in _battle_items(row)]
    several = len({row.category for row in own}) > 1
    names = [row.item for row in items if row.sample == 0]
    result = BenchmarkResult(
        name="arena_hard",
        benchmark="arena_hard",
        source="arena-hard-auto",
        headline="win_rate",
        metrics=metric_means(items),
        groups=_by_category(items) if several else {},
        n=len(own),
        answers=len(own),
        unscored=sum(row.values["win_rate"] is None for row in items),
        judge=own[0].judge,
        settings={"answers": name, "judge": {"model": own[0].judge}},
        key=comparable("arena_hard", own[0].judge, sorted(names)),
    )
    return [Scores(result, items)]


def _battle_items(row: _Battle) -> Iterator[ItemScores]:
    """A row for each verdict of the two games, from the model's side."""
    item = row.uid or row.question_id
    labels = [game.score if game else None for game in row.games]
    if len(labels) != 2 or any(label not in LABELS for label in labels):
        reason = f"verdicts {labels}"
        yield ItemScores(item=item, values={"win_rate": None}, group=row.category, reason=reason)
        return
    first, second = (LABELS[str(label)] for label in labels)
    values = [*second, *(1 - value for value in first)]
    for sample, value in enumerate(values):
        yield ItemScores(item=item, sample=sample, values={"win_rate": value}, group=row.category)


def _by_category(items: Sequence[ItemScores]) -> dict[str, dict[str, Estimate]]:
    groups = sorted({row.group for row in items})
    return {group: metric_means([row for row in items if row.group == group]) for group in groups}


# -- MT-Bench


class _Single(msgspec.Struct):
    """A line of model_judgment/JUDGE_single.jsonl; a score of −1 is none."""

    question_id: int
    model: str
    score: float
    turn: int
    judge: list[str]


class _Paired(msgspec.Struct):
    """A line of model_judgment/JUDGE_pair.jsonl: the winner of both orders."""

    question_id: int
    model_1: str
    model_2: str
    g1_winner: str
    g2_winner: str
    judge: list[str]
    turn: int = 1


def mt_bench(path: Path, model: str = "") -> list[Scores]:
    """MT-Bench's judgements by FastChat: single scores from 1 to 10, or pairwise wins, where orders
    that disagree are a tie.

    Raises DataError.
    """
    first = read_lines(path, dict[str, Any], "a judgement of MT-Bench")[0]
    if "g1_winner" in first:
        return _mt_bench_pairs(path, model)
    rows = read_lines(path, _Single, "a single judgement of MT-Bench")
    name = choose_model({row.model for row in rows}, model, path)
    own = [row for row in rows if row.model == name]
    items = [_single_item(row) for row in own]
    return [_mt_bench(items, _name(own[0].judge), name, "score")]


def _single_item(row: _Single) -> ItemScores:
    value = None if row.score == -1 else row.score
    return ItemScores(
        item=str(row.question_id),
        sample=row.turn - 1,
        values={"score": value, f"turn_{row.turn}": value},
        reason="the judge gave no score" if value is None else "",
    )


def _mt_bench_pairs(path: Path, model: str) -> list[Scores]:
    rows = read_lines(path, _Paired, "a pairwise judgement of MT-Bench")
    models = {name for row in rows for name in (row.model_1, row.model_2)}
    name = choose_model(models, model, path)
    own = [row for row in rows if name in (row.model_1, row.model_2)]
    items = [_pair_item(row, name) for row in own]
    return [_mt_bench(items, _name(own[0].judge), name, "win_rate")]


def _pair_item(row: _Paired, name: str) -> ItemScores:
    winners = (row.g1_winner, row.g2_winner)
    own = "model_1" if row.model_1 == name else "model_2"
    value, reason = 0.5, ""
    if "error" in winners:
        value, reason = None, "the judge gave no verdict"
    elif winners[0] == winners[1] and winners[0] != "tie":
        value = float(winners[0] == own)
    return ItemScores(
        item=str(row.question_id), sample=row.turn - 1, values={"win_rate": value}, reason=reason
    )


def _mt_bench(items: list[ItemScores], judge: str, model: str, headline: str) -> Scores:
    items.sort(key=lambda row: (row.sample, row.item))
    questions = [(row.item, row.sample) for row in items]
    return Scores(
        BenchmarkResult(
            name="mt_bench",
            benchmark="mt_bench",
            source="FastChat",
            headline=headline,
            metrics=metric_means(items),
            n=len({row.item for row in items}),
            answers=len(items),
            unscored=sum(row.values[headline] is None for row in items),
            judge=judge,
            settings={"answers": model, "judge": {"model": judge}},
            key=comparable("mt_bench", judge, headline, questions),
        ),
        items,
    )


def _name(judge: Sequence[str]) -> str:
    """The judge's model, of its name and its prompt's."""
    return judge[0] if judge else "an unnamed judge"


def choose_model(models: Iterable[str], model: str, path: Path) -> str:
    """The model that is meant: the one that is named, or the only one.

    Raises DataError.
    """
    known = sorted(models)
    if model in known:
        return model
    if model:
        raise DataError(f"{path}: has no model '{model}'; {nearest(model, known)}")
    if len(known) > 1:
        raise DataError(f"{path}: holds several models ({', '.join(known[:5])}); name one: --model")
    return known[0]
