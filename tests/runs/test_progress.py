"""How far a run is, within what is recorded together: models tell, and the monitor hears."""

import subprocess
import sys
from dataclasses import replace

import pytest

from equipoise.api.play_out import play_out
from equipoise.models import progress
from equipoise.models.sequence_scores import read_once
from equipoise.planning.new_run import new_run
from equipoise.report import summary
from equipoise.runs import recipe_loader
from equipoise.runs.monitor import Silent, within

SETTINGS = [
    "generations=1",
    "prompts.per_generation=12",
    "prompts.held_out=8",
    "evaluate.samples=1",
    "evaluate.sets.greedy.prompts.test=6",
    "learner.epochs=0.5",
]


class Watcher(Silent):
    """Notes the parts of steps that were done before they were recorded, by stage."""

    def __init__(self):
        self.parts = {}
        self.name = ""

    def stage(self, name, total=None, generation=None):
        self.name = name

    def part(self, steps):
        self.parts.setdefault(self.name, []).append(steps)


@pytest.mark.long
def test_models_tell_how_far_they_are_within_every_stage(tmp_path, monkeypatch, command):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    watcher = Watcher()
    config = recipe_loader.load("quickstart", SETTINGS)
    with new_run(config, tmp_path / "run", False, "") as run:
        played = play_out(run, watcher)
    # Twelve matches are one commit.
    assert len(watcher.parts["play"]) > 4
    assert sum(watcher.parts["play"]) == pytest.approx(12)
    assert sum(watcher.parts["play held-out"]) == pytest.approx(2 * 8)
    for stage in ("opponents' log-probabilities", "learn"):
        assert sum(watcher.parts[stage]) >= 1
    # Beginners are taught what greedy decoding does not show already, and readers are told so.
    assert played.which_to_trust.startswith("greedy (temperature 0); sampled at 1, the held-out")
    assert f"Which to trust: {played.which_to_trust}." in played.report.read_text()
    assert "which to trust" in command("resume", tmp_path / "run").out


def test_more_rows_than_expected_are_no_more_than_the_steps():
    watcher = Watcher()
    with within(watcher, 4, 8):
        rows = [(row,) for row in range(10)]
        read_once(rows, 3, lambda batch: [sum(row) for row in batch], "model", "batch_size")
    assert watcher.parts == {"": [1.5, 1.5, 1.0, 0.0]}


@pytest.mark.long
def test_the_command_shows_no_bars_of_other_libraries():
    show = "from tqdm.auto import tqdm; list(tqdm(range(3)))"
    code = f"import equipoise.cli as c; c.app = lambda: lambda: exec({show!r}); c.main()"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_line_names_three_learners_and_counts_the_others():
    learners = tuple(summary.Progress(f"p{n}@2", f"{n}", f"{n + 1}") for n in range(5))
    told = summary.Summary("mine", "runs/x", "finished", 2, 2, learners)
    line = told.text()
    assert line.endswith("p2@2 scores 3, at the start 2; and 2 more learners")
    assert "p0@2 scores 1, at the start 0; p1@2" in line
    assert "p3" not in line
    three = replace(told, players=learners[:3]).text()
    assert three.endswith("p2@2 scores 3, at the start 2")
