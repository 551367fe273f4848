"""Two runs compared prompt by prompt, from what they measured."""

import json
import math

import assistance_run
import numpy as np
import pytest

from equipoise.environments.assistance.comparison import (
    ComparisonSettings,
    MeasuredRun,
    compare_runs,
    measured_run,
)
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.errors import RunError
from equipoise.judges.base import Judge
from equipoise.matches.base import Schedule
from equipoise.payoffs.pareto import compare
from equipoise.runs.directory import RunDirectory


def entry(name, points, judge=None, **length):
    facts = assistance_run.measured(4) | {"points": points, "length": length}
    measures = AssistanceMeasures.read(facts)
    settings = judge or {"kind": "assistance", "variant": "corrected"}
    return MeasuredRun(name, 4, measures, settings)


def compared(first, second, **settings):
    return compare_runs(first, second, ComparisonSettings(**settings)).facts()


def test_rows_are_matched_by_prompt_and_numbers_are_those_of_pareto():
    first = entry(
        "a", {"p": [0.5, 0.4], "q": [0.2, 0.9], "r": [0.1, 0.1]}, tokens=100.0, response_share=0.25
    )
    second = entry("b", {"q": [0.2, 0.8], "s": [9.0, 9.0], "p": [0.6, 0.3]})
    facts = compared(first, second, eps=0.05, alpha=0.25)
    told = compare(
        np.array([[0.5, 0.4], [0.2, 0.9]]), np.array([[0.6, 0.3], [0.2, 0.8]]), 0.05, 0.25
    )
    assert facts["prompts"] == {"both": 2, "only_first": 1, "only_second": 1}
    assert facts["dominance"] == {
        "first_dominates": 1,
        "second_dominates": 0,
        "equal": 0,
        "incomparable": 1,
    }
    for side, found in (("first", told.first), ("second", told.second)):
        for name in ("coverage", "regret", "nash_welfare", "cobb_douglas", "spread"):
            assert facts[side][name] == vars_of(found)[name]
    assert facts["first"]["hypervolume"] == pytest.approx(0.5 * 0.4 + 0.2 * 0.5)
    # missing stays missing
    assert facts["first"]["tokens"] == 100.0
    assert facts["second"]["tokens"] is None
    assert facts["first"]["welfare"] == pytest.approx(
        (0.5**0.25 * 0.4**0.75 + 0.2**0.25 * 0.9**0.75) / 2
    )
    assert "those of one alone too" in facts["notes"][0]


def vars_of(side):
    return {name: getattr(side, name) for name in side.__slots__}


def test_differences_are_paired_with_students_interval():
    first = entry("a", {f"p{i}": [0.1 * i + 0.2, 0.5] for i in range(5)})
    second = entry("b", {f"p{i}": [0.1 * i + (0.1 if i else 0.0), 0.5] for i in range(5)})
    found = compared(first, second)["differences"]
    gaps = np.array([0.2, 0.1, 0.1, 0.1, 0.1])
    half = 2.7764451051977987 * gaps.std(ddof=1) / math.sqrt(5)
    assert found["user"]["mean"] == pytest.approx(0.12)
    assert found["user"]["n"] == 5
    assert found["user"]["high"] - found["user"]["mean"] == pytest.approx(half)
    assert found["llm"] == {
        "mean": 0.0,
        "low": 0.0,
        "high": 0.0,
        "n": 5,
    }  # no width is made up for equal runs


def test_one_prompt_has_no_interval_and_everything_is_json():
    facts = compared(
        entry("a", {"p": [0.5, 0.5]}), entry("b", {"p": [0.5, 0.5]}), reference=(0.25, 0.0)
    )
    assert facts["differences"]["user"] == {"mean": 0.0, "low": None, "high": None, "n": 1}
    assert facts["dominance"]["equal"] == 1
    assert facts["first"]["hypervolume"] == pytest.approx(0.125)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["notes"] == []


def test_what_cannot_be_compared():
    with pytest.raises(RunError, match=r"a and b .*1 and 2 "):
        compared(entry("a", {"p": [0, 0]}), entry("b", {"q": [0, 0], "r": [1, 1]}))
    other = {"kind": "assistance", "variant": "as_released"}
    [note] = compared(entry("a", {"p": [0, 0]}), entry("b", {"p": [0, 0]}, other))["notes"]
    assert "judge: variant" in note


def test_a_run_is_read_at_its_last_measurement_or_a_given_one(recorded_folder):
    with RunDirectory.read(recorded_folder("assistance")) as run:
        last, second = measured_run(run, "a"), measured_run(run, "b", 2)
        judge = run.config.judge_of("policy").model_dump(mode="json", exclude={"welfare"})
        with pytest.raises(RunError, match=r"generation 3 was not measured; .* 0, 2, 4$"):
            measured_run(run, "a", 3)
    assert (last.name, last.generation, second.generation) == ("a", 4, 2)
    for read, t in ((last, 4), (second, 2)):
        points = {prompt: list(point) for prompt, point in read.measures.points.items()}
        assert points == assistance_run.points(t)
    assert last.judge == second.judge == judge
    assert "welfare" not in judge


def test_the_judge_is_the_one_of_whoever_assists(recorded_folder):
    """Of the players' own judges that of the assistant counts, and where the schedule names none,
    the first learner's.
    """
    judges = [{"kind": "assistance", "variant": v} for v in ("as_released", "corrected")]
    with RunDirectory.read(recorded_folder("assistance")) as run:
        own = run.config.players["policy"]
        first, second = map(Judge.build, judges)
        evaluate = run.config.evaluate.model_copy(update={"judge": None})
        changed = {
            "players": {"other": own, "policy": own},
            "judges": {"other": first, "policy": second},
            "evaluate": evaluate,
        }
        roles = run.config.model_copy(update=changed)
        run.config = roles
        assert measured_run(run, "a").judge["variant"] == "corrected"
        run.config = roles.model_copy(update={"schedule": Schedule.build("self_play")})
        assert measured_run(run, "a").judge["variant"] == "as_released"


@pytest.mark.long
def test_what_has_no_points_is_no_run_to_compare(recorded_folder, tmp_path):
    folder = assistance_run.write(tmp_path / "run", played=False)
    with RunDirectory.open(folder) as run:
        with pytest.raises(RunError, match="nothing was measured yet"):
            measured_run(run, "a")
        facts = assistance_run.measured(1) | {"points": {}}
        run.ledger.finish("1/measure", 1, "measure", facts, 0.1)
        with pytest.raises(RunError, match="generation 1 has no prompt with both utilities"):
            measured_run(run, "a")
    with (
        RunDirectory.read(recorded_folder("people")) as run,
        pytest.raises(RunError, match="plays the game 'answers'"),
    ):
        measured_run(run, "a")
