"""A policy loss of a user's own, as docs/gpo.md shows it, learns through the command."""

import json
import re
from pathlib import Path

import pytest
import yaml
from small_runs import SMALL, settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpo.md"
TINY = settings(prompts__per_generation=4, prompts__held_out=2, evaluate__samples=1)
LEARNER = (
    "{kind: policy_gradient, estimator: group_relative, learning_rate: 1e-4, warmup_steps: 0, "
    "minibatches: 2, policy_loss: %s}"
)


def steps_of(run):
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row.get("stage") == "0/learn/policy"]


@pytest.mark.long
def test_the_pages_loss_is_recorded_by_its_path_and_learns(command, tmp_path):
    (source,) = re.findall(r"```python\n(# tempered\.py.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "tempered.py").write_text(source)
    grads = {}
    for name, loss in {"own": "tempered.py:Tempered", "cispo": "cispo", "gspo": "gspo"}.items():
        learner = settings(loss="null", learner=LEARNER % loss)
        done = command("run", "quickstart", *SMALL, *TINY, *learner, "--out", name)
        assert done.code == 0, done.err
        recorded = yaml.safe_load((tmp_path / name / "config.yaml").read_text())
        kind = recorded["learner"]["policy_loss"]["kind"]
        assert kind.rpartition("/")[2] == loss
        (step,) = steps_of(tmp_path / name)
        assert step["steps"] == 2
        grads[name] = step["grad_norm"]
    assert len(set(grads.values())) == 3, "the losses differ from the second step on"
