"""Scores from EvalScope's reports, `reports/MODEL/DATASET.json` below its work directory.

A report has no standard errors. Where the reviews lie beside it, as EvalScope leaves them, every
sample's score is read and gives the intervals.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.errors import DataError
from equipoise.evaluation.harnesses.base import Scores, comparable, number, read_json, read_lines
from equipoise.evaluation.harnesses.inspect_log import misfits
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores, estimate
from equipoise.system.yaml_text import read_yaml

WHAT = "a report of EvalScope"


class _Subset(msgspec.Struct):
    name: str
    score: float | None = None
    num: int = 0
    is_aggregate: bool = False


class _Category(msgspec.Struct):
    subsets: list[_Subset] = []


class _Identity(msgspec.Struct):
    name: str
    aggregation: str = "mean"
    dimensions: dict[str, Any] = {}


class _Semantics(msgspec.Struct):
    direction: str | None = None


class _Metric(msgspec.Struct):
    score: float | None
    num: int = 0
    name: str = ""  # before version 1.0 of the schema's second form
    identity: _Identity | None = None
    categories: list[_Category] = []
    semantics: _Semantics | None = None

    @property
    def title(self) -> str:
        """The metric with what tells it from others of its name: `pass_at_k,k=4`."""
        if self.identity is None:
            return self.name
        parts = [self.identity.name]
        if self.identity.aggregation not in ("mean", "identity", "macro_mean"):
            parts.append(self.identity.aggregation)
        parts += [f"{key}={value}" for key, value in self.identity.dimensions.items()]
        return ",".join(parts)

    @property
    def key(self) -> str:
        """Its name in the reviews, unless it is the main one."""
        return self.identity.name if self.identity else self.name

    @property
    def subsets(self) -> list[_Subset]:
        """The parts of the data that were scored."""
        every = [subset for category in self.categories for subset in category.subsets]
        return [subset for subset in every if not subset.is_aggregate]


class _Report(msgspec.Struct):
    dataset_name: str
    model_name: str
    metrics: list[_Metric]
    primary_metric_identity: _Identity | None = None


class _Score(msgspec.Struct):
    value: dict[str, Any]
    main_score_name: str | None = None


class _SampleScore(msgspec.Struct):
    score: _Score
    sample_id: int | str
    generation_index: int | None = None


class _Choice(msgspec.Struct):
    stop_reason: str | None = None


class _Output(msgspec.Struct):
    choices: list[_Choice] = []


class _Prediction(msgspec.Struct):
    model_output: _Output | None = None


class _Review(msgspec.Struct):
    sample_score: _SampleScore


def read(path: Path, model: str = "") -> list[Scores]:
    """The scores of one report. Raises DataError."""
    report = read_json(path, _Report, WHAT)
    if not report.metrics:
        raise DataError(f"{path}: holds no metrics")
    items = list(_items(path, report))
    metrics = {metric.title: _estimate(metric, items) for metric in report.metrics}
    lower = [
        metric.title
        for metric in report.metrics
        if metric.semantics and metric.semantics.direction == "lower_is_better"
    ]
    result = BenchmarkResult(
        name=report.dataset_name,
        benchmark=report.dataset_name,
        source=f"evalscope {_version(path)}",
        headline=_headline(report),
        metrics=metrics,
        groups=_groups(report, items),
        n=max(metric.num for metric in report.metrics),
        lower_is_better=tuple(lower),
        settings={"model": report.model_name},
        note=misfits(_ends(path, report)),
        key=_key(report, path, items) if items else "",
    )
    return [Scores(result, items)]


def _estimate(metric: _Metric, items: Sequence[ItemScores]) -> Estimate:
    """The reported score; with an interval where the samples have the same mean."""
    score = number(metric.score)
    if items:
        known = estimate(items, metric.title)
        same = known.mean is not None and score is not None
        if same and math.isclose(known.mean or 0.0, score or 0.0, abs_tol=1e-4):
            return known  # the report itself has four decimals
    return Estimate(score, None, None, metric.num)


def _headline(report: _Report) -> str:
    primary = report.primary_metric_identity
    for metric in report.metrics:
        if metric.identity is not None and metric.identity == primary:
            return metric.title
    return report.metrics[0].title


def _groups(report: _Report, items: Sequence[ItemScores]) -> dict[str, dict[str, Estimate]]:
    """Subset -> metric -> its score, where there are several subsets."""
    groups: dict[str, dict[str, Estimate]] = {}
    for metric in report.metrics:
        for subset in metric.subsets:
            own = [row for row in items if row.group == subset.name]
            part = _Metric(subset.score, subset.num, metric.name, metric.identity)
            groups.setdefault(subset.name, {})[metric.title] = _estimate(part, own)
    return groups if len(groups) > 1 else {}


def _items(path: Path, report: _Report) -> Iterator[ItemScores]:
    """The score of every sample, from the reviews of the same run; none without them."""
    for subset, file in _beside(path, report, "reviews"):
        reviews = read_lines(file, _Review, "reviews of EvalScope")
        for review in sorted(reviews, key=_order):
            yield _item(review.sample_score, subset, report)


def _ends(path: Path, report: _Report) -> Iterator[str | None]:
    """The end of each sample's answer, from the predictions of the same run."""
    for _, file in _beside(path, report, "predictions"):
        for row in read_lines(file, _Prediction, "predictions of EvalScope"):
            if row.model_output is not None and row.model_output.choices:
                yield row.model_output.choices[0].stop_reason


def _beside(path: Path, report: _Report, kind: str) -> Iterator[tuple[str, Path]]:
    """(subset, its file) below the folder of that kind beside the reports."""
    if not _in_place(path):
        return
    folder = path.parents[2] / kind / path.parent.name
    subsets = {subset.name for metric in report.metrics for subset in metric.subsets}
    for subset in sorted(subsets):
        file = folder / f"{path.stem}_{subset}.jsonl"
        if file.is_file():
            yield subset, file


def _in_place(path: Path) -> bool:
    return len(path.parents) > 2 and path.parents[1].name == "reports"


def _order(review: _Review) -> tuple[str, int]:
    score = review.sample_score
    return str(score.sample_id), score.generation_index or 0


def _item(scored: _SampleScore, subset: str, report: _Report) -> ItemScores:
    """A sample's values, under the names that the report has for its metrics."""
    titles = {metric.key: metric.title for metric in report.metrics}
    main = scored.score.main_score_name
    if main is not None and main not in titles:
        titles[main] = _headline(report)
    values = {titles.get(name, name): number(value) for name, value in scored.score.value.items()}
    missing = bool(values) and all(value is None for value in values.values())
    return ItemScores(
        item=f"{subset}/{scored.sample_id}",
        sample=scored.generation_index or 0,
        values=values,
        group=subset,
        reason="no score" if missing else "",
    )


def _version(path: Path) -> str:
    """EvalScope's version, from the configuration beside the reports."""
    if _in_place(path):
        config = path.parents[2] / "configs" / "task_config.yaml"
        if config.is_file():
            values = read_yaml(config)
            if isinstance(values, dict) and values.get("evalscope_version"):
                return str(values["evalscope_version"])
    return "of unknown version"


def _key(report: _Report, path: Path, items: Sequence[ItemScores]) -> str:
    asked = [(row.item, row.sample) for row in items]
    return comparable(report.dataset_name, _version(path), asked)
