"""`equipoise init` writes a recipe that runs, or says in one message why it cannot."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small import settings

import equipoise
from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader
from equipoise.runs.planning.checks import check_run
from equipoise.runs.planning.first_recipe import (
    BATCHES,
    ENOUGH,
    Numbers,
    Wishes,
    check_wishes,
    choose_numbers,
    judge_settings,
    peak_rate,
    shorten,
)

ROWS = [{"prompt": f"What is {n} + {n % 7}?", "answer": str(n + n % 7)} for n in range(60)]
SPOILT = [*ROWS, ROWS[0], ROWS[1], {"prompt": " "}]
JUDGE = "def score(prompt, text, answer):\n    return len(text) + float(answer in text)\n"
HARMFUL = [{"prompt": f"Make number {n}.", "harmful": n % 2 == 0} for n in range(40)]
SHORT = settings(player_defaults__max_new_tokens=8)


@pytest.fixture
def judge(tmp_path):
    (tmp_path / "myjudge.py").write_text(JUDGE)
    return "myjudge.py"


def test_the_numbers_give_enough_steps_where_the_prompts_allow_it():
    for distinct in (150, 500, 2_000, 20_000):
        for method in ("mnpo", "sparta"):
            numbers = choose_numbers(method, distinct)
            played = numbers.generations * numbers.per_generation
            assert played * numbers.epochs // numbers.batch >= ENOUGH
            if not numbers.reuse:
                assert played + numbers.held_out <= distinct
    few = choose_numbers("mnpo", 6)
    assert (few.batch, few.epochs) == BATCHES[-1] and few.reuse
    assert choose_numbers("mnpo", 20_000) == Numbers(3, 1000, 200, 5, 16, 1, reuse=False)
    assert choose_numbers("mnpo", 900, own_held_out=True, generations=2).per_generation == 450


def test_less_time_means_fewer_prompts_and_smaller_batches():
    long = choose_numbers("mnpo", 20_000)
    short = shorten("mnpo", long, 0.1)
    assert short.per_generation == 90 and short.held_out == 32
    assert 3 * short.per_generation * short.epochs // short.batch >= ENOUGH
    assert shorten("gpo", choose_numbers("gpo", 500), 0.5).generations == 66


def test_adapters_and_small_models_learn_at_higher_rates():
    sizes = (1e6, 135e6, 2e9, 8e9)
    for adapter in (False, True):
        rates = [peak_rate(int(size), adapter) for size in sizes]
        assert rates == sorted(rates, reverse=True) and len(set(rates)) == 4
    assert all(peak_rate(int(size), True) > peak_rate(int(size), False) for size in sizes)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes("mnppo", ("m",), "p.jsonl"), "did you mean 'mnpo'"),
        (Wishes("sparta", ("m",), "p.jsonl"), "sparta needs 3, and 1 are given"),
        (Wishes("mnpo", ("m", "n"), "p.jsonl"), "takes 1 at most"),
        (Wishes("mnpo", ("http://127.0.0.1:9/v1",), "p.jsonl"), "endpoint cannot learn"),
        (Wishes("gpo", ("m",), "p.jsonl"), "needs a guard"),
        (Wishes("mnpo", ("m",), "p.jsonl", hours=0), "more than 0"),
    ],
)
def test_wishes_that_cannot_be_met(wishes, words):
    with pytest.raises(ConfigError, match=words):
        check_wishes(wishes)


@pytest.mark.long
def test_a_judge_is_recognised(openai_server, reward_folder, monkeypatch):
    assert judge_settings("math", "mnpo") == "math"
    assert judge_settings("{kind: shorter}", "mnpo") == {"kind": "shorter"}
    folder = str(reward_folder("llama", 1))
    assert judge_settings(folder, "mnpo") == {"kind": "reward_model", "model": folder}
    monkeypatch.chdir(Path(folder).parent)  # a name alone, of a folder that is here
    assert judge_settings(Path(folder).name, "mnpo")["model"] == Path(folder).name
    labelled = str(reward_folder("llama", 2, id2label={0: "safe", 1: "Unsafe"}))
    assert judge_settings(labelled, "gpo")["unsafe"] == "Unsafe"
    with pytest.raises(ConfigError, match="it has LABEL_0"):
        judge_settings(folder, "gpo")
    with pytest.raises(ConfigError, match="did you mean 'shorter'"):
        judge_settings("shortr", "mnpo")
    openai_server.models = {"small"}
    graded = judge_settings(openai_server.url, "mnpo")
    assert graded["kind"] == "rubric" and graded["model"]["model"] == "small"
    openai_server.models = {"small", "large"}
    with pytest.raises(ConfigError, match=r"which model\? it lists large, small"):
        judge_settings(openai_server.url, "mnpo")
    with pytest.raises(ConfigError, match="cannot be reached"):
        judge_settings("http://127.0.0.1:9/v1", "mnpo")


@pytest.mark.long
def test_a_recipe_is_written_that_runs(command, rows, judge, tmp_path):
    options = ["--model", "builtin", "--data", rows(SPOILT).name, "--judge", judge]
    made = command("init", "mine.yaml", *options, *settings(policy__max_new_tokens=8), "--json")
    assert made.code == 0, made.err
    assert made.facts["dropped"] == {"duplicate": 2, "empty": 1}
    assert [row["messages"][-1][1] for row in made.facts["rows"]] == [
        row["prompt"] for row in ROWS[:5]
    ]
    (asked,) = made.facts["judge_calls"]
    assert asked["scores"]["1"]["score"] > 1 and asked["answers"][0] == ROWS[0]["answer"]
    assert made.facts["optimizer_steps_at_most"] >= ENOUGH
    text = (tmp_path / "mine.yaml").read_text()
    assert text == made.facts["text"] and len(text.splitlines()) <= 16
    assert "63 rows, left out: 2 duplicate, 1 empty" in text
    again = command("init", "mine.yaml", *options)
    assert again.code == 2 and "is there already" in again.err
    done = command("run", "mine.yaml", *settings(generations=1, learner__epochs=0.2))
    assert done.code == 0, done.err


@pytest.mark.long
@pytest.mark.parametrize("method", ["sparta", "gpo"])
def test_each_method_gets_a_recipe(command, rows, judge, tmp_path, method):
    if method == "gpo":
        (tmp_path / "myjudge.py").write_text("def safe(prompt, text):\n    return 0.5\n")
    data = rows(HARMFUL if method == "gpo" else ROWS).name
    models = ["--model", "builtin"] * (3 if method == "sparta" else 1)
    options = settings(shaping=[]) if method == "gpo" else []
    made = command(
        *["init", "mine.yaml", "--method", method, *models, "--data", data, "--judge", judge],
        *[*options, *SHORT],
    )
    assert made.code == 0, made.err
    assert "asked once about" in made.out and "go on with: equipoise run mine.yaml" in made.out
    assert Path("mine.yaml").read_text() in made.out
    config = check_run(recipe_loader.load("mine.yaml")).config
    assert config.players[config.learning[0]].max_new_tokens == 8
    assert len(config.learning) == {"sparta": 3, "gpo": 2}[method]
    little = {"generations": 2, "prompts.per_generation": 8, "prompts.held_out": 4}
    if method == "gpo":
        little |= {"turns.steps": {"defender": 1, "adversary": 1}, "learner.warmup_steps": 0}
    finished = equipoise.run("mine.yaml", little, progress=False)
    assert not finished.measures().empty


@pytest.mark.long
def test_the_hours_may_be_those_of_accelerators_that_are_not_here(command, rows, judge):
    given = ["--model", "builtin", "--data", rows(ROWS).name, "--judge", judge]
    made = command("init", "mine.yaml", *given, "--on", "1xH100-80GB", "--json")
    assert made.code == 0, made.err
    assert "at most on 1 × H100-80GB" in made.facts["text"] and made.facts["seconds_at_most"] > 0


@pytest.mark.long
def test_on_a_terminal_it_asks(rows, judge, tmp_path):
    """A real terminal, since it asks nowhere else."""
    main, other = pty.openpty()
    asked = [sys.executable, "-m", "equipoise", "init", "mine.yaml", "--no-call"]
    with subprocess.Popen(
        asked, cwd=tmp_path, stdin=other, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        os.write(main, f"builtin\n{rows(ROWS).name}\n{judge}\n".encode())
        out, _ = process.communicate(timeout=300)
    os.close(main)
    os.close(other)
    assert process.returncode == 0, out.decode()
    assert recipe_loader.read(tmp_path / "mine.yaml")["judge"] == judge


@pytest.mark.long
def test_a_judging_models_reply_is_shown_beside_its_verdict(command, rows, openai_server, tmp_path):
    openai_server.models = {"grader"}

    def grade(body):
        code = re.findall(r'"code": "(\w+)"', str(body["messages"][-1]["content"]))[-1]
        return f'{{"reason": "short", "score": 7, "code": "{code}"}}'

    openai_server.answer = grade
    given = ["--model", "builtin", "--data", rows(ROWS).name, "--judge", openai_server.url]
    made = command("init", "mine.yaml", *given, "--json")
    assert made.code == 0, made.err
    (asked,) = made.facts["judge_calls"]
    assert len(asked["replies"]) == 2 and '"score": 7' in asked["replies"][0]
    assert asked["scores"]["1"]["score"] == 7
    assert made.facts["endpoints"] == [f"judge.model: {openai_server.url} answers"]


@pytest.mark.long
def test_a_judge_without_any_verdict_is_refused_with_its_reply(
    command, rows, openai_server, tmp_path
):
    openai_server.models = {"grader"}
    openai_server.answer = lambda body: "I would say so."
    given = ["--model", "builtin", "--data", rows(ROWS).name, "--judge", openai_server.url]
    done = command("init", "mine.yaml", *given)
    assert done.code == 2 and not (tmp_path / "mine.yaml").exists()
    assert "judge: no verdict on two made answers to 'What is 0 + 0?'" in done.err
    assert "it replied 'I would say so.'" in done.err and "--no-call" in done.err
    assert command("init", "mine.yaml", *given, "--no-call").code == 0


@pytest.mark.long
def test_what_cannot_work_is_told_and_nothing_is_written(command, rows, judge, tmp_path):
    given = ["--model", "builtin", "--data", rows(ROWS).name, "--judge", judge]
    for options, words in (
        (given[:2], "give --data"),
        ([*given, "--lora", "-s", "policy.lora={target_modules: [qq]}"], "'qq'"),
        ([*given, "-s", "learner.lr=3"], "unknown key 'lr'"),
        ([*given[:4], "--judge", "http://127.0.0.1:9/v1"], "cannot be reached"),
        (["--model", "builtin", "--data", "absent.jsonl"], "absent.jsonl"),
    ):
        done = command("init", "mine.yaml", *options)
        assert done.code == 2 and words in done.err, done.err
    assert command("init", "mine.txt", *given).code == 2
    assert not (tmp_path / "mine.yaml").exists()
