"""The soak of strangers' runs, small: every setting with an effect has a hostile run, and canaries
notice what is done.
"""

import os
from inspect import isabstract

import pytest
from every_setting import declarations

from tests.soak import strangers
from tests.soak._canaries import Canaries
from tests.soak._hostile import NOT_IN_RUNS, hostile_runs


@pytest.fixture
def canaries(tmp_path):
    with Canaries(tmp_path.resolve()) as canaries:
        canaries.reset()
        yield canaries


@pytest.mark.long
def test_every_declared_effect_has_a_hostile_run(canaries):
    made = {(each.setting, each.effect) for each in hostile_runs(canaries)}
    mixed_in = ("Settings", "Choices", *NOT_IN_RUNS)  # of kinds that are there themselves
    missing = {
        (f"{kind.__name__}.{name}", does.verb)
        for kind, name, does in declarations()
        if not isabstract(kind)
        and not kind.__name__.endswith(mixed_in)
        and does.verb != "shows"  # rights of the run's own folder: tests/system/test_folder.py
    }
    assert missing - made == set()
    assert len(made) > 100


@pytest.mark.long
def test_canaries_notice_what_is_done(canaries):
    canaries.begin()
    assert not any(canaries.noticed().values())
    (canaries.treasure / "secret.txt").read_text()
    (canaries.treasure / "new").write_text("a")
    (canaries.there / "command").unlink()
    canaries.mark.mkdir()
    noticed = canaries.noticed()
    assert "secret.txt" in noticed["read"]
    assert noticed["written"] == [str(canaries.treasure / "new")]
    assert noticed["deleted"] == [str(canaries.there / "command")]
    assert noticed["executed"]


@pytest.mark.slow
def test_strangers_do_nothing_unasked():
    """Forked commands, two of each verb and some controls: half a minute."""
    before = dict(os.environ)
    outcome = strangers.soak(60)
    os.environ.clear()
    os.environ.update(before)
    assert not outcome.failures
    sung = [row["trusted"] for row in outcome.rows]
    assert sum(each in ("read", "sent", "executed") for each in sung) >= 18
