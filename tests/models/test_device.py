"""One function chooses the device; a CUDA build of torch without a driver falls back to the CPU and
says why.
"""

from __future__ import annotations

import re

import pytest
import torch

from equipoise.errors import ConfigError, ModelError
from equipoise.models.device import Hardware, choose_device, explain_device
from equipoise.players.local import Local


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch):
    """torch as `pip install torch` gives it on a laptop: built for CUDA, and no NVIDIA driver."""
    asked = {"check_available": None}

    def current(check_available: bool = False) -> torch.device | None:
        asked["check_available"] = check_available
        return None if check_available else torch.device("cuda")

    def refuse(*_: object, **__: object):
        raise RuntimeError("Found no NVIDIA driver on your system")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", refuse)


@pytest.mark.usefixtures("no_driver")
def test_a_cuda_build_without_a_driver_uses_the_cpu_and_says_why():
    assert choose_device() == torch.device("cpu")
    assert "built for cuda and finds no NVIDIA driver" in explain_device()


@pytest.mark.usefixtures("no_driver")
def test_the_built_in_model_answers_without_a_driver():
    from equipoise.models.resources import Resources
    from equipoise.types import View, user

    player = Local.model_validate({"model": "builtin", "max_new_tokens": 4, "temperature": 0})
    assert player.open(None, Resources()).act([View((user("What is 2 + 3?"),))], [0])[0].text


@pytest.mark.usefixtures("no_driver")
def test_asking_for_cuda_without_a_driver_names_the_cause():
    with pytest.raises(ModelError, match=r"'cuda' is asked for.*no NVIDIA driver.*use cpu or auto"):
        choose_device("cuda")


def test_an_unknown_device_is_named():
    with pytest.raises(ModelError, match="device 'tpu9x' is not known"):
        choose_device("tpu9x")


def test_a_working_accelerator_is_chosen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "H100")
    assert choose_device() == torch.device("cuda")
    assert explain_device().endswith("2 × H100, which multiplies float32 in full")


def test_products_are_in_tf32_where_it_is_and_is_not_switched_off(monkeypatch: pytest.MonkeyPatch):
    """As on a machine whose accelerator has it."""
    from transformers.utils import import_utils

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "H100")
    monkeypatch.setattr(import_utils, "is_torch_tf32_available", lambda: True)
    enabled: list[bool] = []
    monkeypatch.setattr(import_utils, "enable_tf32", enabled.append)
    choose_device()
    assert enabled == [True]
    assert "float32 in TF32" in explain_device()
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    choose_device()
    assert enabled == [True]
    assert explain_device().endswith("float32 in full")


def test_accelerators_are_read_by_name_and_by_numbers():
    named = Hardware.read("8xH100-80GB")
    assert (named.count, named.memory, named.name) == (8, 80e9, "8 × H100-80GB")
    assert Hardware.read("2 × l4") == Hardware.read("2xL4-24GB")
    assert Hardware.read("H200").count == 1
    given = Hardware.read("8,80,989,3350")
    assert (given.speed, given.bandwidth) == (named.speed, named.bandwidth)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8xH100", "may be H100-80GB or"),
        ("8xH10-80GB", "did you mean 'H100-80GB'"),
        ("0xL4", "write COUNTxNAME"),
        ("8,80,989", "four positive numbers"),
        ("8,80,fast,3350", "four positive numbers"),
        ("1.5,80,989,3350", "four positive numbers"),
    ],
)
def test_unknown_accelerators_are_refused_with_what_to_write(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Hardware.read(text)
