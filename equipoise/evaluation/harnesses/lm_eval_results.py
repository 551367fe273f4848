"""Scores from the results of lm-eval (EleutherAI's LM Evaluation Harness), as its `--output_path`
holds them; the samples beside them, where `--log_samples` wrote them, make results comparable item
by item.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.evaluation.harnesses.score_files import (
    Scores,
    comparable,
    decode,
    estimate_of,
    number,
    read_json,
    read_lines,
)
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.records import BenchmarkResult, ItemScores

WHAT = "a results file of lm-eval"
UNFILTERED = "none"  # the filter of metrics that are of the whole answer


class _Count(msgspec.Struct):
    effective: int


class _Sample(msgspec.Struct):
    """A line of samples_TASK_TIME.jsonl."""

    doc_id: int
    metrics: list[str]
    filter: str = UNFILTERED
    doc_hash: str = ""
    prompt_hash: str = ""
    values: dict[str, Any] = {}


class _Results(msgspec.Struct):
    """results_TIME.json, as much of it as is used."""

    results: dict[str, dict[str, Any]]
    lm_eval_version: str = "of unknown version"
    groups: dict[str, dict[str, Any]] = {}
    group_subtasks: dict[str, list[str]] = {}
    versions: dict[str, Any] = {}
    shots: dict[str, Any] = msgspec.field(name="n-shot", default_factory=dict)
    counts: dict[str, _Count] = msgspec.field(name="n-samples", default_factory=dict)
    higher_is_better: dict[str, dict[str, bool | None]] = {}
    config: dict[str, Any] = {}
    chat_template_sha: str | None = None
    system_instruction: str | None = None
    samples: dict[str, list[dict[str, Any]]] = {}


def read(path: Path, model: str = "") -> list[Scores]:
    """The scores of a results file, one record a task, or a group with its tasks.

    Raises DataError.
    """
    results = read_json(path, _Results, WHAT)
    if not results.samples:
        results.samples = dict(_samples_beside(path, results.results))
    return list(_scores(results, str(path)))


def scores(document: Mapping[str, Any]) -> list[Scores]:
    """As `read`, of results that were just measured. Raises DataError."""
    text = json.dumps(document)
    return list(_scores(decode(text, _Results, WHAT, "lm-eval"), "lm-eval"))


def _samples_beside(
    path: Path, tasks: Mapping[str, Any]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Task -> its samples, from the files of the same time beside the results."""
    time = path.stem.removeprefix("results_")
    for task in tasks:
        file = path.with_name(f"samples_{task}_{time}.jsonl")
        if file.is_file():
            yield task, read_lines(file, dict[str, Any], "samples of lm-eval")


def _scores(results: _Results, place: str) -> Iterator[Scores]:
    if not results.results and not results.groups:
        raise DataError(f"{place}: holds no results of any task")
    inside = {task for group in results.groups for task in _tasks_of(group, results.group_subtasks)}
    for group, values in results.groups.items():
        if group not in inside:
            yield Scores(_group(results, group, values))
    for task, values in results.results.items():
        if task not in inside and task not in results.groups:
            items = list(_items(results.samples.get(task, ()), task))
            yield Scores(_task(results, task, values, items), items)


