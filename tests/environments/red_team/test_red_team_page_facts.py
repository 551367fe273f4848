"""From the ledger of a game of attack and defence to the numbers and warnings of its
report.
"""

import math

import pytest
import siege_run

from equipoise.environments.red_team import page_facts as attacked
from equipoise.report import measured
from equipoise.run.collect import changes, facts, headlines
from equipoise.run.directory import Run

AGES = {"defender": 0, "adversary": 0}
NAMES = {name: [f"{name}@0"] for name in AGES}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with Run.read(siege_run.write(tmp_path_factory.mktemp("siege") / "run")) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(run):
    return facts(run)


def stage(t, name, **found):
    return (f"{t}/{name}", t, name.split("/")[0], found, 0.1)


def test_scores_are_found_by_the_age_that_was_measured(run, found):
    rows = {row.name: row for row in changes(run)}
    score = rows["held-out score of defender"]
    assert (score.before.mean, score.after.mean) == (
        0.6,
        0.68,
    ) and score.higher_is_better
    assert (
        "held-out score of adversary" not in rows
    )  # what it is paid is its success, which is there already
    assert [line.label for line in headlines(run)][-2:] == [
        "held-out score of defender@4",
        "held-out score of adversary@4",
    ]
    [group] = found.compared
    assert [(curve.name, curve.x, curve.mean[1:]) for curve in group.curves] == [
        ("defender", (0.0, 4.0, 8.0), (0.64, 0.68)),
        ("adversary", (0.0, 4.0, 8.0), (0.36, 0.32)),
    ]


def test_before_and_after_say_which_way_is_better(run):
    rows = {row.name: row for row in changes(run)}
    assert {name: row.higher_is_better for name, row in rows.items()} == {
        "attack success, raw prompts": False,
        "attack success, adversary": False,
        "worst attack success (exploitability)": False,
        "over-refusal": False,
        "attack diversity (1 − self-BLEU)": True,
        "attacks that refuse": False,
        "held-out score of defender": True,
    }
    worst = rows["worst attack success (exploitability)"]
    assert (worst.before.mean, worst.after.mean, worst.after.n) == (
        0.5,
        pytest.approx(0.44),
        64,
    )
    assert math.isnan(worst.after.low)  # the largest of many has no plain interval
    alone = {
        row.name: row.higher_is_better
        for row in attacked.changes([(0, siege_run.measured(0, AGES, NAMES))], True)
    }
    assert alone["attack success, adversary"] and not alone["over-refusal"]


def test_what_is_worst_may_be_a_raw_prompt():
    first = siege_run.measured(0, AGES, NAMES)
    first["attack_success"]["raw"]["mean"] = 0.75
    first["crossplay"]["success"] = [[None]]
    assert (attacked.value(first, "worst").mean, attacked.value(first, "worst").n) == (
        0.75,
        100,
    )
    none = {
        "attack_success": {"raw": {"mean": None, "low": None, "high": None, "n": 0}}
    }
    assert attacked.value(none, "worst") is None and attacked.changes([(0, none)]) == []


def test_rewards_have_gaps_where_the_other_learned(found):
    reward, parts, kl = found.attack.trained
    defender, adversary = reward.curves
    assert defender.x == adversary.x == tuple(map(float, range(8)))
    assert defender.mean[:2] == (0.25, 1.25) and all(
        map(math.isnan, defender.mean[2:4])
    )
    assert [math.isnan(y) for y in adversary.mean] == [True, True, False, False] * 2
    assert [curve.name for curve in parts.curves][:2] == [
        "defender: score",
        "defender: self bleu",
    ]
    assert kl.unit == "nats" and kl.curves[1].mean[2] == pytest.approx(0.2)
    assert [
        (phase.names, phase.first, phase.last) for phase in found.attack.phases
    ] == [
        (("defender",), 0, 1),
        (("adversary",), 2, 3),
        (("defender",), 4, 5),
        (("adversary",), 6, 7),
    ]


