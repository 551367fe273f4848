"""The table of systems on real models: a row a raw result, with its control."""

import shutil

import pytest

from benchmarks import field_pool, method_tables, real_attack, real_welfare
from benchmarks.form_cycle import ARMS, EXPERIMENT, distance, shares_of
from benchmarks.method_tables import TABLES, RealModel, RealModels
from benchmarks.verdicts import Item, Scores
from equipoise.environments.assistance.blocks import write
from equipoise.environments.assistance.everyday_requests import EverydayRequests
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
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
    assert config.prompts.per_generation * players == 208
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


@pytest.mark.parametrize("arm", real_welfare.ARMS)
def test_every_arm_of_the_real_welfare_is_a_recipe(arm):
    config = recipe_loader.load("smollm2_gtalign", real_welfare.ARMS[arm])
    kinds = {"product": "cobb_douglas", "user alone": "user_only"}
    assert config.judge.welfare.kind == kinds[arm]
    assert real_welfare.EXPERIMENT.trial.claims[1].second == "user alone"


def test_welfare_is_of_both_sides_whatever_was_trained():
    scores = {"user": 0.64, "llm": 0.25, "score": 0.64, "quality_llm": 1.0}
    items = list(real_welfare.answer_items("user alone", 1, 8, "p", scores, "Wash it first."))
    assert {item.column: item.value for item in items} == {
        "welfare": pytest.approx(0.4),
        "user": 0.64,
        "model": 0.25,
        "right": 1.0,
        "words": 3.0,
    }


class Steered:
    """An actor that writes one matrix, and then does what the chosen cell says, or never."""

    def __init__(self, text, obeys):
        self.text, self.obeys = text, obeys

    def act(self, views, dice):
        return [Move(self.text) for _ in views]

    def continued(self, views, texts, dice):
        says = {"DA": "Wash it first.", "CQ": "Which barn?", "AQ": "Wash it. Which barn?"}
        actions = [text.rpartition("Choose ")[2][3:5] if self.obeys else "CQ" for text in texts]
        return [
            f"{text}</analyze><response>{says[action]}</response>"
            for text, action in zip(texts, actions, strict=True)
        ]


@pytest.mark.parametrize(("obeys", "asks", "follows"), [(True, 0, 1), (False, 1, 0)])
def test_a_matrix_with_dear_questions_steers_who_follows_it(obeys, asks, follows):
    cells = {name: Cell(0.0, 0.0) for name in CELLS} | {"DQ_CQ": Cell(4.0, 5.0)}
    text = write("DQ: it is clear.", cells, "Choose DQ_CQ.", "Which barn?")
    prompt = EverydayRequests.model_validate({"held_out": 2}).load().held_out[1]
    items = list(real_welfare.steered_items(Steered(text, obeys), [prompt], 1, 8))
    found = {(item.arm, item.column): item.value for item in items}
    assert found["product", "blocks"] == 1
    assert found["equal costs", "asks"] == 1
    assert found["equal costs", "follows"] == 1
    assert found["dear questions", "asks"] == asks
    assert found["dear questions", "follows"] == follows


@pytest.mark.parametrize("arm", real_attack.ARMS)
def test_every_defender_learns_as_often(arm):
    config = recipe_loader.load(
        "smollm2_gpo", [*real_attack.length(arm, 24), *real_attack.ARMS[arm]]
    )
    learners = [name for name, player in config.players.items() if player.learns]
    turns = config.turns.expected_learners(learners, config.generations)
    assert sum("defender" in names for names in turns) == 12
    assert config.evaluate.every == config.generations


def test_an_adversary_that_nobody_met_tries_each_request_anew(red_team_run, tmp_path):
    unmet = shutil.copytree(red_team_run, tmp_path / "unmet")
    table = real_attack.attack([red_team_run], unmet, tries=3, prompts=2)
    assert {name.split("/")[0] for name in table} == {red_team_run.name}
    ages = sorted(int(name.partition("@")[2]) for name in table)
    assert ages[0] == 0
    assert len(ages) == 2
    for tries in table.values():
        assert [len(each) for each in tries.values()] == [3, 3]
