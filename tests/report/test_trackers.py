"""Trackers, for real: a league that is interrupted and resumed is one run of the tracker, in the
run's folder, and its files are read back.
"""

import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_runs import SMALL, settings

from equipoise.errors import ConfigError
from equipoise.planning.new_run import new_run
from equipoise.ratings.base import Rating
from equipoise.report import trackers
from equipoise.report.trackers import Trackers
from equipoise.runs import recipe_loader

FIRST = """
from pathlib import Path
from equipoise.errors import Stopped
from equipoise.runs import recipe_loader
from equipoise.planning.new_run import new_run
from equipoise.runs.monitor import Silent
from equipoise.api.play_out import play_out

class Stop(Silent):
    def stage(self, name, total=None, generation=None):
        if generation == 2:
            raise KeyboardInterrupt

settings = ["generations=3", "report_to=[{kind}]"]
config = recipe_loader.load("rock_paper_scissors", settings)
with new_run(config, Path("run")) as run:
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
    rows = sqlite3.connect(file).execute("SELECT run_name, step, metrics FROM metrics ORDER BY id")
    numbers: Numbers = defaultdict(list)
    names = set()
    for name, step, metrics in rows:
        names.add(name)
        for key, value in json.loads(metrics).items():
            numbers[key].append((step, value))
    assert names == {"rock_paper_scissors run"}
    return len(names), numbers


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file, in LevelDB's log format: blocks of 32 KiB that hold a checksum
    (4 bytes), a length (2), a type (1) and as many bytes; a record is one whole (type 1) or goes on
    until its last part (type 4).
    """
    record, at = b"", 7  # after the file's own mark
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768  # padding: no room for a head
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def wandb(logs: Path) -> tuple[int, Numbers]:
    """Likewise; offline, each part of a run has a folder, and all have its id."""
    from wandb.proto import wandb_internal_pb2

    numbers: Numbers = defaultdict(list)
    identities = set()
    for file in sorted((logs / "wandb").glob("offline-run-*/*.wandb")):
        for data in log_records(file.read_bytes()):
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
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "read",
    [
        tensorboard,
        pytest.param(trackio, marks=pytest.mark.slow),
        pytest.param(wandb, marks=pytest.mark.slow),
        pytest.param(mlflow, marks=pytest.mark.slow),
    ],
)
def test_a_league_is_one_run(read, tmp_path_factory, monkeypatch):
    kind = read.__name__
    folder = tmp_path_factory.mktemp("league")  # its path does not name the tracker
    pytest.importorskip(kind, reason=f"{kind} is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    # nothing outside the run's folder: a tracker's own default would be here
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "home").mkdir()
    assert "stopped" in python(folder, "-c", FIRST.replace("{kind}", kind))
    shown = python(folder, "-m", "equipoise", "resume", "run")
    assert not [line for line in shown.splitlines() if kind in line.lower()], shown
    assert {path.name for path in folder.iterdir()} == {"run", "home"}
    runs, numbers = read(folder / "run" / "logs")
    assert runs == 1
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    measured = [line["exploitability"] for line in recorded if "exploitability" in line]
    exploitability = numbers["league/exploitability"]
    assert [value for _, value in exploitability] == pytest.approx(measured)
    steps = [step for step, _ in exploitability]
    assert len(steps) == 4
    assert steps == sorted(set(steps))
    assert "league/generation" in numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [
        {},
        {
            "game__samples": 4,
            "learner": "{kind: policy_gradient, estimator: group_relative}",
            "learner__epochs": 1,
            "loss": "null",
        },
    ],
    ids=["preference", "policy_gradient"],
)
def test_losses_lie_over_the_optimizer_steps_of_all_generations(learner, command, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    changes = {"generations": 2, "report_to": ["tensorboard"], **learner}
    run = ("run", "quickstart", *SMALL, *settings(**changes), "--out", "run", "--json")
    done = command(*run)
    assert done.code == 0, done.err
    _, numbers = tensorboard(tmp_path / "run" / "logs")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    learned = [line for line in recorded if "/learn/" in line["stage"]]
    steps = list(accumulate(line["steps"] for line in learned))
    assert len({line["stage"] for line in learned}) == 2
    [name] = {"loss", "policy_loss"} & set(learned[0])
    losses = numbers[f"policy/{name}"]
    assert [step for step, _ in losses] == steps
    expected = [line[name] for line in learned]
    assert [value for _, value in losses] == pytest.approx(expected)
    assert [step for step, _ in numbers["league/score/policy"]][-1] == steps[-1]


class Paper:
    """A tracker that keeps what it is told."""

    def __init__(self, *_):
        self.lines, self.closed = [], False

    def start(self):
        print("tracker begins")

    def log(self, values, step):
        print("tracker speaks")
        self.lines.append((step, dict(values)))

    def finish(self):
        print("tracker ends")
        self.closed = True


@pytest.fixture
def pool(tmp_path):
    """A run whose records are made here: two trainings, two judged generations, one measurement."""
    config = recipe_loader.load("rock_paper_scissors", [])
    with new_run(config, tmp_path / "run") as run:
        (run.folder / "logs").mkdir()
        for t, (answers, unjudged) in enumerate(((30, 0.5), (10, 0.1))):
            found = {"answers": answers, "unjudged_share": unjudged}
            run.ledger.finish(f"{t}/judge", t, "judge", found, 1.0)
            rows = [{"name": name, "value": 10.0 * t + n} for n, name in enumerate(("ann", "ben"))]
            run.ledger.finish(f"{t}/rate", t, "rate", {"ratings": rows}, 1.0)
        run.ledger.finish("0/learn", 0, "learn", {"steps": 4}, 1.0)
        run.ledger.finish("1/learn", 1, "learn", {}, 1.0)
        yield run


@pytest.mark.long
def test_a_trainings_lines_lie_over_all_steps_so_far(pool, capsys):
    paper = Paper()
    before = 4 + 1
    trackers = Trackers(pool, [paper])
    trackers.trained(
        "ann", "2/learn", {"step": 1, "steps": 2, "loss": 0.5, "name": "x", "bad": float("nan")}
    )
    trackers.trained("ann", "2/learn", {"loss": 1, "seconds": float("inf")})
    trackers.trained("ann", "2/learn", {"steps": 3, "margin": True})
    assert paper.lines == [
        (before + 2, {"ann/loss": 0.5}),
        (before + 2, {"ann/loss": 1.0}),
        (before + 5, {"ann/margin": 1.0}),
    ]
    assert capsys.readouterr().out == ""
    assert (pool.folder / "logs" / "trackers.txt").read_text() == "tracker speaks\n" * 3


@dataclass
class Found:
    """What a tracker asks of a measurement."""

    ages: dict[str, int]
    ratings: tuple[Rating, ...] = ()

    def tracked(self, generation, added=()):
        return {"gap": 0.5, "at": generation, "none": None}


@pytest.mark.long
def test_a_measurement_is_logged_with_ratings_and_what_was_not_judged(pool):
    """Of each player's generation that is measured, or where it has no age, the measurement's."""
    names = ("ann@1", "ann@2", "ben@2", "ben@1", "solo")
    ratings = tuple(Rating(name, float(n), 0.0, 9.0) for n, name in enumerate(names))
    paper = Paper()
    Trackers(pool, [paper]).measured(Found({"ann": 1}, ratings), 2)
    assert paper.lines == [
        (
            5,
            {
                "league/generation": 2.0,
                "league/gap": 0.5,
                "league/at": 2.0,
                "league/unjudged_share": pytest.approx((15 + 1) / 40),
                "league/rating/ann": 0.0,
                "league/rating/ben": 2.0,
                "league/rating/solo": 4.0,
                "league/training_rating/ann": 10.0,
                "league/training_rating/ben": 11.0,
            },
        )
    ]


@pytest.mark.long
def test_the_trackers_of_a_run_are_opened_and_closed_whatever_happens(tmp_path, monkeypatch):
    opened = []

    def paper(*arguments):
        opened.append((arguments, Paper()))
        return opened[-1][1]

    monkeypatch.setitem(trackers.KINDS, "tensorboard", paper)
    settings = ["report_to=[tensorboard]", "name=mine"]
    config = recipe_loader.load("rock_paper_scissors", settings)
    with new_run(config, tmp_path / "run") as run:
        with pytest.raises(KeyError), trackers.open_trackers(run):
            raise KeyError
        [(arguments, tracker)] = opened
        assert arguments == (run.folder / "logs", "mine", "mine run")
        assert tracker.closed
    bare = recipe_loader.load("rock_paper_scissors", [])
    with new_run(bare, tmp_path / "bare") as run, trackers.open_trackers(run) as none:
        assert none == []
    assert not (tmp_path / "bare" / "logs").exists()


# -- what each library is asked; that it keeps what it is asked, the leagues above say


class Noting:
    """Stands where a library would: every call is noted, and returns what `returns` names."""

    def __init__(self, calls, name="", **returns):
        self._calls, self._name, self._returns = calls, name, returns

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Noting(self._calls, f"{self._name}.{name}".strip("."), **self._returns)

    def __call__(self, *values, **named):
        self._calls.append((self._name, values, named))
        return self._returns.get(self._name.rpartition(".")[2], self)


def follow(kind, logs):
    """Open a tracker, have it log two numbers, and close it."""
    tracker = trackers.start_tracker(kind, logs, "project", "name")
    tracker.log({"loss": 0.5, "league/gap": 1.0}, step=7)
    tracker.finish()


def test_tensorboard_gets_each_number_at_its_step(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    follow("tensorboard", tmp_path)
    assert tensorboard(tmp_path) == (1, {"loss": [(7, 0.5)], "league/gap": [(7, 1.0)]})


def test_trackio_keeps_its_numbers_in_the_run_s_folder(tmp_path, monkeypatch):
    calls, home = [], SimpleNamespace(TRACKIO_DIR=str(tmp_path / "trackio"))
    monkeypatch.setitem(sys.modules, "trackio", Noting(calls))
    monkeypatch.setitem(sys.modules, "trackio.utils", home)
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    follow("trackio", tmp_path)
    [(_, _, named), logged, finished] = calls
    assert named == {
        "project": "project",
        "name": "name",
        "resume": "allow",
        "embed": False,
        "auto_log_cpu": False,
        "auto_log_gpu": False,
    }
    assert logged[1:] == (({"loss": 0.5, "league/gap": 1.0},), {"step": 7})
    assert finished == ("finish", (), {})
    assert "TRACKIO_DIR" not in os.environ
    home.TRACKIO_DIR = "/elsewhere"
    with pytest.raises(ConfigError, match="trackio already writes to /elsewhere in this process"):
        follow("trackio", tmp_path)
    monkeypatch.setenv("TRACKIO_DIR", "/elsewhere")  # as the user wants it
    follow("trackio", tmp_path)
    assert os.environ["TRACKIO_DIR"] == "/elsewhere"


def test_wandb_is_offline_and_a_folder_s_run_has_one_identity(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "wandb", Noting(calls))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for mode, folder in (("offline", "a"), ("offline", "b"), ("online", "b")):
        if mode == "online":
            monkeypatch.setenv("WANDB_MODE", mode)
        follow("wandb", tmp_path / folder)
    begun = [named for name, _, named in calls if name == "init"]
    assert [each["mode"] for each in begun] == ["offline", "offline", "online"]
    assert [each["dir"] for each in begun] == [str(tmp_path / name) for name in "abb"]
    one, two, again = (each["id"] for each in begun)
    assert one != two == again
    assert len(one) == 12
    assert all((each["project"], each["name"]) == ("project", "name") for each in begun)
    assert all(each["resume"] == "allow" for each in begun)
    settings = [named for name, _, named in calls if name == "Settings"]
    assert settings == [{"silent": True, "console": "off", "symlink": False}] * 3
    rest = [call for call in calls if call[0].rpartition(".")[2] in ("log", "finish")]
    assert [call[1:] for call in rest[:2]] == [
        (({"loss": 0.5, "league/gap": 1.0},), {"step": 7}),
        ((), {}),
    ]


@pytest.mark.parametrize("known", [False, True], ids=["a new project", "a known one"])
def test_mlflow_goes_on_with_the_run_of_a_folder(known, tmp_path, monkeypatch):
    calls = []
    experiments = [SimpleNamespace(experiment_id="5")] if known else []
    library = Noting(
        calls,
        search_experiments=experiments,
        create_experiment="5",
        start_run=SimpleNamespace(info=SimpleNamespace(run_id="r1")),
    )
    monkeypatch.setitem(sys.modules, "mlflow", library)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "as it was")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    for name in ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID", "MLFLOW_NESTED_RUN", "MLFLOW_TAGS"):
        monkeypatch.delenv(name, raising=False)
    follow("mlflow", tmp_path)
    address = (tmp_path / "mlflow").resolve().as_uri()
    assert calls[0] == ("set_tracking_uri", (address,), {})
    assert [call[0] for call in calls].count("create_experiment") == (not known)
    [begun] = [named for name, _, named in calls if name == "start_run"]
    assert (begun["experiment_id"], begun["run_name"], begun["run_id"]) == ("5", "name", None)
    logged = [call[1:] for call in calls if call[0] == "log_metrics"]
    assert logged == [(({"loss": 0.5, "league/gap": 1.0},), {"step": 7})]
    assert calls[-1] == ("end_run", (), {})
    del calls[:]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracks:5000")
    follow("mlflow", tmp_path)
    assert calls[0][1] == ("http://tracks:5000",)
    [resumed] = [named for name, _, named in calls if name == "start_run"]
    assert resumed["run_id"] == "r1"
    assert os.environ["MLFLOW_ALLOW_FILE_STORE"] == "as it was"
