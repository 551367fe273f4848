"""Scores from the logs of Inspect as they lie on disk: `.eval` files, and those written with
`--log-format json`.

A `.eval` file is a ZIP archive whose members are JSON, packed by Zstandard, or by deflate in older
versions.
"""

import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.evaluation.harnesses.base import (
    Scores,
    comparable,
    decode,
    estimate_of,
    metric_means,
    number,
    read_json,
)
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores

WHAT = "a log of Inspect"
MEANS = ("mean", "accuracy")  # the metrics that are means over samples
ERRORS = ("stderr", "bootstrap_stderr")


class _Value(msgspec.Struct):
    value: Any = None


class _Score(msgspec.Struct):
    name: str
    scorer: str
    metrics: dict[str, _Value]
    scored_samples: int | None = None
    unscored_samples: int | None = None


class _Headline(msgspec.Struct):
    score: str | None = None
    metric: str | None = None


class _Results(msgspec.Struct):
    completed_samples: int = 0
    scores: list[_Score] = []
    headline: _Headline | None = None


class _Eval(msgspec.Struct):
    task: str
    model: str
    task_version: int | str = 0
    packages: dict[str, str] = {}
    model_generate_config: dict[str, Any] = {}
    config: dict[str, Any] = {}


class _Reduced(msgspec.Struct):
    sample_id: int | str | None = None
    value: Any = None


class _Reduction(msgspec.Struct):
    scorer: str
    samples: list[_Reduced] = []


class _Choice(msgspec.Struct):
    stop_reason: str | None = None


class _Output(msgspec.Struct):
    choices: list[_Choice] = []


class _Sample(msgspec.Struct):
    output: _Output | None = None

    @property
    def end(self) -> str | None:
        """The end of the answer, such as "stop"."""
        if self.output is None or not self.output.choices:
            return None
        return self.output.choices[0].stop_reason


class _Log(msgspec.Struct):
    status: str
    eval: _Eval
    samples: list[_Sample] | None = None
    results: _Results | None = None
    reductions: list[_Reduction] | None = None


ZSTANDARD = 93  # the method of a member that the standard library cannot unpack
LARGEST = 1 << 30  # bytes of a member that are unpacked
LOCAL_HEADER = 30  # bytes before the name of a member
HEADER = "header.json"
REDUCTIONS = "reductions.json"


def read(path: Path, model: str = "") -> list[Scores]:
    """The scores of a log, one record with the metrics of every scorer.

    Raises DataError for a log of an evaluation that did not end.
    """
    log = read_archive(path) if path.suffix == ".eval" else read_json(path, _Log, WHAT)
    if log.status != "success" or log.results is None or not log.results.scores:
        raise DataError(f"{path}: the evaluation has no scores (its status is '{log.status}')")
    items = _items(log.results, log.reductions or [])
    return [Scores(_result(log, log.results, items, path), items)]


def read_archive(path: Path) -> _Log:
    """The header of a `.eval` log with its reductions. Raises DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if HEADER not in names:
                raise DataError(f"{path}: is a log of an evaluation that did not end")
            log = decode(unpacked(path, archive, HEADER), _Log, WHAT, str(path))
            if REDUCTIONS in names:
                text = unpacked(path, archive, REDUCTIONS)
                log.reductions = decode(text, list[_Reduction], WHAT, f"{path}, {REDUCTIONS}")
    except (zipfile.BadZipFile, OSError, ValueError, struct.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is not {WHAT}: {error}") from error
    return log


def unpacked(path: Path, archive: zipfile.ZipFile, name: str) -> str:
    """The text of a member. Raises DataError for one that is too large."""
    member = archive.getinfo(name)
    if member.file_size > LARGEST:
        raise DataError(f"{path}: {name} would have {member.file_size:,} bytes")
    if member.compress_type != ZSTANDARD:
        return archive.read(name).decode()
    import pyarrow as pa

    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(LOCAL_HEADER)
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        file.seek(member.header_offset + LOCAL_HEADER + name_length + extra_length)
        packed = file.read(member.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return stream.read(LARGEST).decode()


def _result(
    log: _Log, results: _Results, items: Sequence[ItemScores], path: Path
) -> BenchmarkResult:
    metrics = dict(_metrics(results))
    if not metrics:
        raise DataError(f"{path}: has no metric with a number")
    known = metric_means(items)
    for name, estimated in metrics.items():
        metrics[name] = _with_interval(estimated, known.get(name))
    unscored = results.scores[0].unscored_samples or 0
    settings = {
        "model": log.eval.model,
        "task_version": log.eval.task_version,
        "epochs": log.eval.config.get("epochs"),
        "limit": log.eval.config.get("limit"),
        **log.eval.model_generate_config,
    }
    samples = [row.item for row in items]
    return BenchmarkResult(
        name=log.eval.task,
        benchmark=log.eval.task,
        source=f"inspect {log.eval.packages.get('inspect_ai', 'of unknown version')}",
        headline=_headline(results, metrics),
        metrics=metrics,
        n=results.completed_samples,
        answers=results.completed_samples,
        unscored=unscored,
        settings={name: value for name, value in settings.items() if value is not None},
        note=misfits(sample.end for sample in log.samples or ()),
        key=comparable(log.eval.task, log.eval.task_version, samples) if items else "",
    )


def _metrics(results: _Results) -> Iterator[tuple[str, Estimate]]:
    """SCORER/METRIC with its value; a standard error is that of the metrics beside it."""
    for score in results.scores:
        n = score.scored_samples or results.completed_samples
        errors = [score.metrics[name].value for name in ERRORS if name in score.metrics]
        for name, metric in score.metrics.items():
            if name not in ERRORS and number(metric.value) is not None:
                error = errors[0] if errors and name in MEANS else None
                yield f"{score.name}/{name}", estimate_of(metric.value, error, n)


def _with_interval(reported: Estimate, known: Estimate | None) -> Estimate:
    """The reported mean with the samples' interval, where their mean is the same."""
    if known is None or known.mean is None or reported.mean is None:
        return reported
    return known if abs(known.mean - reported.mean) < 1e-9 else reported


def _headline(results: _Results, metrics: dict[str, Estimate]) -> str:
    chosen = results.headline
    if chosen is not None and f"{chosen.score}/{chosen.metric}" in metrics:
        return f"{chosen.score}/{chosen.metric}"
    return next(iter(metrics))


def _items(results: _Results, reductions: Sequence[_Reduction]) -> list[ItemScores]:
    """The value of each sample, reduced over epochs, under the name of the metric that is their
    mean; only numbers.
    """
    titles = {
        score.scorer: f"{score.name}/{name}"
        for score in results.scores
        for name in MEANS
        if name in score.metrics
    }
    values: dict[str, dict[str, float | None]] = {}
    for reduction in reductions:
        title = titles.get(reduction.scorer, reduction.scorer)
        for sample in reduction.samples:
            of_sample = values.setdefault(str(sample.sample_id), {})
            of_sample[title] = number(sample.value)
    return [ItemScores(item=item, values=scored) for item, scored in values.items()]


def misfits(ends: Iterable[str | None]) -> str:
    """A note on samples that ended at the model's context, of all their ends; "" where none did.

    EvalScope and Inspect take a server's refusal of a prompt that does not fit for the answer, and
    score its text.
    """
    every = list(ends)
    n = every.count("model_length")
    if not n:
        return ""
    return (
        f"{n} of {len(every)} prompts left no room in the model's context; the harness "
        "scored the server's refusal as the answer"
    )