def _tasks_of(group: str, children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The tasks and groups below a group."""
    for child in children.get(group, ()):
        yield child
        yield from _tasks_of(child, children)


def _task(
    results: _Results, task: str, values: Mapping[str, Any], items: Sequence[ItemScores]
) -> BenchmarkResult:
    n = _count(results, task)
    metrics, errors = _metrics(values, n, task)
    higher = results.higher_is_better.get(task, {})
    return BenchmarkResult(
        name=task,
        benchmark=task,
        source=f"lm_eval {results.lm_eval_version}",
        headline=next(iter(metrics)),
        metrics=metrics,
        n=n,
        answers=n,
        lower_is_better=tuple(metric for metric in metrics if higher.get(_bare(metric)) is False),
        settings={**_settings(results, task), "standard_errors": errors},
        key=_key(results, task, items) if items else "",
    )


def _group(results: _Results, group: str, values: Mapping[str, Any]) -> BenchmarkResult:
    """A group's means, with those of its tasks."""
    tasks = [
        task
        for task in _tasks_of(group, results.group_subtasks)
        if task in results.results and task not in results.groups
    ]
    n = sum(_count(results, task) for task in tasks)
    metrics, errors = _metrics(values, n, group)
    parts = {
        task: _metrics(results.results[task], _count(results, task), task)[0] for task in tasks
    }
    return BenchmarkResult(
        name=group,
        benchmark=group,
        source=f"lm_eval {results.lm_eval_version}",
        headline=next(iter(metrics)),
        metrics=metrics,
        groups=parts,
        n=n,
        answers=n,
        settings={**_settings(results, group), "standard_errors": errors},
    )


def _count(results: _Results, task: str) -> int:
    """How many documents of the task were evaluated; 0 where the file does not say."""
    if task in results.counts:
        return results.counts[task].effective
    length = results.results.get(task, {}).get("sample_len")
    return length if isinstance(length, int) else 0


def _metrics(
    values: Mapping[str, Any], n: int, task: str
) -> tuple[dict[str, Estimate], dict[str, float]]:
    """(metric -> its mean and interval, metric -> standard error) of lm-eval's pairs `acc,none` and
    `acc_stderr,none`. Raises DataError where there are none.
    """
    estimates: dict[str, Estimate] = {}
    errors: dict[str, float] = {}
    for key, value in values.items():
        metric, comma, name = key.partition(",")
        if not comma or metric.endswith("_stderr") or number(value) is None:
            continue
        error = number(values.get(f"{metric}_stderr,{name}"))
        title = _title(metric, name)
        estimates[title] = estimate_of(value, error, n)
        if error is not None:
            errors[title] = error
    if not estimates:
        raise DataError(
            f"task '{task}' has no metric with a number; its keys are {', '.join(values) or 'none'}"
        )
    return estimates, errors


def _title(metric: str, name: str) -> str:
    """What a metric is called: without its filter where nothing was filtered."""
    return metric if name == UNFILTERED else f"{metric},{name}"


def _bare(title: str) -> str:
    return title.partition(",")[0]


def _settings(results: _Results, task: str) -> dict[str, Any]:
    """What a reader has to know to compare the number with another one."""
    config = results.config
    facts = {
        "task_version": results.versions.get(task),
        "shots": results.shots.get(task),
        "limit": config.get("limit"),
        "gen_kwargs": config.get("gen_kwargs"),
        "dtype": config.get("model_dtype"),
        "backend": config.get("model"),
        "chat_template": results.chat_template_sha,
        "system_instruction": results.system_instruction,
    }
    return {name: value for name, value in facts.items() if value not in (None, {})}


def _items(samples: Sequence[Mapping[str, Any]], task: str) -> Iterator[ItemScores]:
    """The values of each document; one that several filters read is one item."""
    values: dict[int, dict[str, float | None]] = {}
    facts: dict[int, dict[str, Any]] = {}
    for row in samples:
        sample = _sample(row, task)
        of_document = values.setdefault(sample.doc_id, {})
        for metric in sample.metrics:
            value = sample.values.get(metric)
            scored = float(value) if isinstance(value, bool) else number(value)
            if scored is not None:
                of_document[_title(metric, sample.filter)] = scored
        hashes = {"document": sample.doc_hash, "prompt": sample.prompt_hash}
        facts.setdefault(sample.doc_id, hashes)
    for document, scored_values in values.items():
        if scored_values:
            yield ItemScores(item=str(document), values=scored_values, facts=facts[document])


def _sample(row: Mapping[str, Any], task: str) -> _Sample:
    """A sample with the values of its metrics, which stand beside its other fields."""
    try:
        sample = msgspec.convert(row, _Sample)
    except msgspec.ValidationError as error:
        raise DataError(f"the samples of task '{task}' cannot be read: {error}") from None
    sample.values = dict(row)
    return sample


def _key(results: _Results, task: str, items: Sequence[ItemScores]) -> str:
    """Equal for results of the same documents, asked in the same way."""
    asked = [(row.item, *row.facts.values()) for row in items]
    settings = _settings(results, task)
    return comparable(task, results.lm_eval_version, sorted(settings.items()), asked)
