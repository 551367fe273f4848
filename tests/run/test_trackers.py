"""Trackers, for real: a league that is interrupted and resumed is one run of the tracker,
in the run's folder, and its files are read back.
"""

import json
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

FIRST = """
from pathlib import Path
from equipoise.errors import Stopped
from equipoise.run import recipes
from equipoise.run.directory import RunDirectory
from equipoise.run.monitor import Silent
from equipoise.run.playing import play_out

class Stop(Silent):
    def stage(self, name, total=None, generation=None):
        if generation == 2:
            raise KeyboardInterrupt

settings = ["generations=3", "report_to=[{kind}]"]
config = recipes.load("rock_paper_scissors", settings)
with RunDirectory.create(config, Path("run")) as run:
    try:
        play_out(run, Stop())
    except Stopped:
        print("stopped")
"""

Numbers = dict[str, list[tuple[int, float]]]  # name -> (step, value), in order


def tensorboard(logs: Path) -> tuple[int, Numbers]:
    """(how many runs there are, their numbers)"""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = list(logs.rglob("events.*"))
    folder = {file.parent for file in files}
    events = EventAccumulator(str(logs / "tensorboard"))
    events.Reload()
    return len(folder), {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def trackio(logs: Path) -> tuple[int, Numbers]:
    """Likewise."""
    [file] = (logs / "trackio").glob("*.db")
    rows = sqlite3.connect(file).execute(
        "SELECT run_name, step, metrics FROM metrics ORDER BY id"
    )
    numbers: Numbers = defaultdict(list)
    names = set()
    for name, step, metrics in rows:
        names.add(name)
        for key, value in json.loads(metrics).items():
            numbers[key].append((step, value))
    assert names == {"rock_paper_scissors run"}
    return len(names), numbers


def wandb(logs: Path) -> tuple[int, Numbers]:
    """Likewise; offline, each part of a run has a folder, and all have its id."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    numbers: Numbers = defaultdict(list)
    identities = set()
    for file in sorted((logs / "wandb").glob("offline-run-*/*.wandb")):
        store = DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.HasField("run"):
                identities.add(record.run.run_id)
                assert record.run.display_name == "rock_paper_scissors run"
            if record.HasField("history"):
                for item in record.history.item:
                    key = item.key or ".".join(item.nested_key)
                    step = record.history.step.num
                    numbers[key].append((step, json.loads(item.value_json)))
    return len(identities), numbers


def mlflow(logs: Path) -> tuple[int, Numbers]:
    """Likewise."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(logs / "mlflow").resolve().as_uri())
    experiment = client.get_experiment_by_name("rock_paper_scissors")
    runs = client.search_runs([experiment.experiment_id])
    assert runs[0].info.run_name == "rock_paper_scissors run"
    assert runs[0].info.status == "FINISHED"
    return len(runs), {
        name: [
            (metric.step, metric.value)
            for metric in client.get_metric_history(runs[0].info.run_id, name)
        ]
        for name in runs[0].data.metrics
    }


def python(folder: Path, *arguments: str) -> str:
    """What a process says; it must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "read",
    [
        tensorboard,
        pytest.param(trackio, marks=pytest.mark.slow),
        pytest.param(wandb, marks=pytest.mark.slow),
        pytest.param(mlflow, marks=pytest.mark.slow),
    ],
)
def test_a_league_is_one_run(read, tmp_path, monkeypatch):
    kind = read.__name__
    pytest.importorskip(kind, reason=f"{kind} is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    # nothing outside the run's folder: a tracker's own default would be here
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert "stopped" in python(tmp_path, "-c", FIRST.replace("{kind}", kind))
    shown = python(tmp_path, "-m", "equipoise", "resume", "run")
    assert not [line for line in shown.splitlines() if kind in line.lower()], shown
    assert {path.name for path in tmp_path.iterdir()} == {"run", "home"}
    runs, numbers = read(tmp_path / "run" / "logs")
    assert runs == 1
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    measured = [line["exploitability"] for line in recorded if "exploitability" in line]
    exploitability = numbers["league/exploitability"]
    assert [value for _, value in exploitability] == pytest.approx(measured)
    steps = [step for step, _ in exploitability]
    assert len(steps) == 4 and steps == sorted(set(steps))
    assert "league/generation" in numbers
