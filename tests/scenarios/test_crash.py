"""SIGKILL at random moments, then resume: the records and the final numbers are those of an
undisturbed run.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from small_runs import FINITE, SMALL, settings, start, wait_for_record

IDS = {
    "prompts": "id, split, generation",
    "matches": "id",
    "judgements": "id",
    "pairs": "id, learner",
    "episodes": "id, learner, record",
    "logprobs": "player, text, total",
    "players": "name, generation",
    "stages": "key",
}

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT), str(ROOT / "tests" / "helpers")]
WEIGHTS = ("policy.json", "model.safetensors", "adapter_model.safetensors", "state.pt")


def finish(process: subprocess.Popen) -> list[dict]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)["measured"]


def records(run: Path) -> dict[str, list]:
    with sqlite3.connect(run / "ledger.sqlite") as db:
        return {
            table: sorted(db.execute(f"SELECT {ids} FROM {table}").fetchall())
            for table, ids in IDS.items()
        }


def losses(run: Path) -> list:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(line["stage"], line.get("step"), line.get("loss")) for line in lines]


def weights(run: Path) -> dict[str, bytes]:
    found = [path for path in (run / "players").rglob("*") if path.name in WEIGHTS]
    return {str(path.relative_to(run)): content(path) for path in found}


def content(path: Path) -> bytes:
    """The file; of a state of training its values, for equal ones are pickled as other bytes where
    the same object stands in it twice.
    """
    if path.name != "state.pt":
        return path.read_bytes()
    import torch

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.dtype, value.shape, value.detach().numpy().tobytes()
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return list(map(plain, value)) if isinstance(value, list | tuple) else value

    return repr(plain(torch.load(path, weights_only=True))).encode()


def check(tmp_path: Path, recipe: list[str], kills: int) -> None:
    """Run once undisturbed; run again, killed `kills` times at moments of every kind, and compare
    everything.
    """
    done = subprocess.run(
        [sys.executable, "-m", "killed_runs", str(kills), *recipe],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert sum(told["kills"].values()) == kills
    assert all(told["ended_alike"]), told
    compare(tmp_path / "calm", tmp_path / "killed")


def compare(calm: Path, killed: Path) -> None:
    """The same records, losses and weights, and no draft."""
    assert records(killed) == records(calm)
    assert losses(killed) == losses(calm)
    assert weights(killed) == weights(calm)
    assert {path.name for path in (killed / "players").rglob(".*")} <= {".state"}, (
        "a draft was left behind"
    )


@pytest.mark.long
def test_the_finite_game_killed_in_the_middle(command, tmp_path):
    """Killed once, when generation 3 is recorded; resumed by the command in this process."""
    recipe = [FINITE[0], "-s", "generations=30"]
    measured = command("run", *recipe, "--out", "calm", "--json").facts["measured"]
    process = start("run", *recipe, "--out", "killed", cwd=tmp_path)
    wait_for_record(process, tmp_path / "killed", "3/measure")
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    assert command("resume", "killed", "--json").facts["measured"] == measured
    compare(tmp_path / "calm", tmp_path / "killed")


@pytest.mark.slow
def test_the_finite_game_killed_five_times_in_processes_of_its_own(tmp_path):
    """Kills at random moments, start-up and the imports of the command included."""
    recipe = [FINITE[0], "-s", "generations=20"]
    started = time.monotonic()
    measured = finish(start("run", *recipe, "--out", "calm", "--json", cwd=tmp_path))
    seconds = time.monotonic() - started
    dice = random.Random(7)
    verb = ["run", *recipe, "--out", "killed"]
    for _ in range(5):
        process = start(*verb, "--json", cwd=tmp_path)
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.2, 0.35 * seconds))
        process.kill()
        process.communicate()
        if (tmp_path / "killed").exists():
            verb = ["resume", "killed"]
    assert finish(start(*verb, "--json", cwd=tmp_path)) == measured
    compare(tmp_path / "calm", tmp_path / "killed")


@pytest.mark.slow
def test_the_quickstart_killed_twenty_times(tmp_path):
    small = settings(
        generations=2,
        prompts__per_generation=24,
        prompts__held_out=16,
        evaluate__samples=2,
        learner__epochs=0.5,
    )
    check(tmp_path, ["quickstart", *small], 20)


@pytest.mark.slow
def test_a_pool_killed_ten_times(tmp_path):
    small = settings(
        generations=2,
        prompts__per_generation=8,
        prompts__held_out=6,
        prompts__test=4,
        evaluate__samples=2,
        commit_every=8,
    )
    check(tmp_path, ["sparta_clerks", *small], 10)


@pytest.mark.slow
def test_an_attack_and_its_defence_killed_ten_times_in_either_phase(tmp_path):
    small = settings(
        generations=7,
        prompts__count=60,
        prompts__per_generation=6,
        prompts__held_out=6,
        turns__steps="{defender: 2, adversary: 2}",
        learner__save_every=3,
        evaluate__every=4,
        evaluate__crossplay=2,
    )
    check(tmp_path, ["gpo_clerks", *small], 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "stages"),
    [
        ("extragradient", ("0/pair/policy", "1/play", "1/pair/policy")),
        ({"kind": "optimistic", "eta": 4.0}, ("1/opponents/policy/policy@0/play", "1/pair/policy")),
    ],
    ids=str,
)
def test_looking_ahead_killed_where_it_learns(loss, stages, tmp_path):
    """While the half step learns, while its answers are judged, while they teach the whole step; or
    while π_{t−1} is asked anew and while the step learns.
    """
    small = settings(
        generations=2,
        prompts__reuse=False,
        game__samples=3,
        players__policy__max_new_tokens=6,
        pairs="all_pairs",
        loss=loss,
        learner__learning_rate=1e-3,
    )
    recipe = ["quickstart", *SMALL, *small]
    measured = finish(start("run", *recipe, "--out", "calm", "--json", cwd=tmp_path))
    verb = ["run", *recipe, "--out", "killed"]
    for stage in stages:
        process = start(*verb, cwd=tmp_path)
        wait_for_record(process, tmp_path / "killed", stage)
        process.kill()
        process.communicate()
        assert process.returncode == -9, "it ended before"
        verb = ["resume", "killed"]
    assert finish(start(*verb, "--json", cwd=tmp_path)) == measured
    compare(tmp_path / "calm", tmp_path / "killed")


JUDGED = """
generations: 3
player_defaults: {kind: local, model: roomy, learns: true, max_length: 512}
players: {debater: {max_new_tokens: 4}, arbiter: {max_new_tokens: 2}}
prompts: {kind: files, path: cases.jsonl, per_generation: 4, held_out: 4}
game: {kind: judged, game: {kind: debate, turns: 1}, text: transcript_compact, judges: 2}
schedule: {kind: roles, roles: {debater: debater, judge: arbiter}}
judge: {kind: verdict, gold: stands_for_answer, pays: gold}
learner: {kind: policy_gradient, estimator: role_baseline, batch_size: 4, warmup_steps: 0}
evaluate: at_table
max_unjudged: 1.0
"""
CHALLENGE = """
generations: 3
player_defaults: {kind: local, model: builtin, learns: true, max_new_tokens: 4, max_length: 128}
players: {proposer: {}, solver: {}}
prompts: {kind: blank, per_generation: 6, held_out: 2}
game: challenge
schedule: {kind: roles, roles: {proposer: proposer, answer: solver}, replay: 0.5}
judge: challenge
learner: {kind: policy_gradient, estimator: role_baseline, batch_size: 2, warmup_steps: 0}
evaluate: at_table
"""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [JUDGED, CHALLENGE], ids=["judged", "challenge"])
def test_games_at_the_table_killed_four_times(recipe, tmp_path, model_folder):
    """Judges who learn, and questions that are asked again from the ledger."""
    roomy = shutil.copytree(model_folder("llama"), tmp_path / "roomy") / "config.json"
    facts = json.loads(roomy.read_text())
    roomy.write_text(json.dumps({**facts, "max_position_embeddings": 512}))  # a judge reads a lot
    (tmp_path / "table.yaml").write_text(recipe)
    names = ("Ann", "Ben")
    cases = [{"prompt": f"Box {n}?", "answer": names[n % 2], "choices": names} for n in range(16)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    check(tmp_path, ["table.yaml"], 4)
