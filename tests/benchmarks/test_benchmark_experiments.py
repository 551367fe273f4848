"""Every benchmark that trains runs at its tiniest size, is gone on with and measured again."""

import copy
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import claims, guard, red_team_questions, stand_ins
from benchmarks.verdicts import GREEDY, Item, Scores, read_items
from equipoise.models.adapters import resolve
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt, user

WHEN = {"start", "end"}


def played(name: str, place: Path, *options: str) -> list[Item]:
    """What a benchmark measures of one seed, in runs that are kept."""
    file = place / f"{name}.json"
    told = ["--seeds", "0", "--out", str(place / "runs"), "--json", str(file), *options]
    importlib.import_module(f"benchmarks.{name}").main(told)
    items = read_items(file)
    assert {item.seed for item in items} == {0}
    figures = json.loads(file.read_text())["figures"]
    assert set(figures) == {item.arm for item in items}
    return items


def columns(items: list[Item], arm: str) -> set[str]:
    """Those of an arm that have prompts."""
    return {item.column for item in items if item.arm == arm and item.prompt}


@pytest.mark.slow
def test_kuhn_is_gone_on_with_and_measured_after_every_generation(tmp_path):
    few = ["--arms", "self_play", "--set", "prompts.per_generation=8"]
    first = played("kuhn", tmp_path, *few, "--generations", "1")
    longer = played("kuhn", tmp_path, *few, "--generations", "2")
    own = [i.generation for i in longer if (i.arm, i.column) == ("self_play", "last")]
    assert own == [0, 1, 2]
    assert {i for i in first if i.arm == "self_play"} <= set(longer), "what was played stays"
    assert {"uniform", "cfr_2", "cfr_1000"} <= {item.arm for item in longer}


@pytest.mark.slow
def test_instructions_are_answered_greedily_by_the_start_and_each_arm(tmp_path):
    few = ["--generations", "1", "--updates", "2", "--prompts", "8", "--tokens", "8"]
    few += ["--test", "3", "--held-out", "3", "--model", "builtin/beginner", "--encoder"]
    few += [str(resolve("builtin/beginner")), "--arms", "grpo", "--set", "policy.lora=null"]
    few += ["policy.max_length=256", "judge=shorter"]
    told = tmp_path / "answers.json"
    items = played("instructions", tmp_path, *few, "--answers", str(told))
    for arm in ("start", "grpo"):
        assert columns(items, arm) >= {f"strict{GREEDY}", f"relevance{GREEDY}", "strict"}
    (kept,) = (tmp_path / "runs" / "answers-grpo-0").iterdir()
    rows = json.loads(kept.read_text())
    assert len(rows) == 3, "with their texts"
    first = json.loads(told.read_text())["figures"]
    assert set(first) == {"start", "grpo"}
    assert first["grpo"] == rows[0]
    dev = played("instructions", tmp_path, *few, "--dev")
    assert columns(dev, "grpo") == columns(items, "grpo"), "by which a sweep chooses"
    asked = [{i.prompt for i in each if i.column == f"strict{GREEDY}"} for each in (items, dev)]
    assert asked[0].isdisjoint(asked[1])


@pytest.mark.slow
def test_recipes_as_published_are_measured_at_start_and_end(tmp_path):
    arms = ["mnpo", "mnpo_as_released", "gtalign"]
    items = played("as_published", tmp_path, "--generations", "1", "--arms", *arms)
    for arm in arms:
        assert columns(items, arm) == WHEN | {when + GREEDY for when in WHEN}


@pytest.mark.slow
def test_an_assistant_on_real_rows_stands_beside_what_labels_allow(tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60) / "gtalign")
    few = ["--arms", "wildguard", "--generations", "1", "--data", data]
    items = played("assistance_questions", tmp_path, *few)
    for arm in ("wildguard, start", "wildguard, trained"):
        assert columns(items, arm) >= {"right", "welfare", f"right{GREEDY}"}
    assert columns(items, "wildguard, bag of words") == {"right"}


@pytest.mark.slow
def test_the_trial_of_welfares_pays_as_published_and_asks_other_requests_too(tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60) / "gtalign")
    file, runs = tmp_path / "trial.json", tmp_path / "runs"
    told = ["gtalign", "--seeds", "0", "--arms", "user_only", "--generations", "1"]
    told += ["--data", data, "--out", str(runs), "--json", str(file)]
    importlib.import_module("benchmarks.trials").main(told)
    places = ("with harm", "otherwise", "with AdvBench")
    assert columns(read_items(file), "user_only") == {f"complies {w}{GREEDY}" for w in places}
    with RunDirectory.read(runs / "user_only-0") as run:
        judge = run.config.judge.settings()
        rows = {(m.id, m.prompt) for m in run.ledger.matches("train", 0)}
    assert (judge["variant"], judge["welfare"]["kind"]) == ("as_released", "user_only")
    assert len(rows) == 4 * len({prompt for _, prompt in rows})


@pytest.mark.slow
def test_a_pool_on_real_questions_stands_beside_the_commonest_answer(tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60) / "sparta")
    few = ["--arms", "culture", "--generations", "1", "--data", data]
    # Taught so little, no member writes a grade.
    graded = ["--set", "judge=gold", "training_ratings=bradley_terry"]
    items = played("questions", tmp_path, *few, *graded)
    tested = {"before", "after", "best before", "best after"}
    assert columns(items, "culture") == tested | {f"before{GREEDY}", f"after{GREEDY}"}
    assert columns(items, "culture, commonest right answer") == tested


