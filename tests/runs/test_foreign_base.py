"""An adapter in a run names a model of the user's as its base, its files and checksums complete:
no verb opens it, for the base is what the run's configuration says.
"""

import json
import os
import shutil

import pytest

from equipoise.models.adapters import packaged_models
from equipoise.system.files import write_checksums

pytestmark = pytest.mark.long  # they share a whole run
LONG_AGO = 10**18  # nanoseconds: a file that is read has another time of access


@pytest.fixture
def treasure(tmp_path):
    """A model of the user's, and a test of whether reading it would be noticed."""
    model = shutil.copytree(packaged_models()["builtin/beginner"], tmp_path / "treasure")
    forget(model)
    (model / "config.json").read_bytes()
    if read_files(model) != ["config.json"]:
        pytest.skip("this disk keeps no times of access")
    forget(model)
    return model


def forget(model):
    for path in model.iterdir():
        os.utime(path, ns=(LONG_AGO, path.stat().st_mtime_ns))


def read_files(model):
    return [path.name for path in model.iterdir() if path.stat().st_atime_ns != LONG_AGO]


def test_no_verb_opens_the_base_that_an_adapter_names(command, adapter_copy, treasure, tmp_path):
    adapter = adapter_copy / "players" / "policy" / "1"
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(treasure)
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    write_checksums(adapter)
    (tmp_path / "sums.jsonl").write_text('{"prompt": "What is 1 plus 1?", "answer": "2"}\n')
    verbs = {
        "status": [],
        "report": [],
        "check": [],
        "export": ["--to", "tables"],
        "evaluate": ["--on", "sums.jsonl", "--judge", "exact"],
        "resume": ["-s", "generations=2"],
    }
    for verb, options in verbs.items():
        done = command(verb, "run", *options)
        assert done.code == 0, (verb, done.err)
        assert read_files(treasure) == [], verb
    done = command("merge", adapter, "--to", "whole")
    assert done.code == 0, done.err
    assert read_files(treasure) == []