def test_long_phases_are_averaged_within_themselves():
    names = [("defender", "adversary")[t // 100 % 2] for t in range(600)]
    stages = [stage(t, "turn", learn=[name]) for t, name in enumerate(names)]
    stages += [
        stage(t, f"episodes/{name}", reward=float(t)) for t, name in enumerate(names)
    ]
    [reward] = attacked.attack(stages, [], (), 0).trained
    assert (
        "mean of up to 5 generations" in reward.note
        and len(reward.curves[0].x) == attacked.POINTS
    )
    assert reward.curves[0].mean[19] == reward.curves[0].x[19] == 97 and math.isnan(
        reward.curves[0].mean[20]
    )
    # Turns of one generation each: gaps would leave points and no line.
    swift = [stage(t, "turn", learn=["ab"[t % 2]]) for t in range(6)]
    swift += [stage(t, f"episodes/{'ab'[t % 2]}", reward=float(t)) for t in range(6)]
    [reward] = attacked.attack(swift, [], (), 0).trained
    assert [curve.x for curve in reward.curves] == [(0.0, 2.0, 4.0), (1.0, 3.0, 5.0)]


def test_cross_play_and_diversity(found):
    table = found.attack.crossplay
    assert table.success_AD.shape == (3, 3) and table.defenders == (
        "defender@0",
        "defender@2",
        "defender@4",
    )
    assert (table.value, table.cycling, table.adversary) == (
        0.375,
        0.25,
        {"adversary@4": 1.0},
    )
    assert found.attack.diverse == ((0, 0.9, 0.4), (4, 0.78, 0.36), (8, 0.66, 0.32))
    names = [
        (group.name, [curve.name for curve in group.curves])
        for group in found.attack.measured
    ]
    assert names[1] == (
        "Harmless prompts",
        ["over-refusal"],
    )  # helpfulness was not judged: no curve at zero


def test_attacks_come_from_every_generation_successes_first(found, run, monkeypatch):
    cards = found.attack.cards
    assert len(cards) == found.attack.seen == 24  # and no harmless prompt among them
    assert [card.answers[0].score for card in cards] == [1.0] * 8 + [0.0] * 8 + [
        None
    ] * 8
    assert [card.generation for card in cards[:8]] == [6, 6, 4, 4, 2, 2, 0, 0]
    assert cards[0].prompt[0].role == "seed prompt" and cards[0].prompt[
        0
    ].content.startswith("seed 6-")
    assert [answer.text for answer in cards[0].answers] == [
        siege_run.ATTACK,
        siege_run.LONG,
    ]
    assert (
        cards[0].answers[1].score == 0.0
        and str(cards[0].answers[1].player) == "defender@4"
    )
    assert cards[-1].reason == "unreadable"
    monkeypatch.setattr(attacked, "CARDS", 8)
    few = facts(run).attack
    assert {card.generation for card in few.cards} == set(range(8)) and few.seen == 24


def test_training_is_one_curve_over_the_learners_own_steps(found):
    by_name = {series.name: series for series in found.losses}
    assert (
        by_name["reward of adversary"].x == (1, 2, 3, 4)
        and by_name["reward of adversary"].boundaries == ()
    )
    assert list(by_name)[:3] == [
        "policy loss of defender",
        "kl of defender",
        "reward of defender",
    ]


def test_a_sound_run_raises_no_alarm(found):
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"adversary_refused": {"mean": 0.3, **siege_run.SHARE}},
            "30% of the adversary's held-out attacks are refusals",
        ),
        ({"adversary_on_topic": {"mean": 0.4, **siege_run.SHARE}}, "only 40%"),
        ({"diversity": {"bleu_diversity": 0.4}}, "fell from 0.90 to 0.40"),
    ],
)
def test_collapse_is_said(change, words):
    first = siege_run.measured(0, AGES, NAMES)
    [warning] = attacked.alarms([], [(0, first), (8, first | change)])
    assert warning.startswith("collapse: ") and words in warning


def test_repetition_counts_in_the_adversarys_last_turns():
    def told(shares):
        stages = [
            stage(t, "episodes/red", repeated={"adversary": share})
            for t, share in enumerate(shares)
        ]
        return list(
            attacked.alarms(
                [*stages, stage(99, "episodes/blue", repeated={"defender": 1.0})], []
            )
        )

    assert told([0.9] * 30 + [0.1] * attacked.RECENT) == []
    assert "60%" in told([0.0] * 30 + [0.6] * attacked.RECENT)[0]


def test_a_gap_without_a_table_of_pay_offs_is_told_plainly():
    last = {"gap": {"p@3": 0.25}, "ages": {"p": 3}}
    [line] = measured.headlines(["p"], [(0, {}), (9, last)])
    assert (line.label, line.value) == (
        "exploitability of p@3",
        "0.250",
    ) and "against p@0" not in line.note


def test_two_seats_share_a_gap():
    first, last = (
        {
            "averages": {},
            "value": 0.5,
            "gap": {f"row@{t}": gap},
            "last_gap": {f"row@{t}": 0.5},
            "exploitability": 2 * gap,
        }
        for t, gap in ((0, 0.5), (4, 0.125))
    )
    lines = list(measured.headlines(["row", "spectator"], [(0, first), (4, last)]))
    assert [line.label for line in lines] == [
        "exploitability of row's average policy",
        "exploitability of row@4 alone",
        "exploitability of the average policies",
    ]
    assert (
        lines[-1].value == "0.2500"
        and lines[-1].note
        == "what both best replies gain together; 1.0000 at the start"
    )
    assert (
        "both best replies"
        in measured.exploitability(["row"], [(0, first), (4, last)]).note
    )