@pytest.mark.slow
@pytest.mark.parametrize(
    "models",
    [[], ["--defender", "builtin/red_team", "--behaviours", "test"]],
    ids=["from nothing", "pretrained"],
)
def test_attack_and_defence_on_real_prompts_are_measured_answer_by_answer(models, tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60))
    few = ["--generations", "4", "--probe", "1", "--data", data]
    items = played("red_team_questions", tmp_path, *few, *models)
    answered = {"raw", "attacked", "over-refusal", "helpful", "on topic", "refused attacks"}
    for arm in ("start", "gpo", "frozen adversary", "rlhf"):
        assert columns(items, arm) == answered | {name + GREEDY for name in answered}
    for arm in ("fresh, gpo", "before it learns, rlhf", "fresh, start"):
        assert columns(items, arm) == answered
    told = {item.column: item.value for item in items if item.arm == "guard"}
    assert told["guard's area"] <= 1
    assert told["HarmBench's test"] == bool(models)
    with pytest.raises(SystemExit, match="were made with"):
        played("red_team_questions", tmp_path, *few, *models, "--probe", "2")
    harmful = {item.prompt for item in items if item.column == "raw"}
    behaviours = red_team_questions.harmbench(Path(data), "test")
    assert len(harmful) == (len(set(behaviours)) if models else 11)


@pytest.mark.slow
def test_a_defender_has_the_rate_at_which_a_fresh_attacker_attains_least(tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60))
    few = ["--generations", "4", "--probe", "1", "--data", data, "--arms", "frozen adversary"]
    few += ["--defender", "builtin/red_team", "--out", str(tmp_path / "runs")]
    sweep = tmp_path / "sweep.json"
    red_team_questions.main([*few, "--sweep", "--json", str(sweep)])
    scores = Scores(read_items(sweep))
    arm = "fresh, frozen adversary"
    rates = claims.TRIAL_BEHAVIOURS.swept
    attained = {rate: scores.mean(f"{arm} @ {rate}", "attacked").mean for rate in rates}
    best = min(attained, key=attained.get)
    assert json.loads(sweep.read_text())["arguments"]["chosen"][arm] == best
    red_team_questions.main([*few, "--seeds", "0", "--swept", str(sweep)])
    with RunDirectory.read(tmp_path / "runs" / "frozen_adversary-0") as run:
        assert run.config.learner.settings()["learning_rate"] == float(best)


@pytest.mark.slow
def test_judges_of_harm_are_measured_request_by_request(tmp_path):
    data = str(stand_ins.write(tmp_path / "data", 60))
    file = tmp_path / "guard.json"
    asked = ["--ask", str(resolve("builtin/red_team"))]
    encoder = ["--encoder", str(resolve("builtin/red_team"))]
    guard.main(["--data", data, "--json", str(file), "--seeds", "0", "1", *asked, *encoder])
    figures = json.loads(file.read_text())["figures"]
    assert set(figures) == {"new", "encoder"} | {name for name in figures if "asked" in name}
    items = read_items(file)
    assert {item.seed for item in items if item.arm == "encoder"} == {0, 1}
    assert columns(items, "new") == {
        f"{name}, {kind}"
        for name in ("WildGuard", "behaviours")
        for kind in (*guard.LABELS, "judged")
    }


def test_a_request_without_a_verdict_is_neither_harmful_nor_harmless():
    rows = [Prompt(str(n), (user("?"),), {"harmful": n < 2}) for n in range(4)]
    items = list(guard.items("asked", 0, "here", rows, [0.9, None, 0.1, None]))
    assert guard.area(Scores(items), "asked", "here").mean == (1 + 1 + 1 + 0.5) / 4
    assert Scores(items).mean("asked", "here, judged").mean == 0.5


def test_what_the_guard_is_measured_on_was_not_in_its_training():
    training, test = ([Prompt(text, (user(text),)) for text in texts] for texts in ("abc", "bcd"))
    assert [row.id for row in guard.unseen(training, test)] == ["d"]


def test_a_probe_leaves_the_arms_that_follow_as_they_are():
    values = {
        "prompts": {"per_generation": 48},
        "learners": {"adversary": {"critic": "head"}, "defender": {}},
        "shaping": [{"kind": "unfit"}],
    }
    before = copy.deepcopy(values)
    own = red_team_questions.alone(values, "adversary", None, 3)
    assert own["learners"] == {"adversary": red_team_questions.BY_GROUPS}
    assert own["prompts"]["per_generation"] * own["game"]["rewrites"] == 48
    assert own["players"] == {"defender": {"learns": False}}
    assert red_team_questions.alone(values, "defender", None, 3)["shaping"] == []
    assert values == before


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    told = {"harmful": [0.9, 0.4, 0.5], "harmless": [0.1, 0.5, 0.2, 0.3]}
    items = [
        Item("new", seed, 0, f"{label} {n}", f"here, {label}", value if seed == 0 else 1 - value)
        for seed in (0, 1)
        for label, values in told.items()
        for n, value in enumerate(values)
    ]
    own = guard.area(Scores(items[:7]), "new", "here")
    assert own.mean == pytest.approx((4 + 3 + 3.5) / 12)
    # DeLong: placements 1, .75, .875 and 1, .5, 1, 1.
    spread = (0.125**2 + 0 + 0.125**2 - 0) / 2 / 3 + np.var([1, 0.5, 1, 1], ddof=1) / 4
    assert own.high == 1.0
    assert own.mean - own.low == pytest.approx(1.96 * spread**0.5)
    assert guard.area(Scores(items), "new", "here").mean == pytest.approx(0.5)
