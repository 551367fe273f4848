"""Benchmarks' raw results, the pages that are made from them, and what arms are compared by."""

import copy
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pool_run
import pytest
import yaml

from benchmarks import __main__ as every_benchmark
from benchmarks import cyclic_preferences, history, optimism, pool, strangers_jobs, tables, verdicts
from benchmarks.claims import CLAIMS, DESIGNED, REAL_MODELS, TABLE_GAMES, TRIALS, Claim, Dose, Trial
from benchmarks.comparing import bounded, paired, word_of
from benchmarks.controls import Decoded, decoded, held_out_scores
from benchmarks.experiment import Experiment, best_settings, chosen, joined
from benchmarks.experiment import played as run_of
from benchmarks.replays import check_bridges, read_playing, replayed
from benchmarks.verdicts import Item, Scores, Verdict, read_items, verdict, write_items
from equipoise.learners.tabular_learner import win_probabilities
from equipoise.payoffs.intervals import Interval, over_seeds
from equipoise.payoffs.told_apart import crossed, holm, sign_flip
from equipoise.players.local import Local
from equipoise.ratings.bradley_terry import BradleyTerry
from equipoise.ratings.reputation import Reputation
from equipoise.runs.directory import RunDirectory
from equipoise.solvers.exploitability import exploitability


@pytest.mark.long
def test_the_pages_say_what_the_results_say():
    stale = [page.name for page, text in tables.pages().items() if text != page.read_text()]
    assert not stale, f"{stale}: run python -m benchmarks.tables"


@pytest.mark.parametrize("page", tables.judging(), ids=lambda p: p.stem)
def test_a_page_says_the_words_that_its_raw_results_earn(page):
    assert not tables.wrong_on(page)


@pytest.mark.long
def test_what_raw_results_tell_is_the_means_of_their_items():
    assert not [why for file in verdicts.RESULTS.glob("*.json") if (why := verdicts.torn(file))]


@pytest.mark.long
def test_the_check_fails_where_a_page_says_another_word(monkeypatch, tmp_path, capsys):
    page = tmp_path / "sparta.md"
    text = (tables.CLAIMS / "sparta.md").read_text()
    page.write_text(
        text.replace("**not shown**<!--sparta.passes-->", "**shown**<!--sparta.passes-->")
    )
    monkeypatch.setattr(tables, "judging", lambda: [page])
    monkeypatch.setattr(tables, "pages", dict)
    monkeypatch.setattr(tables.origins, "checked", lambda: ({}, {}))
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    with pytest.raises(SystemExit) as ended:
        tables.main()
    assert ended.value.code == 1
    assert "sparta.md: sparta.passes: shown, by its raw result not shown" in capsys.readouterr().out


def test_no_two_claims_have_the_same_name():
    tables = (TRIALS, DESIGNED, REAL_MODELS, TABLE_GAMES)
    trials = [trial for table in tables for trial in table.values()]
    assert len(verdicts.KNOWN) == sum(len(trial.claims) for trial in trials)


def test_another_word_and_a_word_of_no_claim_are_found():
    name, claim = next(iter(CLAIMS.items()))
    true = verdicts.found(claim).word
    other = "refuted" if true == "shown" else "shown"
    assert verdicts.wrong_words(f"**{true}**<!--{name}-->, **{true.title()}**<!--{name}-->") == []
    (wrong,) = verdicts.wrong_words(f"**{other}**<!--{name}-->")
    assert wrong == f"{name}: {other}, by its raw result {true}"
    assert verdicts.wrong_words("so it is **not\nshown**.") == ["not shown: of no claim"]
    assert verdicts.wrong_words("**Shown**<!--mnpo.x-->") == ["shown: no claim is mnpo.x"]


@pytest.mark.parametrize("said", ["**clearly shown**", "**shown.**", "*refuted*"])
def test_a_word_that_is_set_apart_otherwise_is_no_verdict(said):
    assert verdicts.wrong_words(f"It is {said} here.") == [f"{said}: not a verdict"]
    assert not verdicts.wrong_words("*Learning* fails if it is shown, *diversity* if not")


