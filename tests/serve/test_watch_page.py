"""Runs that are watched: what is shown of them, that they are only read, and read again only when
something was recorded.
"""

import re
from dataclasses import replace
from html import unescape

import httpx
import people_run
import pytest
from msgspec import structs

from equipoise.errors import RunError
from equipoise.ledger.ledger import FinishedStage
from equipoise.models.resources import Spending
from equipoise.report import watching
from equipoise.report.watching import LiveRun, Watched, _seconds_left, live
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.serve import watch_page
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.watch_page import watch_app
from equipoise.types import Match, Move, PlayerId, Turn, View, user


def stage(t: int, name: str, seconds: float) -> FinishedStage:
    return FinishedStage(f"{t}/{name}", t, name, {}, seconds)


def test_the_time_left_is_that_of_whole_generations():
    stages = [stage(0, "play", 8.0), stage(0, "learn", 4.0)]
    assert _seconds_left(stages, 4) is None  # none is whole yet
    stages += [stage(1, "measure", 1.0)]
    assert _seconds_left(stages, 4) == pytest.approx(3 * 12 - 1)
    stages += [stage(1, "play", 40.0)]  # longer than expected: no less than nothing
    assert _seconds_left(stages, 4) == pytest.approx(2 * 12)
    assert _seconds_left([], 4) is None


@pytest.fixture
def finite(tmp_path):
    """A finite run under way: two of four generations are measured."""
    config = recipe_loader.load("rock_paper_scissors", ["generations=4"])
    with RunDirectory.create(config, tmp_path / "finite") as run:
        for t in range(2):
            measures = {"exploitability": 0.5 - 0.2 * t}
            run.ledger.finish(f"{t}/measure", t, "measure", measures, 1.0)
            run.ledger.finish(f"{t}/learn", t, "learn", {}, 3.0)
        run.metric("2/learn", step=1, loss=0.5)
    return tmp_path / "finite"


def test_a_run_under_way_is_seen_from_its_records(finite):
    with RunDirectory.read(finite) as run:
        seen = live(run)
    assert (seen.stage, seen.generation, seen.generations) == ("learn", 1, 4)
    assert seen.under_way == "2/learn" and not seen.finished
    assert seen.curves == {"exploitability": [(0, 0.5), (1, pytest.approx(0.3))]}
    assert seen.seconds == 8.0 and seen.seconds_left == pytest.approx(3 * 4 - 4)


@pytest.mark.long
def test_it_is_read_again_only_when_something_was_recorded(tmp_path):
    run = people_run.write(tmp_path / "run", prompts=1)
    watched = Watched(run)
    before = watched.live()
    assert watched.live() is before and watched.report() is watched.report()
    assert [each.prompt for each in before.matches] == ["p0"] * 3
    with RunDirectory.open(run) as opened:  # a run that is played can be watched
        assert watched.is_running()
        people_run.add_answers(opened, 1, people_run.ANSWERS)
        after = watched.live()
        assert after.records["matches"] == before.records["matches"] + 3
        assert watched.pace()["matches"] > 0
        people_run.add_answers(opened, 2, people_run.ANSWERS)  # the writer goes on
    assert not watched.is_running() and watched.live().records["matches"] == 9


@pytest.mark.long
def test_watching_writes_nothing(tmp_path):
    run = people_run.write(tmp_path / "run", prompts=1)
    kept = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    watched = Watched(run)
    watched.live()
    watched.report()
    after = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert after == kept


@pytest.mark.long
def test_runs_are_shown_side_by_side_to_those_with_the_token(tmp_path, finite, serving_app):
    run = people_run.write(tmp_path / "run", prompts=1)
    broken = people_run.write(tmp_path / "broken", prompts=1)
    limits = Limits.model_validate({})
    watched = [Watched(folder) for folder in (run, finite, broken)]
    (broken / "config.yaml").unlink()
    with (
        serving_app(watch_app(watched, limits, "secret"), limits) as url,
        httpx.Client(base_url=url) as client,
    ):

        def post(call, body, token="secret"):
            headers = {"authorization": f"Bearer {token}"}
            return client.post(f"/api/{call}", json=body, headers=headers)

        assert post("live", {}, "wrong").status_code == 401
        first, second, third = post("live", {}).json()
        assert first["name"] == "people" and first["state"].startswith("stopped")
        assert ["matches", "3"] in first["facts"]
        assert second["curves"][0]["points"] == [[0, 0.5], [1, 0.3]]
        assert "no run here" in third["error"] and "name" not in third
        report = post("report", {"run": 0}).json()["html"]
        assert report.startswith("<!doctype html>") and "It is 0." in report
        assert post("report", {"run": 7}).status_code == 400
        policy = client.get("/").headers["content-security-policy"]
    # The frame's scripts are let through by their hashes, and no others.
    inner = re.search(r"script-src ([^;]*);", unescape(report))
    assert inner is not None and "unsafe" not in inner[1]
    page_js = inner[1].split()[-1]
    assert page_js in policy and "script-src 'self' 'sha256-" in policy


def test_bad_input_is_said(command, tmp_path):
    result = command("watch", "nowhere", "--port", "0")
    assert result.code == 2 and "no run here" in result.err
    with pytest.raises(RunError, match="no run here"):
        Watched(tmp_path / "nowhere")


