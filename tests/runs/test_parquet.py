"""What leaves the ledger as Parquet."""

import json

import pyarrow.parquet as pq

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
