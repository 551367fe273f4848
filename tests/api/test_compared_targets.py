"""Targets of a comparison: names, patterns, folders, models at addresses, players, comparisons."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise
from equipoise.api.model_targets import player_of, settings_for
from equipoise.api.targets import named_targets
from equipoise.environments.clerk import world
from equipoise.errors import ConfigError, RunError

SUMS = ["What is 2 plus 2?", "What is 1 plus 3?", "What is 9 plus 9?"]


def score(prompt, text):
    return float("4" in text) + 0.1 * ("is" in text)


def fixed(text, **more):
    return {"kind": "scripted", "text": text, **more}


@pytest.fixture
def folder_of_runs(tmp_path, monkeypatch):
    """`runs/` with two runs, models' answers, judgements of a comparison, and a note."""
    monkeypatch.chdir(tmp_path)
    for name in ("mnpo-1", "mnpo-2", "evaluate/x", "compare/side_by_side_0a1b"):
        home = tmp_path / "runs" / name
        home.mkdir(parents=True)
        (home / "ledger.sqlite").touch()
    return tmp_path


def listed(*given):
    return [(name, [str(each) for each in targets]) for name, targets in named_targets(given)]


def test_folders_and_patterns_stand_for_their_runs(folder_of_runs):
    both = ["runs/mnpo-1", "runs/mnpo-2"]
    assert listed("runs/") == [("", [each]) for each in both]
    assert listed("runs/mnpo-*") == [("", [each]) for each in both]
    assert listed("m=runs/mnpo-*", "other way=runs/mnpo-1") == [
        ("m", both),
        ("other way", both[:1]),
    ]
    assert listed({"m": "runs/mnpo-?@policy@3"}) == [("m", [f"{each}@policy@3" for each in both])]
    assert ("", ["runs/evaluate/x"]) in listed("runs/*")
    assert not any("side_by_side" in targets[0] for _, targets in listed("runs/*"))
    assert listed("http://h/v1?a=b#m") == [("", ["http://h/v1?a=b#m"])]


def test_a_mapping_is_a_player_or_targets_by_name():
    player = {"model": "x", "batch_size": 4}
    assert list(named_targets([player])) == [("", [player])]
    assert listed({"model": "x", "baseline": "y"}) == [("model", ["x"]), ("baseline", ["y"])]
    assert list(named_targets(["m={model: x, batch_size: 4}"])) == [("m", [player])]
    assert player_of({"base_url": "http://h/v1", "model": "x"})["kind"] == "endpoint"
    assert player_of("http://h/v1#x") == {
        "kind": "endpoint",
        "base_url": "http://h/v1",
        "model": "x",
    }
    assert player_of("org/x#y") == {"kind": "local", "model": "org/x#y"}


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([None], "a NoneType is no target"),
        ([""], "a target is empty"),
        (["{a: 3"], "not YAML"),
        (["{path: x}"], "is no player"),
        ([{"m": []}, "b"], "m: names no target"),
        (["runs/nothing", "runs/mnpo-1"], "no run, no model and no log here; did you mean"),
        (["./nothing", "b"], "no run, no model and no log here"),
        (["http://h/v1", "http://h/v2#b"], "http://h/v1#NAME"),
        (["localhost:8000/v1#b", "http://h/v2#b"], "as http://localhost:8000/v1#b"),
        (["a=runs/mnpo-1", "a=runs/mnpo-2"], "'a' names two targets"),
    ],
)
def test_what_is_no_target_is_one_message(folder_of_runs, targets, words):
    targets = [t.replace("runs/nothing", "runs/mnpo") if isinstance(t, str) else t for t in targets]
    with pytest.raises(ConfigError, match=words):
        equipoise.compare(*targets)


def test_settings_of_models_go_to_those_that_have_them():
    both = {"local", "endpoint"}
    given = ["batch_size=3", "concurrency=2", "temperature=0", "nonsense=1"]
    assert settings_for("x", given, both) == ["batch_size=3", "temperature=0", "nonsense=1"]
    assert settings_for("http://h/v1#x", given, both) == given[1:]
    assert settings_for("x", {"concurrency": 2}, {"local"}) == {"concurrency": 2}  # and is refused


