"""What the releases' own files computed of a made batch, and what their recipes compute of it.

The golden arrays were written by `python -m benchmarks.pipelines … --golden`, from the releases.
"""

import json
from pathlib import Path

import pytest

from benchmarks import pipeline_gpo, pipeline_gtalign, pipeline_mnpo, pipeline_sparta
from benchmarks.pipeline_stages import Comparison, golden, leaves
from equipoise.runs import recipe_loader

DATA = Path("../shared/data/gtalign")
GOLDEN = Path(__file__).parent / "pipelines"


def released(name: str) -> dict:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.long
def test_mnpo_as_released_computes_the_releases_numbers(tmp_path):
    made = pipeline_mnpo.make_batch(tmp_path)
    prompts = pipeline_mnpo.write_prompts(tmp_path, made)
    overrides = {"policy.model": made["models"][0], "prompts.path": prompts}
    config = recipe_loader.load("mnpo_as_released", overrides)
    theirs, ours = released("mnpo"), golden(pipeline_mnpo.our_arrays(config, made))
    theirs["repairs"] = []
    comparison = pipeline_mnpo.compare_arrays(theirs, ours)
    different = {stage.name for stage in comparison.stages if stage.different}
    assert different == {"pairs of equal scores"}
    assert sum(stage.compared for stage in comparison.stages) > 3000


@pytest.mark.long
def test_sparta_as_released_computes_the_releases_numbers(tmp_path):
    made = pipeline_sparta.make_batch()
    config = pipeline_sparta.our_config(tmp_path, made)
    theirs, ours = released("sparta"), golden(pipeline_sparta.our_arrays(config, made))
    theirs["repairs"] = []
    comparison = pipeline_sparta.compare_arrays(theirs, json.loads(json.dumps(ours)))
    assert not [stage.name for stage in comparison.stages if stage.different]
    assert sum(stage.compared for stage in comparison.stages) > 1000


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="GTAlign's rows are not at hand")
def test_gtalign_as_released_computes_the_releases_numbers():
    ours = golden(pipeline_gtalign.our_arrays(pipeline_gtalign.make_batch(DATA)))
    theirs = released("gtalign")
    assert theirs["rows"]["math-hard"]["test rows in training"] == 274  # of 353
    # The rows at hand may be fewer than the release's.
    rows = {task: pipeline_gtalign.our_rows(DATA / task) for task in pipeline_gtalign.TASKS}
    for task in pipeline_gtalign.TASKS:
        theirs["rows"][task] = pipeline_gtalign.released_rows(DATA / task)
    comparison = pipeline_gtalign.compare_arrays(theirs | {"repairs": []}, ours | {"rows": rows})
    different = {stage.name for stage in comparison.stages if stage.different}
    assert different == {"advantages of the GRPO run"}


@pytest.mark.long
def test_gpo_as_released_computes_the_releases_numbers():
    theirs = released("gpo") | {"repairs": []}
    ours = golden(pipeline_gpo.our_arrays(pipeline_gpo.make_batch()))
    comparison = pipeline_gpo.compare_arrays(theirs, ours)
    assert not [stage.name for stage in comparison.stages if stage.different]
    assert theirs["rates"][:12] == [0.1] * 11 + [0.11]


def test_a_difference_that_nothing_explains_is_seen():
    comparison = Comparison()
    comparison.add("ids", [[1, 2], [3]], [[1, 2], [4, 5]])
    comparison.add("numbers", {"a": 0.5}, {"a": 0.5 + 1e-7})
    ids, numbers = comparison.stages
    assert (ids.compared, ids.different) == (4, 2)
    assert (numbers.compared, numbers.different) == (1, 0)
    assert list(leaves([1, [2]], [1, []])) == [(1, 1), (2, None)]
