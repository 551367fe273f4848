"""Environments of verifiers as games. The slow tests ask the real verifiers 0.4.0, under the
interpreter that EQUIPOISE_VERIFIERS names.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from equipoise_neighbours.verifiers_game import Verifiers
from small_runs import is_recorded, start, wait_for_record

import equipoise
from equipoise.errors import ConfigError
from equipoise.system.effects import effects_of
from equipoise.types import Message, Prompt
from tools import fresh_model

ENVIRONMENTS = Path(__file__).parent / "environments"
PYTHON = os.environ.get("EQUIPOISE_VERIFIERS", "")
needs_verifiers = pytest.mark.skipif(not PYTHON, reason="EQUIPOISE_VERIFIERS names no interpreter")
KIND = "equipoise_neighbours.verifiers_game:Verifiers"  # what its entry point is where installed


def test_what_cannot_be_run_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"game\.python: /no/python cannot be run"):
        Verifiers(env="sums", python="/no/python").check()
    with pytest.raises(ConfigError, match=r"game\.python: .*ended by itself: it printed nothing"):
        Verifiers(env="sums", python=shutil.which("false")).check()
    odd = tmp_path / "odd"
    odd.write_text("#!/bin/sh\nread line; echo here I am\n")
    odd.chmod(0o755)
    with pytest.raises(ConfigError, match=r"game\.python: .*answered in no JSON: here I am"):
        Verifiers(env="sums", python=str(odd)).check()


@pytest.mark.long
def test_without_verifiers_the_reason_is_said():
    with pytest.raises(
        ConfigError, match=r"'sums' cannot be loaded in .*No module named 'verifiers"
    ):
        Verifiers(env="sums", python=sys.executable).check()


def test_its_effects_are_declared():
    notes = effects_of(Verifiers(env="sums", python="py"), Path()).notes()
    assert any("runs the environment sums" in note for note in notes)
    assert any("runs the command py" in note for note in notes)


@pytest.fixture
def found(monkeypatch):
    """The test environments, on the import path of whatever is started."""
    home = Path(__file__).parents[2]
    paths = (home, home / "neighbours", ENVIRONMENTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))


@pytest.mark.slow
@needs_verifiers
def test_agents_and_tasks_are_checked(found):
    with pytest.raises(ConfigError, match=r"write agents: \[first, second\]"):
        Verifiers(env="two-cards", python=PYTHON).check()
    sums = Verifiers(env="sums", python=PYTHON)
    sums.check()
    (fault,) = sums.faults([Prompt("p", (), {"deal": 40})])
    assert "'sums' has 40 tasks" in fault
    assert list(sums.faults([Prompt("p", (), {"deal": 39})])) == []


@pytest.mark.slow
@needs_verifiers
def test_tools_are_refused_in_words(found):
    with pytest.raises(ConfigError, match=r"'sums-by-tool' cannot .*: its tasks come with tools"):
        Verifiers(env="sums-by-tool", python=PYTHON).check()
    quoted = Verifiers(
        env="sums-by-tool",
        python=PYTHON,
        options={"taskset": {"quoted": True, "task": {"tools": False}}},
    )
    quoted.check()
    with pytest.raises(StopIteration) as over:
        next(quoted.play(Prompt("p", (), {"deal": 0})))
    assert over.value.value.returns is None
    assert "this player calls no tools, and the environment needs them" in over.value.value.reason


def recipe(env: str, agents: list[str], players: dict, **more) -> dict:
    return {
        "name": env,
        "generations": 0,
        "players": players,
        "prompts": {"kind": "deals", "count": 8, "per_generation": 4, "held_out": 3},
        "game": {"kind": KIND, "env": env, "python": PYTHON, "agents": agents},
        "judge": "game_outcome",
        "evaluate": {"kind": "held_out", "samples": 1},
        **more,
    }


@pytest.mark.slow
@needs_verifiers
def test_two_agents_are_paid_as_the_environment_says(found, tmp_path):
    players = {
        "bold": {"kind": "scripted", "text": "bet, or call"},
        "shy": {"kind": "scripted", "text": "check, or fold"},
    }
    roles = {"kind": "roles", "roles": {"first": "bold", "second": "shy"}}
    run = equipoise.run(
        recipe("two-cards", ["first", "second"], players, schedule=roles),
        out=tmp_path / "run",
        progress=False,
    )
    rows = run.judgements("held_out")
    paid = set(zip(rows["seat"], rows["score"], strict=True))
    assert paid == {("first", 1.0), ("second", -1.0)}  # each bet is folded to


def paid(match, answers: list[str]):
    """The result of a match in which these are the answers, in order."""
    with pytest.raises(StopIteration) as over:
        next(match)
        for text in answers:
            match.send(text)
    return over.value.value


@pytest.mark.slow
@needs_verifiers
def test_agents_that_ask_at_once_are_asked_one_by_one(found):
    """Of one episode and of several; a task that cannot be made fails its own match alone."""
    race = Verifiers(env="race", python=PYTHON, agents=("runner",))
    race.check()
    first, second = (race.play(Prompt("p", (), {"deal": deal})) for deal in (0, 1))
    assert {ask.view.messages[-1].content for ask in (next(first), next(second))} == {
        "0 + 1 = ?",
        "1 + 1 = ?",
    }
    for text in ("2", "2"):
        assert second.send(text).seat == "runner"
    assert paid(race.play(Prompt("p", (), {"deal": 2})), ["3", "0", "3"]).returns == {
        "runner": pytest.approx(2 / 3)
    }
    with pytest.raises(StopIteration) as over:
        second.send("2")
    assert over.value.value.returns == {"runner": 1.0}
    failed = paid(race.play(Prompt("p", (), {"deal": 3})), [])
    assert failed.returns is None
    assert failed.reason.endswith("LookupError: no more sums")
    assert "there is no task 4" in paid(race.play(Prompt("p", (), {"deal": 4})), []).reason
    first.close()


def holds(package: str) -> bool:
    """Whether the interpreter that has verifiers has this package, too."""
    tried = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    return bool(PYTHON) and subprocess.run([PYTHON, "-c", tried], check=False).returncode == 0


@pytest.fixture
def kuhn() -> str:
    """verifiers' own Kuhn poker; its source has it as environments/kuhn_poker, no index."""
    if not holds("kuhn_poker"):
        pytest.skip("kuhn-poker is not installed beside verifiers")
    return "kuhn-poker"


