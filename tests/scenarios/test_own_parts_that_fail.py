"""Parts of a user's own that raise, or that give back something else than they promise."""

import errno

import pytest
import torch
from pydantic_core import PydanticCustomError
from small_runs import SMALL

from equipoise.errors import ConfigError
from equipoise.losses.base import check_shape
from equipoise.losses.policy import PolicyLoss
from equipoise.models.progress import following, report_progress
from equipoise.system.user_parts import own_part_error

PARTS = """
from typing import Literal

from equipoise.data.pairs import Ranked
from equipoise.losses.policy import PolicyLoss
from equipoise.losses.preference import DPO


class Broken(Ranked):
    kind: Literal["broken"] = "broken"

    def choose(self, choices):
        return [choice for choice in choices if choice.gap > 0]


class Reversed(Ranked):
    kind: Literal["reversed"] = "reversed"

    def choose(self, choices):
        return [(worse, better) for better, worse in choices]


class Meant(DPO):
    kind: Literal["meant"] = "meant"

    def rows(self, batch):
        return super().rows(batch).mean()


class Summed(PolicyLoss):
    kind: Literal["summed"] = "summed"

    def tokens(self, batch):
        return -(batch.logprob_BT * batch.advantage_BT).sum()
"""


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The parts, in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(PARTS)


@pytest.mark.long
def test_an_error_in_a_part_names_its_line_and_the_run_goes_on_once_it_is_mended(
    parts, command, tmp_path
):
    failed = command("run", "quickstart", *SMALL, "-s", "pairs=own.py:Broken", "--out", "run")
    assert failed.code == 2
    assert "own.py:13, in choose(), raised AttributeError: 'tuple' object" in failed.err
    assert "equipoise resume" in failed.err
    assert "Traceback" not in failed.err
    (log,) = (tmp_path / "run/logs").glob("failure-*.txt")
    assert "choice.gap" in log.read_text()
    assert "own.py:13, in choose()" in command("status", "run").out
    mended = PARTS.replace("choice.gap > 0", "choice[0].score > choice[1].score")
    (tmp_path / "own.py").write_text(mended)
    assert command("resume", "run").code == 0
    assert "raised" not in command("status", "run").out


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("pairs=own.py:Reversed", "pairs: Reversed chose an answer of score"),
        ("loss=own.py:Meant", "Meant.rows() returned a Tensor of shape [] for a batch of ["),
        (
            "learner={kind: policy_gradient, warmup_steps: 0, policy_loss: 'own.py:Summed'}",
            "Summed.tokens() returned a Tensor of shape [] for a batch of [",
        ),
    ],
)
def test_a_part_that_gives_back_something_else_is_refused(setting, says, parts, command):
    more = ["-s", "loss=null"] if setting.startswith("learner") else []
    failed = command("run", "quickstart", *SMALL, *more, "-s", setting, "--out", "run")
    assert failed.code == 2
    assert says in failed.err


def test_shapes_are_compared_whole():
    loss = PolicyLoss.build("clipped")
    like = torch.zeros(2, 3)
    check_shape(loss, "tokens", torch.ones(2, 3), like, "[B, T]")
    for wrong in (torch.ones(3, 2), torch.ones(2), torch.ones(()), 0.5):
        with pytest.raises(ConfigError, match=r"Clipped.tokens\(\) returned .* return \[B, T\]"):
            check_shape(loss, "tokens", wrong, like, "[B, T]")


def test_an_error_of_the_package_or_of_who_called_it_is_no_parts():
    with pytest.raises(PydanticCustomError) as raised:
        PolicyLoss.build("clippd")  # this file called the package, which called nobody back
    assert own_part_error(raised.value) is None


@pytest.mark.parametrize(
    ("error", "is_parts"),
    [
        (MemoryError(), False),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError(errno.ENOENT, "No such file"), True),
        (ValueError("a word"), True),
    ],
)
def test_a_machine_that_is_full_is_no_fault_of_a_part(error, is_parts):
    def raises(*_):
        raise error

    try:
        following_rows(raises)
    except Exception as raised:  # noqa: BLE001  whatever it is
        told = own_part_error(raised)
    assert (told is not None) == is_parts
    assert told is None or "in raises(), raised" in str(told)


def following_rows(part):
    """Have the package call a part of this file's."""
    with following(part):
        report_progress(1.0)
