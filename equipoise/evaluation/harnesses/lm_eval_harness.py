"""lm-eval, the LM Evaluation Harness: the library itself, in this process where it is installed, or
in the environment of another interpreter.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, EquipoiseError
from equipoise.evaluation.harnesses import lm_eval_worker
from equipoise.evaluation.harnesses.base import (
    Harness,
    HarnessModel,
    Measured,
    Prepared,
    Scores,
    comparable,
    decode,
    estimate_of,
    number,
    read_json,
    read_lines,
)
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores
from equipoise.system.effects import COMMAND, DeclaredEffect, Text, effect_in
from equipoise.system.subprocesses import run_process
from equipoise.types import record_id

WHERE = ("pretrained", "peft", "tokenizer")  # arguments that say where a model lies
ABSENT = "pip install 'equipoise[lm-eval]', or name an interpreter that has it: python: PATH"


class LmEval(Harness):
    """EleutherAI's LM Evaluation Harness with its transformers backend."""

    kind: Literal["lm_eval"] = "lm_eval"
    python: Annotated[str | None, COMMAND] = Field(
        None, description="the interpreter of an environment that has lm-eval; null: this one"
    )
    include_path: Annotated[Path | None, DeclaredEffect("executes", "runs tasks in {}")] = Field(
        None, description="a folder of tasks of one's own, in lm-eval's YAML"
    )
    num_fewshot: int | None = Field(
        None, ge=0, description="examples in the prompt; null: as the task says"
    )
    batch_size: int | Text = Field(
        1, description="rows at once; auto: as many as fit, auto:N: found N times"
    )
    apply_chat_template: bool | Text = Field(
        False, description="ask in the model's chat template, or in its one of that name"
    )
    fewshot_as_multiturn: bool | None = Field(
        None, description="examples as turns of the chat; null: with a template"
    )
    system_instruction: Text | None = Field(
        None, description="a system message before every prompt"
    )
    gen_kwargs: Annotated[dict[str, Any], effect_in("lm-eval")] = Field(
        default_factory=dict,
        description="over the tasks' own settings of sampling: temperature, max_gen_toks …",
    )
    model_args: Annotated[dict[str, Any], effect_in("lm-eval")] = Field(
        default_factory=dict,
        description="over the arguments of lm-eval's hf model: max_length, add_bos_token …",
    )
    confirm_run_unsafe_code: Annotated[
        bool, DeclaredEffect("executes", "runs code that the model writes: {}")
    ] = Field(False, description="let tasks run code that the model wrote")
    seed: int = Field(1234, ge=0, description="of few-shot examples and of sampling")

    def prepare(self) -> Prepared:
        """lm-eval's version and tasks.

        Raises ConfigError for a harness that is not installed, an unknown task, or a folder of
        tasks that is not there.
        """
        if self.include_path is not None and not self.include_path.is_dir():
            raise ConfigError(f"--include-path {self.include_path}: is no folder")
        reply = self._answer({"do": "tasks", **self._tasks()})
        for name, matches in reply["tasks"].items():
            if not matches:
                raise ConfigError(
                    f"--tasks: lm-eval {reply['version']} has no task '{name}'; "
                    f"{nearest(name, reply['known'])}"
                )
        fixed = set(LmEval.model_fields) - {"python", "include_path", "batch_size"}
        essentials = self.model_dump(mode="json", include=fixed)
        essentials["own_tasks"] = _digest(self.include_path)
        return Prepared(f"lm_eval {reply['version']}", essentials)

    def measure(self, model: HarnessModel, replies: Path) -> Measured:
        """lm-eval's results; it keeps greedy answers and likelihoods in `replies`.

        Raises DataError where a task's data cannot be had, EquipoiseError where it fails.
        """
        given = {**_model_arguments(model), **self.model_args}
        how = {key: given[key] for key in given if key not in WHERE}
        cache = f"{replies}-{record_id(sorted(how.items()))[:12]}"
        arguments = {
            "model": "hf",
            "model_args": given,
            "device": model.device,
            "batch_size": self.batch_size,
            "limit": self.limit,
            "num_fewshot": self.num_fewshot,
            "apply_chat_template": self.apply_chat_template,
            "fewshot_as_multiturn": self._multiturn(),
            "system_instruction": self.system_instruction,
            "gen_kwargs": self.gen_kwargs or None,
            "confirm_run_unsafe_code": self.confirm_run_unsafe_code,
            "use_cache": str(Path(cache).resolve()),
            "numpy_random_seed": self.seed,
            "torch_random_seed": self.seed,
            "fewshot_random_seed": self.seed,
        }
        job = {"do": "evaluate", **self._tasks(), "arguments": arguments}
        document = self._answer(job)
        return Measured(scores(document), document)

    def _multiturn(self) -> bool:
        if self.fewshot_as_multiturn is None:
            return bool(self.apply_chat_template)
        return self.fewshot_as_multiturn

    def _tasks(self) -> dict[str, Any]:
        folder = self.include_path
        return {
            "tasks": list(self.tasks),
            "include_path": str(folder.resolve()) if folder else None,
        }

    def _answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """Let lm-eval do a job, in this process or in the other environment.

        Raises ConfigError, DataError or EquipoiseError for its fault.
        """
        reply = lm_eval_worker.answer(job) if self.python is None else self._away(job)
        fault = reply.get("fault")
        if fault is None:
            return reply
        message = reply["message"]
        if fault == "absent":
            where = self.python or "this environment"
            raise ConfigError(f"lm-eval is not installed in {where}; {ABSENT}")
        if fault == "hub":
            raise DataError(
                f"lm-eval cannot fetch the data of {', '.join(self.tasks)}, for the hub "
                f"cannot be reached ({message}); fetch them once with a network, or use "
                "tasks on files: --include-path"
            )
        raise EquipoiseError(f"lm-eval failed: {message}")

    def _away(self, job: dict[str, Any]) -> dict[str, Any]:
        """The reply of the worker under another interpreter; what it prints is shown.

        Raises ConfigError where there is no such interpreter, EquipoiseError where it ended without
        a reply.
        """
        assert self.python is not None
        with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
            question, reply = Path(name, "job.json"), Path(name, "reply.json")
            question.write_text(json.dumps(job), encoding="utf-8")
            command = [self.python, str(lm_eval_worker.__file__)]
            try:
                done = run_process([*command, question, reply])
            except OSError as error:
                raise ConfigError(
                    f"--harness-python {self.python}: cannot be run ({error.strerror})"
                ) from error
            if done.returncode or not reply.is_file():
                raise EquipoiseError(
                    f"lm-eval in {self.python} ended with exit code {done.returncode}"
                )
            return json.loads(reply.read_text(encoding="utf-8"))


