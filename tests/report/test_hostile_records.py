"""Runs whose every recorded text would rather be a program, reported and opened in a real browser:
nothing of them is executed, and nothing is fetched.
"""

import json
import sqlite3
from contextlib import closing
from itertools import combinations

import assistance_run
import people_run
import pool_run
import pytest
import red_team_run
from browser import Browser, needs_chromium

pytestmark = [needs_chromium, pytest.mark.long]
PWN = (
    '"><img src=x onerror="window.pwned=1"></script><script>window.pwned=2</script>'
    "<svg/onload=window.pwned=3><iframe srcdoc='<script>parent.pwned=4</script>'></iframe>"
    "<style>*{background:url(https://example.invalid/s)}</style>"
    "<a href='javascript:window.pwned=5'>a</a>"
)
RUNS = {
    "attacks": red_team_run.write,
    "assistance": assistance_run.write,
    "people": people_run.write,
    "a pool": lambda folder: pool_run.write(folder, generations=4),
}
TEXTS = {"text", "content", "reason", "error", "source"}
"""Fields of records that others write: players, servers, judges, whoever made the prompts."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def poison(value):
    """The record with a program after each text that is not our own."""
    if isinstance(value, list):
        return [poison(each) for each in value]
    if not isinstance(value, dict):
        return value
    poisoned = {}
    for key, held in value.items():
        is_text = key in TEXTS and isinstance(held, str)
        poisoned[key] = held + PWN if is_text else poison(held)
    return poisoned


def poison_records(run):
    """Put the program into every text of the run's records."""
    changed = 0
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        for table in ("prompts", "matches", "judgements", "pairs"):
            rows = db.execute(f"SELECT rowid, record FROM {table}").fetchall()
            for rowid, record in rows:
                poisoned = json.dumps(poison(json.loads(record)))
                changed += "window.pwned" in poisoned
                db.execute(f"UPDATE {table} SET record = ? WHERE rowid = ?", (poisoned, rowid))
        db.commit()
    assert changed


def assert_page_does_nothing(browser, page):
    """Open a page that shows the program, with all that it folds away."""
    assert "window.pwned" in page.read_text(encoding="utf-8"), "the page shows no recorded text"
    browser.open(page)
    browser.do("[...document.querySelectorAll('details')].forEach((each) => { each.open = true })")
    assert browser.do("typeof window.pwned") == "undefined"
    for tag in ("iframe", "img", "a[href^=javascript]", "svg[onload]"):
        assert browser.do(f"document.querySelectorAll('{tag}').length") == 0, tag
    assert browser.requests() == []
    assert browser.complaints() == []


@pytest.mark.parametrize("kind", RUNS)
def test_a_report_of_hostile_records_does_nothing(command, browser, tmp_path, kind):
    run = tmp_path / "run"
    RUNS[kind](run)
    poison_records(run)
    done = command("report", "run")
    assert done.code == 0, done.err
    assert_page_does_nothing(browser, run / "report.html")


def test_a_leaderboard_of_hostile_records_does_nothing(command, browser, tmp_path):
    def chat(answer):
        return [{"role": "user", "content": f"Q {PWN}"}, {"role": "assistant", "content": answer}]

    name = '"><img src=x onerror="window.pwned=1"></script><script>window.pwned=2</script>'
    models = [f"one {name}", f"two {name}", "three"]
    matches = [
        {"question_id": f"{n} {a}", "model_a": a, "model_b": b}
        | {"winner": "model_a" if n % 3 else "model_b", "judge": PWN}
        | {f"conversation_{side}": chat(f"{PWN} {side} {n}") for side in "ab"}
        for n in range(6)
        for a, b in combinations(models, 2)
    ]
    rows = "".join(json.dumps(row) + "\n" for row in matches)
    (tmp_path / "votes.jsonl").write_text(rows)
    done = command("import-matches", "votes.jsonl", "--from", "lmarena", "--out", "run")
    assert done.code == 0, done.err
    done = command("report", "run", "--leaderboard")
    assert done.code == 0, done.err
    assert_page_does_nothing(browser, tmp_path / "run" / "leaderboard.html")


def test_a_comparison_of_hostile_records_and_logs_does_nothing(command, browser, tmp_path):
    """Of a run's players, and of two models of a harness that say such things, and are called so."""
    run = tmp_path / "run"
    people_run.write(run)
    poison_records(run)
    done = command("compare", "run@poet", "run@clerk", "run@sage", "--out", "players.html")
    assert done.code == 0, done.err
    assert_page_does_nothing(browser, tmp_path / "players.html")
    logs = tmp_path / "logs"
    logs.mkdir()
    rows = [
        {"instruction": f"Q {n} {PWN}", "generator_1": "base", "generator_2": model}
        | {"preference": 1 + (n + number) % 2, "annotator": PWN}
        for n in range(5)
        for number, model in enumerate((f"one {PWN}", "two"))
    ]
    (logs / "annotations.json").write_text(json.dumps(rows))
    done = command("compare", "logs", "--out", "logs.html")
    assert done.code == 0, done.err
    assert_page_does_nothing(browser, tmp_path / "logs.html")
