"""Measures beside those of `evaluate`: whole runs, roles, and what is refused."""

import json

import pytest
from fixtures.finished_runs import play
from pydantic import ValidationError
from small_runs import SMALL, settings
from test_held_out_roles import Arena

import equipoise
from equipoise.errors import ConfigError
from equipoise.evaluation.measure import AnswerLength, JudgeScore, Measure
from equipoise.planning.run_plan import plan
from equipoise.report.history import history
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Move, Turn, View

VOWELS = """
from collections.abc import Mapping
from typing import Literal

from equipoise.evaluation.measure import AnswersMeasure


def vowels(prompt, text):
    return sum(letter in "aeiou" for letter in text)


class Longest(AnswersMeasure):
    \"\"\"The longest answer to a prompt, in characters.\"\"\"

    kind: Literal["longest"] = "longest"

    def scores(self, arena, player, t, samples):
        answers = arena.answers(player, samples)
        return {
            prompt: [float(max(len(turn.move.text) for turn in turns))]
            for prompt, turns in answers.items()
        }
"""
PARTS = "[length, vowels.py:vowels, {kind: 'vowels.py:Longest', title: longest answer}]"


@pytest.mark.long
def test_several_measures_stand_in_tables_frames_report_and_trackers(command, tmp_path):
    (tmp_path / "vowels.py").write_text(VOWELS)
    more = settings(generations=2, measures=PARTS)
    done = command("run", "quickstart", *SMALL, *more, "--out", "run")
    assert done.code == 0, done.err
    done = command("status", "run", "--json")
    titles = [line["label"].removesuffix(" of policy@2") for line in done.facts["headlines"]]
    assert titles[-3:] == ["length", "vowels:vowels", "longest answer"]

    run = equipoise.open_run("run")
    frame = run.measures()
    assert list(frame.generation) == [0, 1, 2]
    row = frame[frame.generation == 2].iloc[0]
    answers = run.matches("held_out", 2)
    answers = answers[answers.player == "policy@2"].groupby("prompt").head(2)  # evaluate.samples
    assert row["length"] == pytest.approx(answers.answer.str.split().str.len().mean())
    vowels = answers.answer.map(lambda text: sum(letter in "aeiou" for letter in text))
    assert row["vowels:vowels"] == pytest.approx(vowels.mean())
    longest = answers.assign(length=answers.answer.str.len()).groupby("prompt").length.max()
    assert row["longest answer"] == pytest.approx(longest.mean())
    assert row["length_low"] < row["length"] < row["length_high"]

    with RunDirectory.read(tmp_path / "run") as directory:
        measured = history(directory)
    assert {change.name for change in measured.changes()} >= {"length", "longest answer"}
    added = [part.quantity for part in measured_parts(tmp_path / "run")]
    tracked = measured.last.measures.tracked(2, added)
    assert tracked["longest_answer/policy"] == pytest.approx(row["longest answer"])
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert any(line.get("stage") == "2/measure" for line in lines)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Further measures" in page
    assert page.count("vowels:vowels") >= 2


def measured_parts(folder):
    with RunDirectory.read(folder) as directory:
        return directory.config.measures


@pytest.mark.long
def test_measuring_more_changes_nothing_else(tmp_path):
    small = [part for part in SMALL if part != "-s"]
    plain = play(tmp_path / "plain", "quickstart", small)
    beside = play(tmp_path / "beside", "quickstart", [*small, "measures=[length, shorter]"])
    facts = []
    for folder in (plain, beside):
        with RunDirectory.read(folder) as run:
            facts.append(run.ledger.stage_facts("1/measure"))
    added = facts[1].pop("added")
    assert facts[0] == facts[1]
    assert set(added) == {"length", "shorter"}
    assert set(added["length"]) == {"policy@1"}


def test_in_a_game_of_roles_a_player_is_measured_in_its_own():
    """The describer gets 2 on three of four prompts, the guesser 1 on them (generation 1)."""
    arena = Arena()
    scores = JudgeScore(judge="shorter").measure(arena, 1, 1)
    assert {name: interval.mean for name, interval in scores.items()} == {"d@1": 1.5, "g@1": 0.75}
    assert arena.played == [(("d@1", "g@1"), 4, "all/4")] * 2, "as held_out plays and records them"


def test_an_answers_length_leaves_its_thoughts_out():
    arena = Arena()
    texts = {"p0": ["<think>a b c</think>one two"], "p1": ["one", "one two three four five"]}
    arena.game = recipe_loader.load("quickstart").game
    arena.answers = lambda player, samples: {
        prompt: [Turn("1", View(()), Move(text)) for text in rows] for prompt, rows in texts.items()
    }
    words = AnswerLength().measure(arena, 1, 2)
    assert words["d@1"].mean == pytest.approx((2 + 1 + 5) / 3)
    characters = AnswerLength(counts="characters").measure(arena, 1, 2)
    assert characters["g@1"].mean == pytest.approx((7 + 3 + 23) / 3)


@pytest.mark.parametrize(
    ("measures", "says"),
    [
        ("[length, length]", "measures.1: another measure is called 'length'; give it a title"),
        ("[{judge: shorter, title: Held-out score}]", "measures.0: 'Held-out score' is what eval"),
        ("[length, {judge: shorter, title: exploitability}]", "measures.1: 'exploitability' is w"),
        ("[{kind: length, title: score}]", "held_out calls a number of its own; give it another"),
        ("[{kind: length, title: player}]", "give it another title"),
        ("[lenght]", "did you mean"),
        ("[{kind: pairwise, model: {kind: scripted, text: a}}]", "unknown kind 'pairwise'"),
        ("[{title: x}]", "needs a mapping with 'kind'"),
    ],
)
def test_a_measure_that_cannot_be_is_refused(measures, says):
    with pytest.raises(ConfigError, match=says):
        recipe_loader.load("quickstart", [f"measures={measures}"])


@pytest.mark.parametrize("value", ["length", "{judge: shorter, title: length}", "[length]"])
def test_a_single_measure_needs_no_list(value):
    config = recipe_loader.load("quickstart", [f"measures={value}"])
    assert [measure.name for measure in config.measures] == ["length"]


def test_a_judge_that_only_compares_measures_nobody_alone():
    judge = "{kind: pairwise, model: {kind: endpoint, base_url: 'http://localhost:1/v1', model: m}}"
    with pytest.raises(ConfigError, match="only compares answers"):
        recipe_loader.load("quickstart", [f"measures=[{{judge: {judge}}}]"])


def test_a_measure_is_named_by_its_kind_its_judge_or_its_title():
    parts = [
        Measure.build(value) for value in ("length", "shorter", {"judge": "shorter", "title": "t"})
    ]
    assert [part.name for part in parts] == ["length", "shorter", "t"]
    assert [Measure.build(part.settings()) for part in parts] == parts
    with pytest.raises(ValidationError, match="words"):
        Measure.build({"kind": "length", "counts": "letters"})


def test_the_plan_counts_questions_of_a_measure_and_plays_only_what_is_not_played():
    def counts(*measures):
        config = recipe_loader.load(
            "quickstart", ["prompts.held_out=10", "generations=2", "evaluate.samples=2", *measures]
        )
        return plan(config).counts

    plain = counts()
    same = counts("measures=[shorter]")
    more = counts("measures=[{judge: shorter, samples: 3}]")
    assert same.held_out_matches == plain.held_out_matches
    assert same.questions_to_judges == plain.questions_to_judges
    assert more.held_out_matches == plain.held_out_matches + 3 * 10, "of four seats each"
