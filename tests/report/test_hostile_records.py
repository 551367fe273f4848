"""Runs whose every recorded text would rather be a program, reported and opened in a real browser:
nothing of them is executed, and nothing is fetched.
"""

import json
import sqlite3
from contextlib import closing

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


@pytest.mark.parametrize("kind", RUNS)
def test_a_report_of_hostile_records_does_nothing(command, browser, tmp_path, kind):
    run = tmp_path / "run"
    RUNS[kind](run)
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
    done = command("report", "run")
    assert done.code == 0, done.err
    page = run / "report.html"
    assert "window.pwned" in page.read_text(encoding="utf-8"), "the page shows no recorded text"
    browser.open(page)
    browser.do("[...document.querySelectorAll('details')].forEach((each) => { each.open = true })")
    assert browser.do("typeof window.pwned") == "undefined"
    for tag in ("iframe", "img", "a[href^=javascript]", "svg[onload]"):
        assert browser.do(f"document.querySelectorAll('{tag}').length") == 0, tag
    assert browser.requests() == [] and browser.complaints() == []
