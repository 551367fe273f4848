"""The table of systems on real models: a row a raw result, with its control."""

import pytest

from benchmarks import field_pool, method_tables
from benchmarks.form_cycle import ARMS, EXPERIMENT, distance, shares_of
from benchmarks.method_tables import TABLES, RealModel, RealModels
from benchmarks.verdicts import Item, Scores
from equipoise.runs import recipe_loader
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View


def test_a_system_without_a_raw_result_has_no_row(monkeypatch, tmp_path):
    (tmp_path / "made.json").write_text("{}")
    rows = [("start", 0.25), ("optimistic", 0.05), ("dpo", 0.5)]
    scores = Scores(Item(arm, seed, 1, "", "last", value) for arm, value in rows for seed in (1, 2))
    monkeypatch.setattr(method_tables, "RESULTS", tmp_path)
    monkeypatch.setattr(method_tables, "raw", lambda file: (scores, {}))
    shared = {"column": "last", "arm": "optimistic", "control": ("dpo", "DPO")}
    table = RealModels(
        (
            RealModel("a", "x", "made", command="make a", takes="1 minute", share=False, **shared),
            RealModel("b", "x", "absent", command="make b", takes="1 minute", **shared),
        )
    )
    [row] = table.rows()
    assert len(row) == len(table.head())
    assert row[0] == "a"
    assert [cell.split()[0] for cell in row[2:4]] == ["0.250", "0.050"]
    assert row[4].startswith("DPO 0.500")
    assert "real_models" in TABLES


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_of_the_cycle_is_a_recipe(arm):
    config = recipe_loader.load("smollm2_cycle", ARMS[arm])
    kinds = {"mnpo, one": "mnpo", "mnpo, two": "mnpo", "mnpo, three": "mnpo"}
    assert config.loss.kind == kinds.get(arm, arm)
    assert EXPERIMENT.trial.claims[0].first in ARMS


def test_shares_and_their_distance():
    first = shares_of([("p", "bullets"), ("q", "bullets"), ("q", "none"), ("r", "title")])
    assert first.tolist() == [0.5, 0.25, 0, 0.25]
    second = shares_of([("p", "sentence")])
    assert distance(first, second) == 1
    assert distance(first, first) == 0


@pytest.mark.parametrize("arm", field_pool.ARMS)
def test_every_arm_of_the_fields_samples_as_much(arm):
    config = recipe_loader.load("smollm2_sparta", field_pool.ARMS[arm])
    players = len(config.players) if config.schedule.kind == "self_play" else 1
    assert config.prompts.per_generation * players == 104
    steps = 104 // players / config.learner.batch_size
    assert steps in (26, 13)
    assert {config.judge.who, arm} in ({"others", "sparta"}, {"self", "self-rewarding"})
    assert {claim.first for claim in field_pool.EXPERIMENT.trial.claims} == {"sparta"}


def answered_by_two(name, first, second, grades):
    seats = {"1": PlayerId("sums"), "2": PlayerId("sorts")}
    turns = tuple(
        Turn(seat, View(()), Move(text)) for seat, text in zip(seats, (first, second), strict=True)
    )
    scores = {seat: {"score": grade} for seat, grade in zip(seats, grades, strict=True)}
    match = Match(name, 0, "train", "answers", "p", seats, 0, turns)
    return match, Judgement(f"j{name}", name, "likely_peers", scores)


def test_judges_are_held_against_the_truth_where_one_answer_alone_is_right():
    prompts = {"p": Prompt("p", (), {"answer": "35", "field": "sums"})}
    rows = [
        answered_by_two("a", "35", "30", (6.0, 2.0)),
        answered_by_two("b", "30", "35.", (6.0, 2.0)),
        answered_by_two("c", "30", "35", (3.0, 4.0)),
        answered_by_two("d", "35", "35", (1.0, 4.0)),
        answered_by_two("e", "1", "2", (1.0, 4.0)),
    ]
    judgements = {judgement.match: judgement for _, judgement in rows}
    found = field_pool.judged([match for match, _ in rows], judgements, prompts)
    assert found == {"telling": 3 / 5, "judged": pytest.approx(2 / 3)}
