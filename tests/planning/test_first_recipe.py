"""`equipoise init` writes a recipe that runs, or says in one message why it cannot."""

import copy
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_runs import settings

import equipoise
from equipoise.errors import ConfigError
from equipoise.planning import first_recipe
from equipoise.planning.checks import check_run
from equipoise.planning.first_recipe import (
    BATCHES,
    ENOUGH,
    Numbers,
    Wishes,
    check_wishes,
    choose_numbers,
    judge_settings,
    peak_rate,
    shorten,
    with_numbers,
)
from equipoise.runs import recipe_loader

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
    assert (few.batch, few.epochs) == BATCHES[-1]
    assert few.reuse
    assert choose_numbers("mnpo", 20_000) == Numbers(3, 1000, 200, 5, 16, 1, reuse=False)
    assert choose_numbers("mnpo", 900, own_held_out=True, generations=2).per_generation == 450


def test_less_time_means_fewer_prompts_and_smaller_batches():
    long = choose_numbers("mnpo", 20_000)
    short = shorten("mnpo", long, 0.1)
    assert short.per_generation == 90
    assert short.held_out == 32
    assert 3 * short.per_generation * short.epochs // short.batch >= ENOUGH
    assert shorten("gpo", choose_numbers("gpo", 500), 0.5).generations == 66


def test_the_numbers_are_the_recipes_settings():
    size = SimpleNamespace(parameters=135_000_000)
    values = {"prompts": {"path": "p.jsonl"}}

    def made(method, numbers, *settings, **wishes):
        asked = Wishes(method, ("m",), "p.jsonl", lora=True, settings=settings, **wishes)
        return with_numbers(asked, values, numbers, size)

    rate = peak_rate(size.parameters, True)
    red_team = made("gpo", Numbers(80, 64, 20, 1, 8, 1, reuse=True))
    assert red_team == {
        "generations": 80,
        "prompts": {"path": "p.jsonl", "per_generation": 64, "held_out": 20, "reuse": True},
        "turns": {"kind": "alternate", "steps": {"defender": 26, "adversary": 13}},
        "learner": {
            "learning_rate": rate / 2,
            "critic_learning_rate": pytest.approx(1.5 * rate, rel=0.005),
            "batch_size": 8,
            "warmup_steps": 2,
        },
        "learners": {"adversary": {"learning_rate": rate}},
        "evaluate": {"every": 13},
    }
    assert type(red_team["turns"]["steps"]["defender"]) is int
    long = made("gpo", Numbers(4000, 64, 20, 1, 8, 1, reuse=True))
    assert long["learner"]["warmup_steps"] == 100
    assert made("gpo", Numbers(3, 64, 20, 1, 8, 1, reuse=True))["evaluate"] == {"every": 1}
    for batch, rows, steps, share in ((16, 8, 2, 1), (8, 8, 1, 1 / 2), (4, 4, 1, 1 / 4)):
        pairs = made("mnpo", Numbers(3, 50, 10, 5, batch, 2, reuse=False), "generations=2")
        assert pairs == {
            "generations": 2,
            "prompts": {"path": "p.jsonl", "per_generation": 50, "held_out": 10},
            "game": {"samples": 5},
            "learner": {
                "learning_rate": pytest.approx(rate * share),
                "batch_size": rows,
                "gradient_accumulation": steps,
                "epochs": 2,
            },
        }
    assert values == {"prompts": {"path": "p.jsonl"}}


def planned(seconds=1.0, obstacles=(), hardware=None, costs=(), phases=()):
    return SimpleNamespace(
        seconds=seconds, obstacles=obstacles, hardware=hardware, costs=costs, phases=phases
    )


def fitted(monkeypatch, plans, hours=2.0, on=None):
    """(the values of each plan, what `fit` says) where the plans say this, one after another."""
    seen, given, size = [], iter(plans), SimpleNamespace(parameters=135_000_000)

    def plan(values, hardware):
        assert hardware == (None if on is None else first_recipe.Hardware.read(on))
        seen.append(copy.deepcopy(values))
        return next(given)

    monkeypatch.setattr(first_recipe, "plan", plan)
    monkeypatch.setattr(first_recipe.recipe_loader, "build", lambda values, path: values)
    monkeypatch.setattr(first_recipe, "whole_recipe", dict)
    wishes = Wishes("mnpo", ("m",), "p.jsonl", hours=hours, on=on, lora=True)
    numbers = Numbers(3, 1000, 100, 5, 64, 1, reuse=False)
    values = with_numbers(wishes, {"prompts": {}, "learner": {}}, numbers, size)
    assert values["learner"]["batch_size"] == 8
    fit_of = first_recipe.fit(wishes, values, numbers, size, Path("r.yaml"))
    assert list(given) == []
    return seen, fit_of


