"""The leaderboard's numbers, on tables whose equilibrium is known."""

import numpy as np
import pytest
from browser import Browser, needs_chromium

from equipoise.blocks.html import render
from equipoise.payoffs.regret import largest_gap
from equipoise.payoffs.table import Meeting, met_by_all, tally
from equipoise.ratings.base import Rating
from equipoise.report.leaderboard import leaderboard, place_ranges

CIRCLE = [("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")]


def table(wins, losses=0, times=40):
    """Each pair meets so often; the first wins all but so many."""
    return tally(
        Meeting(first, second, 1.0 if i >= losses else -1.0, f"{first}{second}{i}")
        for first, second in wins
        for i in range(times)
    )


def ratings(players):
    return [Rating(name, 1000.0 - i, 990.0, 1010.0) for i, name in enumerate(players)]


def cells(page, section="leaderboard"):
    (found,) = [each for each in page.sections if each.name == section]
    return {row[0]: row[1:] for row in found.blocks[0].rows}


@pytest.mark.long
def test_of_a_circle_everybody_has_a_third_and_is_beaten():
    pays = table(CIRCLE, losses=10)
    page = leaderboard("arena", ratings(pays.players), pays, "bradley_terry", "people", "circles!")
    rows = cells(page)
    assert {row[-1].partition(" %")[0] for row in rows.values()} == {"33.3"}
    assert rows["rock"][6] == "paper"
    assert rows["rock"][5].startswith("0.50 (")
    assert rows["rock"][3:5] == ("80", "50.0 %")  # prompts, of which each was asked of two
    (cycle,) = cells(page, "cycles").items()
    assert cycle == ("paper → rock → scissors → paper", ("0.50",)) or "rock" in cycle[0]
    assert page.warnings == ("circles!",)


@pytest.mark.long
def test_a_ladder_has_no_cycles_and_its_top_is_the_equilibrium():
    pays = table([("a", "b"), ("b", "c"), ("a", "c")], losses=4)
    page = leaderboard("x", ratings("abc"), pays, "elo", "j", titles={"a": "A-1"})
    rows = cells(page)
    assert rows["A-1"][5:7] == ("0.00 (nobody beats it)", "")  # of exploitability
    assert rows["A-1"][-1].startswith("100.0 %")
    assert rows["c"][-1].startswith("0.0 %")
    assert [section.reason for section in page.sections if section.name == "cycles"] != [""]


@pytest.mark.long
def test_who_has_not_met_everybody_is_left_out_of_the_equilibrium():
    pays = table([("a", "b"), ("b", "c"), ("a", "c"), ("a", "new")], losses=4)
    assert [pays.players[i] for i in met_by_all(pays)] == ["a", "b", "c"]
    page = leaderboard("x", ratings(["a", "b", "c", "new"]), pays, "elo", "j")
    assert cells(page)["new"][-1] == "–"
    assert any("new did not meet everybody" in warning for warning in page.warnings)


def test_the_gap_allows_for_being_the_largest_of_many():
    """Of equal players the best reply is luck: the interval reaches down to none."""
    dice = np.random.default_rng(0)
    pays = tally(
        Meeting("me", f"p{k}", float(dice.choice([-1, 1])), f"{k} {i}")
        for k in range(12)
        for i in range(30)
    )
    gap, best = largest_gap(pays, pays.players.index("me"))
    assert best is not None
    assert gap.mean > 0.1
    assert gap.low == 0.0 < gap.mean < gap.high


def test_one_meeting_says_nothing_of_a_gap():
    gap, best = largest_gap(tally([Meeting("a", "b", -1.0, "p")]), 0)
    assert np.isnan(gap.mean)
    assert best is None


@needs_chromium
@pytest.mark.long
def test_in_a_browser(tmp_path):
    pays = table(CIRCLE, losses=10)
    titles = {"rock": "<img src=x onerror=alert(1)>"}
    page = leaderboard("arena", ratings(pays.players), pays, "elo", "people", titles=titles)
    path = tmp_path / "board.html"
    path.write_text(render(page), encoding="utf-8")
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(path)
        texts = browser.do(
            "[...document.querySelectorAll('#leaderboard tbody :is(th, td)')].map((e) => e.textContent)"
        )
        assert titles["rock"] in texts
        assert len(texts) == 27
        assert browser.do("document.querySelectorAll('img').length") == 0
        assert browser.do("document.querySelectorAll('.chart .heatmaplayer rect').length") == 9
        assert browser.complaints() == []
        assert browser.requests() == []
    finally:
        browser.close()


def test_prompts_are_counted_and_not_matches():
    pays = tally(
        Meeting(first, second, 1.0 if n % 3 else -1.0, f"prompt {n}")
        for first, second in (("a", "b"), ("a", "c"), ("b", "c"))
        for n in range(20)
        for _ in range(16)
    )
    page = leaderboard("x", ratings("abc"), pays, "elo", "alice")
    assert {row[3] for row in cells(page).values()} == {"20"}
    lead = page.sections[0].lead
    assert lead.startswith(
        "By 20 prompts, on which alice compared answers of two players 960 times"
    )


def test_places_are_ranges_that_hold_together():
    apart = [Rating("a", 1200.0, 1190.0, 1210.0), Rating("b", 1000.0, 990.0, 1010.0)]
    assert place_ranges(apart) == [(1, 1), (2, 2)]
    near = [*apart, Rating("c", 995.0, 985.0, 1005.0)]
    assert place_ranges(near) == [(1, 1), (2, 3), (2, 3)]
    # 14 apart, which two intervals alone just tell, and not all three pairs at once
    alone = [Rating("a", 1000.0, 991.0, 1009.0), Rating("b", 987.0, 978.0, 996.0)]
    assert place_ranges(alone) == [(1, 1), (2, 2)]
    assert place_ranges([*alone, Rating("c", 500.0, 490.0, 510.0)])[0] == (1, 2)
