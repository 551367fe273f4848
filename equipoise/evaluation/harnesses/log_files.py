"""Logs of other programs as they lie on disk: which program wrote a file, whose scores it has."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equipoise.errors import DataError
from equipoise.evaluation.harnesses.base import READERS, Scores, read_scores, read_text
from equipoise.evaluation.harnesses.official_judges import LEADERBOARD, alpaca_eval_models

SUFFIXES = (".json", ".eval", ".jsonl", ".csv")
LM_EVAL_SAMPLES = "samples_"  # how lm-eval's files of single documents begin


def log_source(path: Path, document: Any) -> str:
    """The program that wrote a file of scores, a name of `READERS`. Raises DataError.

    `document`: its JSON, as `first_value` reads it.
    """
    if path.suffix == ".eval":
        return "inspect"
    if path.suffix == ".csv":
        return "alpaca_eval"
    if isinstance(document, list):
        rows = [row for row in document[:1] if isinstance(row, dict)]
        if rows and "generator_2" in rows[0]:
            return "alpaca_eval"
    elif isinstance(document, dict):
        if "results" in document and ("n-shot" in document or "lm_eval_version" in document):
            return "lm_eval"
        if "eval" in document and "status" in document:
            return "inspect"
        if "games" in document and "judge" in document:
            return "arena_hard"
        if "question_id" in document and "judge" in document:
            return "mt_bench"
        if "results" in document and "configs" in document:
            return "lm_eval"
    raise DataError(
        f"{path}: is no run and no log that can be read; logs are those of Inspect (.eval, .json), "
        f"lm-eval (results_*.json) and AlpacaEval (annotations.json), and what "
        f"{', '.join(READERS)} write is recorded beside a run by `equipoise import-scores`"
    )


def first_value(path: Path) -> Any:
    """The JSON of a file, or of its first line; None for an archive and a table. Raises
    DataError.
    """
    if path.suffix in (".eval", ".csv"):
        return None
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    line = text.lstrip().partition("\n")[0]
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: is no JSON, and no log that can be read") from None


def log_files(path: Path) -> list[Path]:
    """The logs in a folder, those of lower folders too, or the file itself.

    Raises DataError for a folder without one.
    """
    if path.is_file():
        return [path]
    files = []
    for file in sorted(path.rglob("*")):
        is_samples = file.name.startswith(LM_EVAL_SAMPLES)
        if file.suffix in SUFFIXES and file.is_file() and not is_samples:
            files.append(file)
    annotated = {file.parent for file in files if file.name == "annotations.json"}
    files = [file for file in files if not (file.name == LEADERBOARD and file.parent in annotated)]
    if not files:
        raise DataError(f"{path}: is no run, no model and no folder of logs")
    return files


def logged_scores(path: Path, model: str = "") -> Iterator[tuple[str, Scores]]:
    """(model, its scores) of everything in a log, or in a folder of logs.

    `model`: only this one. Raises DataError, which names the file.
    """
    has_scores = False
    for file in log_files(path):
        document = first_value(file)
        source = log_source(file, document)
        for scores_of, scores in scores_by_model(file, source, document, model):
            if model in ("", scores_of):
                has_scores = True
                yield scores_of, scores
    if not has_scores:
        raise DataError(f"{path}: has no scores of '{model}'")


def scores_by_model(
    path: Path, source: str, document: Any, model: str
) -> Iterator[tuple[str, Scores]]:
    """(model, its scores) of everything in one log, whose JSON is `document`.

    Of AlpacaEval's annotations only those of `model` are scored, where one is named.
    """
    if source == "alpaca_eval" and path.suffix == ".json":
        yield from alpaca_eval_models(path, model)
        return
    for scores in read_scores(path, source):
        yield logged_model(path, source, document, scores), scores


def logged_model(path: Path, source: str, document: Any, scores: Scores) -> str:
    """The model whose scores they are, as the log calls it; else the file's name."""
    if source == "lm_eval":
        name = document.get("model_name") if isinstance(document, dict) else ""
        return str(name or path.parent.name or path.stem)
    settings = scores.result.settings
    for key in ("model", "answers"):
        if isinstance(settings.get(key), str) and settings[key]:
            return str(settings[key])
    return path.stem
