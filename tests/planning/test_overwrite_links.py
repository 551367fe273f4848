"""`--overwrite` removes what a run made, and nothing that a link names."""

import shutil

import pytest
from small_runs import FINITE, quickstart, settings

from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.planning import new_run as new_run_module
from equipoise.planning.new_run import new_run
from equipoise.runs.directory import RunDirectory

AGAIN = ("run", *FINITE, "--out", "run", "--overwrite", "--json")


@pytest.fixture
def run(command):
    assert command("run", *FINITE, "--out", "run", "--json").code == 0


@pytest.mark.long
@pytest.mark.parametrize("link", ["ledger.sqlite", "ledger.sqlite-wal", "players", "logs"])
def test_what_a_link_names_stays(command, run, tmp_path, link):
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("file", "file-wal", "file-shm", "file-journal"):
        (precious / name).write_text("mine")
    (tmp_path / "run" / "old").mkdir()
    place = tmp_path / "run" / link
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(precious if link in ("players", "logs") else precious / "file")
    assert command(*AGAIN).code == 0
    assert [each.read_text() for each in precious.iterdir()] == ["mine"] * 4
    assert not (tmp_path / "run" / "ledger.sqlite").is_symlink()


@pytest.mark.long
def test_another_runs_ledger_stays(command, run, tmp_path):
    other = shutil.copytree(tmp_path / "run", tmp_path / "other") / "ledger.sqlite"
    before = other.read_bytes()
    (tmp_path / "run" / "ledger.sqlite").unlink()
    (tmp_path / "run" / "ledger.sqlite").symlink_to(other)
    refused = command(*AGAIN, *settings(ledger=other))  # though the recipe names it, too
    assert refused.code == 2
    assert "is there already" in refused.err
    assert command(*AGAIN).code == 0
    assert other.read_bytes() == before


def test_a_link_to_a_folder_is_not_overwritten(command, run, tmp_path):
    (tmp_path / "run").rename(tmp_path / "real")
    (tmp_path / "run").symlink_to("real")
    refused = command(*AGAIN)
    assert refused.code == 2
    assert "is a link" in refused.err
    assert (tmp_path / "real" / "ledger.sqlite").is_file()


def test_a_folder_with_a_config_alone_is_no_run(command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("mine: 1\n")
    refused = command(*AGAIN)
    assert refused.code == 2
    assert "is not a run directory" in refused.err


@pytest.mark.parametrize("name", ["notes.txt", "plots/loss.png"])
def test_files_that_no_run_makes_stay(command, run, tmp_path, name):
    mine = tmp_path / "run" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    refused = command(*AGAIN)
    assert refused.code == 2
    assert f"what no run makes: {name.split('/')[0]};" in refused.err
    assert mine.read_text() == "mine"
    assert (tmp_path / "run" / "ledger.sqlite").is_file()


def test_a_run_that_was_made_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    check = new_run_module.check_new_run

    def slow(config, announce):
        monkeypatch.setattr(new_run_module, "check_new_run", check)
        with new_run(quickstart(seed=1), tmp_path / "run") as theirs:
            theirs.ledger.note("work", "hours")
        return check(config, announce)

    monkeypatch.setattr(new_run_module, "check_new_run", slow)
    with pytest.raises(RunError, match="exists"), new_run(quickstart(seed=2), tmp_path / "run"):
        pass
    with RunDirectory.read(tmp_path / "run") as run:
        assert run.ledger.meta("work") == "hours"


def test_a_refused_start_takes_its_ledger_along(tmp_path):
    place, ledger = tmp_path / "run", tmp_path / "disk" / "run.sqlite"
    elsewhere = quickstart(ledger=str(ledger))
    with pytest.raises(ModelError), new_run(elsewhere, place):
        raise ModelError("out of memory")
    assert not place.exists()
    assert not ledger.exists()
    with new_run(elsewhere, place):
        pass
    assert ledger.is_file()


def test_a_start_that_the_checks_refuse_makes_no_folder_for_the_ledger(tmp_path):
    config = quickstart(ledger=str(tmp_path / "disk" / "run.sqlite"), policy__model="builtin/none")
    with pytest.raises(ConfigError), new_run(config, tmp_path / "run"):
        pass
    assert not list(tmp_path.iterdir())
