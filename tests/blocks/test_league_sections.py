"""The sections on pools of players and on judges: what their figures and tables say."""

import math

import msgspec
import numpy as np
import pytest
from fixtures import report_pages

from equipoise.blocks import figures as curves
from equipoise.blocks.figures import heat_map
from equipoise.blocks.league_sections import (
    caution,
    match_ups_section,
    payoffs_section,
    ratings_section,
    training_ratings_section,
)
from equipoise.blocks.recorded_sections import Account, Tokens, cost_section
from equipoise.blocks.section import Curve, Figure, SampleSize, Table
from equipoise.evaluation.judge_report import MeanGiven
from equipoise.evaluation.judge_sections import judges_section, who_judged_whom_section
from equipoise.evaluation.last_test import SelectionRecord, selection_section
from equipoise.ledger.facts import Estimate
from equipoise.models.resources import Spending
from equipoise.payoffs.cycles import cyclic_warning
from equipoise.payoffs.table import Meeting, tally
from equipoise.ratings.base import Rating


def lines(ends: list[float], x: tuple[float, ...] = (0.0, 1.0)) -> list[Curve]:
    return [
        Curve(f"p{i}", "", x, (5.0, end), (4.0, end - 1), (6.0, end + 1))
        for i, end in enumerate(ends)
    ]


def test_every_player_keeps_its_colour_and_toggles_with_its_band():
    figure = curves.lines_figure("a", lines([1.0, 5.0, 9.0]))
    bands, named = figure.data[::2], figure.data[1::2]
    assert [trace["name"] for trace in named] == ["p0", "p1", "p2"]
    assert len({trace["line"]["color"] for trace in named}) == 3
    assert [b["legendgroup"] for b in bands] == [n["legendgroup"] for n in named]
    assert not any(band["showlegend"] for band in bands)
    assert figure.table is not None
    assert figure.table.rows[1] == ("1", "1 (0 to 2)", "5 (4 to 6)", "9 (8 to 10)")


def test_labels_at_the_ends_do_not_overlap_or_are_left_out():
    words = curves.lines_figure("a", lines([5.0, 5.0, 5.0])).layout["annotations"]
    assert np.diff([word["yshift"] for word in words]).min() >= 14
    assert (
        curves.lines_figure("a", lines([5.0 + i / 100 for i in range(12)])).layout["annotations"]
        == []
    )
    ended = [*lines([1.0, 9.0]), *lines([5.0], (0.0, 0.5))]
    assert [word["text"] for word in curves.lines_figure("a", ended).layout["annotations"]] == [
        "p0",
        "p1",
    ]
    lone = [Curve("p", "", (0.0,), (1.0,)), Curve("q", "", (0.0,), (math.nan,))]
    assert len(curves.lines_figure("a", lone).layout["annotations"]) == 1


def test_many_lines_differ_and_leave_their_bands_to_the_table():
    figure = curves.lines_figure("a", lines([float(i) for i in range(20)]))
    assert len(figure.data) == 20
    assert "intervals are in the table" in figure.note
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in figure.data}) == 20


def test_a_heat_map_need_not_be_square_nor_around_zero():
    value = np.array([[1.0, 3.0, np.nan]])
    figure = heat_map(
        "t", ["judge"], ["a", "b", "c"], value, [["1", "3", ""]], [["", "", ""]], ("j", "p"), False
    )
    [trace] = figure.data
    assert (trace["zmin"], trace["zmax"], trace["z"]) == (1, 3, [[1, 3, None]])
    assert (trace["x"], trace["y"], len(trace["colorscale"])) == ([0, 1, 2], [0], 2)
    same = heat_map("t", ["j"], ["a"], np.array([[2.0]]), [["2"]], [[""]], ("", ""), False).data[0]
    assert same["zmax"] > same["zmin"] == 2
    nothing = heat_map(
        "t", ["j"], ["a"], np.array([[np.nan]]), [[""]], [[""]], ("", ""), False
    ).data[0]
    assert nothing["zmax"] > nothing["zmin"]


@pytest.mark.parametrize(("value", "around_zero"), [(0.0, True), (1e-17, True), (2.0, False)])
def test_a_heat_map_of_equal_numbers_has_no_scale(value, around_zero):
    grid = np.array([[value, -value if around_zero else value]])
    texts = [["", ""]]
    figure = heat_map("t", ["a"], ["b", "c"], grid, texts, texts, ("", ""), around_zero)
    trace = figure.data[0]
    assert not trace["showscale"]
    assert trace["zmax"] - trace["zmin"] >= 1
    told = heat_map("t", ["a"], ["b", "c"], np.array([[0.0, 1e-4]]), texts, texts, ("", ""))
    assert told.data[0]["showscale"]
    assert told.data[0]["zmax"] == 1e-4