def _model_arguments(model: HarnessModel) -> dict[str, Any]:
    """The arguments of lm-eval's `hf` model."""
    arguments: dict[str, Any] = {"pretrained": model.model, "dtype": model.dtype}
    options = {
        "peft": model.adapter,
        "tokenizer": model.tokenizer,
        "mixed_precision_dtype": model.products,
        "chat_template_args": dict(model.template_options) or None,
    }
    if model.attention != "auto":
        options["attn_implementation"] = model.attention
    given = {name: value for name, value in options.items() if value is not None}
    return arguments | given


def _digest(folder: Path | None) -> str:
    """A hash of all files of a folder of tasks, so that an edited task is another one."""
    digest = hashlib.blake2b(digest_size=6)
    if folder is not None:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


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
            yield Scores(_task(results, group, values))
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
    results: _Results, task: str, values: Mapping[str, Any], items: Sequence[ItemScores] = ()
) -> BenchmarkResult:
    """A task's figures, or a group's means with those of its tasks."""
    tasks = [
        part
        for part in _tasks_of(task, results.group_subtasks)
        if part in results.results and part not in results.groups
    ]
    n = sum(_count(results, part) for part in tasks) if tasks else _count(results, task)
    metrics, errors = _metrics(values, n, task)
    parts = {
        part: _metrics(results.results[part], _count(results, part), part)[0] for part in tasks
    }
    higher = results.higher_is_better.get(task, {})
    return BenchmarkResult(
        name=task,
        benchmark=task,
        source=f"lm_eval {results.lm_eval_version}",
        headline=next(iter(metrics)),
        metrics=metrics,
        groups=parts,
        n=n,
        answers=n,
        lower_is_better=tuple(metric for metric in metrics if higher.get(_bare(metric)) is False),
        settings={**_settings(results, task), "standard_errors": errors},
        key=_key(results, task, items) if items else "",
    )


def _count(results: _Results, task: str) -> int:
    """The number of documents evaluated; 0 where the file does not say."""
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
    """A metric's name, without its filter where nothing was filtered."""
    return metric if name == UNFILTERED else f"{metric},{name}"


def _bare(title: str) -> str:
    return title.partition(",")[0]


def _settings(results: _Results, task: str) -> dict[str, Any]:
    """Everything a reader has to know to compare the number with another one."""
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
