"""From metrics to the curves of optimizer steps."""

import pytest

from equipoise.runs.directory import RunDirectory
from equipoise.runs.reading.page import training_curves


@pytest.mark.long
def test_a_learner_that_counts_on_has_one_curve_over_its_own_steps(recorded_folder):
    with RunDirectory.read(recorded_folder("red_team")) as run:
        series = {line.name: line for line in training_curves(run)}
    reward = series["reward of adversary"]
    assert reward.x == (1, 2, 3, 4) and reward.boundaries == ()
    assert list(series)[:3] == ["policy loss of defender", "kl of defender", "reward of defender"]
