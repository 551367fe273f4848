"""The ledger: what is added is there, once; a failed transaction leaves nothing;
another version is refused.
"""

import sqlite3

import pytest

from equipoise.errors import DiskFull, RunError
from equipoise.run.ledger import Ledger
from equipoise.types import (
    Judgement,
    Match,
    Move,
    Pair,
    PlayerId,
    Prompt,
    Turn,
    View,
    record_id,
    user,
)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def match(i: int, generation: int = 0, split: str = "train") -> Match:
    turn = Turn(
        "1",
        View((user(f"question {i}"),)),
        Move(f"answer {i}", token_ids=(1, 2), logprobs=(-0.25, -1.5)),
    )
    return Match(
        record_id(split, i),
        generation,
        split,
        "answers",
        f"p{i}",
        {"1": PlayerId("policy", 2)},
        i,
        (turn,),
    )


def test_records_come_back_as_they_went_in(ledger):
    prompt = Prompt(
        "p1",
        (user("what? \u2028 </script>"),),
        {"harmful": False, "answer": "7"},
        "clerk",
    )
    judgement = Judgement("j", match(1).id, "exact", {"1": {"score": 1.0}})
    pair = Pair("x", 0, "p1", prompt.messages, "yes", "no", 1.0, 0.0, match(1).id)
    ledger.add_prompts([prompt], "train", 0)
    ledger.add_matches([match(1), match(2, 1)])
    ledger.add_judgements([(match(1), judgement)])
    ledger.add_pairs([pair], PlayerId("policy", 0))
    ledger.add_logprobs(
        PlayerId("policy", 1), "enc", ["a", "b"], [(-1.25, 3), (-0.5, 1)]
    )
    ledger.add_player(
        PlayerId("policy", 1), PlayerId("policy", 0), "preference", {"loss": 0.5}
    )
    assert ledger.prompts("train", 0) == [prompt]
    assert ledger.matches("train", 0) == [match(1)]
    assert ledger.matches("train") == [match(1), match(2, 1)]
    assert ledger.judgements_of([match(1).id]) == {match(1).id: judgement}
    assert ledger.pairs(0, PlayerId("policy", 0)) == [pair]
    assert ledger.pairs(0, PlayerId("policy", 1)) == []
    assert ledger.logprobs(PlayerId("policy", 1), "enc", ["b", "c", "a"]) == {
        "a": (-1.25, 3),
        "b": (-0.5, 1),
    }
    assert ledger.logprobs(PlayerId("policy", 1), "other", ["a"]) == {}
    assert ledger.players() == [
        (PlayerId("policy", 1), "policy@0", "preference", {"loss": 0.5})
    ]


def test_writing_again_inserts_nothing(ledger):
    for _ in range(2):
        ledger.add_matches([match(i) for i in range(700)])
    assert ledger.counts()["matches"] == 700
    assert ledger.known("matches", [match(5).id, "absent"]) == {match(5).id}


def test_an_interrupted_transaction_leaves_nothing(ledger):
    with pytest.raises(KeyboardInterrupt), ledger.transaction():
        ledger.add_matches([match(1)])
        raise KeyboardInterrupt
    assert ledger.counts()["matches"] == 0


def test_a_missing_verdict_is_counted_and_never_a_number(ledger):
    ledger.add_matches([match(1), match(2)])
    ledger.add_judgements(
        [
            (match(1), Judgement("j1", match(1).id, "exact", None, "unreadable")),
            (match(2), Judgement("j2", match(2).id, "exact", {"1": {"score": 0.0}})),
        ]
    )
    assert ledger.judged() == [("train", 0, 2, 1)]


def test_stages_are_finished_once(ledger):
    assert ledger.finished("0/play") is None
    ledger.finish("0/play", 0, "play", {"matches": 3}, 1.5)
    ledger.finish("0/play", 0, "play", {"matches": 4}, 9.0)
    assert ledger.finished("0/play") == {"matches": 3}
    assert ledger.stages("play") == [("0/play", 0, "play", {"matches": 3}, 1.5)]


def test_another_version_and_other_files_are_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(RunError, match=r"another version .* 99"):
        Ledger.open(path)
    with pytest.raises(RunError, match="no ledger here"):
        Ledger.open(tmp_path / "absent.sqlite")
    (tmp_path / "text.sqlite").write_text("hello " * 1000)
    with pytest.raises(RunError, match=r"text\.sqlite"):
        Ledger.open(tmp_path / "text.sqlite")


def test_a_full_disk_is_said_and_loses_nothing(ledger):
    ledger.add_matches([match(1)])
    pages = next(iter(ledger.rows("PRAGMA page_count")))[0]
    list(ledger.rows(f"PRAGMA max_page_count = {pages + 4}"))
    with pytest.raises(DiskFull, match="free some space"):
        ledger.add_matches([match(i) for i in range(5000)])
    assert ledger.matches("train") == [match(1)]