def compared(*targets, **more):
    return equipoise.compare(*targets, judge=score, progress=False, **more)


@pytest.mark.long
def test_texts_rows_and_frames_are_played_once_and_chained(folder_of_runs):
    right, wrong = fixed("It is 4."), fixed("No.")
    first = equipoise.evaluate(right, SUMS, judge=score, out="kept/right", progress=False)
    second = equipoise.evaluate(wrong, SUMS, judge=score, out="kept/wrong", progress=False)
    comparison = equipoise.compare(first, second)
    [each] = comparison.differences().itertuples()
    assert (each.measure, each.items) == ("given: score by score", 3)
    assert each.difference == pytest.approx(1.1)
    assert list(comparison.standings()["target"]) == ["right", "wrong"]
    rates = {(row.first, row.second): row.win_rate for row in comparison.win_rates().itertuples()}
    assert rates == {("right", "wrong"): 1.0, ("wrong", "right"): 0.0}
    third = compared(comparison, {"third": fixed("It is 5.")}, on=SUMS)
    assert third.numbers.names == ["right", "wrong", "third"]
    assert len(third.differences()) == 3
    again = compared(first, {"third": fixed("It is 5.")}, on={"mine": SUMS[:2], "one": [SUMS[2]]})
    assert again.numbers.measures == ("mine: score by score", "one: score by score")


def test_two_models_of_one_name_are_kept_apart(folder_of_runs, openai_server):
    openai_server.answer = lambda body: "It is 4."
    url = openai_server.url
    local = f"{url.replace('127.0.0.1', 'localhost')}#tiny"
    key = {"player_settings": {"concurrency": 3}}
    numbers = compared(f"{url}#tiny", local, {"f": fixed("No.")}, on=SUMS, **key).numbers
    assert numbers.names == [f"tiny at {url}", f"tiny at {local.partition('#')[0]}", "f"]
    assert openai_server.requests[0].body["model"] == "tiny"
    assert len(openai_server.requests) == 2 * len(SUMS)
    compared(f"{url}#tiny", local, {"f": fixed("No.")}, on=SUMS, player_settings={"retries": 1})
    assert len(openai_server.requests) == 2 * len(SUMS)  # kept, whatever the key or the retries
    assert len([path for path in Path("runs/evaluate").iterdir() if "tiny" in path.name]) == 2
    with pytest.raises(RunError, match="nothing is recorded of it"):
        equipoise.compare(f"{url}#other", f"{url}#tiny")


def test_the_currency_of_prices_stands_beside_the_money(folder_of_runs, openai_server):
    priced = {"base_url": openai_server.url, "model": "tiny", "prices": {"input": 1, "output": 2}}
    euros = {**priced, "model": "small", "prices": {"input": 1e5, "output": 2, "currency": "EUR"}}
    comparison = compared(priced, euros, on=SUMS)
    usage = comparison.facts()["usage"]
    assert list(usage["small"]["money"]) == ["EUR"] and list(usage["tiny"]["money"]) == ["USD"]
    text = comparison.write("page.html").read_text()
    assert f"{usage['small']['money']['EUR']:.4f} EUR" in text
    assert f"small at {openai_server.url}" in text


@pytest.mark.long
def test_a_target_does_not_differ_from_itself(folder_of_runs):
    run = equipoise.evaluate(fixed("4"), SUMS, judge=score, out="kept/a", progress=False)
    with pytest.raises(ConfigError, match=r"model of kept/a: is named twice, in 'a' and 'b'"):
        equipoise.compare(run, {"b": "kept/a"})


