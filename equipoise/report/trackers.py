"""The trackers of a run (`report_to`): one tracker run a league, beside metrics.jsonl.

They are accelerate's, which bear the names of the recipe and of the run's folder. Their steps are
the optimizer steps of all learners since the start of the league. They hold the learners' losses
and, at each measurement, the league's numbers. Their files lie in the run's `logs`, where a resumed
run goes on with them; nothing is sent anywhere unless the tracker's own environment variables say
so (WANDB_MODE, MLFLOW_TRACKING_URI). What trackers print goes to `logs/trackers.txt`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import ConfigError
from equipoise.evaluation.measures import Measures
from equipoise.ledger.benchmark_results import results
from equipoise.runs.directory import RunDirectory
from equipoise.runs.monitor import Observer
from equipoise.seeds import child
from equipoise.system.files import read_json
from equipoise.system.folder import Folder
from equipoise.system.locks import check_writable

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

NOT_LOGGED = ("step", "steps")


def tensorboard(logs: Path, project: str, name: str) -> GeneralTracker:
    """Event files in `logs/tensorboard`; a resumed run adds another to them."""
    from accelerate.tracking import TensorBoardTracker

    return TensorBoardTracker("tensorboard", logs)


def trackio(logs: Path, project: str, name: str) -> GeneralTracker:
    """A database in `logs/trackio`, or TRACKIO_DIR; ConfigError where another is in use."""
    folder = (logs / "trackio").resolve()
    given = os.environ.get("TRACKIO_DIR")
    os.environ["TRACKIO_DIR"] = given or str(folder)
    from accelerate.tracking import TrackioTracker
    from trackio.utils import TRACKIO_DIR

    if given is None:
        del os.environ["TRACKIO_DIR"]
        if Path(TRACKIO_DIR) != folder:
            raise ConfigError(
                f"report_to: trackio already writes to {TRACKIO_DIR} in this "
                "process, and keeps one folder; play this run in a process of its own, "
                "or set TRACKIO_DIR"
            )
    import trackio as library

    class QuietTrackioTracker(TrackioTracker):
        """Finishes as the library wants it: else it does so again, aloud, when the process ends."""

        def finish(self) -> None:
            """Close the run."""
            library.finish()

    return QuietTrackioTracker(
        project, name=name, resume="allow", embed=False, auto_log_cpu=False, auto_log_gpu=False
    )


def wandb(logs: Path, project: str, name: str) -> GeneralTracker:
    """Offline files in `logs/wandb`, unless WANDB_MODE says otherwise; `wandb sync` sends them."""
    from accelerate.tracking import WandBTracker
    from wandb import Settings  # pyright: ignore[reportMissingImports]

    # A run in a folder has one identity, so that its parts are one run when synced.
    identity = f"{child(0, str(logs.resolve())) % 16**12:012x}"
    return WandBTracker(
        project,
        name=name,
        id=identity,
        resume="allow",
        dir=str(logs),
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=Settings(silent=True, console="off", symlink=False),
    )


def mlflow(logs: Path, project: str, name: str) -> GeneralTracker:
    """Files in `logs/mlflow`, unless MLFLOW_TRACKING_URI names a server."""
    import mlflow as library  # pyright: ignore[reportMissingImports]
    from accelerate.tracking import MLflowTracker

    folder = (logs / "mlflow").resolve()
    check_writable(folder)
    folder.mkdir(exist_ok=True)
    address = os.environ.get("MLFLOW_TRACKING_URI") or folder.as_uri()
    if address.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    library.set_tracking_uri(address)
    kept = folder / "run.json"
    begun = read_json(kept)["run"] if kept.is_file() else None

    class ResumedMLflowTracker(MLflowTracker):
        """Keeps the run's id beside its files, so that a resumed run goes on with it."""

        def start(self) -> None:
            """Open the run; its id is written once it is known."""
            super().start()
            kept.write_text(json.dumps({"run": self.active_run.info.run_id}))

    return ResumedMLflowTracker(project, run_id=begun, run_name=name)


KINDS: dict[str, Callable[[Path, str, str], GeneralTracker]] = {
    "tensorboard": tensorboard,
    "trackio": trackio,
    "wandb": wandb,
    "mlflow": mlflow,
}