def test_another_difference_beside_a_verdict_is_found():
    said = "**not shown**<!--mnpo.rival_ipo-->, +4.5 (1.6 to {})"
    assert not verdicts.wrong_words(said.format("7.4"))
    (wrong,) = verdicts.wrong_words(said.format("9.4"))
    assert wrong == "mnpo.rival_ipo: +4.5 1.6 9.4, by its raw result 4.5 1.6 7.4"
    for form in (
        ", +4.5 points (1.6 to 7.4)",
        ": +4.5 points",
        ": +9 of them",
        ", 4.5 (1.6 to 7.4)",
    ):
        assert not verdicts.wrong_words(f"**not shown**<!--mnpo.rival_ipo-->{form}")
    assert verdicts.wrong_words("**not shown**<!--mnpo.rival_ipo-->, +5.4 points")
    exact = "**not tested**<!--mnpo.trial_start-->, +.024 (.014 to .034)"
    assert not verdicts.wrong_words(exact)
    assert verdicts.wrong_words(exact.replace(".024", ".24"))


def test_another_figure_before_its_source_is_found():
    text = (
        "of one 7, two .159 (.1 to .2)<!--trial_clerks:last:two-->, three and DPO .164 and "
        ".207<!--trial_clerks:last:three;dpo-->, went 5.6 points (3.0 to 8.2)"
        "<!--trial_clerks:went:two−uniform-->"
    )
    (wrong,) = verdicts.wrong_figures(text)
    assert wrong.startswith("two: .159 .1 .2, by trial_clerks .159 .")
    assert not verdicts.wrong_figures("0.6<!--red_team:over-refusal:gpo--> %")
    swapped = text.replace("three;dpo", "dpo;three").replace(" (.1 to .2)", "")
    assert [line.partition(":")[0] for line in verdicts.wrong_figures(swapped)] == ["dpo", "three"]


def test_a_claim_that_its_page_leaves_out_is_found():
    text = (tables.CLAIMS / "sparta.md").read_text()
    assert verdicts.unsaid("sparta", text.replace("<!--sparta.passes-->", "")) == ["sparta.passes"]


def test_figures_that_are_not_their_items_means_are_found(tmp_path):
    played([4, 1], "--json", str(tmp_path / "raw.json"))
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert verdicts.torn(tmp_path / "raw.json") == ""
    for change, said in (
        (lambda raw: raw["figures"]["one"][0].update(right=0.9), "right of one, seed 1, is 2.1"),
        (lambda raw: raw["arguments"].update(seeds=[1, 2]), "its items are of the seeds [1, 4]"),
        (lambda raw: raw["figures"].pop("one"), "its items are of one, too"),
        (
            lambda raw: raw["figures"].update(two=raw["figures"]["one"]),
            "right of two, seed 1, is nan",
        ),
    ):
        other = copy.deepcopy(raw)
        change(other)
        (tmp_path / "raw.json").write_text(json.dumps(other))
        assert verdicts.torn(tmp_path / "raw.json").startswith(said)


def test_every_claim_has_a_dose_and_every_trial_a_primary_claim_of_its_own():
    assert all(claim.doses for claim in CLAIMS.values())
    assert all(trial.claims for trial in TRIALS.values())
    assert len(CLAIMS) == sum(len(trial.claims) for trial in TRIALS.values())


@pytest.mark.long
def test_a_row_of_raw_results_says_when_and_how_they_were_made():
    for name in tables.MADE:
        results = json.loads((tables.RESULTS / f"{name}.json").read_text())
        assert {"commit", "command", "date", "machine"} <= results.keys()
        module = name.replace("trial_", "trials ")
        assert f"benchmarks.{module}" in results["command"]


PROBABILITY = {"target": "probability"}
MEMBERS_OF = {
    "multiplicative weights (IPO iterated)": ("ipo", "tau", {"reference": "previous"}),
    "MNPO, two past": ("mnpo", "1/eta", {"weights": [1, 1]}),
    "INPO": ("inpo", "1/eta", {"target": "eta"}),
    "SPPO": ("sppo", "eta", {}),
    "DPO iterated": ("dno", "beta", {}),
    "optimistic": ("optimistic", "eta", PROBABILITY),
    "optimistic, by its past": ("optimistic", "1/eta", {"target": "constant"}),
    "extragradient": ("extragradient", "1/eta", {}),
}


