"""What is measured of adversary and defender: read from the ledger, compared, drawn, and warned of."""

import math

import pytest
import red_team_run

from equipoise.environments.red_team import report_sections as attack_cards
from equipoise.environments.red_team.game import RedTeam
from equipoise.environments.red_team.measures import RedTeamMeasures, measured_curves
from equipoise.environments.red_team.report_sections import (
    POINTS,
    RECENT,
    Phase,
    collapse_warnings,
    phases,
    training_curves,
)
from equipoise.evaluation.measures import History, Measurement, StageRecord
from equipoise.report.history import history, records
from equipoise.runs.directory import RunDirectory

pytestmark = pytest.mark.long  # they share a whole run


AGES = {"defender": 0, "adversary": 0}
NAMES = {name: [f"{name}@0"] for name in AGES}
FIRST = red_team_run.measured(0, AGES, NAMES)


@pytest.fixture(scope="module")
def run(recorded_folder):
    with RunDirectory.read(recorded_folder("red_team")) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(run):
    return history(run)


@pytest.fixture(scope="module")
def recorded(run):
    return records(run)


def of(*facts, learners=("defender",), roles=None):
    """A history of these facts, eight generations apart."""
    measurements = tuple(
        Measurement(8 * i, RedTeamMeasures.read(found)) for i, found in enumerate(facts)
    )
    return History(learners, measurements, RedTeam(), roles=roles or {})


def stage(t, name, **found):
    return StageRecord(f"{t}/{name}", t, name.split("/")[0], found)


def test_the_record_is_as_it_was_measured():
    assert RedTeamMeasures.read(FIRST).facts(FIRST["ages"]) == FIRST | {
        "diversity": dict.fromkeys(("self_bleu", "cosine", "cosine_diversity", "distinct"))
        | FIRST["diversity"]
    }


def test_scores_are_found_by_the_age_that_was_measured(measured):
    rows = {row.name: row for row in RedTeamMeasures.changes(measured)}
    score = rows["held-out score of defender"]
    assert (score.before.mean, score.after.mean) == (0.6, 0.68)
    assert score.higher_is_better
    # What an adversary is paid is its success, which is there already.
    assert "held-out score of adversary" not in rows
    labels = [line.label for line in RedTeamMeasures.headlines(measured)]
    assert labels[-2:] == ["held-out score of defender@4", "held-out score of adversary@4"]


def test_before_and_after_say_which_way_is_better(measured):
    rows = {row.name: row for row in RedTeamMeasures.changes(measured)}
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
    assert (worst.before.mean, worst.after.n) == (0.5, 64)
    assert worst.after.mean == pytest.approx(0.44)
    assert math.isnan(worst.after.low)  # the largest of many has no plain interval
    adversary_learns = of(FIRST, learners=("red",), roles={"adversary": "red"})
    alone = {row.name: row.higher_is_better for row in RedTeamMeasures.changes(adversary_learns)}
    assert alone["attack success, adversary"]
    assert not alone["over-refusal"]


def test_what_is_worst_may_be_a_raw_prompt():
    raw = {"mean": 0.75, **red_team_run.SHARE}
    facts = FIRST | {"attack_success": FIRST["attack_success"] | {"raw": raw}}
    facts["crossplay"] = FIRST["crossplay"] | {"success": [[None]]}
    worst = RedTeamMeasures.read(facts).worst
    assert worst is not None
    assert (worst.mean, worst.n) == (0.75, 100)
    nothing = {"mean": None, "low": None, "high": None, "n": 0}
    unjudged = {
        "players": ["defender@0"],
        "scores": {"defender@0": nothing},
        "score": None,
        "exploitability": None,
        "attack_success": {"raw": nothing},
        "p_safe": {"raw": nothing},
    }
    assert RedTeamMeasures.read(unjudged).worst is None
    assert [row.name for row in RedTeamMeasures.changes(of(unjudged))] == ["held-out score"]


def test_rewards_have_gaps_where_the_other_learned(recorded):
    turns = phases(recorded.stages)
    reward, parts, kl = training_curves(recorded.stages, turns)
    defender, adversary = reward.curves
    assert defender.x == adversary.x == tuple(map(float, range(8)))
    assert defender.mean[:2] == (0.25, 1.25)
    assert all(map(math.isnan, defender.mean[2:4]))
    assert [math.isnan(y) for y in adversary.mean] == [True, True, False, False] * 2
    assert [curve.name for curve in parts.curves][:2] == ["defender: score", "defender: self bleu"]
    assert kl.unit == "nats"
    assert kl.curves[1].mean[2] == pytest.approx(0.2)
    assert turns == [
        Phase(("defender",), 0, 1),
        Phase(("adversary",), 2, 3),
        Phase(("defender",), 4, 5),
        Phase(("adversary",), 6, 7),
    ]


