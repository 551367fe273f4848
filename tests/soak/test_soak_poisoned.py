"""Poisoned files of models and adapters, read in this process: one error of ours, or a model."""

import shutil
from contextlib import suppress

import pytest

from equipoise.errors import ModelError
from equipoise.models import adapters, chat_encoding, loading
from equipoise.models.adapters import Lora, packaged_adapters, packaged_models
from equipoise.models.loading import describe, load_encoding, load_model
from equipoise.system import interrupts
from equipoise.types import user
from tests.soak.poisoned import ADAPTERS, LARGE, MODELS, mark_of

pytestmark = pytest.mark.long
LORA = Lora.model_validate({"r": 8, "alpha": 16})


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    def second():
        return interrupts.time_limit(1.0)

    for module in (adapters, chat_encoding, loading):
        monkeypatch.setattr(module, "time_limit", second)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LARGE])
def test_a_poisoned_model_is_one_error(tmp_path, name):
    folder = tmp_path / "poisoned"
    shutil.copytree(packaged_models()["builtin/beginner"], folder)
    MODELS[name](folder)
    with suppress(ModelError):
        reads = load_encoding(str(folder))
        reads.join((user("How much is two and two?"),), "Four.")
        describe(str(folder))
        load_model(str(folder))
    assert not mark_of(folder).exists()


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in LARGE])
def test_a_poisoned_adapter_is_one_error(tmp_path, name):
    folder = tmp_path / "poisoned"
    shutil.copytree(packaged_adapters()["builtin/sums"], folder)
    ADAPTERS[name](folder)
    with suppress(ModelError):
        load_model("builtin/pool", folder, LORA)
    assert not mark_of(folder).exists()


@pytest.mark.parametrize(
    ("poison", "message"),
    [
        ("config: a billion layers", "num_hidden_layers is 1000000000"),
        ("config: a kernel of the hub", "code of the hub"),
        ("weights: another shape", "other shapes than config"),
        ("tokens: a number beyond", "a token has the id"),
        ("tokens: texts that grow", "characters of one"),
        ("template: many loops", "more than 1 s"),
        ("generation: an odd end", "eos_token_id"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, poison, message):
    folder = tmp_path / "poisoned"
    shutil.copytree(packaged_models()["builtin/beginner"], folder)
    MODELS[poison](folder)
    with pytest.raises(ModelError, match=message):
        load_encoding(str(folder))
        load_model(str(folder))
