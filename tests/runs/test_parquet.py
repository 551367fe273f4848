"""What leaves the ledger as Parquet."""

import json
import resource

import pyarrow.parquet as pq
import pytest

from equipoise.errors import DiskFull
from equipoise.runs.ledger import Ledger
from equipoise.runs.parquet import TABLES, export
from equipoise.types import Episode, PlayerId


def test_every_paid_move_is_a_row(tmp_path):
    paid = [
        Episode("e1", 4, "m1", 0, "adversary", "g1", -0.25, {"score": 0.5, "self_bleu": -0.75}),
        Episode("e2", 4, "m1", 1, "defender", "g2", 1.0),
    ]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_episodes(paid[:1], PlayerId("red", 2))
        ledger.add_episodes(paid[1:], PlayerId("blue", 3))
        written = export(ledger, tmp_path / "out")
    assert {path.stem for path in written} == set(TABLES) and written[
        tmp_path / "out" / "episodes.parquet"
    ] == 2
    first, second = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    assert (
        json.loads(first.pop("parts")) == {"score": 0.5, "self_bleu": -0.75}
        and json.loads(second["parts"]) == {}
    )
    assert first == {
        "id": "e1",
        "generation": 4,
        "learner": "red@2",
        "match": "m1",
        "turn": 0,
        "role": "adversary",
        "group": "g1",
        "reward": -0.25,
    }
    assert (second["learner"], second["turn"], second["reward"]) == ("blue@3", 1, 1.0)


def test_a_full_disk_leaves_the_older_tables_and_nothing_of_the_new(tmp_path):
    """A limit on the size of files stands for the disk: the largest table meets it."""
    out = tmp_path / "out"
    episodes = [Episode(f"e{n}", 4, "m1", n, "red", f"g{n}", n / 7) for n in range(5_000)]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        export(ledger, out)
        before = {file.name: file.read_bytes() for file in out.iterdir()}
        ledger.add_episodes(episodes, PlayerId("red", 2))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        try:
            with pytest.raises(DiskFull, match="nothing of it was written"):
                export(ledger, out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