def start_tracker(kind: str, logs: Path, project: str, name: str) -> GeneralTracker:
    """An open tracker of a kind, whose files lie in `logs`."""
    from accelerate import PartialState

    PartialState()  # without it accelerate's trackers cannot write their own log
    tracker = KINDS[kind](logs, project, name)
    tracker.main_process_only = False  # a run has one driver
    tracker.start()
    return tracker


class Trackers(Observer):
    """The open trackers of one run."""

    def __init__(self, run: RunDirectory, trackers: Sequence[GeneralTracker]) -> None:
        self.run = run
        self.trackers = trackers
        self.steps: dict[str, int] = {}  # stage of learning -> optimizer steps so far, of all

    def trained(self, learner: str, key: str, line: Mapping[str, Any]) -> None:
        """Log a line of metrics of a learner in the stage `key`."""
        before = self.steps.get(key)
        if before is None:
            before = self.finished_steps()
        self.steps[key] = before + int(line.get("steps", 0))
        values = {
            f"{learner}/{name}": value for name, value in line.items() if name not in NOT_LOGGED
        }
        self.log_numbers(values, self.steps[key])

    def measured(self, measures: Measures, generation: int) -> None:
        """Log the league's numbers at a measurement."""
        added = [part.quantity for part in self.run.config.measures]
        values: dict[str, Any] = {"generation": generation, **measures.tracked(generation, added)}
        values["unjudged_share"] = self._unjudged()
        for row in getattr(measures, "ratings", ()):
            name, _, age = row.name.partition("@")
            if age in ("", str(measures.ages.get(name, generation))):
                values[f"rating/{name}"] = row.value
        for result in results(self.run.ledger):
            name, _, age = result.player.partition("@")
            if age == str(measures.ages.get(name, generation)):
                values[f"set/{result.name}/{name}"] = result.score.mean
        rated = self.run.ledger.stages("rate")
        for row in rated[-1].facts["ratings"] if rated else ():
            values[f"training_rating/{row['name']}"] = row["value"]
        named = {f"league/{name}": value for name, value in values.items()}
        self.log_numbers(named, self.finished_steps())

    def finished_steps(self) -> int:
        """Optimizer steps of all trainings that are finished."""
        finished = self.run.ledger.stages("learn")
        return sum(int(stage.facts.get("steps", 1)) for stage in finished)

    def _unjudged(self) -> float | None:
        """The share of all answers so far that could not be judged."""
        facts = [stage.facts for stage in self.run.ledger.stages("judge")]
        answers = sum(each["answers"] for each in facts)
        missing = sum(each["answers"] * each["unjudged_share"] for each in facts)
        return missing / answers if answers else None

    def log_numbers(self, values: Mapping[str, Any], step: int) -> None:
        """Send the finite numbers of these values to every tracker."""
        numbers = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        with output_to_file(self.run.files):
            for tracker in self.trackers:
                tracker.log(numbers, step=step)


@contextmanager
def open_trackers(run: RunDirectory) -> Iterator[list[Observer]]:
    """The trackers that the run's `report_to` names as one observer, closed at the end."""
    config = run.config
    if not config.report_to:
        yield []
        return
    name = f"{config.name} {run.folder.resolve().name}"
    logs = run.folder / "logs"
    trackers: list[GeneralTracker] = []
    try:
        with output_to_file(run.files):
            for kind in config.report_to:
                trackers.append(start_tracker(kind, logs, config.name, name))
        yield [Trackers(run, trackers)]
    finally:
        with output_to_file(run.files):
            for tracker in trackers:
                tracker.finish()


@contextmanager
def output_to_file(run: Folder) -> Iterator[None]:
    """Send what is printed to a file, so that it does not mix with the progress lines."""
    with ExitStack() as stack:
        logs = stack.enter_context(run.inner("logs", make=True))
        binary = stack.enter_context(logs.open_to_append("trackers.txt"))
        file = stack.enter_context(TextIOWrapper(BufferedWriter(binary), encoding="utf-8"))
        stack.enter_context(redirect_stdout(file))
        stack.enter_context(redirect_stderr(file))
        yield