@pytest.mark.parametrize("label", MEMBERS_OF)
def test_the_closed_forms_of_optimism_are_the_members_own_minimisers(label):
    kind, step, more = MEMBERS_OF[label]
    [method] = [method for method in optimism.METHODS if method.label == label]
    games = optimism.drawn("random", 4, range(2))
    past = [np.log(optimism.softmax(games.start_GA))]
    for _ in range(3):
        logit_GA = method.move(games, past, 2.0, cyclic_preferences.SHARE)
        past.append(np.log(optimism.softmax(logit_GA)))
    member = cyclic_preferences.Member(kind, step, more)
    for g in range(2):
        game = games.win_GAA[g], games.start_GA[g]
        made_TA = cyclic_preferences.iterates(member, *game, 3 * method.evaluations, 2.0)
        own_TA = np.exp([log_GA[g] for log_GA in past])
        np.testing.assert_allclose(made_TA[:: method.evaluations], own_TA, atol=1e-6)


def test_nothing_differs_from_the_released_gtalign():
    figures = json.loads((tables.RESULTS / "gtalign_oracle.json").read_text())["figures"]
    assert len(figures["rewards"]) == 7
    for found in figures["rewards"].values():
        assert found["outputs"] >= 1000
        assert 0 < found["default"] < found["paid"]
        assert not any(value for name, value in found.items() if name.startswith("recipe."))
    for part in ("normalisations", "measures", "steering"):
        assert not any(found["differences"] for found in figures[part].values())


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 8])
def test_a_strangers_job_comes_to_its_report(number, tmp_path):
    few = ["-s", "generations=1", "-s", "prompts.per_generation=12", "-s", "prompts.held_out=8"]
    job = strangers_jobs.JOBS[number - 1]
    row = strangers_jobs.play(job, tmp_path / "job", "", few)
    assert strangers_jobs.is_whole(row), (tmp_path / "job" / "said.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [*every_benchmark.SHORT, "instructions", "published", "gtalign_oracle", "trials"]
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


def of_seeds(*differences: float, items: int = 1) -> Scores:
    """Arm "new" exceeds "old" by a difference a seed, on each item of another size."""
    return Scores(
        Item(arm, seed, 0, str(item), "right", (arm == "new") * value + item / 7)
        for seed, value in enumerate(differences)
        for arm in ("new", "old")
        for item in range(items)
    )


@pytest.mark.parametrize(
    ("differences", "word", "why"),
    [
        ((0.3, 0.31, 0.28, 0.3, 0.32, 0.29), "shown", ""),
        ((-0.3, -0.31, -0.28, -0.3, -0.32, -0.29), "refuted", ""),
        ((0.1, 0.5, 0.1, 0.3, 0.6), "not shown", "hangs on seeds 1, 3, 4"),
        ((0.05, 0.6, 0.3), "not shown", ""),
        ((0.2, 0.201, 0.15), "not shown", "hangs on seeds 0, 1"),
        ((0.2, 0.21), "not shown", "hangs on seeds 0, 1"),
    ],
)
def test_a_verdict_that_one_seed_turns_is_not_shown(differences, word, why):
    claim = Claim("c", "", "", "swept", "new", "old", "right", step="named")
    found = verdict(claim, of_seeds(*differences), {})
    assert (found.word, found.why) == (word, why)
    assert found.sign_flip == pytest.approx(sign_flip(differences))


def test_of_many_seeds_none_is_left_out_and_no_sign_flip_stands_beside():
    claim = Claim("c", "", "", "swept", "new", "old", "right", step="named")
    found = verdict(claim, of_seeds(*np.linspace(0.1, 0.3, 12)), {})
    assert (found.word, found.sign_flip) == ("shown", None)
    assert "sign-flip" in verdict(claim, of_seeds(0.3, 0.31, 0.28, 0.3), {}).text(claim)


def test_arms_of_a_row_share_their_seeds():
    scores = of_seeds(0.1, 0.2, 0.3)
    more = Scores([*scores.items, Item("third", 1, 0, "0", "right", 0.7)])
    shared = more.shared(("new", "third"), "right")
    assert {item.seed for item in shared.items} == {1}
    assert shared.mean("new", "right").mean == pytest.approx(0.2)


def test_arms_are_paired_seed_by_seed():
    assert paired([0.5, 0.7], [0.4, 0.6]).mean == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        paired([0.5], [0.4, 0.6])


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


def played(seeds: list[int], *options: str) -> Scores:
    """An experiment whose figure is its seed, on two prompts."""
    made = Experiment(
        name="none",
        doc="",
        arms={"one": (), "two": ()},
        seeds=seeds,
        generations=2,
        play=lambda seed, place, o: None,
        measure=lambda seed, place, o: [
            Item("one", seed, generation, prompt, "right", seed / 10 + generation)
            for generation in (0, 2)
            for prompt in "ab"
        ],
        columns=["right"],
        begin=lambda place, o: (place / "made").mkdir(),
    )
    return made.scores(made.parser().parse_args(options), {"generations": 2})


def by_seed(scores: Scores) -> list[float]:
    return [round(row["right"] - 2, 9) for _, row in sorted(scores.figures()["one"].items())]


def test_seeds_that_were_played_before_are_joined_by_their_number(tmp_path):
    first, second = (str(tmp_path / name) for name in ("first.json", "second.json"))
    played([4, 1], "--json", first)
    assert by_seed(played([3, 0], "--join", first, "--json", second)) == [0.0, 0.1, 0.3, 0.4]
    raw = json.loads((tmp_path / "second.json").read_text())
    assert raw["arguments"]["seeds"] == [0, 1, 3, 4]
    assert [row["seed"] for row in raw["figures"]["one"]] == [0, 1, 3, 4]
    (before,) = raw["arguments"]["joined"]
    assert before["commit"] == raw["commit"]
    assert len(read_items(tmp_path / "second.json")) == 16, "a row an item, of all generations"
    shown = str(tmp_path / "shown")
    assert by_seed(played([], "--join", second, "--out", shown)) == [0.0, 0.1, 0.3, 0.4]
    assert not (tmp_path / "shown" / "made").exists(), "nothing is made to be shown"
    (tmp_path / "second.parquet").unlink()
    assert by_seed(played([], "--join", second)) == [0.0, 0.1, 0.3, 0.4], "older results"
    for told, said in (
        ({"generations": 3}, "generations is 3, not 2"),
        ({"set": ["loss.eta=99"]}, "set is .*99.*, not None"),
        ({"chosen": {"one": "a"}}, "a sweep joins a sweep"),
    ):
        other = raw | {"arguments": raw["arguments"] | told}
        (tmp_path / "second.json").write_text(json.dumps(other))
        with pytest.raises(SystemExit, match=said):
            played([5], "--join", second)


def test_a_result_that_is_joined_is_read_once(tmp_path, monkeypatch):
    first = str(tmp_path / "first.json")
    played([4, 1], "--json", first)
    opened: list[str] = []
    read = Path.read_text

    def counted(path: Path, *given: Any, **options: Any) -> str:
        opened.append(path.name)
        return read(path, *given, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    assert by_seed(played([], "--join", first)) == [0.1, 0.4]
    assert opened.count("first.json") == 1


def test_what_was_swept_joins_what_was_swept_alike(tmp_path):
    file = tmp_path / "first.json"
    told = {"generations": 2, "swept": {"one": "a"}}
    file.write_text(json.dumps({"arguments": told, "figures": {}}))
    write_items(file, [Item(arm, 0, 2, "", "x", 1.0) for arm in ("one", "two", "start")])

    def arms(usual: str = "", **swept: str) -> list[str]:
        items, _ = joined([read_playing(file)], {"generations": 2, "swept": swept}, usual=usual)
        return [item.arm for item in items]

    assert arms(one="a") == ["one", "two", "start"]
    assert arms(one="a", two="b") == ["one", "start"]
    assert arms(one="a", two="b", usual="b") == ["one", "two", "start"]
    assert arms(one="b") == ["two", "start"] == arms()
    told.pop("swept")
    file.write_text(json.dumps({"arguments": told, "figures": {}}))
    assert arms(one="a") == ["two", "start"]
    assert arms(one="a", two="b", usual="a") == ["one", "start"]
    with pytest.raises(SystemExit, match="generations is 2, not 3"):
        joined([read_playing(file)], {"generations": 3})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"chosen": None}, "not what --sweep writes"),
        ({"dev": False}, "without --dev"),
        ({"seeds": [9, 10]}, r"seeds \[9, 10\], not by reserved ones"),
        ({"generations": 1}, "by 1 generations"),
        ({"dev": None}, ""),
    ],
)
def test_a_step_is_chosen_by_a_sweep_of_what_is_not_reported(changed, said, tmp_path):
    file, trial = tmp_path / "sweep.json", Trial((), seeds=(10, 11), reserved=(8, 9))
    told = {"dev": True, "seeds": [9], "generations": 2, "chosen": {"one": "a"}} | changed
    told = {name: value for name, value in told.items() if value is not None}
    file.write_text(json.dumps({"arguments": told}))
    if said:
        with pytest.raises(SystemExit, match=said):
            chosen(file, trial, 2)
    else:
        assert chosen(file, trial, 2) == {"one": "a"}


