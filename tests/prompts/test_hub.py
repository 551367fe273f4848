"""Prompts through `datasets`, from local folders, since no hub is in reach of a test."""

import json

import pytest

from equipoise.errors import DataError
from equipoise.prompts.hub import Hub
from equipoise.prompts.prompt_files import Files
from equipoise.types import user

datasets = pytest.importorskip("datasets")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data set `mine` with the splits train and test, and no hub."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for split, texts in {"train": "abc", "test": "de"}.items():
        rows = [
            {"prompt": [{"role": "user", "content": text}], "answer": i}
            for i, text in enumerate(texts)
        ]
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_a_local_folder_with_a_held_out_split(folder):
    source = Hub(id="mine", held_out_split="test").load(folder)
    training, held_out = source.training, source.held_out
    assert [prompt.messages for prompt in training] == [(user(text),) for text in "abc"]
    assert held_out is not None
    assert [prompt.facts for prompt in held_out] == [{"answer": 0}, {"answer": 1}]
    assert training[0].source == "mine"


def test_slices_and_absolute_folders(folder):
    source = Hub(id=str(folder / "mine"), split="train[:2]", test_split="test").load()
    assert len(source.training) == 2
    assert source.held_out is None
    assert source.test is not None
    assert len(source.test) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"split": "dev"}, "Unknown split \"dev\". Should be one of ['train', 'test']"),
        ({"held_out_split": "validation"}, 'Unknown split "validation"'),
        ({"name": "main"}, "'main' not found"),
        ({"prompt_column": "question"}, "train row 1: no column 'question'"),
        ({"id": "nobody/nothing"}, "the hub cannot be reached"),
        ({"split": "train[:0]"}, "no data"),
    ],
)
def test_what_is_wrong_is_said(folder, settings, words):
    with pytest.raises(DataError) as caught:
        Hub(**{"id": "mine", **settings}).load(folder)
    assert words in str(caught.value)


def test_a_malformed_file_is_said(folder):
    (folder / "mine" / "train.jsonl").write_text('{"prompt": "x"}\n{oops\n')
    with pytest.raises(DataError, match="mine, split 'train': JSON"):
        Hub(id="mine").load(folder)


def test_a_path_of_the_form_org_name_is_a_data_set(folder):
    (folder / "org").mkdir()
    (folder / "mine").rename(folder / "org" / "mine")
    source = Files(path="org/mine", test_path="org/mine").load(folder)
    assert [prompt.messages for prompt in source.training] == [(user(text),) for text in "abc"]
    assert source.training[0].source == "org/mine"
    assert source.test is not None
    with pytest.raises(DataError, match="the hub cannot be reached"):
        Files(path="nobody/nothing").load(folder)
    with pytest.raises(DataError, match="no such file"):
        Files(path="org/miner").load(folder)  # the folder is here, so it is a slip
