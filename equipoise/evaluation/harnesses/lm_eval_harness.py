"""lm-eval, the LM Evaluation Harness: the library itself, in this process where it is installed, or
in the environment of another interpreter.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, EquipoiseError
from equipoise.evaluation.harnesses import lm_eval_results, lm_eval_worker
from equipoise.evaluation.harnesses.base import Harness, HarnessModel, Measured, Prepared
from equipoise.types import record_id

WHERE = ("pretrained", "peft", "tokenizer")  # arguments that say where a model lies
ABSENT = "pip install 'equipoise[lm-eval]', or name an environment: --harness-python"


class LmEval(Harness):
    """EleutherAI's LM Evaluation Harness with its transformers backend."""

    kind: Literal["lm_eval"] = "lm_eval"
    python: str | None = Field(
        None, description="the interpreter of an environment that has lm-eval; null: this one"
    )
    include_path: Path | None = Field(
        None, description="a folder of tasks of one's own, in lm-eval's YAML"
    )
    num_fewshot: int | None = Field(
        None, ge=0, description="examples in the prompt; null: as the task says"
    )
    batch_size: int | str = Field(
        1, description="rows at once; auto: as many as fit, auto:N: found N times"
    )
    apply_chat_template: bool | str = Field(
        False, description="ask in the model's chat template, or in its one of that name"
    )
    fewshot_as_multiturn: bool | None = Field(
        None, description="examples as turns of the chat; null: with a template"
    )
    system_instruction: str | None = Field(None, description="a system message before every prompt")
    gen_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="over the tasks' own settings of sampling: temperature, max_gen_toks …",
    )
    model_args: dict[str, Any] = Field(
        default_factory=dict,
        description="over the arguments of lm-eval's hf model: max_length, add_bos_token …",
    )
    confirm_run_unsafe_code: bool = Field(
        False, description="let tasks run code that the model wrote"
    )
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
        essentials = self.model_dump(mode="json", exclude={"python", "include_path", "batch_size"})
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
        return Measured(lm_eval_results.scores(document), document)

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
        """What lm-eval makes of a job, in this process or in the other environment.

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
                done = subprocess.run([*command, question, reply], check=False)
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