@pytest.mark.long
def test_a_kept_run_is_gone_on_with_only_as_it_was_played(tmp_path):
    folder, base = tmp_path / "arm-0", ["generations=2"]
    assert run_of("gpo_matrix", folder, 0, base) == run_of("gpo_matrix", folder, 0, base)
    for seed, settings, said in (
        (1, base, "other settings"),
        (0, [*base, "step.rate=0.5"], "other settings"),
        (0, ["generations=1"], "2 generations"),
    ):
        with pytest.raises(SystemExit, match=said):
            run_of("gpo_matrix", folder, seed, settings)
    run_of("gpo_matrix", folder, 0, ["generations=3"])
    with RunDirectory.read(folder) as run:
        assert run.config.generations == 3
    (tmp_path / "arm-0.settings").unlink()  # as older ones, which say nothing of it
    with pytest.raises(SystemExit, match="seed 0"):
        run_of("gpo_matrix", folder, 1, ["generations=3"])


def test_a_measured_seed_replaces_what_was_joined(tmp_path):
    file = str(tmp_path / "first.json")
    played([4, 1], "--json", file)
    assert len(played([4], "--join", file).items) == 8


def raw(file: Path, commit: str, values: Mapping[tuple[str, int], Sequence[float]]) -> Path:
    """A raw result: (arm, seed) -> a value of each prompt."""
    told = {"commit": commit, "arguments": {"generations": 2}, "figures": {}}
    file.write_text(json.dumps(told))
    items = [
        Item(arm, seed, 2, f"p{place}", "right", value)
        for (arm, seed), of_prompts in values.items()
        for place, value in enumerate(of_prompts)
    ]
    write_items(file, items)
    return file


