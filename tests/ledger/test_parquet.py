"""What leaves the ledger as Parquet."""

import json
import resource

import pyarrow.parquet as pq
import pytest

from equipoise.errors import DiskFull, RunError
from equipoise.ledger import parquet
from equipoise.ledger.ledger import Ledger
from equipoise.ledger.parquet import TABLES, export
from equipoise.types import (
    Episode,
    Judgement,
    Match,
    Message,
    Move,
    Pair,
    PlayerId,
    Prompt,
    Turn,
    View,
    Vote,
    user,
)

CHAT = (Message("system", "Be brief."), user("Who?"))


def test_every_paid_move_is_a_row(tmp_path):
    paid = [
        Episode("e1", 4, "m1", 0, "adversary", "g1", -0.25, {"score": 0.5, "self_bleu": -0.75}),
        Episode("e2", 4, "m1", 1, "defender", "g2", 1.0),
    ]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_episodes(paid[:1], PlayerId("red", 2))
        ledger.add_episodes(paid[1:], PlayerId("blue", 3))
        written = export(ledger, tmp_path / "out")
    assert {path.stem for path in written} == set(TABLES)
    assert written[tmp_path / "out" / "episodes.parquet"] == 2
    first, second = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    assert json.loads(first.pop("parts")) == {"score": 0.5, "self_bleu": -0.75}
    assert json.loads(second["parts"]) == {}
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


def chat(*messages):
    return [{"role": message.role, "content": message.content} for message in messages]


def test_every_column_holds_what_its_name_says(tmp_path, monkeypatch):
    """More rows than are held at a time, each with values that no other column has."""
    monkeypatch.setattr(parquet, "CHUNK", 2)
    pairs = [
        Pair(f"p{n}", 3, "q", CHAT, f"good {n}", f"bad {n}", 0.5 + n, 0.25 - n, f"m{n}")
        for n in range(5)
    ]
    seats = {"1": PlayerId("a", 3), "2": PlayerId("b", 1)}
    turns = (
        Turn("2", View(CHAT), Move("first", "length", (4, 5), prompt_tokens=7, cost=0.5)),
        Turn("1", View(CHAT), Move("", "error", error="no line")),
    )
    match = Match("m0", 3, "train", "answers", "q", seats, 11, turns)
    vote = Vote("j@2", "1", 0.75, "2", "plain", 9, 0.25)
    judged = [
        Judgement("k", "m0", "by rule", {"2": {"score": 0.5, "length": 4.0}}, votes=(vote,)),
        Judgement("l", "m0", "mute", None, "said nothing"),
    ]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_prompts([Prompt("q", CHAT, {"answer": 4}, "hub")], "held_out", 3)
        ledger.add_matches([match])
        ledger.add_judgements((match, judgement) for judgement in judged)
        ledger.add_pairs(pairs, PlayerId("a", 3))
        written = export(ledger, tmp_path / "out")
    tables = {path.stem: pq.read_table(path).to_pylist() for path in written if path.stem in TABLES}
    assert {path.stem: count for path, count in written.items()} == {
        name: len(rows) for name, rows in tables.items()
    }
    assert tables["pairs"] == [
        {
            "id": f"p{n}",
            "generation": 3,
            "learner": "a@3",
            "match": f"m{n}",
            "prompt": chat(*CHAT),
            "chosen": chat(Message("assistant", f"good {n}")),
            "rejected": chat(Message("assistant", f"bad {n}")),
            "score_chosen": 0.5 + n,
            "score_rejected": 0.25 - n,
        }
        for n in range(5)
    ]
    (prompt,), (played,) = tables["prompts"], tables["matches"]
    assert (prompt["split"], prompt["generation"], prompt["source"]) == ("held_out", 3, "hub")
    assert prompt["prompt"] == chat(*CHAT)
    assert json.loads(prompt["facts"]) == {"answer": 4}
    assert (played["prompt"], played["seed"], played["split"]) == ("q", 11, "train")
    assert json.loads(played["seats"]) == {"1": "a@3", "2": "b@1"}
    assert [tuple(turn.values()) for turn in tables["turns"]] == [
        ("m0", 0, "2", "b@1", "first", "length", "", 7, 2, 0.5),
        ("m0", 1, "1", "a@3", "", "error", "no line", 0, 0, 0.0),
    ]
    assert [tuple(score.values()) for score in tables["scores"]] == [
        ("m0", "by rule", "", "2", "score", 0.5),
        ("m0", "by rule", "", "2", "length", 4.0),
        ("m0", "mute", "said nothing", None, None, None),
    ]
    [of_vote] = tables["votes"]
    assert of_vote == {
        "match": "m0",
        "judge": "by rule",
        "by": "j@2",
        "seat": "1",
        "other": "2",
        "value": 0.75,
        "reason": "plain",
        "tokens": 9,
        "cost": 0.25,
    }


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


def test_an_export_takes_the_place_of_an_older_one_and_no_runs(tmp_path):
    out = tmp_path / "a" / "out"
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_prompts([Prompt("p", CHAT)], "train", 0)
        first = export(ledger, out)
        ledger.add_prompts([Prompt("q", CHAT)], "train", 0)
        second = export(ledger, out)
        prompts = out / "prompts.parquet"
        assert (first[prompts], second[prompts]) == (1, 2)
        assert pq.read_table(prompts).num_rows == 2
        assert {path.name for path in out.iterdir()} == {path.name for path in second}
        metadata = pq.read_schema(prompts).metadata
        assert metadata[b"equipoise.table"] == b"prompts"
        (tmp_path / "config.yaml").touch()
        with pytest.raises(RunError, match="is a run's folder; choose another --to"):
            export(ledger, tmp_path)
