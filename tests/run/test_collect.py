"""From a ledger to the facts of a report: what is counted, what is a sample, what stays
out.
"""

import pool_run
import pytest

from equipoise.report.html import render
from equipoise.run import recipes
from equipoise.run.collect import facts
from equipoise.run.directory import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return pool_run.write(
        tmp_path_factory.mktemp("pool") / "run", generations=3, per_generation=60
    )


@pytest.fixture(scope="module")
def found(folder):
    with Run.read(folder) as run:
        return facts(run)


def test_matches_are_those_that_were_played(found):
    assert (
        found.counts["matches"] == 180
        and found.counts["answers set side by side"] == 36
    )
    assert {card.split for card in found.matches} == {"train"} and len(
        found.matches
    ) == 180
    assert found.sample == (198, 198)


def test_who_met_whom_is_counted_by_the_judge_that_teaches(found, folder):
    assert (
        found.met_judge.startswith("peers")
        and tuple(found.met.players) == found.pool == pool_run.NAMES
    )
    met = found.met.count_NN + found.met.unjudged_NN
    assert met.sum() == 2 * 180 and met.trace() == 0
    assert found.met.unjudged_NN.sum() == 2 * 3 * (60 // 29)
    veteran, novice = pool_run.NAMES.index("veteran"), pool_run.NAMES.index("novice")
    assert found.met.payoff_NN[veteran, novice] > 0.7
    assert found.met.payoff_NN[novice, veteran] == -found.met.payoff_NN[veteran, novice]


def test_a_card_holds_the_scores_of_every_judge(found):
    judged = [card for card in found.matches if not card.reason]
    assert all(
        "clerk: score" in answer.note and answer.score >= 1
        for card in judged
        for answer in card.answers
    )
    silent = [card for card in found.matches if card.reason]
    assert len(silent) == 6 and all(
        "nobody could be read" in card.reason for card in silent
    )
    assert {answer.score for card in silent for answer in card.answers} == {None}


def test_tokens_count_answers_once_and_every_reading(found):
    by_name = {one.name: one for one in found.tokens}
    assert set(by_name) == set(pool_run.NAMES)
    assert (
        sum(one.answers for one in found.tokens) == 360
    )  # not the answers that were set side by side again
    assert sum(one.read for one in found.tokens) == 360 * 12
    assert {one.judging for one in found.tokens} == {360 * 64}
    assert {one.name: (one.calls, round(one.money, 6)) for one in found.accounts} == {
        "guest": (10, 0.004),
        "house": (20, 0.008),
    }


def test_a_player_that_met_nobody_leaves_a_gap_in_its_standing(found):
    lines = {curve.name: curve for curve in found.standing}
    assert tuple(lines) == pool_run.NAMES and lines["veteran"].x == (0.0, 1.0, 2.0)
    assert (
        lines["novice"].mean[2] != lines["novice"].mean[2]
        and lines["novice"].mean[1] > 1000
    )
    assert found.standing_unit == "reputation"


def test_what_was_measured_of_several_learners(found):
    assert [group.name for group in found.compared] == [
        "held-out score",
        "win rate over the start",
    ]
    assert found.compared[1].curves[0].x == (1.0, 2.0, 3.0) and not found.curves
    assert found.gaps.curves[0].mean == pytest.approx((0.38, 0.32, 0.26, 0.2))
    assert (
        found.selection.chosen == "veteran@3"
        and found.selection.test["veteran@0"].mean == 0.55
    )
    assert [line.label for line in found.headline] == [
        "best held-out score, veteran@3",
        "mean held-out score",
        "mean win rate over the start",
        "exploitability of novice@3",
        "test score of veteran@3",
    ]
    assert found.headline[1].note == "of 6 learners; at the start 41.0 %"
    assert "40 % of the triples" in found.warnings[0]
    assert (
        found.ratings[0].low != found.ratings[0].low
    )  # an unknown interval, and no zero


def test_a_long_run_is_sampled_and_the_page_says_so(folder, found):
    with Run.read(folder) as run:
        part = facts(run, cards=6, sample=60)
    read, total = part.sample
    assert 30 < read < 100 and total == 198
    answers = sum(one.answers for one in part.tokens)
    assert answers % 1 == 0 and abs(answers - 360) < 60
    assert (
        part.judges["clerk"]["judgements"] < found.judges["clerk"]["judgements"] == 180
    )
    page = render(part)
    assert (
        page.count(f"From a random sample of {read} of the run&#39;s 198 matches.") == 3
    )
    assert (
        f"Tokens are estimated from a random sample of {read} of 198 matches." in page
    )


def test_a_run_without_these_records_still_reports(tmp_path):
    with Run.create(recipes.load("sparta_clerks"), tmp_path / "bare") as run:
        bare = facts(run)
    assert (
        bare.standing == ()
        and bare.met is None
        and bare.judges == {}
        and bare.tokens == ()
    )
    page = render(bare)
    assert (
        "no standing has been recorded yet" in page
        and "no two players have met in training matches" in page
    )