def test_results_of_two_commits_are_joined_where_a_seed_was_played_at_both(tmp_path):
    old = read_playing(raw(tmp_path / "old.json", "aaa", {("one", 4): [0.5], ("two", 5): [0.5]}))
    check_bridges([old], "aaa", {("one", 9)})
    check_bridges([old], "bbb", {("two", 5), ("one", 9)})
    said = "old.json: was played at commit aaa, and nothing of it is played again at bbb; play one"
    with pytest.raises(SystemExit, match=f"{said} of its seeds, such as --arms one --seeds 4"):
        check_bridges([old], "bbb", {("two", 4), ("one", 5)})
    middle = read_playing(
        raw(tmp_path / "middle.json", "ccc", {("two", 5): [0.5], ("two", 6): [0.5]})
    )
    check_bridges([old, middle], "bbb", {("two", 6)})  # by way of the middle one
    check_bridges([old, middle], "bbb", set())
    far = read_playing(raw(tmp_path / "far.json", "ddd", {("two", 7): [0.5]}))
    with pytest.raises(SystemExit, match=r"far\.json: was played at commit ddd"):
        check_bridges([old, far], "bbb", set())


def test_a_seed_that_is_played_again_agrees_or_ends_the_benchmark(tmp_path):
    many = [0.2, 0.4, 0.6, 0.8] * 5
    old = read_playing(raw(tmp_path / "old.json", "aaa", {("one", 4): many, ("two", 4): many}))
    noise = [value + (0.1 if place % 2 else -0.1) for place, value in enumerate(many)]
    cells = {("one", 4): noise, ("one", 5): many}
    new = read_playing(raw(tmp_path / "new.json", "bbb", cells))
    (row,) = replayed(old, new)
    assert (row["arm"], row["seed"], row["commits"]) == ("one", 4, ["aaa", "bbb"])
    assert row["largest_difference"] < 1e-6
    assert replayed(old, read_playing(raw(tmp_path / "same.json", "aaa", cells))) == []
    moved = raw(tmp_path / "moved.json", "bbb", {("one", 4): [value + 0.05 for value in many]})
    with pytest.raises(SystemExit, match=r"one, seed 4: right is .*plays something else now"):
        replayed(old, read_playing(moved))