def test_match_ups_say_who_met_and_who_was_not_judged():
    met = tally(
        [Meeting("a", "b", 1.0), Meeting("a", "b", 0.0), Meeting("b", "c", None)], ["a", "b", "c"]
    )
    section = match_ups_section(met, "clerk", SampleSize(3, 3))
    assert "judge clerk" in section.lead
    assert "sample" not in section.lead
    figure = section.blocks[0]
    assert isinstance(figure, Figure)
    trace = figure.data[0]
    assert trace["text"] == [["", "+0.50 (2)", ""], ["−0.50 (2)", "", "– (1)"], ["", "– (1)", ""]]
    assert trace["z"][0] == [None, 0.5, None]
    assert trace["z"][1][2] is None
    assert (
        "<b>no judged meeting</b><br>in 1 matches, 1 of them not judged" in trace["hovertext"][1][2]
    )
    assert match_ups_section(None, "clerk", SampleSize()).reason


def test_where_pay_offs_cycle_every_rating_is_said_to_mislead():
    for triples, misleads in ((0.05, False), (0.3, True)):
        beware = caution(cyclic_warning(triples))
        for section in (
            training_ratings_section(lines([1.0]), caution=beware),
            ratings_section([Rating("a", 1.0, 0.5, 1.5)], caution=beware),
        ):
            warned = "30 % of the triples go round in a circle" in section.lead
            assert warned is misleads


REPORTS = report_pages.judge_reports(["sums", "asker", "guard"], ["peers", "clerk"])


def test_judges_on_different_scales_are_drawn_apart():
    section = who_judged_whom_section(REPORTS, report_pages.SAMPLE)
    assert "1,000 of the run's 48,210" in section.lead
    assert [block.title for block in section.blocks if isinstance(block, Figure)] == [
        "Mean score given",
        "Mean score by peers",
    ]
    peers = section.blocks[1]
    assert isinstance(peers, Figure)
    assert peers.data[0]["z"][0] == [
        2.1,
        2.2,
        None,
    ]  # asker, guard, sums; sums did not judge itself
    assert peers.data[0]["hovertext"][0][0] == "sums on asker<br><b>2.10</b><br>5 answers"
    assert peers.data[0]["hovertext"][0][2] == "sums on sums<br><b>never judged</b><br>0 answers"
    alone = {
        "clerk": msgspec.structs.replace(
            REPORTS["clerk"], who_judged_whom={"clerk": {"policy": MeanGiven(0.5, 3)}}
        )
    }
    left_out = who_judged_whom_section(alone, SampleSize())
    assert not left_out.blocks
    assert left_out.reason


def test_every_judge_and_every_voter_has_its_line_and_every_column_its_words():
    section = judges_section(REPORTS, report_pages.SAMPLE)
    table, legend = section.blocks
    assert isinstance(table, Table)
    assert isinstance(legend, Table)
    assert table.columns[1:] == tuple(row[0] for row in legend.rows)
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == ["peers", "·\u00a0sums", "·\u00a0asker", "·\u00a0guard", "clerk"]
    assert rows["peers"]["unjudged"] == "25.0 %"
    assert rows["·\u00a0sums"]["unjudged"] == "–"
    assert rows["peers"]["agreement"] == "0.62"
    assert rows["peers"]["own answers"] == "–"
    assert rows["·\u00a0sums"]["own answers"] == rows["clerk"]["own answers"] == "+0.75 (−0.25)"
    assert rows["·\u00a0asker"]["own answers"] == "–"
    assert rows["clerk"]["first preferred"] == "60 % (50 to 70)"
    assert rows["clerk"]["inconsistent"] == "–"
    assert rows["clerk"]["length"] == "−0.38"
    assert rows["clerk"]["tokens"] == "3,072"


def test_cost_is_told_even_where_nothing_was_paid():
    whole = SampleSize(2, 2)
    free = cost_section((), (Tokens("a", 2, 30, 4), Tokens("rule")), whole)
    assert "no endpoint was asked" in free.lead
    [table] = free.blocks
    assert isinstance(table, Table)
    assert table.rows == (("a", "2", "30", "4", "0"),)
    for lost, more in ((Spending(), ()), (Spending(1, 9, 0.5, 1, 9, 0.5), ("1", "9", "0.5"))):
        accounts = (Account("x", Spending(2, 10, 0.5)), Account("y", Spending(1, 5, 0.25) + lost))
        [table] = cost_section(accounts, (), whole).blocks
        sums = ("4", "24", "1.25") if more else ("3", "15", "0.75")
        assert isinstance(table, Table)
        assert table.rows[-1] == ("all", *sums, *more)
    assert cost_section((), (), whole).reason


def test_a_start_that_was_not_beaten_is_said():
    score = Estimate(0.5, 0.4, 0.6, 20)
    section = selection_section(
        SelectionRecord(
            chosen="a@0", start="a@0", held_out={"a@0": score}, test={"a@0": score}, win_rate=score
        )
    )
    assert "No later generation" in section.lead
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert len(table.rows) == 1


@pytest.mark.parametrize("players", [(), ("a@0", "b@0")])
def test_a_table_of_nobody_or_of_no_meeting_says_why(players):
    shown = payoffs_section(players, np.full((len(players), len(players)), np.nan))
    assert shown.reason == "no two players have met in judged matches"
    assert not shown.blocks