@pytest.mark.long
def test_prompts_measured_earlier_in_the_same_way_count(folder_of_runs):
    for text, name in (("It is 4.", "right"), ("No.", "wrong")):
        for part in (SUMS[:2], SUMS[1:]):
            equipoise.evaluate(fixed(text), part, judge=score, out=f"kept/{name}", progress=False)
    comparison = equipoise.compare("kept/right", "kept/wrong")
    [each] = comparison.numbers.differences
    assert each.items == 3
    assert "right: given: score by score: 1 prompts of an earlier measurement count" in (
        comparison.numbers.notes
    )


@pytest.mark.long
def test_judgements_of_another_set_of_the_same_name_stay_out(folder_of_runs):
    for text, name in (("It is 4.", "right"), ("No.", "wrong")):
        equipoise.evaluate(fixed(text), SUMS, judge="shorter", out=f"kept/{name}", progress=False)
    numbers = compared("kept/right", "kept/wrong", on=SUMS).numbers
    assert numbers.measures == ("given: score by score",)


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ([], "names no set"),
        (["Hello", "Bye"], r"a prompt of a single word: on=\{'prompts'"),
        (["gsm8k ifeval"], "name one set at a time"),
        ("held out.jsonl", "held out.jsonl"),
        ([3], "3"),
    ],
)
def test_what_is_no_set_is_one_message(folder_of_runs, on, words):
    with pytest.raises(equipoise.errors.UserError, match=words):
        compared(fixed("4"), {"b": fixed("5")}, on=on)


def test_a_judge_or_a_setting_without_a_set_is_refused(folder_of_runs):
    with pytest.raises(ConfigError, match="--judge judges answers to sets"):
        equipoise.compare("a", "b", judge="exact")
    with pytest.raises(ConfigError, match="-s sets something of sets"):
        equipoise.compare("a", "b", settings={"limit": 3})


@pytest.mark.long
def test_a_model_of_the_hub_is_played_once_and_kept(folder_of_runs):
    """As the hub's client has it in its cache; another process, which reads where that is."""
    commit = "0123456789" * 4
    home = folder_of_runs / "hub" / "models--lab--tiny"
    shutil.copytree(Path(world.__file__).parent / "model", home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    Path("q.jsonl").write_text('{"prompt": "What is 2 plus 2?", "answer": "4"}\n')
    fixed_answer = "no={kind: scripted, text: '4'}"
    asked = ["compare", "lab/tiny", fixed_answer, "--json"]
    played = [*asked, "--on", "q.jsonl", "--judge", "exact"]
    outcomes = []
    for arguments in (played, asked):
        done = subprocess.run(
            [sys.executable, "-m", "equipoise", *arguments],
            env={**os.environ, "HF_HUB_CACHE": str(home.parent), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr
        outcomes.append(json.loads(done.stdout))
    assert outcomes[0]["targets"] == ["tiny", "no"]
    assert outcomes[0]["usage"]["tiny"]["is"] == ["lab/tiny"]
    assert outcomes[0]["differences"] == outcomes[1]["differences"]  # the second reads what is kept


@pytest.mark.long
def test_the_command_takes_a_players_settings(command, openai_server):
    openai_server.answer = lambda body: "4"
    Path("q.jsonl").write_text(
        "".join(json.dumps({"prompt": q, "answer": "4"}) + "\n" for q in SUMS)
    )
    served = f"s={{base_url: '{openai_server.url}', model: tiny}}"
    other = "{kind: scripted, text: '5'}"
    asked = ["compare", served, other, "--on", "q.jsonl", "--judge", "exact", "--json"]
    facts = command(*asked).facts
    [each] = facts["differences"]
    assert (each["first"], each["second"], each["difference"]) == ("s", "scripted", 1.0)
    measured = command(
        "evaluate",
        f"{openai_server.url}#tiny",
        other,
        "--on",
        "q.jsonl",
        "--judge",
        "exact",
        "-s",
        "player.retries=1",
        "--json",
    ).facts
    assert [row["metrics"]["score"]["mean"] for row in measured] == [1.0, 0.0]
    assert len(openai_server.requests) == 3