def test_a_recipe_that_fits_is_left_as_it_is(monkeypatch):
    seen, (values, plan, notes) = fitted(monkeypatch, [planned(7200, ("a note",))])
    assert [values] == seen
    assert plan.seconds == 7200
    assert notes == ["a note"]
    _, (_, _, notes) = fitted(monkeypatch, [planned(None)])
    assert notes == [
        "the time of a model of this size cannot be estimated on this machine (see --on)"
    ]


def test_a_recipe_gets_shorter_until_it_takes_the_hours_that_there_are(monkeypatch):
    seen, (values, _, notes) = fitted(monkeypatch, [planned(14400), planned(7201), planned(7000)])
    counts = [each["prompts"]["per_generation"] for each in seen]
    assert counts == [1000, 450, int(450 * (7200 / 7201) * 0.9)]
    assert values == seen[-1]
    assert not notes
    endless = [planned(1e6, ("too large",))] * (first_recipe.ROUNDS + 1)
    seen, (_, _, notes) = fitted(monkeypatch, endless, hours=0.5)
    assert len(seen) == first_recipe.ROUNDS + 1
    assert notes[0] == "too large"
    assert notes[1].startswith("it takes about 2.8e+02 h at most, and --hours is 0.5: give it more")


@pytest.mark.parametrize("on", [None, "1xH100-80GB"])
def test_a_recipe_takes_advice_until_it_fits_into_the_memory(on, monkeypatch):
    """Of this machine: of the costs that do not fit; of another: of the phases that are too much."""
    card = None if on is None else first_recipe.Hardware.read(on)

    def short(*advice):
        costs = [SimpleNamespace(fits=True, advice="x=1")]
        phases = [SimpleNamespace(bytes=1.0, advice="x=1")]
        for each in advice:
            costs.append(SimpleNamespace(fits=False, advice=each))
            phases.append(SimpleNamespace(bytes=1e12, advice=each))
        return planned(hardware=card, costs=costs, phases=phases)

    first = "learner.gradient_checkpointing=true, learner.batch_size=4"
    plans = [short(first, "learner.x=2"), short("learner.batch_size=2"), short("a smaller model")]
    seen, (values, _, _) = fitted(monkeypatch, plans, on=on)
    rows = [
        [each["learner"][name] for name in ("batch_size", "gradient_accumulation")] for each in seen
    ]
    assert rows == [[8, 8], [4, 16], [2, 32]]  # an optimizer step keeps its pairs
    assert "gradient_checkpointing" not in seen[0]["learner"]
    assert "x" not in values["learner"]
    assert (
        seen[1]["learner"]["gradient_checkpointing"]
        is True
        == values["learner"]["gradient_checkpointing"]
    )


def test_adapters_and_small_models_learn_at_higher_rates():
    sizes = (1e6, 135e6, 2e9, 8e9)
    for adapter in (False, True):
        rates = [peak_rate(int(size), adapter) for size in sizes]
        assert rates == sorted(rates, reverse=True)
        assert len(set(rates)) == 4
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
    assert graded["kind"] == "rubric"
    assert graded["model"]["model"] == "small"
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
    first = made.facts["first_row"]
    assert first["row"] == 1
    assert not first["left_out"]
    assert [message["content"] for message in first["messages"]] == [ROWS[0]["prompt"]]
    (asked,) = made.facts["judge_calls"]
    assert asked["scores"]["1"]["score"] > 1
    assert asked["answers"][0] == ROWS[0]["answer"]
    assert made.facts["optimizer_steps_at_most"] >= ENOUGH
    text = (tmp_path / "mine.yaml").read_text()
    assert text == made.facts["text"]
    assert len(text.splitlines()) <= 16
    assert "63 rows, left out: 2 duplicate, 1 empty" in text
    printed = command("init", "other.yaml", *options, *settings(policy__max_new_tokens=8)).out
    assert "the first row as a model will see it:\n  row 1, " in printed
    assert f"user       {ROWS[0]['prompt']}" in printed
    again = command("init", "mine.yaml", *options)
    assert again.code == 2
    assert "is there already" in again.err
    done = command("run", "mine.yaml", *settings(generations=1, learner__epochs=0.2))
    assert done.code == 0, done.err


@pytest.mark.long
def test_a_method_that_is_a_loss_gets_its_recipe(command, rows, judge):
    options = ["--model", "builtin", "--data", rows(ROWS).name, "--judge", judge]
    made = command("init", "mine.yaml", "--method", "dpo", *options)
    assert made.code == 0, made.err
    config = recipe_loader.load("mine.yaml")
    assert config.loss.kind == "dpo"
    mnpo = ["policy.model=builtin", f"prompts.path={rows(ROWS).name}"]
    assert config.schedule == recipe_loader.load("mnpo", mnpo).schedule


