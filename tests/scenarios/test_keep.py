"""`keep` decides whose weights stay; a run goes on, and is measured, without the others."""

import pytest
from small_runs import SMALL

from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader


@pytest.mark.long
def test_only_the_newest_generations_stay(command, tmp_path):
    done = command(
        "run",
        "quickstart",
        *SMALL,
        "-s",
        "generations=2",
        "-s",
        "loss=dpo",
        "-s",
        "keep=1",
        "--out",
        "run",
        "--json",
    )
    assert done.code == 0, done.err
    assert [path.name for path in (tmp_path / "run" / "players" / "policy").iterdir()] == ["2"]
    assert done.facts["measured"][-1]["players"] == [f"policy@{g}" for g in range(3)]
    assert command("resume", "run", "--json").facts["measured"] == done.facts["measured"]


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (["keep=1", "generations=1"], "2"),
        (["keep=2", "generations=4"], ""),
        (["keep=all", "generations=4"], ""),
    ],
)
def test_no_loss_meets_weights_that_are_gone(settings, most):
    """Whichever generation it begins with, of those that there are."""
    given = ["loss=mnpo", *settings]
    if not most:
        assert recipe_loader.load("quickstart", given).keep is not None
        return
    with pytest.raises(ConfigError, match=r"keep: the loss meets \d past generations, but only 1 "):
        recipe_loader.load("quickstart", given)
