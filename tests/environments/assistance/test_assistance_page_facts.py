"""From the ledger of the assistant's game to the numbers, points and answers of its
report.
"""

import math

import assistance_run
import numpy as np
import pytest

from equipoise.environments.assistance import page_facts as assisted
from equipoise.environments.assistance.game import Assistance
from equipoise.report.records import matches
from equipoise.report.section import Cards
from equipoise.run.collect import changes, facts, headlines
from equipoise.run.directory import Run
from equipoise.types import (
    Judgement,
    Match,
    Message,
    Move,
    PlayerId,
    Prompt,
    Turn,
    View,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = assistance_run.write_run(
        tmp_path_factory.mktemp("assistance") / "run", sources=("clerk", "wildguard")
    )
    with Run.read(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(run):
    return facts(run)


def test_headlines_name_welfare_and_right_moves_once(run):
    lines = {line.label: line for line in headlines(run)}
    assert (
        lines["welfare"].value == "0.470 (0.420 to 0.520)"
        and "0.350" in lines["welfare"].note
    )
    assert lines["right moves"].value.startswith("90.0 %")
    assert (
        lines["tokens of an answer"].value == "80"
        and lines["tokens of an answer"].note == "120 at the start"
    )
    assert not any(
        "score of" in label for label in lines
    )  # an assistant's score is its welfare


def test_before_and_after_say_which_way_is_better(run):
    rows = {row.name: row for row in changes(run)}
    assert list(rows)[:4] == [
        "welfare",
        "utility to the user",
        "utility to the model",
        "right moves",
    ]
    assert (rows["welfare"].before.mean, rows["welfare"].after.mean) == (0.35, 0.47)
    assert (
        not rows["tokens of an answer"].higher_is_better
        and rows["right moves"].unit == "%"
    )
    assert "held-out score" not in rows


def test_curves_leave_out_what_was_not_measured(found):
    groups = {group.name: group for group in found.assistance.measured}
    welfare, user, model = groups["Welfare and both utilities"].curves
    assert welfare.x == user.x == model.x == (0.0, 2.0, 4.0) and welfare.mean == (
        0.35,
        0.41,
        0.47,
    )
    assert welfare.low[0] == pytest.approx(0.3)
    whole, given = found.assistance.choices
    chosen = whole.curves
    assert [curve.name for curve in given.curves] == ["nash"] and given.curves[
        0
    ].mean == (1.0, 1.0, 1.0)
    assert [curve.name for curve in chosen] == ["sum", "nash"] and chosen[1].mean[
        -1
    ] == pytest.approx(0.8)
    assert [curve.name for curve in found.assistance.alone][-1] == "Hypervolume"
    assert found.curves == () and found.compared == ()  # welfare is not drawn twice
    none = assistance_run.measured(0) | {
        "right": assistance_run.between(None),
        "length": {},
    }
    bare = assisted.assistance([(0, none)])
    assert [curve.name for curve in bare.alone] == ["Hypervolume"]
    assert "right move" not in [
        curve.name for group in bare.measured for curve in group.curves
    ]
    assert assisted.headlines([(0, {"scores": {}})]) is not None and not list(
        assisted.headlines([(0, {})])
    )


def test_planes_are_the_start_the_last_and_the_others(run):
    other = assisted.plane(
        "other@2", assistance_run.measured(2, prompts=3) | {"front": ["p2"]}
    )
    planes = facts(run, beside=[other]).assistance.planes
    assert [one.name for one in planes] == ["generation 0", "generation 4", "other@2"]
    assert planes[1].point_N2.shape == (6, 2) and planes[1].point_N2[1].tolist() == [
        0.5,
        0.49,
    ]
    assert planes[1].front_F.tolist() == [4, 5] and planes[2].front_F.tolist() == [2]
    assert planes[0].area == 0.2
    assert np.isfinite(planes[2].point_N2).all()


def test_moves_matrices_and_sources_are_of_both_ends(found):
    told = found.assistance
    assert list(told.moves) == [
        ("vague", 0),
        ("vague", 4),
        ("detailed", 0),
        ("detailed", 4),
    ]
    assert told.moves["vague", 4] == {
        "DA": pytest.approx(0.1),
        "CQ": 0.8,
        "AQ": 0.05,
        "none": 0.05,
        "n": 4.0,
    }
    assert told.written.means["vague"]["VQ_DA"] == tuple(assistance_run.MATRIX["VQ_DA"])
    assert told.written.chosen == {
        "VQ_CQ": 3,
        "none": 2,
    } and told.beaten == dict.fromkeys(("policy@1", "policy@2", "policy@3"), 0.125)
    assert list(told.sources) == [
        ("clerk", 0),
        ("wildguard", 0),
        ("clerk", 4),
        ("wildguard", 4),
    ]
    row = told.sources["wildguard", 4]
    assert (
        row["welfare"].startswith("0.470")
        and row["right"] == row["score per 1000 tokens"] == "–"
    )


def test_an_answer_is_shown_block_by_block(found):
    good, faulty, failed = found.matches[:3]
    assert [message.content for message in good.prompt] == [
        "Be brief.",
        "question 0",
    ]  # not the game's own words
    parts = {part.name: part for part in good.answers[0].parts}
    assert list(parts) == ["thinking", "payoff", "analyze: VQ_CQ", "response"]
    assert (
        parts["thinking"].text == assistance_run.HOSTILE
        and parts["response"].text == "Which of the two?"
    )
    assert parts["payoff"].rows[0] == ("", "DA", "CQ", "AQ")
    assert (
        parts["payoff"].rows[3] == ("VQ user", "2.5", "[2]", "1.5")
        and len(parts["payoff"].rows) == 5
    )
    assert (
        good.answers[0].score == 0.5
        and good.answers[0].note == "user 0.25, model 1, move CQ, quality model 1"
    )
    names = [part.name for part in faulty.answers[0].parts]
    assert names == ["faults", "thinking", "payoff", "response", "the whole output"]
    assert "there is no <analyze>" in faulty.answers[0].parts[0].text
    assert faulty.answers[0].parts[2].text == "{nothing}" and faulty.answers[
        0
    ].note.startswith("ended by length")
    assert failed.answers[0].text == "out of memory" and not failed.answers[0].parts
    assert failed.answers[0].score is None and failed.reason == "the move failed"


def test_a_talk_is_paid_as_a_whole():
    game, player, guest = (
        Assistance(simulated=True, turns=2),
        PlayerId("policy", 1),
        PlayerId("guest", 0),
    )
    view = View((Message("user", "anything"),))
    said = (
        ("user", "VQ"),
        ("assistant", assistance_run.GOOD),
        ("user", "the first"),
        ("assistant", assistance_run.GOOD),
    )
    turns = tuple(Turn(seat, view, Move(text)) for seat, text in said)
    match = Match(
        "m",
        1,
        "train",
        "assistance",
        "p",
        {"assistant": player, "user": guest},
        0,
        turns,
    )
    prompt = Prompt("p", (Message("user", "the wish"),), {"vague": "a vague wish"})
    word = Judgement(
        "j",
        "m",
        "judge",
        {"assistant": {"score": 0.5, "user": 0.25}, "user": {"score": 0.25}},
    )
    other = Judgement("k", "m", "another", {"assistant": {"score": 0.75}})
    _, answers = assisted.card(match, prompt, game, [word, other], "score")
    assert [answer.score for answer in answers] == [0.25, 0.5, 0.25, 0.5]
    assert [answer.note for answer in answers] == [
        "",
        "",
        "",
        "user 0.25, another: score 0.75",
    ]
    assert [bool(answer.parts) for answer in answers] == [False, True, False, True]
    plain = Assistance(blocks=False)
    _, [answer] = assisted.card(
        Match(
            "m",
            1,
            "train",
            "assistance",
            "p",
            {"assistant": player},
            0,
            (Turn("assistant", view, Move("Hi.")),),
        ),
        prompt,
        plain,
        [],
        "score",
    )
    assert answer.text == "Hi." and not answer.parts and answer.score is None


def test_harmful_prompts_fold_the_answers_away(found, tmp_path):
    [cards] = [block for block in matches(found).blocks if isinstance(block, Cards)]
    assert cards.folded == "" and not found.assistance.harmful
    with Run.read(assistance_run.write_run(tmp_path / "harm", harmful=True)) as run:
        [cards] = [
            block for block in matches(facts(run)).blocks if isinstance(block, Cards)
        ]
    assert cards.folded


def test_missing_means_are_missing(found):
    assert math.isnan(assisted.interval(assistance_run.between(None)).mean)
    assert assisted.value(assistance_run.measured(0), "rates.matrix") is None