def test_long_phases_are_averaged_within_themselves():
    names = [("defender", "adversary")[t // 100 % 2] for t in range(600)]
    stages = [stage(t, "turn", learn=[name]) for t, name in enumerate(names)]
    stages += [stage(t, f"episodes/{name}", reward=float(t)) for t, name in enumerate(names)]
    [reward] = training_curves(stages, phases(stages))
    assert "mean of up to 5 generations" in reward.note
    curve = reward.curves[0]
    assert len(curve.x) == POINTS
    assert curve.mean[19] == curve.x[19] == 97
    assert math.isnan(curve.mean[20])
    # Turns of one generation each: gaps would leave points and no line.
    swift = [stage(t, "turn", learn=["ab"[t % 2]]) for t in range(6)]
    swift += [stage(t, f"episodes/{'ab'[t % 2]}", reward=float(t)) for t in range(6)]
    [reward] = training_curves(swift, phases(swift))
    assert [curve.x for curve in reward.curves] == [(0.0, 2.0, 4.0), (1.0, 3.0, 5.0)]


def test_cross_play_and_curves(measured):
    result = measured.measurements[-1].measures.cross_play
    assert result.table.success_AD.shape == (3, 3)
    assert result.table.defenders == ["defender@0", "defender@2", "defender@4"]
    assert (result.meta_game.value, result.cycling) == (0.375, 0.25)
    assert result.meta_game.adversary == {"adversary@4": 1.0}
    names = [
        (group.name, [curve.name for curve in group.curves]) for group in measured_curves(measured)
    ]
    # Helpfulness was not judged: there is no curve at zero.
    assert names[1] == ("Harmless prompts", ["over-refusal"])


def test_transfer_is_a_curve_of_its_own():
    guest = {"mean": 0.25, **red_team_run.SHARE}
    success = measured_curves(of(FIRST, FIRST | {"transfer": {"guest": guest}}))[0]
    [curve] = [curve for curve in success.curves if curve.name == "on guest"]
    assert (curve.x, curve.mean) == ((8.0,), (0.25,))


def test_attacks_come_from_every_generation_successes_first(measured, recorded, monkeypatch):
    cards, seen = attack_cards.attack_cards(recorded, measured.judge)
    assert len(cards) == seen == 24  # and no harmless prompt among them
    scores = [card.answers[0].score for card in cards]
    assert scores == [1.0] * 8 + [0.0] * 8 + [None] * 8
    assert [card.generation for card in cards[:8]] == [6, 6, 4, 4, 2, 2, 0, 0]
    [seed] = cards[0].prompt
    assert seed.role == "seed prompt"
    assert seed.content.startswith("seed 6-")
    attack, answer = cards[0].answers
    assert (attack.text, answer.text) == (red_team_run.ATTACK, red_team_run.LONG)
    assert answer.score == 0.0
    assert answer.player == "defender@4"
    assert cards[-1].reason == "unreadable"
    monkeypatch.setattr(attack_cards, "CARDS", 8)
    few, seen = attack_cards.attack_cards(recorded, measured.judge)
    assert {card.generation for card in few} == set(range(8))
    assert seen == 24


def test_a_sound_run_raises_no_alarm(measured, recorded):
    assert list(RedTeamMeasures.warnings(measured, recorded)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"adversary_refused": {"mean": 0.3, **red_team_run.SHARE}},
            "30% of the adversary's held-out attacks are refusals",
        ),
        ({"adversary_on_topic": {"mean": 0.4, **red_team_run.SHARE}}, "only 40%"),
        ({"diversity": {"bleu_diversity": 0.4}}, "fell from 0.90 to 0.40"),
    ],
)
def test_collapse_is_said(change, words, recorded):
    collapsed = of(FIRST, FIRST | change)
    [warning] = RedTeamMeasures.warnings(collapsed, recorded)
    assert warning.startswith("collapse: ")
    assert words in warning


def test_repetition_counts_in_the_adversarys_last_turns():
    def warnings(shares):
        stages = [
            stage(t, "episodes/red", repeated={"adversary": share})
            for t, share in enumerate(shares)
        ]
        stages.append(stage(99, "episodes/blue", repeated={"defender": 1.0}))
        return list(collapse_warnings(stages, None, None, []))

    assert warnings([0.9] * 30 + [0.1] * RECENT) == []
    assert "60%" in warnings([0.0] * 30 + [0.6] * RECENT)[0]