def test_a_sweep_gives_every_arm_its_own_best_setting():
    values = {"one @ a": 0.1, "one @ b": 0.3, "two @ a": 0.2, "two @ b": 0.1, "start": 0.9}
    scores = Scores(
        Item(arm, seed, 0, "", "right", value + seed)
        for arm, value in values.items()
        for seed in range(2)
    )
    most, least = Trial((), column="right"), Trial((), column="right", best="least")
    assert best_settings(scores, most) == {"one": "b", "two": "a"}
    assert best_settings(scores, least) == {"one": "a", "two": "b"}
    usual = Trial((), column="right", usual="a", margin=0.15)
    assert best_settings(scores, usual) == {"one": "b", "two": "a"}
    assert best_settings(scores, replace(usual, margin=0.25)) == {"one": "a", "two": "a"}
    assert best_settings(scores, replace(usual, best="least", margin=0.15)) == {
        "one": "a",
        "two": "a",
    }


@pytest.mark.long
@pytest.mark.parametrize("shape", [(3, 5), (3, 20), (5, 20), (10, 30)])
@pytest.mark.parametrize("spreads", [(1.0, 1.0, 1.0), (1.0, 0.1, 1.0), (0.1, 1.0, 3.0)])
def test_the_interval_over_seeds_and_items_covers(shape, spreads):
    """Of 95 % intervals: of differences that seeds, prompts and both together make."""
    dice, hits, most = np.random.default_rng(0), 0, 300
    for _ in range(most):
        of_seed, of_item, of_both = (
            spread * dice.normal(size=size)
            for spread, size in zip(spreads, [(shape[0], 1), (1, shape[1]), shape], strict=True)
        )
        value_SI = of_seed + of_item + of_both
        interval = crossed((s, i, value) for (s, i), value in np.ndenumerate(value_SI))
        hits += interval.low <= 0 <= interval.high
    assert hits / most >= 0.91


@pytest.mark.long
@pytest.mark.parametrize("shape", [(3, 5), (5, 8), (10, 10)])
def test_the_interval_of_right_and_wrong_answers_covers(shape):
    """Values of 0 and 1, of seeds that differ in skill and prompts that differ in difficulty."""
    dice, hits, most = np.random.default_rng(0), 0, 300

    def chances(seeds: int, prompts: int) -> np.ndarray:
        skill = dice.normal(scale=0.5, size=(seeds, 1))
        return 1 / (1 + np.exp(skill + dice.normal(size=(1, prompts))))

    for _ in range(most):
        right_SI = dice.random(shape) < chances(*shape)
        interval = crossed((s, i, float(value)) for (s, i), value in np.ndenumerate(right_SI))
        hits += interval.low <= 0.5 <= interval.high  # the logits are symmetric about 0
    assert hits / most >= 0.91


def test_seeds_alone_and_items_alone_have_students_interval():
    values = [0.1, 0.4, 0.3]
    student = over_seeds(values)
    for cells in (
        [(s, "", v) for s, v in enumerate(values)],
        [(0, str(i), v) for i, v in enumerate(values)],
        [(s, f"{s} {i}", v) for s, v in enumerate(values) for i in range(4)],
    ):
        interval = crossed(cells)
        assert (interval.low, interval.high) == pytest.approx((student.low, student.high))
    assert np.isnan(crossed([(s, "", 0.8) for s in range(5)]).low), "no spread, no interval"
    assert np.isnan(crossed([(0, "", 0.8)]).low)


def test_seeds_and_items_both_widen_an_interval():
    dice = np.random.default_rng(0)
    value_SI = dice.normal(size=(4, 1)) + dice.normal(size=(1, 30)) + dice.normal(size=(4, 30))
    whole = crossed((s, i, value) for (s, i), value in np.ndenumerate(value_SI))
    for axis in (0, 1):
        alone = over_seeds(value_SI.mean(axis=axis))
        assert whole.high - whole.low >= alone.high - alone.low - 1e-9


