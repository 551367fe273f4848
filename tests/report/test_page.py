"""From a ledger to the page of a report: what is counted, what is a sample, what stays out."""

import pool_run
import pytest
from scipy.stats import spearmanr

from equipoise.blocks.html import render
from equipoise.blocks.section import Cards, Figure, Table, Tiles, number
from equipoise.evaluation.measures import Records
from equipoise.ledger.ledger import MEETING
from equipoise.planning.new_run import new_run
from equipoise.report.history import history, records
from equipoise.report.match_cards import match_cards, match_up_table, tokens
from equipoise.report.page import counts, headlines, page, training_curves, unread_reviews
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Review

pytestmark = pytest.mark.long  # they share a whole run


@pytest.fixture(scope="module")
def folder(recorded_folder):
    return recorded_folder("pool", generations=3, per_generation=60)


@pytest.fixture(scope="module")
def run(folder):
    with RunDirectory.read(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def recorded(run) -> Records:
    return records(run)


@pytest.fixture(scope="module")
def sections(run):
    return {section.name: section for section in page(run).sections}


def blocks(section, kind):
    return [block for block in section.blocks if isinstance(block, kind)]


def test_matches_are_those_that_were_played(run, recorded, sections):
    totals = counts(run, recorded.stages)
    assert totals["matches"] == 180
    assert totals["answers set side by side"] == 36
    [browser] = blocks(sections["matches"], Cards)
    assert {row["split"] for row in browser.rows} == {"train"}
    assert len(browser.rows) == browser.total == 180
    assert (len(recorded.sample.matches), recorded.sample.total) == (198, 198)


def test_who_met_whom_is_counted_by_the_judge_that_teaches(run, recorded, sections):
    judge = run.config.judge.name
    assert judge.startswith("peers")
    assert "by the scores of judge peers;" in sections["match-ups"].lead
    met = match_up_table(recorded.sample, pool_run.NAMES, judge, "score")
    assert met is not None
    assert tuple(met.players) == pool_run.NAMES
    every = met.count_NN + met.unjudged_NN
    assert every.sum() == 2 * 180
    assert every.trace() == 0
    assert met.unjudged_NN.sum() == 2 * 3 * (60 // 29)
    veteran, novice = pool_run.NAMES.index("veteran"), pool_run.NAMES.index("novice")
    assert met.payoff_NN[veteran, novice] > 0.7
    assert met.payoff_NN[novice, veteran] == -met.payoff_NN[veteran, novice]


def test_a_card_holds_the_scores_of_every_judge(run, recorded):
    cards, warning = match_cards(run, history(run), recorded.stages)
    judged = [card for card in cards if not card.reason]
    assert all(
        "clerk: score" in answer.note and answer.score >= 1
        for card in judged
        for answer in card.answers
    )
    silent = [card for card in cards if card.reason]
    assert len(silent) == 6
    assert all("nobody could be read" in card.reason for card in silent)
    assert {answer.score for card in silent for answer in card.answers} == {None}
    assert warning == ""


def test_tokens_count_answers_once_and_every_reading(recorded, sections):
    usages = tokens(recorded.sample, MEETING)
    assert {usage.name for usage in usages} == set(pool_run.NAMES)
    # Not the answers that were set side by side again.
    assert sum(usage.answers for usage in usages) == 360
    assert sum(usage.read for usage in usages) == 360 * 12
    assert {usage.judging for usage in usages} == {360 * 64}
    accounts, *_ = blocks(sections["cost"], Table)
    assert {row[0]: (row[1], row[3]) for row in accounts.rows} == {
        "guest": ("10", "0.004"),
        "house": ("20", "0.008"),
        "all": ("30", "0.012"),
    }


def test_a_player_that_met_nobody_leaves_a_gap_in_its_ratings(sections):
    [figure] = blocks(sections["standing"], Figure)
    lines = {trace["name"]: trace for trace in figure.data if trace.get("name")}
    assert tuple(lines) == pool_run.NAMES
    assert lines["veteran"]["x"] == [0.0, 1.0, 2.0]
    assert lines["novice"]["y"][2] is None
    assert lines["novice"]["y"][1] > 1000
    assert "by reputation" in sections["standing"].lead


def test_what_was_measured_of_several_learners(run, sections):
    figures = blocks(sections["learning"], Figure)
    titles = [figure.title for figure in figures]
    assert titles == ["held-out score", "win rate over the start"]
    assert next(t for t in figures[1].data if t.get("name"))["x"] == [1.0, 2.0, 3.0]
    gaps = blocks(sections["equilibrium"], Figure)[1]
    assert gaps.title == "gap of each learner"
    first = next(trace for trace in gaps.data if trace.get("name"))
    assert first["y"] == pytest.approx((0.38, 0.32, 0.26, 0.2))
    [tiles] = blocks(sections["selection"], Tiles)
    assert tiles.tiles[0].value == "veteran@3"
    assert "veteran@0: 55.0 %" in tiles.tiles[1].note
    lines = list(headlines(run))
    assert [line.label for line in lines] == [
        "best held-out score, veteran@3",
        "mean held-out score",
        "mean win rate over the start",
        "exploitability of novice@3",
        "test score of veteran@3",
    ]
    assert lines[1].note == "of 6 learners; at the start 41.0 %"
    assert "40 % of the triples" in page(run).warnings[0]
    [ratings] = blocks(sections["ratings"], Figure)
    assert ratings.table is not None
    assert ratings.table.rows[0][2] == "–"  # an unknown interval, and no zero


def test_a_long_run_is_sampled_and_the_page_says_so(run):
    part = records(run, 60).sample
    read, total = len(part.matches), part.total
    assert 30 < read < 100
    assert total == 198
    answers = sum(usage.answers for usage in tokens(part, MEETING))
    assert answers % 1 == 0
    assert abs(answers - 360) < 60
    text = render(page(run, cards=6, sample=60))
    assert text.count(f"From a random sample of {read} of the run&#39;s 198 matches.") == 3
    assert f"Tokens are estimated from a random sample of {read} of 198 matches." in text


def test_a_run_without_these_records_still_reports(tmp_path):
    with new_run(recipe_loader.load("sparta_clerks"), tmp_path / "bare") as run:
        text = render(page(run))
    assert "no rating of the training matches is recorded" in text
    assert "no two players have met in training matches" in text
    assert "no stage has ended, no endpoint was asked, and no player or judge counts tokens" in text
    assert "Who judged whom" not in text


def test_a_learner_that_counts_on_has_one_curve_over_its_own_steps(recorded_folder):
    with RunDirectory.read(recorded_folder("red_team")) as run:
        series = {line.name: line for line in training_curves(run)}
    reward = series["reward of adversary"]
    assert reward.x == (1, 2, 3, 4)
    assert reward.boundaries == ()
    assert list(series)[:3] == ["policy loss of defender", "kl of defender", "reward of defender"]


def test_reputations_stand_beside_held_out_scores(run, sections):
    """SPARTA's Fig. 5: a point is a player in a generation that has both numbers."""
    section = sections["standing-score"]
    [figure], [table] = blocks(section, Figure), blocks(section, Table)
    assert section.title == "Reputation against performance"
    assert sorted(trace["name"] for trace in figure.data) == sorted(pool_run.NAMES)
    assert [row[:2] for row in table.rows] == [("0", "6"), ("1", "6"), ("2", "5")]
    facts = run.ledger.stage_facts("1/rate")
    rating = {row["name"]: row["value"] for row in facts["ratings"]}
    score = history(run).measurements[1].measures.scores
    cloud = {trace["name"]: trace for trace in figure.data}
    for name in pool_run.NAMES:
        assert cloud[name]["x"][1] == score[f"{name}@1"].mean
        assert cloud[name]["y"][1] == pytest.approx(rating[name])
    known = [(score[f"{name}@1"].mean, rating[name]) for name in pool_run.NAMES]
    rho = spearmanr(*zip(*known, strict=True))[0]
    assert table.rows[1][2] == number(rho, digits=2)


def test_ratings_of_players_who_met_nobody_are_not_shown(recorded_folder):
    """Where every player plays itself, all keep the rating that they start with."""
    with RunDirectory.read(
        recorded_folder("pool", generations=1, per_generation=6, duels=0)
    ) as run:
        shown = {section.name: section for section in page(run).sections}
    for name in ("standing", "standing-score"):
        assert shown[name].reason
        assert not shown[name].blocks


def test_reviews_without_a_verdict_are_told_first():
    """Else half of Meta-Rewarding could teach nothing, and nobody would know."""
    read, unread = (
        Judgement(name, name, "meta", None, reviews=(Review("a@0", "1", (), ("x", "y"), battles),))
        for name, battles in (("r", ((0, 1, 0),)), ("u", ()))
    )
    assert unread_reviews([read]) == unread_reviews([]) == []
    [sentence] = unread_reviews([read, unread])
    assert sentence.startswith("50.0% of the comparisons of gradings could not be read")
