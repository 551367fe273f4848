"""Scores of other harnesses and official judges, by the name of what wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.harnesses import (
    evalscope_report,
    inspect_log,
    lm_eval_results,
    official_judges,
)
from equipoise.evaluation.harnesses.score_files import Scores

Reader = Callable[[Path, str], list[Scores]]
READERS: Mapping[str, Reader] = {
    "lm_eval": lm_eval_results.read,
    "evalscope": evalscope_report.read,
    "inspect": inspect_log.read,
    "alpaca_eval": official_judges.alpaca_eval,
    "arena_hard": official_judges.arena_hard,
    "mt_bench": official_judges.mt_bench,
}


def read_scores(path: Path, source: str, model: str = "") -> list[Scores]:
    """The scores in a file that `source` wrote; `model` is the one that is meant where a file holds
    several.

    Raises ConfigError for an unknown source, DataError for a file that is no such.
    """
    if source not in READERS:
        raise ConfigError(f"--from {source}: {nearest(source, list(READERS))}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    return READERS[source](path, model)
