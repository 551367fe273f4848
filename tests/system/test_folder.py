"""The door of a folder: nothing in it leads out of it, and what is written is whole."""

import os
import stat

import pytest
from hostile_files import KINDS, Outside, can_make_devices

from equipoise.errors import RunError
from equipoise.system import folder as folder_module
from equipoise.system.files import faults
from equipoise.system.folder import Folder, draft_name, empty_folder, new_files, write_folder


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path / "outside")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "run" / "inner").mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    if request.param == "a device" and not can_make_devices(tmp_path):
        pytest.skip("this user may not make devices")
    return request.param


OPENINGS = {
    "read": lambda folder: folder.read("name"),
    "open_to_read": lambda folder: folder.open_to_read("name"),
    "open_to_append": lambda folder: folder.open_to_append("name"),
    "read_end": lambda folder: folder.read_end("name", 8),
    "size": lambda folder: folder.size("name"),
    "inner": lambda folder: folder.inner("name"),
    "inner that makes": lambda folder: folder.inner("name", make=True),
    "check": lambda folder: folder.check(),
}


@pytest.mark.parametrize("how", OPENINGS)
def test_nothing_but_a_plain_file_is_opened(place, outside, kind, how):
    KINDS[kind](place / "name", outside)
    changes = outside.changes()  # a hard link changes the number of names alone
    with Folder.open(place) as folder, pytest.raises(RunError, match="run/name: is "):
        OPENINGS[how](folder)
    assert outside.changes() == changes == []


def test_what_lies_deep_is_named_too(place, outside, kind):
    KINDS[kind](place / "inner" / "name", outside)
    with Folder.open(place) as folder, pytest.raises(RunError, match="inner/name: is a"):
        folder.check()


REPLACINGS = {
    "write": lambda folder: folder.write("name", "new"),
    "write_folder": lambda folder: folder.write_folder("name", write_weights),
    "remove": lambda folder: folder.remove("name"),
}


def write_weights(new):
    (new / "weights").write_text("new")


@pytest.mark.parametrize("how", REPLACINGS)
def test_what_is_replaced_or_removed_is_the_name_alone(place, outside, kind, how):
    KINDS[kind](place / "name", outside)
    with Folder.open(place) as folder:
        REPLACINGS[how](folder)
        assert folder.names() == (["inner"] if how == "remove" else ["inner", "name"])
        folder.check()
    assert outside.changes() == []


def test_a_draft_has_a_name_that_nobody_can_foretell(place, outside, monkeypatch):
    names = {draft_name("report.html") for _ in range(9)}
    assert len(names) == 9
    assert all(len(name.rpartition(".")[2]) == 16 for name in names)
    (place / ".report.html.draft").symlink_to(outside.file)
    with Folder.open(place) as folder:
        folder.write("report.html", "a page")
        monkeypatch.setattr(folder_module, "draft_name", lambda name: ".report.html.draft")
        with pytest.raises(RunError, match="is a link"):  # even if somebody could
            folder.write("report.html", "another page")
    assert outside.changes() == []


def test_drafts_of_killed_processes_go_and_links_under_their_names_too(place, outside):
    dead = 2**22 + 7
    ours = draft_name("name")
    (place / f".name.draft.{dead}.0123456789abcdef").symlink_to(outside.folder)
    (place / f".name.draft.{dead}.fedcba9876543210").mkdir()
    (place / ours).write_text("being written by another thread")
    with Folder.open(place) as folder:
        folder.write("name", "new")
        assert folder.names() == [ours, "inner", "name"]
        with folder.draft_of("name") as draft:
            assert stat.S_IMODE(draft.stat().st_mode) == 0o777 & ~umask()
        assert folder.names() == ["inner", "name"]
    assert outside.changes() == []


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_folder_that_is_emptied_is_no_longer_a_link(place, outside, kind):
    KINDS[kind](place / "name", outside)
    empty_folder(place / "name")
    assert (place / "name").is_dir()
    assert not (place / "name").is_symlink()
    assert outside.changes() == []


def test_files_appear_together_or_not_at_all(place, outside):
    (place / "a.parquet").symlink_to(outside.file)
    with pytest.raises(KeyboardInterrupt), new_files(place) as draft:
        (draft / "a.parquet").write_text("new")
        raise KeyboardInterrupt
    assert (place / "a.parquet").is_symlink()
    with new_files(place) as draft:
        (draft / "a.parquet").write_text("new")
    assert sorted(each.name for each in place.iterdir()) == ["a.parquet", "inner"]
    assert not (place / "a.parquet").is_symlink()
    assert outside.changes() == []


def test_folders_without_end_are_refused(place):
    deep = place
    for _ in range(60):
        deep /= "a"
        deep.mkdir()
    with Folder.open(place) as folder, pytest.raises(RunError, match="below 40 other folders"):
        folder.check()


def test_a_file_that_is_too_large_to_be_read_at_once_is_named(place):
    with (place / "votes.jsonl").open("wb") as file:
        file.truncate(2**40)  # a hole
    with (
        Folder.open(place) as folder,
        pytest.raises(RunError, match=r"votes\.jsonl: .*268,435,456"),
    ):
        folder.read("votes.jsonl")


def test_checksums_name_files_of_their_own_folder_alone(place, outside):
    write_folder(place / "3", write_weights)
    line = f"{'0' * 64}  {outside.file}\n{'0' * 64}  ../../outside/thesis.tex\n"
    (place / "3" / "checksums.sha256").write_text(line)
    assert faults(place / "3") == [f"{place}/3/checksums.sha256: is damaged"] * 2
