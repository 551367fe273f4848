"""Rows of the ledger that are not as they were written are noticed."""

import sqlite3
from contextlib import closing

import pytest

from equipoise.errors import RunError
from equipoise.ledger.item_scores import ItemScores
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Spending
from equipoise.types import (
    Episode,
    Judgement,
    Match,
    Move,
    Pair,
    PlayerId,
    Prompt,
    Turn,
    View,
    user,
)

POLICY = PlayerId("policy", 1)
QUESTION = (user("What is\u2028 7 + ½?\x00\x1f 😀"),)
PROMPT = Prompt("p", QUESTION, {"answer": "7"}, "clerk")
TURN = Turn("1", View(QUESTION), Move("7 \ufeff é", logprobs=(-0.0, -1e300)))
MATCH = Match("m", 0, "train", "answers", "p", {"1": POLICY}, 1, (TURN,))
UNREAD = Judgement("j", "m", "exact", None, "unreadable")


def fill(ledger: Ledger) -> None:
    """A row in every table, with numbers of every kind that callers give."""
    ledger.add_prompts([PROMPT], "train", 0)
    ledger.add_matches([MATCH])
    ledger.add_judgements([(MATCH, UNREAD)])
    pair = Pair("x", 0, "p", QUESTION, "yes", "no", 1.0, 0.0, "m")
    ledger.add_pairs([pair], POLICY)
    episode = Episode("e", 0, "m", 0, "1", "p", 1.0)
    ledger.add_episodes([episode], POLICY)
    ledger.add_logprobs(POLICY, "enc", ["a", "b"], [(-1, 3), (-1 / 3, 1)])
    request = ledger.reserve("judge", Spending(1, 5))
    ledger.settle(request, "judge", Spending(1, 2**40, 0), {"text": "\U0001f600"}, "r")
    ledger.add_player(POLICY, None, "none", {})
    ledger.log("0/learn", {"loss": float("nan")})
    ledger.finish("0/learn", 0, "learn", {"loss": 0.5}, 1)
    ledger.add_benchmark_scores("0/sets", [ItemScores(item="i", values={"exact": 1.0})])
    ledger.note("directory", "/elsewhere")


def tables(ledger: Ledger) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [name for (name,) in ledger.rows(query)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, directory="/here") as ledger:
        fill(ledger)
        assert all(ledger.rows(f"SELECT 1 FROM {name}") for name in tables(ledger))
    return path


def test_rows_are_as_they_were_written(path):
    with Ledger.open(path) as ledger:
        fill(ledger)  # writing again changes nothing
        ledger.check_rows()
        grown = Judgement("j", "m", "exact", {"1": {"score": 1.0}})
        ledger.grow_judgements([(MATCH, grown)])
        ledger.check_rows()
        assert ledger.judgements_of(["m"]) == {"m": grown}
        assert list(
            ledger.rows(
                "SELECT split, generation, count(*), sum(judged) FROM judgements GROUP BY 1, 2"
            )
        ) == [("train", 0, 1, 1)]


def test_any_changed_value_is_noticed(path):
    """Each column of each table, by one bit of its last byte."""
    with closing(sqlite3.connect(path)) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        places = [
            (table, column)
            for (table,) in names.fetchall()
            for (column,) in db.execute("SELECT name FROM pragma_table_info(?)", [table])
        ]
        assert len(places) > 50
    for table, column in places:
        if (table, column) == ("meta", "key"):
            continue
        with closing(sqlite3.connect(path)) as db:
            query = f"SELECT rowid, {column} FROM {table} ORDER BY rowid DESC"
            row, value = db.execute(query).fetchone()
            change = f"UPDATE {table} SET {column} = ? WHERE rowid = {row}"
            db.execute(change, [changed(value)])
            db.commit()
            with Ledger.open(path) as ledger, pytest.raises(RunError, match=table):
                ledger.check_rows()
            db.execute(change, [value])
            db.commit()
    with Ledger.open(path) as ledger:
        ledger.check_rows()


def changed(value: str | float | None) -> str | bytes | float:
    if isinstance(value, str):
        content = value.encode()
        return content[:-1] + bytes([content[-1] ^ 0x80])  # is no UTF-8 any more
    return 1 if value is None else value + 1