@pytest.mark.slow
@needs_verifiers
def test_its_own_kuhn_poker_pays_by_its_rules(found, kuhn, tmp_path):
    players = {
        "bold": {"kind": "scripted", "text": "[bet] or else [call]"},
        "shy": {"kind": "scripted", "text": "I take [check], or [fold]"},
    }
    roles = {"kind": "roles", "roles": {"player0": "bold", "player1": "shy"}}
    run = equipoise.run(
        recipe(kuhn, ["player0", "player1"], players, schedule=roles),
        out=tmp_path / "run",
        progress=False,
    )
    rows = run.judgements("held_out")
    assert set(zip(rows["seat"], rows["score"], strict=True)) == {
        ("player0", 1.0),
        ("player1", -1.0),
    }


def views(game: Verifiers, **scripts: str) -> set[tuple[Message, ...]]:
    """What agents see that answer by these scripts, over a few tasks."""
    seen = set()
    for deal in range(6):
        match = game.play(Prompt("p", (), {"deal": deal}))
        with suppress(StopIteration):
            ask = next(match)
            while True:
                seen.add(ask.view.messages)
                ask = match.send(scripts[ask.seat])
    return seen


@pytest.fixture
def card_player(kuhn, found, command, rows, tmp_path) -> str:
    """A tiny model that has learned to answer with legal moves of Kuhn poker."""
    bold, shy = "[bet] or else [call]", "[check] or else [fold]"
    game = Verifiers(env=kuhn, python=PYTHON, agents=("player0", "player1"))
    chats = [
        chat
        for first, second in itertools.product((bold, shy), repeat=2)
        for chat in views(game, player0=first, player1=second)
    ]
    texts = [
        {"prompt": [{"role": m.role, "content": m.content} for m in chat], "completion": move}
        for chat in chats
        for move in re.findall(r"\[\w+\]", chat[-1].content)[-2:]
    ]
    data = rows(texts, "moves.jsonl")
    sizes = {"vocabulary": 600, "hidden": 32, "layers": 2, "heads": 2, "context": 384}
    given = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    fresh_model.main(["--corpus", str(data), "--shrink", "--out", "new", *given])
    line = ("sft", "new", data, "--out", "tiny", "--epochs", 8, "--learning-rate", 1e-2)
    taught = command(*line)
    assert taught.code == 0, taught.err
    return "tiny"


@pytest.mark.slow
@needs_verifiers
@pytest.mark.parametrize(
    ("env", "agents"), [("sums", ["agent"]), ("kuhn-poker", ["player0", "player1"])]
)
def test_a_league_trains_is_killed_and_goes_on(found, tmp_path, env, agents, request):
    policy = {"kind": "local", "model": "builtin", "learns": True, "max_new_tokens": 4}
    more = {}
    if env == "kuhn-poker":
        policy |= {"model": request.getfixturevalue("card_player"), "max_length": 384}
        more = {"schedule": {"kind": "roles", "roles": {agent: agent for agent in agents}}}
    settings = recipe(
        env,
        agents,
        dict.fromkeys(agents, policy),
        generations=2,
        learner={"kind": "policy_gradient", "estimator": "batch"},
        **more,
    )
    (tmp_path / "recipe.yaml").write_text(json.dumps(settings))
    process = start("run", "recipe.yaml", "--out", "run", cwd=tmp_path)
    wait_for_record(process, tmp_path / "run", "0/play")
    process.kill()
    process.wait()
    assert (tmp_path / "run" / "config.yaml").is_file(), process.communicate()
    run = equipoise.open_run(tmp_path / "run", trust=True).resume(progress=False)
    assert is_recorded(run.path, "2/measure")
    assert run.status()["finished"]
