"""The trackers of a run (`report_to`): one tracker run a league, beside metrics.jsonl.

It bears the names of the recipe and of the run's folder. Its steps are the optimizer steps of all
learners since the start of the league. It holds the learners' losses and, at each measurement, the
league's numbers. Its files lie in the run's `logs`, where a resumed run goes on with them; nothing
is sent anywhere unless the tracker's own environment variables say so (WANDB_MODE,
MLFLOW_TRACKING_URI). What trackers print goes to `logs/trackers.txt`.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Protocol

from equipoise.errors import ConfigError
from equipoise.evaluation.measures import Measures
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.results import results
from equipoise.seeds import child

NOT_LOGGED = ("step", "steps")


class Tracker(Protocol):
    """One open run of a tracker."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers at a step."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class TensorBoard:
    """Event files in `logs/tensorboard`; a resumed run adds another to them."""

    def __init__(self, logs: Path, project: str, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(logs / "tensorboard"))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """A database in `logs/trackio`, or TRACKIO_DIR; ConfigError where another is in use."""

    def __init__(self, logs: Path, project: str, name: str) -> None:
        folder = (logs / "trackio").resolve()
        given = os.environ.get("TRACKIO_DIR")
        os.environ["TRACKIO_DIR"] = given or str(folder)
        import trackio
        from trackio.utils import TRACKIO_DIR

        if given is None:
            del os.environ["TRACKIO_DIR"]
        if given is None and Path(TRACKIO_DIR) != folder:
            raise ConfigError(
                f"report_to: trackio already writes to {TRACKIO_DIR} in this "
                "process, and keeps one folder; play this run in a process of its own, "
                "or set TRACKIO_DIR"
            )
        self._run = trackio.init(
            project=project,
            name=name,
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
        self._finish = trackio.finish

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._finish()


class WandB:
    """Offline files in `logs/wandb`, unless WANDB_MODE says otherwise; `wandb sync` sends them."""

    def __init__(self, logs: Path, project: str, name: str) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        # A run in a folder has one identity, so that its parts are one run when synced.
        identity = f"{child(0, str(logs.resolve())) % 16**12:012x}"
        self._run = wandb.init(
            project=project,
            name=name,
            id=identity,
            resume="allow",
            dir=str(logs),
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """Files in `logs/mlflow`, unless MLFLOW_TRACKING_URI names a server."""

    def __init__(self, logs: Path, project: str, name: str) -> None:
        from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

        folder = (logs / "mlflow").resolve()
        folder.mkdir(exist_ok=True)
        address = os.environ.get("MLFLOW_TRACKING_URI") or folder.as_uri()
        if address.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client = MlflowClient(tracking_uri=address)
        kept = folder / "run.json"
        if kept.is_file():
            self._run = json.loads(kept.read_text())["run"]
            self._client.update_run(self._run, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(project)
        number = (
            self._client.create_experiment(project)
            if experiment is None
            else experiment.experiment_id
        )
        self._run = self._client.create_run(number, run_name=name).info.run_id
        kept.write_text(json.dumps({"run": self._run}))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self._client.log_metric(self._run, key, value, step=step)

    def close(self) -> None:
        """Mark the run as over."""
        self._client.set_terminated(self._run)


KINDS: dict[str, Callable[[Path, str, str], Tracker]] = {
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": WandB,
    "mlflow": MLflow,
}


class Trackers:
    """The open trackers of one run, perhaps none."""

    def __init__(self, run: RunDirectory, trackers: list[Tracker]) -> None:
        self._run = run
        self._trackers = trackers

    def training_log(self, learner: str, key: str) -> Callable[[dict[str, Any]], None]:
        """A function that logs a learner's lines of metrics in the stage `key`, under way."""
        step = self._steps() if self._trackers else 0

        def log(line: dict[str, Any]) -> None:
            nonlocal step
            step += int(line.get("steps", 0))
            values = {
                f"{learner}/{name}": value for name, value in line.items() if name not in NOT_LOGGED
            }
            self._log(values, step)

        return log

    def log_measures(self, measures: Measures, generation: int) -> None:
        """Log the league's numbers at a measurement."""
        if not self._trackers:
            return
        values: dict[str, Any] = {"generation": generation, **measures.tracked(generation)}
        values["unjudged_share"] = self._unjudged()
        for row in getattr(measures, "ratings", ()):
            name, _, age = row.name.partition("@")
            if age in ("", str(measures.ages.get(name, generation))):
                values[f"rating/{name}"] = row.value
        for result in results(self._run.ledger):
            name, _, age = result.player.partition("@")
            if age == str(measures.ages.get(name, generation)):
                values[f"set/{result.name}/{name}"] = result.score.mean
        rated = self._run.ledger.stages("rate")
        for row in rated[-1].facts["ratings"] if rated else ():
            values[f"training_rating/{row['name']}"] = row["value"]
        named = {f"league/{name}": value for name, value in values.items()}
        self._log(named, self._steps())

    def close(self) -> None:
        """Close them all."""
        with _output_to_file(self._run.folder):
            for tracker in self._trackers:
                tracker.close()

    def _steps(self) -> int:
        """Optimizer steps of all trainings that are finished."""
        finished = self._run.ledger.stages("learn")
        return sum(int(stage.facts.get("steps", 1)) for stage in finished)

    def _unjudged(self) -> float | None:
        """The share of all answers so far that could not be judged."""
        facts = [stage.facts for stage in self._run.ledger.stages("judge")]
        answers = sum(each["answers"] for each in facts)
        missing = sum(each["answers"] * each["unjudged_share"] for each in facts)
        return missing / answers if answers else None

    def _log(self, values: Mapping[str, Any], step: int) -> None:
        numbers = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        if self._trackers:
            with _output_to_file(self._run.folder):
                for tracker in self._trackers:
                    tracker.log(numbers, step)


@contextmanager
def open_trackers(run: RunDirectory) -> Iterator[Trackers]:
    """The trackers that the run's `report_to` names, closed at the end."""
    config = run.config
    name = f"{config.name} {run.folder.resolve().name}"
    logs = run.folder / "logs"
    trackers: list[Tracker] = []
    opened = Trackers(run, trackers)
    try:
        if config.report_to:
            logs.mkdir(exist_ok=True)
            with _output_to_file(run.folder):
                for kind in config.report_to:
                    trackers.append(KINDS[kind](logs, config.name, name))
        yield opened
    finally:
        if trackers:
            opened.close()


@contextmanager
def _output_to_file(folder: Path) -> Iterator[None]:
    """Send what is printed to a file, so that it does not mix with the progress lines."""
    with ExitStack() as stack:
        file = stack.enter_context((folder / "logs" / "trackers.txt").open("a"))
        stack.enter_context(redirect_stdout(file))
        stack.enter_context(redirect_stderr(file))
        yield
