"""A scripted assistant that errs in many ways: every measure of it, and the traces of a cold start
with it, computed a second time from what was played and judged.
"""

import json
from collections import Counter
from statistics import correlation, fmean

import pytest
from recorded_run import planned_and_played

from equipoise.api.cold_start import cold_start
from equipoise.environments.assistance.blocks import parse
from equipoise.errors import DataError
from equipoise.ledger.ledger import Ledger
from equipoise.planning.new_run import new_run
from equipoise.players.base import Player
from equipoise.runs import recipe_loader
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun

CLERK = {"kind": "scripted", "call": "scripted_models:clumsy_clerk"}
SMALL = ["prompts.count=60", "prompts.held_out=12", "prompts.per_generation=4"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the facts of a measurement, its prompts by id, (prompt, output, utilities) of each answer)."""
    settings = [*SMALL, "generations=0", "learner=null", "evaluate.samples=2"]
    player = json.dumps({**CLERK, "learns": False})
    config = recipe_loader.load("gtalign_clerks", [f"players.assistant={player}", *settings])
    folder = tmp_path_factory.mktemp("clumsy") / "run"
    with new_run(config, folder) as run:
        league(OpenRun(run), 0)
        matches = run.ledger.matches("held_out", 0)
        judge = config.judge_of("assistant").name
        judgements = run.ledger.judgements_of([match.id for match in matches], judge)
        answers = [
            (match.prompt, match.turns[-1].move.text, judgements[match.id].utilities("assistant"))
            for match in matches
        ]
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("held_out", 0)}
        planned, in_all = planned_and_played(run)
        assert planned == in_all
        assert in_all["answers"] == 24
        return run.ledger.stage_facts("0/measure"), prompts, answers


def test_means_shares_and_points(played):
    facts, prompts, answers = played
    assert len(answers) == 24
    assert Counter(p for p, _, _ in answers) == dict.fromkeys(prompts, 2)
    outputs = [parse(text) for _, text, _ in answers]
    assert 0 < sum(not output.well_formed for output in outputs) < 12

    def mean(name, among=answers):
        return pytest.approx(fmean(utilities.get(name, 0.0) for *_, utilities in among))

    assert facts["score"] == facts["welfare"]["mean"] == mean("score")
    assert {n: found["mean"] for n, found in facts["utilities"].items()} == {
        "user": mean("user"),
        "llm": mean("llm"),
    }
    for name, rate in facts["rates"].items():
        assert rate["mean"] == mean(name)
        assert rate["n"] == 24
    assert facts["right"]["mean"] == mean("right_action")
    for prompt in prompts:
        both = [answer for answer in answers if answer[0] == prompt]
        assert facts["points"][prompt] == [mean("user", both), mean("llm", both)]
    on_front = {
        one
        for one, (x, y) in facts["points"].items()
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in facts["points"].values())
    }
    assert {tuple(facts["points"][name]) for name in facts["front"]} == {
        tuple(facts["points"][name]) for name in on_front
    }
    characters = sum(len(text) for _, text, _ in answers)
    visible = sum(len(output.response or "") for output in outputs)
    assert facts["length"]["response_share"] == pytest.approx(visible / characters)
    welfare, user = ([u[name] for *_, u in answers] for name in ("score", "user"))
    assert facts["correlations"]["welfare, user"][0] == pytest.approx(correlation(welfare, user))
    assert facts["unjudged"] == 0
    assert list(facts["sources"]) == ["clerk"]
    assert facts["sources"]["clerk"]["welfare"] == facts["welfare"]


def test_moves_and_written_games_by_question(played):
    facts, _, answers = played
    groups = {"vague": [], "detailed": []}
    for _, text, utilities in answers:
        groups["vague" if utilities["vague"] else "detailed"].append((parse(text), utilities))
    for question, group in groups.items():
        shares = facts["actions"][question]
        for action in ("DA", "CQ", "AQ"):
            taken = [u for _, u in group if u[action]]
            assert shares[action] == pytest.approx(len(taken) / len(group))
            pay = facts["written"]["paid"].get(question, {}).get(action)
            assert (pay is None) == (not taken)
            if taken:
                means = [fmean(u[side] for u in taken) for side in ("user", "llm")]
                assert pay == pytest.approx([*means, len(taken)])
        assert shares["n"] == len(group)
        assert shares["none"] == pytest.approx(1 - sum(shares[a] for a in ("DA", "CQ", "AQ")))
        matrices = [output.matrix for output, _ in group if output.matrix]
        for name, cell in facts["written"]["means"][question].items():
            sides = zip(*(matrix[name] for matrix in matrices), strict=True)
            assert cell == pytest.approx([fmean(side) for side in sides])
    written = [(q, o) for q, group in groups.items() for o, _ in group if o.matrix]
    assert facts["written"]["matrices"] == len(written)
    assert facts["written"]["chosen"] == Counter(output.chosen for _, output in written)
    typed = [output.chosen[0].lower() == question[0] for question, output in written]
    assert facts["written"]["typed"] == pytest.approx(fmean(typed))


@pytest.fixture(scope="module")
def config():
    return recipe_loader.load(
        "gtalign_clerks", [*SMALL, "generations=2", "players.assistant.model=builtin"]
    )


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_cold_start_keeps_the_best_play_on_each_prompt(config, tmp_path):
    teacher = Player.build(CLERK)
    least = 0.4
    made = cold_start(config, teacher, tmp_path, candidates=3, count=5, least=least)
    rows = lines(tmp_path / "candidates.jsonl")
    assert (made.prompts, made.played, len(rows)) == (5, 15, 15)
    best = {}
    for row in rows:
        text, scores = row["written"][0], row["scores"]
        assert scores["format"] == float(parse(text).well_formed)
        question = json.dumps(row["prompt"])
        worth = scores["score"], text
        if scores["format"] and scores["score"] >= least:
            best[question] = max(best.get(question, worth), worth, key=lambda pair: pair[0])
    kept = lines(tmp_path / "traces.jsonl")
    assert {json.dumps(row["prompt"]): (row["score"], row["completion"]) for row in kept} == {
        question: (score, [{"role": "assistant", "content": text}])
        for question, (score, text) in best.items()
    }
    assert made.kept == len(kept) == len(best) > 2
    assert made.mean == pytest.approx(fmean(score for score, _ in best.values()))
    assert {row["source"] for row in kept} == {"clerk"}
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        matches = ledger.matches("train", 0)
        assert len({match.seed for match in matches}) == 15
        assert {str(who) for match in matches for who in match.seats.values()} == {"teacher@0"}
        before = ledger.counts()
        held_out = {p.messages[-1].content for p in config.prompts.load().held_out or ()}
    assert not held_out & {row["prompt"][-1]["content"] for row in rows}
    again = cold_start(config, teacher, tmp_path, candidates=3, count=5, least=least)
    assert again == made
    assert lines(tmp_path / "traces.jsonl") == kept
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.counts() == before
    highest = max(row["scores"]["score"] for row in rows)
    with pytest.raises(DataError, match=r"none of the 15 matches.*--least is"):
        cold_start(config, teacher, tmp_path, candidates=3, count=5, least=highest + 0.01)


def test_a_play_without_the_four_blocks_is_no_trace_whatever_it_is_worth(config, tmp_path):
    made = cold_start(config, Player.build(CLERK), tmp_path, candidates=1, count=8)
    formed = [row["scores"]["format"] for row in lines(tmp_path / "candidates.jsonl")]
    assert made.kept == sum(formed) < 8
    assert made.played == 8
