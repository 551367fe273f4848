"""Runs that are watched: what is shown of them, that they are only read, and read again only when
something was recorded.
"""

import re
from html import unescape

import httpx
import people_run
import pytest

from equipoise.errors import RunError
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.ledger import FinishedStage
from equipoise.runs.reading.watching import Watched, _seconds_left, live
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.watch_page import watch_app


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
