"""NLTK's words where NLTK itself would refuse the data that come with the package."""

import os
import shutil

import pytest

from equipoise.payoffs import words


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_data_that_a_group_may_write_are_read_from_a_copy(tmp_path, monkeypatch):
    import nltk

    loose = tmp_path / "nltk_data"
    shutil.copytree(words.PUNKT, loose)
    for path in (loose, *loose.rglob("*")):
        path.chmod(path.stat().st_mode | 0o020)
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(words, "PUNKT", loose)
    with pytest.raises(LookupError):
        nltk.data.find("tokenizers/punkt_tab/english/", [str(loose)])
    words.find_punkt()
    assert nltk.word_tokenize("Stop! It is 3 p.m. here.")[:2] == ["Stop", "!"]
    assert words._private(loose) != loose