def test_drawing_seeds_and_items_anew_has_the_standard_error():
    """The pigeonhole draw, whose variance of a mean is the three parts' sum."""
    dice = np.random.default_rng(0)
    value_SI = dice.normal(size=(12, 1)) + dice.normal(size=(1, 15)) + dice.normal(size=(12, 15))
    drawn = [
        value_SI[np.ix_(dice.integers(12, size=12), dice.integers(15, size=15))].mean()
        for _ in range(4000)
    ]
    whole = crossed((s, i, value) for (s, i), value in np.ndenumerate(value_SI))
    half = (whole.high - whole.low) / 2
    assert half / np.std(drawn) == pytest.approx(2.1, abs=0.2)


@pytest.mark.parametrize(
    ("low", "high", "claimed", "margin", "word"),
    [
        (0.1, 0.3, "more", 0.0, "shown"),
        (0.1, 0.3, "less", 0.0, "refuted"),
        (-0.1, 0.3, "more", 0.0, "not shown"),
        (-0.3, -0.1, "less", 0.0, "shown"),
        (-0.02, 0.01, "equal", 0.03, "equal"),
        (0.01, 0.02, "more", 0.03, "equal"),
        (0.05, 0.09, "equal", 0.03, "refuted"),
        (0.01, 0.09, "equal", 0.03, "not shown"),
        (float("nan"), float("nan"), "more", 0.0, "not shown"),
    ],
)
def test_a_word_follows_from_the_interval(low, high, claimed, margin, word):
    assert word_of(Interval((low + high) / 2, low, high, 9), claimed, margin) == word


SWEPT = {"new": "2", "old": "3"}  # of 1 to 4


def claimed(*doses: Dose, swept=SWEPT, first="new", second="old", **more) -> Verdict:
    """A claim that holds by .3 over five seeds, after these doses."""
    scores = Scores(
        Item(arm, seed, 0, "", "right", value + (seed + seed % 2 * (arm == "new")) / 100)
        for arm, value in (("new", 0.8), ("old", 0.5))
        for seed in range(5)
    )
    claim = Claim("c", "", "", "swept", first, second, "right", doses=doses, **more)
    return verdict(claim, scores, {"swept": swept, "updates": 50})


@pytest.fixture(autouse=True)
def tried(monkeypatch):
    """The steps of a sweep that is nowhere on disk."""
    true = verdicts.tried
    steps = ["1", "2", "3", "4"]
    monkeypatch.setattr(
        verdicts, "tried", lambda file, arm: steps if file == "swept" else true(file, arm)
    )


@pytest.mark.parametrize(
    ("dose", "why"),
    [
        (Dose("move", arm="new", column="right", least=0.5), ""),
        (Dose("move", arm="new", column="right", least=0.9), "move 0.824, not 0.9"),
        (Dose("move", arm="new", other="old", column="right", least=0.4), "move 0.304, not 0.4"),
        (Dose("nats", arm="new", column="nats", least=0.1), "nats was not measured"),
        (Dose("planted gain", "found", "new", "right", 0.2, "old"), ""),
        (Dose("planted gain", "found", "new", "right", 0.4, "old"), "planted gain is not found"),
        (Dose("new", "changed", "new", "right", 0.9, "old"), ""),
        (Dose("new", "changed", "new", "right", 0.1, "new"), "new 0, not 0.1"),
        (Dose("updates", "told", column="updates", least=50), ""),
        (Dose("updates", "told", column="updates", least=400), "updates 50, not 400"),
    ],
)
def test_without_its_dose_a_claim_is_not_tested(dose: Dose, why: str):
    found = claimed(dose)
    assert (found.word, found.why) == ("not tested" if why else "shown", why)


@pytest.mark.parametrize(
    ("swept", "claim", "why"),
    [
        ({"new": "2"}, {}, "worse step (old)"),
        (SWEPT | {"old": "2.5"}, {}, "unswept step"),
        ({}, {"claimed": "less"}, "worse step (new, old)"),
        (SWEPT | {"old": "4"}, {}, "last step tried (old)"),
        (SWEPT | {"new": "1", "old": "4"}, {}, "last step tried (new, old)"),
        ({}, {"step": "the published one"}, ""),
        ({}, {"second": "=0.5"}, ""),
        ({}, {"second": "=0.9"}, "worse step (new)"),
        (SWEPT, {"second": "=0.9"}, ""),
        ({}, {"second": "new:right"}, ""),
    ],
)
def test_two_that_learn_or_one_that_fails_have_the_best_of_the_same_steps(swept, claim, why):
    found = claimed(swept=swept, **claim)
    assert (found.why, found.word == "not tested") == (why, bool(why))
    assert found.gap is not None


