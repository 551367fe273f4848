"""Folders appear whole, in place of older ones, and say what is wrong with them."""

from pathlib import Path

import pytest

from equipoise.errors import RunError
from equipoise.system.files import check_whole, faults
from equipoise.system.folder import write_folder, write_text
from equipoise.system.locks import check_place


def written(folder, **texts):
    def write(draft):
        for name, text in texts.items():
            (draft / name).write_text(text)

    write_folder(folder, write)
    return folder


def test_a_folder_takes_the_place_of_an_older_one(tmp_path):
    folder = written(tmp_path / "3", weights="old", more="old")
    written(folder, weights="new")
    assert (folder / "weights").read_text() == "new"
    assert not (folder / "more").exists()
    assert faults(folder) == []
    assert [path.name for path in tmp_path.iterdir()] == ["3"]


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "disk" / "3").mkdir(parents=True)
    (tmp_path / "3").symlink_to(tmp_path / "disk" / "3")
    written(tmp_path / "3", weights="new")
    assert (tmp_path / "3").is_symlink()
    assert (tmp_path / "disk" / "3" / "weights").read_text() == "new"
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["3"]


def test_what_cannot_be_replaced_as_a_whole_is_refused_before_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checked = []
    monkeypatch.setattr("equipoise.system.locks.check_writable", checked.append)
    for place in (Path(), tmp_path, Path("/proc")):  # the last: where a disk is mounted
        with pytest.raises(RunError, match="name a new folder in it"):
            check_place(place)
    (tmp_path / "3").mkdir()
    check_place(Path("3"))
    assert checked == [tmp_path]  # where the draft will be


def test_a_link_to_a_folder_with_files_in_it_is_not_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "tuned").symlink_to(tmp_path / "photos")
    check_place(tmp_path / "tuned")  # an empty one is somebody's other disk
    (tmp_path / "photos" / "one.jpg").write_bytes(b"1")
    with pytest.raises(RunError, match=r"tuned: is a link to .*photos, which is not empty"):
        check_place(tmp_path / "tuned")


def test_a_folder_that_is_not_written_to_its_end_is_not_there(tmp_path):
    folder = written(tmp_path / "3", weights="old")

    def write(draft):
        (draft / "weights").write_text("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, write)
    assert (folder / "weights").read_text() == "old"
    assert faults(folder) == []


def test_what_is_missing_or_changed_is_named(tmp_path):
    folder = written(tmp_path / "3", weights="some", config="other")
    check_whole(folder)
    (folder / "weights").write_text("somewhat")
    (folder / "config").unlink()
    assert [fault.partition(": ")[2].split()[1] for fault in faults(folder)] == [
        "missing",
        "damaged",
    ]
    with pytest.raises(RunError, match="is missing"):
        check_whole(folder)


def test_a_card_may_change_and_a_list_of_checksums_may_not(tmp_path):
    folder = written(tmp_path / "3", weights="some")
    (folder / "README.md").write_text("a card")
    check_whole(folder)
    (folder / "checksums.sha256").write_text("nonsense\n")
    with pytest.raises(RunError, match="is damaged"):
        check_whole(folder)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "config.yaml"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text() == "two"
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]
