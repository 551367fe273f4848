"""What the guide to larger trainings shows can be pasted into a recipe."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_guide_shows_valid_settings(block):
    values = recipe_loader.merge(recipe_loader.read("quickstart"), yaml.safe_load(block))
    resolved = recipe_loader.build(values, "docs/scaling.md")
    assert recipe_loader.build(yaml.safe_load(resolved.yaml()), "again") == resolved


def test_the_guide_counts_right():
    several = recipe_loader.build(
        recipe_loader.merge(recipe_loader.read("quickstart"), yaml.safe_load(BLOCKS[0])),
        "docs/scaling.md",
    )
    assert several.learner.steps(1280) == 10 * several.learner.epochs


def test_an_unknown_configuration_is_said_when_the_recipe_is_read():
    with pytest.raises(
        ConfigError,
        match=r"-s learner.launch.config=fsdp: .*no such file: 'fsdp'; did you mean 'fsdp2'",
    ):
        recipe_loader.load("quickstart", ["learner.launch.config=fsdp"])
    loaded = recipe_loader.load(
        "quickstart", ["learner.launch.config=ddp", "learner.launch.num_processes=4"]
    )
    assert loaded.learner.launch.processes == 4


def test_the_script_for_slurm_asks_for_what_its_recipe_needs(tmp_path):
    """Slurm and Ray stand in as scripts that note how they were called; nothing is computed."""
    (script,) = re.findall(r"<!-- not run: Slurm -->\n```\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = script.splitlines()
    first_command = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[first_command:]), (
        "Slurm stops there"
    )
    called = tmp_path / "called"
    for name, says in {
        "srun": "",
        "equipoise": "",
        "sleep": "",
        "ray": "echo 3.0/16.0 GPU",
        "hostname": "echo node-7",
    }.items():
        stub = tmp_path / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        written = 'printf "%s\\x1f" "$(basename "$0")" "$@"'
        stub.write_text(f"#!/bin/bash\n({written}; echo) >> {called}\n{says}\n")
        stub.chmod(0o755)
    given = {"W": "-s policy.model=builtin -s prompts.path=p.jsonl", "SLURM_CPUS_PER_TASK": "64"}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    file = tmp_path / "script.sh"
    file.write_text(f"{script}\nwait\n")
    environment = {**os.environ, **given, "PATH": path}
    subprocess.run(["bash", "-e", file], check=True, timeout=60, env=environment)
    calls = [line.split("\x1f")[:-1] for line in called.read_text().splitlines()]
    (run,) = (call[1:] for call in calls if call[0] == "equipoise")
    heads = [call for call in calls if call[0] == "srun" and "--head" in call]
    others = [call for call in calls if call[0] == "srun" and "--head" not in call]
    assert [call[call.index("-w") + 1] for call in heads] == ["node-7"]
    assert [(call[call.index("-x") + 1], call[-2]) for call in others] == [
        ("node-7", "--address=node-7:6379")
    ]
    assert run[:2] == ["run", "mnpo_two_nodes"]
    options = dict(zip(run[2::2], run[3::2], strict=True))
    settings = [value for name, value in zip(run[2::2], run[3::2], strict=True) if name == "-s"]
    config = recipe_loader.load(run[1], settings)
    launched = config.learner.launch.config
    asked = dict(re.findall(r"--([a-z-]+)=(\d+)", script.partition("\nexport")[0]))
    nodes, cards = int(asked["nodes"]), int(asked["gpus-per-node"])
    assert (launched["num_machines"], launched["num_processes"]) == (nodes, nodes * cards)
    assert config.executor.workers * config.executor.gpus == nodes * cards
    assert f"/{nodes * cards}.0 GPU" in script
    assert launched["main_process_ip"] == "node-7"
    assert options["--ray-address"] == "auto"
    prefix = shlex.split(options["--launch-prefix"])
    assert prefix[0] == "srun" and {f"--nodes={nodes}", "--ntasks-per-node=1"} <= set(prefix)
