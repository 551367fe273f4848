"""`keep` decides whose weights stay; a run goes on, and is measured, without the others."""

import pytest
from small import SMALL


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
