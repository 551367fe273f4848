"""A small league that is measured every second generation: its ratings, and where its time went."""

import time

import pytest

from equipoise.api.play_out import play_out
from equipoise.api.rerate import rerate
from equipoise.planning.new_run import new_run
from equipoise.report.history import stage_records
from equipoise.report.page import counts, page, stage_times
from equipoise.runs import loop, recipe_loader
from equipoise.runs.directory import RunDirectory

pytestmark = pytest.mark.long  # they share a whole run


SETTINGS = [
    "generations=5",
    "prompts.per_generation=4",
    "prompts.held_out=4",
    "evaluate.samples=1",
    "evaluate.every=2",
    "learner.epochs=0.25",
    "learner.batch_size=4",
    "policy.max_new_tokens=8",
]
MEASURED = ["policy@0", "policy@2", "policy@4", "policy@5"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the run, the seconds that it took by the clock)"""
    folder = tmp_path_factory.mktemp("sparse") / "run"
    started = time.perf_counter()
    with new_run(recipe_loader.load("quickstart", SETTINGS), folder) as run:
        play_out(run)
    seconds = time.perf_counter() - started
    with RunDirectory.read(folder) as run:
        yield run, seconds


def test_a_league_is_rated_with_every_generation_that_was_measured(played):
    run, _ = played
    again = rerate(run, rated_by="league")
    assert sorted(rating.name for rating in again.ratings[0]) == MEASURED
    last = run.ledger.stage_facts("5/measure")
    assert last is not None
    assert last["players"] == MEASURED
    recorded = {row["name"]: row["value"] for row in last["ratings"]}
    assert {r.name: r.value for r in again.ratings[0]} == pytest.approx(recorded)


def test_each_second_is_counted_once(played):
    run, seconds = played
    times = stage_times(run.ledger.stages())
    assert 0 < sum(time.seconds for time in times.values()) <= seconds
    inside = [stage for stage in run.ledger.stages() if "/held_out/" in stage.key]
    assert inside
    assert all(stage.within == "measure" for stage in inside)
    held_out = sum(stage.seconds for stage in inside if stage.stage == "play")
    assert times["measure"].parts["play"] == pytest.approx(held_out)
    training = sum(
        stage.seconds
        for stage in run.ledger.stages("play")
        if stage.key == f"{stage.generation}/play"
    )
    assert times["play"].seconds == pytest.approx(training)


def test_status_and_report_say_the_same(played, command):
    run, seconds = played
    facts = command("status", run.folder, "--json").facts
    shown = command("status", run.folder).out
    used = counts(run, stage_records(run))
    assert facts["records"]["seconds"] == used["seconds"] <= seconds + 1
    assert list(facts["records"]) == [name.replace(" ", "_") for name in used]
    whole = sum(time["seconds"] for time in facts["time"].values())
    assert whole <= seconds + 0.1 * len(facts["time"])
    sections = {section.name: section for section in page(run).sections}
    labels = [tile.label for tile in sections["records"].blocks[0].tiles]
    assert all(label in shown for label in labels if label != "seconds")
    assert [line["label"] for line in facts["headlines"]] == [
        tile.label for tile in sections["headline"].blocks[0].tiles
    ]
    assert all(line["label"] in shown for line in facts["headlines"])
    rows = sections["cost"].blocks[-1].rows
    assert "play, inside measure" in [row[0] for row in rows]


def test_a_learner_in_memory_meets_the_past_that_was_measured_and_lets_it_go(tmp_path, monkeypatch):
    settings = ["generations=4", "prompts.per_generation=12", "evaluate.every=2"]
    left = []

    def watched(run, t):
        measure(run, t)
        left.append(len(run.population.resources._opened))

    measure = loop.measure
    monkeypatch.setattr(loop, "measure", watched)
    config = recipe_loader.load("kuhn_poker", settings)
    with new_run(config, tmp_path / "run") as run:
        play_out(run)
        met = {
            str(player)
            for match in run.ledger.matches("train", 3)
            for player in match.seats.values()
        }
    assert met == {"policy@3", "policy@2", "policy@0"}, "and not policy@1"
    assert left[3] and not any(left[t] for t in (0, 2, 4)), "those that met go when measured"


def test_generations_compared_by_scores_without_a_scale_are_ordered(tmp_path):
    """As standardised scores of a panel are; whoever has more wins."""
    members = "[{kind: shorter}, {kind: repetition}]"
    panel = f"judge={{kind: panel, standardise: true, judges: {members}}}"
    few = [panel, "generations=1", "evaluate.every=1", "evaluate.sets={greedy: null}"]
    config = recipe_loader.load("quickstart", [*SETTINGS, *few])
    with new_run(config, tmp_path / "run") as run:
        play_out(run)
        measured = run.ledger.stage_facts("1/measure")
    assert 0 <= measured["win_rates"]["policy@1"]["mean"] <= 1
