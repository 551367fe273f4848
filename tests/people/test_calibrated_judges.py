"""Win rates of a run calibrated on people: in the report, the leaderboard and a comparison."""

import json
import shutil

import pytest
from test_people import LONG, vote_by_taste

import equipoise
from equipoise.blocks.html import render
from equipoise.people.ballot import open_ballot
from equipoise.people.calibrated_judges import calibrated_pairs, calibration_sections
from equipoise.report.page import page
from equipoise.runs.directory import RunDirectory


@pytest.fixture
def run(recorded_folder, tmp_path):
    return shutil.copytree(recorded_folder("people"), tmp_path / "run")


def votes(run, most):
    with open_ballot(run) as ballot:
        vote_by_taste(ballot, "ann", most)
        if most > 12:  # of the run's twelve pairs of answers
            vote_by_taste(ballot, "ben", 2, {name: -place for name, place in LONG.items()})


def test_players_are_calibrated_by_every_judge_and_the_judge_sees_more_than_people(run):
    with RunDirectory.read(run) as opened:
        assert calibrated_pairs(opened) == []
        assert list(calibration_sections(opened)) == []
    votes(run, 100)
    with RunDirectory.read(run) as opened:
        pairs = calibrated_pairs(opened)
        assert {pair.judge for pair in pairs} == {"shorter"}
        names = [(pair.first, pair.second) for pair in pairs]
        assert names == [("clerk@0", "poet@0"), ("clerk@0", "sage@0"), ("poet@0", "sage@0")]
        first = pairs[0]
        # People like poets, the judge what is short: it is wrong on every pair.
        assert first.rate.judge.mean == 1.0 and first.rate.votes.mean < 0.5
        assert first.rate.prediction_powered.mean == pytest.approx(first.rate.votes.mean)
        assert first.voted == 4 and first.judged == 0
        only = calibrated_pairs(opened, ["poet@0", "sage@0"])
        assert [(pair.first, pair.second) for pair in only] == [("poet@0", "sage@0")]
        facts = json.loads(json.dumps(first.facts()))
        assert facts["judge"] == "shorter" or facts["first"] == "clerk@0"
        (section,) = calibration_sections(opened)
        assert len(section.blocks[0].rows) == 3
        assert "calibrated on people" in render(page(opened))


def test_what_nobody_voted_on_counts_by_the_judge_alone(run):
    votes(run, 11)
    with RunDirectory.read(run) as opened:
        pairs = calibrated_pairs(opened)
    assert pairs and all(pair.voted >= 3 for pair in pairs)
    assert any(pair.judged for pair in pairs)
    assert all(pair.voted + pair.judged == 4 for pair in pairs)


@pytest.mark.long
def test_a_comparison_of_players_of_one_run_has_the_votes(run, tmp_path):
    votes(run, 100)
    compared = equipoise.compare(f"{run}@clerk", f"{run}@poet")
    assert [(pair.first, pair.second) for pair in compared.calibrated] == [("clerk@0", "poet@0")]
    assert compared.facts()["calibrated"][0]["voted"] == 4
    assert "calibrated on people" in compared.write(tmp_path / "page.html").read_text()
    assert "people:" in repr(compared)