SEEN = LiveRun(
    name="mine",
    stage="learn",
    under_way="3/judge",
    generation=2,
    generations=8,
    finished=False,
    records={"matches": 1_200, "pairs": 3},
    seconds=90.0,
    seconds_left=30.0,
    curves={"win_rate": [(0, 0.25), (1, 0.5)]},
    spent={"lab\x1b": Spending(1, 20, 0.5)},
    matches=(),
)


def test_where_a_run_is():
    state, share = watch_page._state, watch_page._share
    running = "running; last finished: learn of generation 2; under way: 3/judge"
    assert state(SEEN, True) == running
    assert state(SEEN, False) == "stopped; last finished: learn of generation 2"
    assert state(replace(SEEN, finished=True, under_way=""), True).startswith("finished; last")
    assert state(replace(SEEN, stage="", under_way=""), True) == "running"
    assert share(SEEN) == 0.25 and share(replace(SEEN, generation=None)) == 0.0
    assert share(replace(SEEN, finished=True)) == 1.0 == share(replace(SEEN, generation=9))
    assert share(replace(SEEN, generations=0)) == 0.0


def test_what_a_run_has_recorded_measured_and_spent():
    begun = watch_page._facts(replace(SEEN, generation=None), {})
    assert begun[0] == ["generation", "0 of 8"]
    assert watch_page._facts(SEEN, {"matches": 2.5}) == [
        ["generation", "2 of 8"],
        ["matches", "1,200 (2.5/s)"],
        ["pairs", "3"],
        ["time in stages", "1 min 30 s"],
        ["spent by lab␛", "1 call, 20 tokens, 0.5 of money"],
    ]
    assert watch_page._facts(replace(SEEN, generation=None), {})[0] == ["generation", "0 of 8"]
    assert watch_page._curves(SEEN.curves) == [
        {"name": "win rate", "points": [[0, 0.25], [1, 0.5]]}
    ]


def test_a_match_is_shown_with_what_was_asked_first():
    view = View((user("a\x1b"), user("b" * 1_501)))
    turns = (Turn("1", view, Move("c" * 1_500)), Turn("2", View(()), Move("", error="lost")))
    seats = {"1": PlayerId("ann", 2), "2": PlayerId("ben")}
    match = Match("0123456789", 0, "train", "answers", "p", seats, 0, turns)
    assert watch_page._match(match) == {
        "id": "0123456789",
        "title": "train, 01234567",
        "chat": [
            {"role": "user", "text": "a␛"},
            {"role": "user", "text": "b" * 1_500 + " …"},
            {"role": "1: ann@2", "text": "c" * 1_500},
            {"role": "2: ben@0", "text": "lost"},
        ],
    }
    assert watch_page._match(structs.replace(match, turns=()))["chat"] == []


def test_the_pace_is_that_of_the_last_minute(tmp_path, monkeypatch):
    watched, now = Watched(people_run.write(tmp_path / "run", prompts=1)), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watched._counts.clear()
    matches = [0, 30, 60, 120, 120]
    for n, (count, at) in enumerate(zip(matches, (100, 110, 120, 175, 185), strict=True)):
        now[0] = at
        watched._live = (watched._state(), replace(SEEN, records={"matches": count, "pairs": 1}))
        assert watched.live().records["matches"] == count
        if n == 0:
            assert watched.pace() == {}
        if n == 1:
            assert watched.pace() == {"matches": 3.0}
    # The minute before 185 begins behind 120, the newest that is older.
    assert [at for at, _ in watched._counts] == [120, 175, 185]
    assert watched.pace() == {"matches": 60 / 65}


@pytest.mark.long
def test_a_report_rests_ten_times_as_long_as_it_took(tmp_path, monkeypatch):
    run = people_run.write(tmp_path / "run", prompts=1)
    watched, now, made = Watched(run), [0.0], []

    def render(page):
        now[0] += 2.0
        made.append(now[0])
        return f"report {len(made)}"

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(watching, "render", render)
    assert watched.report() == watched.report() == "report 1"
    with RunDirectory.open(run) as opened:
        people_run.add_answers(opened, 1, people_run.ANSWERS)
    for at, number in ((2.0, 1), (21.9, 1), (22.0, 2), (60.0, 2)):
        now[0] = max(now[0], at)
        assert watched.report() == f"report {number}", at


@pytest.mark.parametrize(
    ("lines", "stage"),
    [
        (b"", ""),
        (b'{"stage": "1/learn"}\n', "1/learn"),
        (b'{"stage": "0/learn"}\n', ""),  # it is finished
        (b'{"stage": "1/learn"}\n{"stage": "2/lea', "1/learn"),
        (b'{"stage": "1/learn"}\nnothing\n', ""),
        (b"[]\n", ""),
        (b'{"step": 1}\n', ""),
        (b'{"x": "' + b"x" * 20_000 + b'"}\n{"stage": "1/learn"}\n', "1/learn"),
    ],
)
def test_what_is_under_way_is_what_has_logged_since(tmp_path, lines, stage):
    (tmp_path / "metrics.jsonl").write_bytes(lines)
    assert watching._under_way(tmp_path, {"0/learn"}) == stage
    assert watching._under_way(tmp_path / "none", set()) == ""
