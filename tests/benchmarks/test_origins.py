"""Raw results come from commits of the history, and the commands of their rows make them."""

import argparse
import importlib
import json
import shlex
import sys

import pytest
import yaml

from benchmarks import origins, tables


@pytest.fixture(scope="module")
def history():
    found = origins.commits()
    if not found:
        pytest.skip("git's whole history is not here: a shallow clone, or none")
    return found


def test_a_raw_result_names_a_commit_of_the_history_that_was_not_changed(history):
    refused, again = origins.checked()
    assert not refused, "made from no commit of main: make it anew, from a clean clone of main"
    listed = yaml.safe_load(origins.AGAIN.read_text())
    assert len(listed) <= 12 and len(again) <= 12, "results to be made again may only leave"


def test_what_is_wrong_with_where_a_result_comes_from_is_named(tmp_path, history):
    fine = {"commit": history[-1][:7], "command": "python -m benchmarks.ledger --records 10"}
    assert origins.faults(fine, history) == []
    joined = {**fine, "arguments": {"joined": [{**fine, "commit": f"{history[0]}-dirty"}]}}
    assert origins.faults(joined, history) == [f"{history[0]} was changed"]
    nowhere = {"speed": {**fine, "commit": "0000000"}, "again": {**fine, "commit": ""}}
    assert [fault.split(" is ")[0] for fault in origins.faults(nowhere, history)] == [
        "0000000",
        "a commit",
    ]
    gone = {**fine, "command": "python -m benchmarks.gone --records 10"}
    assert origins.faults(gone, history) == ["benchmarks.gone is not here"]
    drawn = {**fine, "command": "python tools/mutants.py --seed 1"}
    assert origins.faults(drawn, history) == []
    assert origins.faults({"figures": []}, history) == ["names no commit"]
    results, again = tmp_path / "results", tmp_path / "again.yaml"
    results.mkdir()
    for name, content in (("fine", fine), ("listed_1", gone), ("new", gone)):
        (results / f"{name}.json").write_text(json.dumps(content))
    again.write_text("listed_*: hours\n")
    assert [list(found) for found in origins.checked(results, again)] == [["new"], ["listed_1"]]


class NotRunError(Exception):
    """A benchmark has read its arguments, and does no more."""


def arguments_of(command: str, monkeypatch) -> dict:
    """What a benchmark reads in a command, by its own parser."""
    _, _, module, *rest = shlex.split(command)
    read = argparse.ArgumentParser.parse_args

    def stop(parser, given=None, namespace=None):
        raise NotRunError(vars(read(parser, given, namespace)))

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", [module, *rest])
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        with pytest.raises(NotRunError) as found:
            importlib.import_module(module).main()
    return found.value.args[0]


# Where files and models lie, and how many cores there are, is no part of a result.
HERE = {"start", "model", "encoder", "release", "data", "work", "out", "ifeval", "threads"}


@pytest.mark.long
@pytest.mark.parametrize("name", tables.MADE)
def test_a_rows_command_makes_it_as_it_stands(name, monkeypatch):
    results = json.loads((tables.RESULTS / f"{name}.json").read_text())
    read = arguments_of(tables.MADE[name](results).command, monkeypatch)
    told = results.get("arguments", {})
    if "swept" in told:
        sweep = json.loads((tables.RESULTS / read["swept"]).read_text())
        read["swept"] = sweep["arguments"]["chosen"]
    shared = (told.keys() & read.keys()) - HERE
    wrong = {key: (told[key], read[key]) for key in shared if read[key] not in (told[key], None)}
    assert not wrong
    if name == "trial_gpo":
        assert set(read["arms"]) <= results["figures"].keys()
        assert {"seeds"} <= shared