@pytest.mark.long
@pytest.mark.parametrize("method", ["sparta", "gpo"])
def test_each_method_gets_a_recipe(command, rows, judge, tmp_path, method):
    if method == "gpo":
        (tmp_path / "myjudge.py").write_text(
            "def safe(prompt, text):\n    return 0.5 + (len(text) > 99) / 4\n"
        )
    data = rows(HARMFUL if method == "gpo" else ROWS).name
    models = ["--model", "builtin"] * (3 if method == "sparta" else 1)
    options = settings(shaping=[]) if method == "gpo" else []
    made = command(
        *["init", "mine.yaml", "--method", method, *models, "--data", data, "--judge", judge],
        *[*options, *SHORT],
    )
    assert made.code == 0, made.err
    assert "asked once about" in made.out
    assert "go on with: equipoise run mine.yaml" in made.out
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
    assert "at most on 1 × H100-80GB" in made.facts["text"]
    assert made.facts["seconds_at_most"] > 0


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
    assert len(asked["replies"]) == 2
    assert '"score": 7' in asked["replies"][0]
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
    assert done.code == 2
    assert not (tmp_path / "mine.yaml").exists()
    assert "judge: no verdict on two made answers to 'What is 0 + 0?'" in done.err
    assert "it replied 'I would say so.'" in done.err
    assert "--no-call" in done.err
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


def two_servers(openai_server):
    """A server of three models, of which one judges, and likes made answers."""
    openai_server.models = {"a", "b", "judge"}

    def answer(body):
        text = body["messages"][-1]["content"]
        if body["model"] != "judge":
            return f"{body['model']} says so"
        code = re.search(r'"code": "([^"]+)"', text)[1]
        first, _, _ = text.rpartition("Answer A:")[2].partition("Answer B:")
        winner = "A" if "made answer" in first else "B"
        return f'{{"reason": "it is made", "verdict": "{winner}", "code": "{code}"}}'

    openai_server.answer = answer
    return openai_server.url


@pytest.mark.long
def test_an_arena_of_served_models_is_written_with_limits_of_money(
    command, rows, openai_server, tmp_path
):
    url = two_servers(openai_server)
    data = rows(ROWS).name
    given = ["init", "board.yaml", "--method", "arena", "--data", data]
    models = ["--model", f"{url}=a", "--model", f"{url}=b"]
    mixed = ["init", "mixed.yaml", *given[2:], *models, "--judge", f"{url}=judge"]
    assert command(*mixed, "--judge", "shorter", *settings(prompts__held_out=4)).code == 0
    panel = recipe_loader.load(tmp_path / "mixed.yaml").judge
    assert [judge.kind for judge in panel.judges.values()] == ["pairwise", "shorter"]
    made = command(
        *[*given, *models, "--judge", f"{url}=judge"],
        *["--prices", "2,4", "--money", "3", *settings(prompts__held_out=4)],
    )
    assert made.code == 0, made.err
    config = recipe_loader.load(tmp_path / "board.yaml")
    assert list(config.players) == ["a", "b"]
    for player in (*config.players.values(), config.judge.model):
        assert player.prices.input == 2
        assert player.budget.money == 3
    assert config.generations == 0
    assert config.prompts.held_out == 4
    assert "report runs/board --leaderboard" in made.out

    for options, reason in (
        ([*models[:2], "--judge", "shorter"], "an arena needs two, and 1 are given"),
        (models, "--judge: an arena needs one"),
        ([*models, "--judge", "shorter", "--money", "3"], "--money: needs --prices"),
        ([*models, "--judge", "shorter", "--prices", "cheap"], "--prices cheap: write IN,OUT"),
    ):
        refused = command("init", "other.yaml", "--method", "arena", "--data", data, *options)
        assert refused.code == 2
        assert reason in refused.err
    alone = command("init", "other.yaml", "--model", "builtin", "--data", data, "--money", "3")
    assert "are for --method arena" in alone.err


def test_prices_of_a_run_are_in_one_currency():
    player = {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    prices = {"input": 1, "output": 2}
    values = {
        "extends": "arena",
        "players": {
            "ann": {**player, "prices": prices},
            "bob": {**player, "prices": {**prices, "currency": "EUR"}},
        },
        "prompts": ["a?"],
        "judge": "shorter",
    }
    with pytest.raises(ConfigError, match="prices: are in EUR and USD"):
        recipe_loader.load(values)
    values["players"]["ann"]["prices"] = {**prices, "currency": "EUR"}
    assert recipe_loader.load(values).currency == "EUR"
