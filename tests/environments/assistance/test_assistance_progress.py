"""From what was measured of the assistant's game to its headlines, curves and points."""

import json
import math

import assistance_run
import numpy as np
import pytest
from recorded_run import estimate

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.environments.assistance.moves import consistency_curves, question_shares
from equipoise.environments.assistance.welfare_section import (
    SOURCE_COLUMNS,
    UtilityPoints,
    curve_groups,
    single_curves,
    source_rows,
)
from equipoise.errors import RunError
from equipoise.evaluation.measures import History, Measurement, Quantity
from equipoise.ledger.facts import Estimate


def measurement(t, facts=None):
    return Measurement(t, AssistanceMeasures.read(facts or assistance_run.measured(t)))


def history(*measurements, **more):
    return History(("policy",), measurements, Assistance(), **more)


@pytest.fixture(scope="module")
def measured():
    facts = [assistance_run.measured(t, sources=("clerk", "wildguard")) for t in (0, 2, 4)]
    return history(*(measurement(t, found) for t, found in zip((0, 2, 4), facts, strict=True)))


def test_a_record_is_written_as_it_was_read():
    facts = assistance_run.measured(2)
    again = json.loads(json.dumps(AssistanceMeasures.read(facts).facts({"policy": 2})))
    assert again.pop("ages") == {"policy": 2}
    written = facts["written"] | {"paid": {}, "typed": None}
    assert {k: v for k, v in again.items() if k not in ("written", "points")} == {
        k: v for k, v in facts.items() if k not in ("written", "points")
    }
    assert again["written"].keys() == written.keys()
    assert {name: list(point) for name, point in again["points"].items()} == facts["points"]


def test_another_evaluations_record_is_refused():
    with pytest.raises(RunError, match="cannot be read as AssistanceMeasures"):
        AssistanceMeasures.read({"scores": {}})


def test_headlines_name_welfare_and_right_moves_once(measured):
    lines = {line.label: line for line in AssistanceMeasures.headlines(measured)}
    assert lines["welfare"].value == "0.470 (0.420 to 0.520)"
    assert "0.350" in lines["welfare"].note
    assert lines["right moves"].value.startswith("90.0 %")
    assert lines["tokens of an answer"].value == "80"
    assert lines["tokens of an answer"].note == "120 at the start"
    assert not any("score of" in label for label in lines)  # an assistant's score is its welfare


def test_before_and_after_say_which_way_is_better(measured):
    rows = {row.name: row for row in AssistanceMeasures.changes(measured)}
    assert list(rows)[:4] == [
        "welfare",
        "utility to the user",
        "utility to the model",
        "right moves",
    ]
    assert (rows["welfare"].before.mean, rows["welfare"].after.mean) == (0.35, 0.47)
    assert not rows["tokens of an answer"].higher_is_better
    assert rows["right moves"].unit == "%"
    assert "held-out score" not in rows


def test_before_the_first_measurement_there_is_nothing():
    assert not list(AssistanceMeasures.headlines(history()))
    assert not list(AssistanceMeasures.changes(history()))


def test_curves_leave_out_what_was_not_measured(measured):
    groups = {group.name: group for group in curve_groups(measured)}
    welfare, user, model = groups["Welfare and both utilities"].curves
    assert welfare.x == user.x == model.x == (0.0, 2.0, 4.0)
    assert welfare.mean == (0.35, 0.41, 0.47)
    assert welfare.low[0] == pytest.approx(0.3)
    whole, given = consistency_curves(measured)
    chosen = whole.curves
    assert [curve.name for curve in given.curves] == ["nash"]
    assert given.curves[0].mean == (1.0, 1.0, 1.0)
    assert [curve.name for curve in chosen] == ["sum", "nash"]
    assert chosen[1].mean[-1] == pytest.approx(0.8)
    names = [group.name for group in single_curves(measured)]
    assert names[-1] == "Hypervolume"
    none = assistance_run.measured(0) | {"right": estimate(None), "length": {}}
    bare = history(measurement(0, none))
    assert [group.name for group in single_curves(bare)] == ["Hypervolume"]
    assert "right move" not in [
        curve.name for group in curve_groups(bare) for curve in group.curves
    ]


def test_points_and_fronts_are_rows():
    measures = AssistanceMeasures.read(assistance_run.measured(4))
    points = UtilityPoints.of("generation 4", measures)
    assert points.point_N2.shape == (6, 2)
    assert points.point_N2[1].tolist() == [0.5, 0.49]
    assert points.front_F.tolist() == [4, 5]
    assert points.hypervolume == pytest.approx(0.24)
    other = assistance_run.measured(2, prompts=3) | {"front": ["p2"]}
    points = UtilityPoints.of("other@2", AssistanceMeasures.read(other))
    assert points.front_F.tolist() == [2]
    assert np.isfinite(points.point_N2).all()


def test_moves_and_sources_are_of_both_ends(measured):
    rows = question_shares(measured)
    assert list(rows) == [
        "vague, generation 0",
        "vague, generation 4",
        "detailed, generation 0",
        "detailed, generation 4",
    ]
    shares = rows["vague, generation 4"]
    assert pytest.approx(0.1) == shares.DA
    assert (shares.CQ, shares.AQ, shares.none, shares.n) == (0.8, 0.05, 0.05, 4.0)
    sources = source_rows([measured.measurements[0], measured.measurements[-1]])
    assert [row[:2] for row in sources] == [
        ("clerk", "0"),
        ("clerk", "4"),
        ("wildguard", "0"),
        ("wildguard", "4"),
    ]
    row = dict(zip(SOURCE_COLUMNS, sources[-1][2:], strict=True))
    assert row["welfare"].startswith("0.470")
    assert row["right"] == row["score per 1000 tokens"] == "–"


def test_missing_means_are_missing(measured):
    nothing = Estimate(None, None, None, 0)
    assert math.isnan(nothing.interval.mean)
    assert Quantity(title="nothing", read=lambda record: nothing).values(measured) == [{}] * 3


def test_without_points_a_run_cannot_stand_beside_another():
    facts = assistance_run.measured(2) | {"points": {}}
    with pytest.raises(RunError, match="elsewhere: has no prompt"):
        AssistanceMeasures.read(facts).check_beside("elsewhere")
    AssistanceMeasures.read(assistance_run.measured(2)).check_beside("elsewhere")
