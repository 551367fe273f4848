"""Benchmarks' raw results, the pages that are made from them, and what arms are compared by."""

import importlib
import json

import numpy as np
import pytest

from benchmarks import __main__ as every_benchmark
from benchmarks import arms, cyclic_preferences, strangers_jobs, tables
from benchmarks.comparing import bounded, holm, paired
from benchmarks.controls import Decoded, decoded, held_out_scores
from equipoise.payoffs.intervals import over_seeds
from equipoise.players.local import Local
from equipoise.runs.directory import RunDirectory


def test_the_pages_say_what_the_results_say():
    stale = [page.name for page, text in tables.pages().items() if text != page.read_text()]
    assert not stale, f"{stale}: run python -m benchmarks.tables"


def test_the_readme_has_six_rows_at_most():
    assert 0 < sum(bool(row.short) for row in tables.all_rows()) <= 6


def test_a_row_of_raw_results_says_when_and_how_they_were_made():
    for name in tables.MADE:
        results = json.loads((tables.RESULTS / f"{name}.json").read_text())
        assert {"commit", "command", "date", "machine"} <= results.keys()
        assert f"benchmarks.{name}" in results["command"]


def test_nothing_differs_from_the_released_gtalign():
    figures = json.loads((tables.RESULTS / "gtalign_oracle.json").read_text())["figures"]
    assert len(figures["rewards"]) == 7
    for found in figures["rewards"].values():
        assert found["outputs"] >= 1000 and 0 < found["default"] < found["paid"]
        assert not any(value for name, value in found.items() if name.startswith("recipe."))
    for part in ("normalisations", "measures", "steering"):
        assert not any(found["differences"] for found in figures[part].values())


@pytest.mark.long
@pytest.mark.parametrize("number", [3, 8])
def test_a_strangers_job_comes_to_its_report(number, tmp_path):
    few = ["-s", "generations=1", "-s", "prompts.per_generation=12", "-s", "prompts.held_out=8"]
    job = strangers_jobs.JOBS[number - 1]
    row = strangers_jobs.play(job, tmp_path / "job", "", few)
    assert strangers_jobs.is_whole(row), (tmp_path / "job" / "said.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [*every_benchmark.SHORT, "instructions", "published", "gtalign_oracle"]
)
def test_a_benchmark_can_be_called(name):
    """Each is a module of its own, and what it takes from the others is there."""
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_few_bounded_values_have_students_interval_cut_to_the_bounds():
    values = [0.0, 0.01, 0.05]
    whole, cut = over_seeds(values), bounded(values)
    assert whole.low < 0 == cut.low
    assert (cut.mean, cut.high) == (whole.mean, whole.high)
    assert np.isnan(bounded([0.5]).low)


def test_many_bounded_values_have_a_bootstraps_interval():
    values = [0.0] * 30 + [1.0] * 10
    interval = bounded(values)
    # The binomial's percentiles; a bootstrap's interval is not symmetric here.
    assert interval.low == pytest.approx(0.125, abs=0.03)
    assert interval.high == pytest.approx(0.39, abs=0.03)
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        bounded([0.5, 1.5])


def test_holms_correction_by_hand():
    corrected = holm([0.01, 0.04, 0.03, 0.005])
    assert corrected == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).max() == 1


def test_arms_are_paired_seed_by_seed():
    assert paired([0.5, 0.7], [0.4, 0.6]).mean == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        paired([0.5], [0.4, 0.6])


def test_the_uniform_policy_stands_beside_the_members_of_a_game():
    payoff_AA = cyclic_preferences.game("cyclic", 3, 0)
    start, uniform = cyclic_preferences.gaps("cyclic", 3, 0, 1)[-2:]
    assert uniform == pytest.approx([payoff_AA.mean(1).max()] * 2)
    assert start[0] > 0 != uniform[0]


def test_a_member_is_marked_by_what_is_shown_after_the_correction():
    rows = len(cyclic_preferences.MEMBERS) + 2
    dice = np.random.default_rng(0)
    gap_FSGM2 = 0.5 + 0.01 * dice.normal(size=(1, 2, 8, rows, 2))
    best = next(i for i, m in enumerate(cyclic_preferences.MEMBERS) if m.label == "SPPO")
    gap_FSGM2[:, 0, :, best] -= 0.3  # in games of the first size alone
    compared = cyclic_preferences.comparisons(gap_FSGM2)
    for size, expected in ((0, "<"), (1, "=")):
        for against in cyclic_preferences.AGAINST.values():
            results = [compared[0, size, best, 1, other] for other in against]
            assert cyclic_preferences.mark(results) == expected


@pytest.mark.long
def test_a_finished_runs_players_are_decoded_greedily(adapter_run, tmp_path):
    newest = adapter_run.resolve() / "players" / "policy" / "1"
    adapters: dict[Decoded, str | None] = {"start": None, "end": str(newest), "base": None}
    for which, adapter in adapters.items():
        again = decoded(adapter_run, which, tmp_path / which, settings={"evaluate.samples": 2})
        with RunDirectory.read(again) as run:
            player = run.config.players["policy"]
            matches = run.ledger.matches("held_out")
            assert run.ledger.matches("train") == []
        assert isinstance(player, Local)
        assert (player.adapter, player.temperature) == (adapter, 0)
        texts: dict[str, set[str]] = {}
        for match in matches:
            of_prompt = texts.setdefault(match.prompt, set())
            of_prompt |= {turn.move.text for turn in match.turns}
        assert all(len(of_prompt) == 1 for of_prompt in texts.values())
        assert held_out_scores(again, "policy").keys() == texts.keys()


@pytest.mark.long
def test_other_prompts_are_no_control(adapter_run, tmp_path):
    fewer = {"prompts.held_out": 4}
    with pytest.raises(ValueError, match="other prompts"):
        decoded(adapter_run, "start", tmp_path / "fewer", settings=fewer)


def played(seeds: list[int], *options: str) -> dict[str, list[arms.Row]]:
    """A benchmark whose figure is its seed."""
    o = arms.parser("", ["one"], seeds, generations=2).parse_args(options)
    return arms.over_seeds(
        o,
        lambda seed, place: seed / 10,
        lambda seed, place, figure: {"one": {"right": figure}},
        lambda row: f"{row['right']}",
        begin=lambda place: (place / "made").mkdir(),
        scale=1.0,
    )


def test_seeds_that_were_played_before_are_joined_by_their_number(tmp_path):
    first, second = (str(tmp_path / name) for name in ("first.json", "second.json"))
    played([4, 1], "--json", first)
    rows = played([3, 0], "--join", first, "--json", second)
    assert [row["right"] for row in rows["one"]] == [0.0, 0.1, 0.3, 0.4]
    raw = json.loads((tmp_path / "second.json").read_text())
    assert raw["arguments"]["seeds"] == [0, 1, 3, 4]
    assert [row["seed"] for row in raw["figures"]["one"]] == [0, 1, 3, 4]
    (before,) = raw["arguments"]["joined"]
    assert before["commit"] == raw["commit"]
    shown = str(tmp_path / "shown")
    assert played([], "--join", first, second, "--out", shown) == rows
    assert not (tmp_path / "shown" / "made").exists(), "nothing is made to be shown"
    with pytest.raises(SystemExit, match="generations is 2, not 3"):
        played([5], "--join", second, "--generations", "3")