def test_where_it_is_withdrawn_a_claim_tests_nothing():
    undone = Dose("nats", arm="new", column="nats", least=0.1)
    withdrawn = claimed(undone, withdrawn="it could not be true")
    assert withdrawn.why == "it could not be true"
    assert (withdrawn.word, withdrawn.gap) == ("not tested", None)


def test_rounding_changes_no_answer():
    scores = Scores(
        Item(arm, 0, 0, p, "logprob", -80 + by)
        for arm, by in (("new", 1e-6), ("old", 0.0), ("other", 0.1))
        for p in "ab"
    )
    assert scores.changed("new", "old", "logprob") == 0
    assert scores.changed("other", "old", "logprob") == 1


def test_an_arm_stands_beside_a_number():
    scores = Scores(Item("new", seed, 0, p, "right", seed / 4) for seed in range(3) for p in "ab")
    gap = scores.difference("new", "=0.5", "right")
    assert (gap.mean, gap.low < -0.25 < gap.high) == (pytest.approx(-0.25), True)


def test_an_arm_that_was_not_played_tests_nothing():
    claim = Claim("c", "", "", "", "new", "old", "right")
    scores = Scores([Item("new", seed, 0, "", "right", 0.5) for seed in range(3)])
    found = verdict(claim, scores, {})
    assert (found.word, found.why) == ("not tested", "not every arm of it has been played")


def test_history_in_closed_form_is_what_newtons_method_finds():
    payoff_GAA, start_GA = history.games("cyclic", 9, [3])
    for past, reference in ((1, 0.0), (3, 0.0), (2, 0.05)):
        mine = history.iterates(payoff_GAA, start_GA, past, 4, 2.0, reference)[:, 0]
        more = {"weights": [1] * past, "ratio": reference}
        member = cyclic_preferences.Member("mnpo", "1/eta", more)
        win_AA = win_probabilities(payoff_GAA[0])
        theirs = cyclic_preferences.iterates(member, win_AA, start_GA[0], 4, 2.0)
        assert mine == pytest.approx(theirs, abs=1e-12)
        gap = exploitability(payoff_GAA[0], mine[-1])
        assert history.gaps(payoff_GAA, mine[None, -1])[0] == pytest.approx(gap)


@pytest.mark.long
def test_a_generations_judges_are_weighed_as_before_it_and_handicaps_are_counted(
    tmp_path, monkeypatch
):
    folder, asked = pool_run.write(tmp_path / "pool", 3), []
    true = pool.winners_changed
    monkeypatch.setattr(
        pool, "winners_changed", lambda run, t, w: asked.append((t, w)) or true(run, t, w)
    )
    found = pool.outcome(folder)
    assert [t for t, _ in asked] == [0, 1, 2]
    assert set(asked[0][1].values()) == {100.0}
    assert asked[1][1] == found["ratings"][0]
    static = Reputation(scores="static")
    ends = [dict.fromkeys("abcdef", 100.0) | {"abcdef"[t]: 90.0} for t in range(4)]
    assert pool.handicapped(static, ends) == pytest.approx((0 + 0 + 1 + 2) / 4 / 6)
    assert pool.handicapped(Reputation(), ends) == pool.handicapped(BradleyTerry(), ends) == 0


@pytest.mark.long
def test_no_other_ratings_than_reputations_change_a_winner(tmp_path, monkeypatch):
    folder = pool_run.write(tmp_path / "pool", 2)
    config = folder / "config.yaml"
    told = yaml.safe_load(config.read_text()) | {"training_ratings": {"kind": "bradley_terry"}}
    config.write_text(yaml.safe_dump(told))
    monkeypatch.setattr(pool, "winners_changed", lambda *_: pytest.fail("was asked"))
    assert pool.outcome(folder)["winners changed"] == 0.0
