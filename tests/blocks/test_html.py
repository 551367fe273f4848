"""The page as text: what is on it, what is left out and why, and that no text becomes markup."""

import base64
import dataclasses
import hashlib
import json
import math
import re

import numpy as np
import plotly.graph_objects as go
import pytest
from fixtures import report_pages
from parsed_page import Page

from equipoise.blocks import figures
from equipoise.blocks import figures as curves
from equipoise.blocks import recorded_sections as records
from equipoise.blocks.html import Page as ReportPage
from equipoise.blocks.html import render
from equipoise.blocks.league_sections import equilibrium_section, payoffs_section, ratings_section
from equipoise.blocks.learning_sections import headline_section, learning_section, losses_section
from equipoise.blocks.recorded_sections import CardAnswer, MatchCard, matches_section
from equipoise.blocks.section import (
    Cards,
    Curve,
    Figure,
    Section,
    Series,
    Table,
    clean,
    label,
    number,
)
from equipoise.types import Message


@pytest.fixture(scope="module")
def page(full) -> Page:
    return Page(render(full))


@pytest.fixture(scope="module")
def hostile_page(hostile) -> Page:
    return Page(render(hostile))


def test_everything_is_on_the_page(page):
    text = " ".join(" ".join(page.words).split())
    for title in (
        "Headline",
        "Learning",
        "Who beats whom",
        "Equilibrium",
        "Ratings",
        "Selection",
        "Ratings in training",
        "Match-ups",
        "Who judged whom",
        "Judges",
        "Cost",
        "Training",
        "What was used",
        "Matches",
    ):
        assert title in text
    for words in (
        "86.1 % (83.6 to 88.4)",
        "52.3 % at the start",
        "4.3 % of the matches could not be judged",
        "samples identical 811",
        "matches 48,210",
        "unjudged share 4.3 %",
        "+0.31 ± 0.04",
        "−0.52 ± 0.04",
        "policy@3 92.0 %",
        "cycle share 4.1 %",
        "kind: mnpo",
    ):
        assert words in text.replace("\u00a0", " "), words
    [browser] = [found for found in page.data() if "rows" in found]
    assert len(browser["rows"]) == 300
    assert browser["total"] == 48210
    assert (
        len(page.data(id="figures")[0])
        == len([e for e in page.elements if e[1].get("class") == "chart"])
        == 16
    )
    text = report_pages.cards(300)[7].answers[1].text
    assert text == browser["rows"][7]["answers"][1]["text"]


def test_a_run_without_data_says_what_is_missing_and_why():
    sections = (
        headline_section(()),
        learning_section(()),
        payoffs_section((), np.zeros((0, 0))),
        equilibrium_section(),
        ratings_section(()),
        losses_section(()),
        matches_section((), 0),
    )
    empty = ReportPage("empty", sections=sections)
    page = Page(render(empty))
    text = " ".join("".join(page.words).split())
    for words in (
        "Headline: nothing has been evaluated yet",
        "Learning: no generation has been evaluated yet",
        "Who beats whom: no two players have met in judged matches",
        "Equilibrium: no pay-off table to solve",
        "Ratings: no duels to rate",
        "Training: no optimizer step was logged",
        "Matches: no match to show",
    ):
        assert words in text, words
    assert page.data(id="figures") == [[]]
    assert "const charts" not in render(empty)


