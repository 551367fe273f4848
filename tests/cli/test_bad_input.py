"""The user's mistakes and the world's: one clear message that names what is wrong and
where, the right exit code, no traceback (the `command` fixture fails on one), and
nothing lost that was recorded."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import FINITE, SMALL, settings, start, wait_for_record

ASK = settings(
    policy__model="builtin", policy__max_length=128, policy__max_new_tokens=8, judge="exact"
)
QUESTIONS = [{"prompt": f"What is {a} + 1?", "answer": str(a + 1)} for a in range(40)]


def on(path: object, *further: str) -> list[str]:
    """A small run of the recipe mnpo on the prompts in `path`."""
    return ["run", "mnpo", *SMALL, *ASK, *settings(prompts__path=path), *further, "--out", "run"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("generatons=3", ["-s generatons=3", "'generatons'", "'generations'"]),
        ("policy.temperatur=1", ["players.policy", "'temperatur'", "'temperature'"]),
        ("loss=mpno", ["loss", "'mpno'", "'mnpo'"]),
        ("loss={kind: dpo, eta: 1}", ["loss", "'eta'"]),
        ("learner.learning_rate=1/3", ["learner", "learning_rate", "number", "'1/3'"]),
        ("generations=-1", ["generations", "greater than or equal to 0"]),
        ("judge=my_module.MyJudge", ["judge", "'my_module:MyJudge'"]),
        ("judge=no.such.module:Judge", ["judge", "cannot import"]),
        ("judge=.x:y", ["judge", "cannot import"]),
        ("generations=1000000000", ["generations", "10000"]),
        ("learner.learning_rate=.inf", ["learner.learning_rate", "finite"]),
        ("policy.model=" + "m" * 6_000, ["players.policy", "model", "1000"]),
        ("judge=equipoise.games.answers:Answers", ["judge", "not a Judge"]),
        ("loss=null", ["loss", "needs one"]),
        ("keep=1", ["keep", "past generations"]),
        ("report_to=[wandbb]", ["report_to", "wandb"]),
        ("report_to=[wandb]", ["report_to", "'wandb' is not installed"]),
        ("generations", ["write it as -s key.path=value"]),
        ("seed=[", ["not YAML"]),
        ("policy.device=vulkan", ["players.policy", "device 'vulkan'"]),
    ],
)
def test_settings(command, override, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # as where it is not installed
    done = command("run", "quickstart", "-s", override, "--out", "run")
    assert done.code == 2
    assert all(word in done.err for word in words), done.err
    assert not Path("run").exists()


def test_an_unread_setting_in_a_file_is_named_with_the_file(command, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("extends: quickstart\nloss:\n  history_weights: [0.25, 0.75]\n")
    done = command("run", recipe)
    assert done.code == 2
    assert all(word in done.err for word in ("mine.yaml: loss", "'history_weights'", "'weights'"))


def test_a_choice_that_there_is_not(command):
    done = command("vote", "run", "--part", "nothing")
    assert done.code == 2
    assert "'nothing'" in done.err
    assert "'held_out'" in done.err
    assert "Value error" not in done.err


@pytest.mark.long
def test_recipes_and_runs_that_are_not_there(command):
    assert "did you mean 'quickstart'?" in command("run", "quickstrat").err
    assert command("run", "absent.yaml").code == 2
    for verb in ("resume", "status", "report"):
        done = command(verb, "nowhere")
        assert done.code == 2
        assert "no run here" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"extends: ./mine.yaml\n", "mine.yaml: extends itself"),
        (b"\xff\xfename: mine\n", "mine.yaml: is not UTF-8 text (byte 0)"),
    ],
)
def test_a_recipe_that_cannot_be_read(command, tmp_path, text, words):
    recipe = tmp_path / "mine.yaml"
    recipe.write_bytes(text)
    done = command("plan", recipe)
    assert done.code == 2 and words in done.err, done.err


def test_a_required_setting(command):
    done = command("run", "mnpo")
    assert done.code == 2
    assert "prompts.path: " in done.err
    assert "-s prompts.path=" in done.err
    assert "players.policy.model: " in done.err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, ["prompts.jsonl", "no such file"]),
        ([], ["prompts.jsonl", "empty"]),
        ([*QUESTIONS, "{oops"], ["prompts.jsonl", "41"]),
        ([*QUESTIONS, {"topic": "?"}], ["prompts.jsonl", "41"]),
        (QUESTIONS[:1], ["prompts", "at least 2", "1 are"]),
        ([{"prompt": q["prompt"]} for q in QUESTIONS], ["exact", "answer", "max_unjudged"]),
    ],
    ids=[
        "missing file",
        "empty file",
        "broken row",
        "row without prompt",
        "too few",
        "no answers to judge by",
    ],
)
def test_prompts(command, tmp_path, rows, words):
    path = tmp_path / "prompts.jsonl"
    if rows is not None:
        import json

        path.write_text(
            "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        )
    done = command(*on(path))
    assert done.code == 2, done.err
    assert all(word in done.err for word in words), done.err


def test_an_empty_held_out_split(command, rows):
    empty = rows([{"prompt": "   "}], "held_out.jsonl")
    done = command(*on(rows(QUESTIONS), *settings(prompts__held_out_path=empty)))
    assert done.code == 2 and "held" in done.err, done.err
    done = command(*on(rows(QUESTIONS), *settings(prompts__held_out=0)), "--overwrite")
    assert done.code == 2 and "prompts.held_out" in done.err, done.err


@pytest.mark.long
def test_prompts_longer_than_the_context(command, rows):
    done = command(*on(rows([{**q, "prompt": q["prompt"] * 60} for q in QUESTIONS])))
    assert done.code == 2
    assert "40 too_long" in done.err and "max_length" in done.err, done.err


def test_a_model_folder_without_tokenizer(command, rows, tmp_path):
    from equipoise.models.adapters import resolve

    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_bytes((Path(resolve("builtin")) / name).read_bytes())
    done = command(*on(rows(QUESTIONS), *settings(policy__model=tmp_path / "model")))
    assert done.code == 2 and "tokenizer" in done.err, done.err
    done = command(
        *on(rows(QUESTIONS), *settings(policy__model=tmp_path / "absent")), "--overwrite"
    )
    assert done.code == 2 and "absent" in done.err, done.err


@pytest.mark.long
def test_every_pair_a_tie(command, tmp_path):
    (tmp_path / "ties.py").write_text(
        "def same(prompt, text):\n    return 0.5 if 'made' not in text else 0.0\n"
    )
    done = command(
        "run",
        "quickstart",
        *SMALL,
        "-s",
        "judge={kind: call, function: 'ties:same'}",
        "--out",
        "run",
    )
    assert done.code == 2
    assert "no pair" in done.err and "tie" in done.err, done.err


@pytest.mark.long
def test_a_judge_of_ones_own_is_tried_before_anything_is_played(command, tmp_path):
    (tmp_path / "mine.py").write_text("def grade(prompt, text):\n    return int(text)\n")
    done = command("run", "quickstart", *SMALL, "-s", "judge=mine.py", "--out", "run")
    assert done.code == 2
    assert not (tmp_path / "run" / "ledger.sqlite").exists()
    assert done.err.count("raised ValueError") == 1 and "mine.py, line 2)" in done.err, done.err
    (tmp_path / "longer.py").write_text("def grade(prompt, text):\n    return len(text)\n")
    done = command("run", "quickstart", *SMALL, "-s", "judge=longer.py:grade", "--out", "again")
    assert done.code == 0, done.err


@pytest.mark.long
def test_all_judgements_missing(command, tmp_path):
    (tmp_path / "blind.py").write_text("def never(prompt, text):\n    return None\n")
    done = command(
        "run",
        "quickstart",
        *SMALL,
        "-s",
        "judge={kind: call, function: 'blind:never'}",
        "--out",
        "run",
    )
    assert done.code == 2
    assert "100%" in done.err and "max_unjudged" in done.err, done.err
    with sqlite3.connect(tmp_path / "run" / "ledger.sqlite") as db:
        assert db.execute("SELECT count(*) FROM matches").fetchone()[0] > 0


@pytest.mark.long
def test_a_run_of_another_version(command, tmp_path):
    command("run", *FINITE, "--out", "run", "--json")
    with sqlite3.connect(tmp_path / "run" / "ledger.sqlite") as db:
        db.execute("UPDATE meta SET value = '0' WHERE key = 'schema'")
    for verb in ("resume", "status"):
        done = command(verb, "run")
        assert done.code == 2
        assert "another version" in done.err


@pytest.fixture
def running(tmp_path):
    """A long run of the finite game in another process, halted when well under way."""
    process = start(
        "run",
        FINITE[0],
        "-s",
        "generations=9000",
        "-s",
        "prompts.per_generation=1",
        "--out",
        "run",
        cwd=tmp_path,
    )
    wait_for_record(process, tmp_path / "run", "3/measure")
    process.send_signal(signal.SIGSTOP)  # it stands still, but is there
    yield process
    process.kill()
    process.wait()


@pytest.mark.long
def test_a_second_process_on_the_same_run_and_then_ctrl_c(command, running, tmp_path):
    done = command("resume", "run")
    assert done.code == 2
    assert "in use" in done.err
    assert str(running.pid) in done.err
    done = command("run", *FINITE, "--out", "run", "--overwrite")
    assert done.code == 2
    assert "in use" in done.err
    assert command("status", "run", "--json").code == 0  # reading is allowed
    assert running.poll() is None
    stopping_keeps_what_is_recorded(command, running, signal.SIGINT)


@pytest.mark.slow
def test_a_termination(command, running):
    """Adds SIGTERM to the Ctrl-C of the test above."""
    stopping_keeps_what_is_recorded(command, running, signal.SIGTERM)


def stopping_keeps_what_is_recorded(command, running, number):
    running.send_signal(number)
    running.send_signal(signal.SIGCONT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "equipoise resume" in err
    assert "Traceback" not in err
    facts = command("status", "run", "--json").facts
    assert facts["generation"] >= 3
    assert not facts["finished"]


def test_without_the_packages_for_training(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = command("run", *FINITE, "--out", "run")
    assert done.code == 2
    assert "pip install 'equipoise[train]'" in done.err
    assert "'torch'" in done.err


@pytest.mark.long
def test_a_full_disk(tmp_path):
    """A real file system of 1 MB, mounted in a namespace of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=1m tmpfs {disk} && cd {disk} && "
        f"{sys.executable} -m equipoise run {FINITE[0]} -s generations=9000 -s evaluate.every=1000 --out run; "
        "code=$?; "
        f"{sys.executable} -m equipoise status run --json >&2; exit $code"
    )
    probe = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip(
            f"this machine does not let a test mount a file system: {probe.stderr.decode().strip()}"
        )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 1
    assert "cannot write" in done.stderr and "free some space" in done.stderr, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert '"matches"' in done.stderr  # what was recorded is still read


@pytest.mark.parametrize(
    ("option", "value"), [("--batch-size", "0"), ("--max-length", "1"), ("--epochs", "-1")]
)
def test_options_of_fine_tuning(command, rows, option, value):
    answers = [{"prompt": q["prompt"], "completion": q["answer"]} for q in QUESTIONS]
    done = command("sft", "builtin", rows(answers), "--out", "m", option, value)
    assert done.code == 2
    assert option.strip("-").replace("-", "_") in done.err.replace("-", "_")
    assert not Path("m").exists()