def test_it_is_one_file_that_asks_for_nothing(page):
    for tag, attributes in page.elements:
        assert tag not in (
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "audio",
            "video",
            "source",
        ), tag
        assert not {"src", "srcset", "action", "background", "ping"} & set(attributes), (
            tag,
            attributes,
        )
        assert (attributes.get("href") or "#").startswith("#")
    style = next(text for attributes, text in page.scripts if not attributes and "--paper" in text)
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_names_exactly_the_scripts_on_the_page(page):
    [policy] = [a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (
        rules["default-src"]
        == rules["connect-src"]
        == rules["base-uri"]
        == rules["form-action"]
        == "'none'"
    )
    assert rules["img-src"] == "data: blob:"
    scripts = [
        text for attributes, text in page.scripts if not attributes and "--paper:" not in text
    ]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert rules["script-src"] == " ".join(f"'sha256-{digest}'" for digest in hashes)
    assert len(scripts) == 2


def test_no_text_becomes_an_element_an_attribute_or_a_comment(hostile_page, page):
    allowed = {tag for tag, _ in page.elements} | {"ul", "li"}
    assert {tag for tag, _ in hostile_page.elements} <= allowed
    assert not hostile_page.comments
    for tag, attributes in hostile_page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("src", "autofocus", "srcdoc"), (
                tag,
                name,
            )
            assert "javascript:" not in (value or ""), (tag, name)
    count = [sum(tag == "script" for tag, _ in p.elements) for p in (page, hostile_page)]
    assert count[0] == count[1]
    assert "document.title" not in "".join(
        text for attributes, text in hostile_page.scripts if not attributes
    )


def test_every_hostile_text_can_be_read_as_it_was(hostile_page, hostile):
    text = "".join(hostile_page.words)
    [browser] = [found for found in hostile_page.data() if "rows" in found]
    for i, warning in enumerate(hostile.warnings):
        assert clean(warning) in text
        assert browser["rows"][i]["answers"][0]["text"] == clean(warning)
        assert browser["rows"][i]["prompt"][0]["text"] == clean(warning)


def test_embedded_data_cannot_leave_its_script(hostile):
    text = render(hostile)
    blocks = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        json.loads(block)
        assert not set("<>&\u2028\u2029") & set(block)
    text.encode()


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def test_nothing_hostile_is_left_for_a_label_to_read(hostile_page):
    [drawn] = hostile_page.data(id="figures")
    for text in strings(drawn):
        assert not re.findall(r"<(?!/?b>|br>|/?extra>)", text), text
        assert "$" not in text
        assert (
            "%{" not in text
            or text in ("%{text}", "step %{x:.0f}<br><b>%{y:.4g}</b><extra></extra>")
            or "&lt;" in text
        )
        assert not re.search(r"[\ud800-\udfff\x00-\x08]", text)


@pytest.mark.parametrize("run", ["full", "hostile"])
def test_plotly_accepts_every_figure(run, request):
    colours = {"blue": "#1f6fb5", "low": "#eba571", "neutral": "#eeeeee", "high": "#84b8e4"}

    def filled(value):
        if isinstance(value, dict):
            return {
                k: (filled(v) if not (isinstance(v, str) and k.endswith("color")) else "#123456")
                for k, v in value.items()
            }
        if isinstance(value, list | tuple):
            return [filled(item) for item in value]
        return (
            colours.get(value[1:], value)
            if isinstance(value, str) and value.startswith("@")
            else value
        )

    sections = request.getfixturevalue(run).sections
    drawn = [block for section in sections for block in section.blocks if isinstance(block, Figure)]
    assert drawn
    for figure in drawn:
        go.Figure(data=filled(list(figure.data)), layout=filled(dict(figure.layout)))


def test_a_gap_in_a_curve_stays_a_gap():
    nan = math.nan
    curve = Curve(
        "a",
        "",
        (0, 1, 2, 3, 4),
        (1.0, 2.0, nan, 4.0, 5.0),
        (0.0, 1.0, nan, 3.0, nan),
        (2.0, 3.0, nan, 5.0, nan),
    )
    figure = curves.curve_figure(curve)
    area, point, line = figure.data
    assert area["x"] == [0, 1, 1, 0]
    assert area["y"] == [2, 3, 1, 0]
    assert point["x"] == [3]
    assert point["error_y"]["array"] == [1]
    assert line["y"] == [1, 2, None, 4, 5]
    assert figure.table is not None
    assert [row[1:] for row in figure.table.rows][2:] == [("–", "–"), ("4", "3 to 5"), ("5", "–")]
    assert len(curves.curve_figure(dataclasses.replace(curve, low=(), high=())).data) == 1


def test_a_long_series_is_averaged_and_says_so():
    y = (*(float(i % 2) for i in range(5000)), math.nan)
    figure = figures.series_figure(
        Series("loss", tuple(map(float, range(5001))), y, (0.0, 10.0, 2500.0))
    )
    assert "mean of 5 steps" in figure.note
    assert "without a finite value, left out: 1" in figure.note
    assert len(figure.data[0]["x"]) == 1000
    assert np.mean(figure.data[0]["y"]) == pytest.approx(0.5)
    assert [word["text"] for word in figure.layout["annotations"]] == [
        "1",
        "3",
    ]  # 2 would overlap 1
    assert len(figure.layout["shapes"]) == 3
    many = figures.series_figure(
        Series("loss", (0.0, 150.0), (1.0, 1.0), tuple(map(float, range(150))))
    )
    assert many.layout["shapes"] == many.layout["annotations"] == []
    assert many.note == ""
    x, y, size = figures.bin_series(np.arange(7.0), np.arange(7.0), most=3)
    assert (x.tolist(), y.tolist(), size) == ([1, 4, 6], [1, 4, 6], 3)


def test_a_pay_off_not_played_is_empty_and_not_zero():
    table = (report_pages.PLAYERS, report_pages.PAYOFF_NN)
    errors = (report_pages.SE_NN, report_pages.COUNT_NN)
    [figure] = payoffs_section(*table, *errors).blocks
    assert isinstance(figure, Figure)
    trace = figure.data[0]
    assert trace["z"][0][2] is None
    assert trace["text"][0][2] == ""
    assert (
        trace["hovertext"][0][2]
        == "policy@0 meets policy@2<br><b>not played</b><br>0 judged matches"
    )
    assert (
        trace["hovertext"][3][0]
        == "policy@3 meets policy@0<br><b>+0.52 ± 0.04</b><br>300 judged matches"
    )
    assert trace["zmin"] == -trace["zmax"] == -0.52
    [bare] = payoffs_section(*table).blocks
    assert isinstance(bare, Figure)
    assert bare.data[0]["hovertext"][3][0] == "policy@3 meets policy@0<br><b>+0.52</b>"


def test_equal_names_stay_two_players_and_many_names_are_thinned():
    axis = figures.names_axis(["a", "a"])
    assert (axis["tickvals"], axis["ticktext"]) == ([0, 1], ["a", "a"])
    assert len(figures.names_axis([str(i) for i in range(130)])["tickvals"]) <= figures.MOST_TICKS


def test_long_texts_are_cut_and_counted():
    card = MatchCard(
        "m",
        0,
        "train",
        (Message("user", "p" * 10),),
        (CardAnswer("a", "x" * 9000, None),),
        "silent",
    )
    [browser] = matches_section((card,), 4).blocks
    assert isinstance(browser, Cards)
    assert browser.total == 4
    [row] = browser.rows
    assert len(row["answers"][0]["text"]) == records.LONGEST
    assert row["answers"][0]["more"] == 9000 - records.LONGEST
    assert row["answers"][0]["score"] is None
    assert row["prompt"][0]["more"] == 0


def test_a_section_of_ones_own():
    section = Section(
        "judges",
        "Judges",
        (Table(("judge", "says"), (("a", "<b>yes</b>"),), prose=True),),
        "About <judges>.",
    )
    page = Page(render(ReportPage("t", sections=(section,))))
    assert ("section", {"id": "judges"}) in page.elements
    assert "<b>yes</b>" in page.words
    assert "About <judges>." in page.words


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("policy@3", "policy@3"),
        ("<b>&amp;$x$", "&lt;b&gt;&amp;amp;&#36;x&#36;"),
        ("two\nlines\x00", "two lines␀"),
        ("a" * 60 + "@12", "a" * 32 + "…" + "a" * 12 + "@12"),
        ("\ud800", "\ufffd"),
    ],
)
def test_labels_hold_no_markup(text, safe):
    assert label(text) == safe


def test_numbers():
    assert [number(v) for v in (None, math.nan, 3, 48210, 7.0, 0.12345, 19120.4)] == [
        "–",
        "–",
        "3",
        "48,210",
        "7",
        "0.1235",
        "19,120",
    ]
    assert number(0.0435, "%") == "4.3 %"
    assert number(1613.04, "Elo", 1) == "1,613.0 Elo"
